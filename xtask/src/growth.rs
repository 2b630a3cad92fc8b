//! `cargo xtask growth`: whether a message costs more while the broker holds more, counted by callgrind.
//!
//! Filling and warming up are not counted. It wants valgrind.

use std::path::Path;

use serde_json::json;

use crate::Options;
use crate::bench;
use crate::error::Error;

/// How often the cost may grow by, from the small size to the large one.
const GOAL: f64 = 1.2;

/// One case of `benches/growth.rs` at two sizes.
struct Case {
    name: &'static str,
    sizes: [u64; 2],
    cycles: u64,
    /// Whether the large size is to cost no more than the small one. Else it does more, and what counts is how much for
    /// each thing more.
    is_level: bool,
}

const fn level(name: &'static str, small: u64, large: u64) -> Case {
    Case { name, sizes: [small, large], cycles: 1_000, is_level: true }
}

const fn rising(name: &'static str, small: u64, large: u64, cycles: u64) -> Case {
    Case { name, sizes: [small, large], cycles, is_level: false }
}

const CASES: &[Case] = &[
    level("depth", 1_000, 1_000_000),
    level("locked", 1_000, 1_000_000),
    level("deferred", 1_000, 1_000_000),
    level("sessions", 10, 100_000),
    level("schedule_and_cancel", 1_000, 1_000_000),
    level("schedule_and_activate", 1_000, 1_000_000),
    level("duplicates", 1_000, 1_000_000),
    level("expiries", 1_000, 1_000_000),
    level("entities", 1, 10_000),
    level("others", 0, 1_000),
    level("waiting", 0, 1_000),
    level("filters", 1, 2_000),
    rising("filtered_subscriptions", 1, 2_000, 100),
    rising("subscriptions", 1, 1_000, 100),
];

/// Instructions per cycle, at each size.
struct Figure<'a> {
    case: &'a Case,
    costs: [u64; 2],
}

impl Figure<'_> {
    #[expect(clippy::cast_precision_loss, reason = "instructions of one cycle are far fewer than 2^52")]
    fn ratio(&self) -> f64 {
        self.costs[1] as f64 / self.costs[0] as f64
    }

    fn is_met(&self) -> bool {
        !self.case.is_level || self.ratio() <= GOAL
    }

    fn each(&self) -> u64 {
        self.costs[1].saturating_sub(self.costs[0]) / (self.case.sizes[1] - self.case.sizes[0])
    }

    fn line(&self) -> String {
        let Self { case: Case { name, sizes: [small, large], is_level, .. }, costs: [at_small, at_large] } = self;
        let what = match (is_level, self.is_met()) {
            (true, true) => format!("{:>8.2}  met   ", self.ratio()),
            (true, false) => format!("{:>8.2}  MISSED", self.ratio()),
            (false, _) => format!("{:>8}  each  ", self.each()),
        };
        format!("{what}  {name:<24} {small:>6} {at_small:>8}   {large:>8} {at_large:>8}")
    }
}

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let program = bench::build("growth")?;
    let mut figures = Vec::new();
    for case in CASES {
        figures.push(figure(&program, case)?);
        eprintln!("{}", case.name);
    }
    if options.json {
        let cases: Vec<_> = figures.iter().map(as_json).collect();
        println!("{}", json!({ "unit": "instructions per cycle", "goal": GOAL, "cases": cases }));
    } else {
        println!("   ratio  goal {GOAL}  {:<24} {:>6} {:>8}   {:>8} {:>8}", "case", "size", "cost", "size", "cost");
        for figure in &figures {
            println!("{}", figure.line());
        }
        println!("cost: instructions per cycle; each: what one thing more adds to it");
    }
    match figures.iter().filter(|figure| !figure.is_met()).count() {
        0 => Ok(()),
        missed => Err(Error::Growth(missed)),
    }
}

fn figure<'a>(program: &Path, case: &'a Case) -> Result<Figure<'a>, Error> {
    let cost = |size: u64| {
        let arguments = [case.name, &size.to_string(), &case.cycles.to_string()];
        bench::instructions_once_ready(program, &arguments).map(|count| count / case.cycles)
    };
    Ok(Figure { case, costs: [cost(case.sizes[0])?, cost(case.sizes[1])?] })
}

fn as_json(figure: &Figure) -> serde_json::Value {
    let (sizes, costs) = (figure.case.sizes, figure.costs);
    let mut value = json!({ "name": figure.case.name, "sizes": sizes, "costs": costs });
    if figure.case.is_level {
        value["ratio"] = json!(figure.ratio());
        value["met"] = json!(figure.is_met());
    } else {
        value["each"] = json!(figure.each());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_the_goal_is_missed() {
        let case = level("depth", 10, 20);
        for (costs, is_met) in [([100, 120], true), ([100, 121], false), ([100, 50], true)] {
            assert_eq!(Figure { case: &case, costs }.is_met(), is_met, "{costs:?}");
        }
    }

    #[test]
    fn what_does_more_is_counted_for_each_thing() {
        let case = rising("copies", 1, 11, 1);
        let figure = Figure { case: &case, costs: [50, 1_050] };
        assert!(figure.is_met());
        assert_eq!(figure.each(), 100);
    }
}
