//! The scenarios of `scenarios`, counted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::callgrind::{self, Cost};
use super::figure::{Figure, Part};
use super::programs::Program;
use super::scenarios::{Goal, Scenario};
use crate::error::Error;

const INSTRUCTIONS: &str = "instructions per message";
const ALLOCATIONS: &str = "allocations per message";

/// Counts each scenario once, however often it is requested.
pub(crate) struct Counter {
    profile: &'static str,
    /// Whether each scenario is built alone.
    is_alone: bool,
    built: BTreeMap<&'static str, PathBuf>,
    costs: BTreeMap<(&'static str, &'static str), Cost>,
}

impl Counter {
    /// Of programs with one scenario each: what a user's own program would take.
    pub(crate) fn alone(profile: &'static str) -> Self {
        Self { profile, is_alone: true, built: BTreeMap::new(), costs: BTreeMap::new() }
    }

    /// Of programs with all their scenarios, which are built once.
    pub(crate) fn together() -> Self {
        Self { is_alone: false, ..Self::alone("lto") }
    }

    fn cost(&mut self, program: &Program, scenario: &'static str, messages: u64) -> Result<Cost, Error> {
        if let Some(&cost) = self.costs.get(&(program.name, scenario)) {
            return Ok(cost);
        }
        let built = match self.built.get(program.name) {
            Some(built) => built.clone(),
            None => program.build_with(self.profile, self.is_alone.then_some(scenario))?,
        };
        eprintln!("counting {scenario} of {}", program.name);
        let cost = callgrind::cost(program, &built, scenario, messages)?;
        if !self.is_alone {
            self.built.insert(program.name, built);
        }
        self.costs.insert((program.name, scenario), cost);
        Ok(cost)
    }

    /// What one scenario takes of us.
    pub(crate) fn ours(&mut self, scenario: &Scenario) -> Result<Cost, Error> {
        self.cost(&scenario.program, scenario.name, scenario.messages)
    }

    /// The instructions and the allocations of one scenario, beside what others take if that is requested.
    pub(crate) fn figures(&mut self, scenario: &Scenario, with_peers: bool) -> Result<[Figure; 2], Error> {
        let ours = self.ours(scenario)?;
        let figure =
            |part, name, unit, ours| Figure { about: scenario.about.into(), ..Figure::new(part, name, unit, ours) };
        let mut instructions = figure(Part::Counted, scenario.name.to_owned(), INSTRUCTIONS, ours.instructions);
        let name = format!("{}/allocations", scenario.name);
        let mut allocations = figure(Part::Allocations, name, ALLOCATIONS, ours.allocations);
        instructions.goal = self.goal(scenario, scenario.instructions, |cost| cost.instructions)?;
        allocations.goal = self.goal(scenario, scenario.allocations, |cost| cost.allocations)?;
        if let Some(floor) = scenario.floor {
            let floor = self.cost(&scenario.program, floor, scenario.messages)?;
            (instructions.floor, allocations.floor) = (Some(floor.instructions), Some(floor.allocations));
        }
        for (peer, program) in scenario.peers.iter().filter(|_| with_peers) {
            let theirs = self.cost(program, scenario.name, scenario.messages)?;
            instructions.peers.insert((*peer).into(), theirs.instructions);
            allocations.peers.insert((*peer).into(), theirs.allocations);
        }
        Ok([instructions, allocations])
    }

    fn goal(&mut self, scenario: &Scenario, goal: Goal, of: fn(&Cost) -> f64) -> Result<Option<f64>, Error> {
        let mut other = |name| self.cost(&scenario.program, name, scenario.messages).map(|cost| of(&cost));
        Ok(match goal {
            Goal::None => None,
            Goal::AtMost(most) => Some(most),
            Goal::Over(name, more) => Some(other(name)? + more),
            Goal::Times(times, names) => {
                let together = names.iter().try_fold(0.0, |sum, name| Ok::<_, Error>(sum + other(name)?))?;
                Some((times * together).floor())
            }
        })
    }
}

/// The same figures in the profile `release`, ours and the peers'.
pub(crate) fn release(scenarios: &[Scenario]) -> Result<Vec<Figure>, Error> {
    let mut counter = Counter::alone("release");
    let figures = scenarios.iter().filter(|scenario| scenario.is_guarded).map(|scenario| {
        let mut figure = Figure::new(Part::Release, format!("{}/release", scenario.name), INSTRUCTIONS, 0.0);
        figure.about = scenario.about.into();
        figure.ours = counter.ours(scenario)?.instructions;
        for (peer, program) in scenario.peers {
            let theirs = counter.cost(program, scenario.name, scenario.messages)?;
            figure.peers.insert((*peer).into(), theirs.instructions);
        }
        Ok(figure)
    });
    figures.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::scenarios::SCENARIOS;

    fn scenario(name: &str) -> &'static Scenario {
        SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap()
    }

    /// Knows what every scenario costs, so nothing is built.
    fn counter() -> Counter {
        let mut counter = Counter::together();
        let costs = [("json", 2_000.0), ("bytes", 700.0), ("json_1k", 20_000.0), ("four_layers", 2_101.0)];
        for (name, instructions) in costs.into_iter().chain([("serde_json", 900.0), ("serde_json_1k", 18_001.0)]) {
            counter.costs.insert(("consume", name), Cost { instructions, allocations: 0.0 });
            counter.costs.insert(("ruststream", name), Cost { instructions: 1_500.0, allocations: 1.0 });
        }
        counter
    }

    #[test]
    fn a_goal_may_come_from_other_scenarios() {
        let [four, _] = counter().figures(scenario("four_layers"), false).unwrap();
        assert_eq!((four.goal, four.is_met()), (Some(2_100.0), Some(false)));
        let [large, _] = counter().figures(scenario("json_1k"), false).unwrap();
        assert_eq!((large.goal, large.floor), (Some(19_075.0), Some(18_001.0)));
    }

    #[test]
    fn peers_stand_beside_ours_if_asked() {
        let [alone, _] = counter().figures(scenario("json"), false).unwrap();
        assert!(alone.peers.is_empty());
        let [instructions, allocations] = counter().figures(scenario("json"), true).unwrap();
        assert_eq!(instructions.to_peer("RustStream"), Some(2_000.0 / 1_500.0));
        assert_eq!((allocations.to_peer("RustStream"), allocations.is_met()), (Some(0.0), Some(true)));
    }
}
