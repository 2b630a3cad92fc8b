//! `cargo xtask guard`: whether a message costs more than it did, by `benches/baseline.json`.
//!
//! The baseline moves by `cargo xtask bench --rebaseline` alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::callgrind::{self, Cost};
use super::counted::Counter;
use super::figure::number;
use super::programs::{self, Package};
use super::results::toolchain;
use super::scenarios::SCENARIOS;
use super::table;
use crate::error::Error;
use crate::options::Output;
use crate::workspace::{read, write};

const FILE: &str = "benches/baseline.json";
/// How much more or less is let pass in silence, in percent.
const TOLERANCE: f64 = 3.0;
/// What a table that grows makes of an allocation for each message.
const GROWING: f64 = 0.01;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Baseline {
    toolchain: String,
    scenarios: BTreeMap<String, Counts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Counts {
    instructions: f64,
    allocations: f64,
}

impl From<Cost> for Counts {
    fn from(Cost { instructions, allocations }: Cost) -> Self {
        Self { instructions, allocations }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Same,
    /// So much less that the baseline may follow.
    Better,
    Worse,
    /// The baseline does not have it.
    New,
}

/// One scenario now and before.
struct Change<'a> {
    name: &'a str,
    now: Counts,
    before: Option<Counts>,
}

impl Change<'_> {
    /// In percent of what it was.
    fn percent(&self) -> Option<f64> {
        let before = self.before?.instructions;
        (before > 0.0).then(|| 100.0 * (self.now.instructions - before) / before)
    }

    fn verdict(&self) -> Verdict {
        let (Some(before), Some(percent)) = (self.before, self.percent()) else { return Verdict::New };
        if percent > TOLERANCE || self.now.allocations > before.allocations + GROWING {
            Verdict::Worse
        } else if percent < -TOLERANCE || self.now.allocations < before.allocations - GROWING {
            Verdict::Better
        } else {
            Verdict::Same
        }
    }

    fn row(&self) -> Vec<String> {
        let verdict = match self.verdict() {
            Verdict::Same => "",
            Verdict::Better => "better: `cargo xtask bench --rebaseline` keeps it",
            Verdict::Worse => "WORSE",
            Verdict::New => "NOT IN THE BASELINE",
        };
        let before = |of: fn(Counts) -> f64| self.before.map(|before| number(of(before))).unwrap_or_default();
        vec![
            self.percent().map(|percent| format!("{percent:+.1} %")).unwrap_or_default(),
            self.name.to_owned(),
            number(self.now.instructions),
            before(|counts| counts.instructions),
            number(self.now.allocations),
            before(|counts| counts.allocations),
            verdict.into(),
        ]
    }
}

pub(crate) fn run(output: &Output) -> Result<(), Error> {
    callgrind::present()?;
    let baseline: Baseline = serde_json::from_str(&read(FILE)?).map_err(Error::Results)?;
    let now = counts()?;
    let changes: Vec<Change> =
        now.iter().map(|(name, &now)| Change { name, now, before: baseline.scenarios.get(name).copied() }).collect();
    if output.json {
        let changes = changes.iter().map(|change| {
            json!({ "name": change.name, "now": change.now, "before": change.before, "percent": change.percent() })
        });
        println!("{}", json!({ "tolerance_percent": TOLERANCE, "scenarios": changes.collect::<Vec<_>>() }));
    } else {
        println!("{}", table::text(&rows(&changes)));
        if baseline.toolchain != toolchain()? {
            println!("the baseline is of {}, another toolchain", baseline.toolchain);
        }
    }
    let bad = |change: &&Change| matches!(change.verdict(), Verdict::Worse | Verdict::New);
    match changes.iter().filter(bad).count() {
        0 => Ok(()),
        worse => Err(Error::Worse(worse)),
    }
}

fn rows(changes: &[Change]) -> table::Rows {
    let head = ["change", "scenario", "instructions", "before", "allocations", "before", ""];
    std::iter::once(head.map(String::from).to_vec()).chain(changes.iter().map(Change::row)).collect()
}

/// Writes what everything costs now.
pub(crate) fn rebaseline() -> Result<(), Error> {
    let baseline = Baseline { toolchain: toolchain()?, scenarios: counts()? };
    let text = serde_json::to_string_pretty(&baseline).map_err(Error::Results)?;
    write(FILE, &(text + "\n"))?;
    println!("{FILE} is written; the commit says why it moves");
    Ok(())
}

fn counts() -> Result<BTreeMap<String, Counts>, Error> {
    let mut counter = Counter::together();
    let guarded = || SCENARIOS.iter().filter(|scenario| scenario.is_guarded);
    programs::build_together(Package::Own, &guarded().map(|scenario| scenario.program.name).collect())?;
    guarded().map(|scenario| Ok((scenario.name.to_owned(), counter.ours(scenario)?.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(now: [f64; 2], before: [f64; 2]) -> Change<'static> {
        let counts = |[instructions, allocations]: [f64; 2]| Counts { instructions, allocations };
        Change { name: "json", now: counts(now), before: Some(counts(before)) }
    }

    #[test]
    fn three_percent_more_pass_and_not_a_bit_beyond() {
        for (now, verdict) in [
            (1_000.0, Verdict::Same),
            (1_030.0, Verdict::Same),
            (1_031.0, Verdict::Worse),
            (970.0, Verdict::Same),
            (969.0, Verdict::Better),
        ] {
            assert_eq!(change([now, 0.0], [1_000.0, 0.0]).verdict(), verdict, "{now}");
        }
    }

    #[test]
    fn an_allocation_more_does_not_pass() {
        assert_eq!(change([900.0, 1.0], [1_000.0, 0.0]).verdict(), Verdict::Worse);
        assert_eq!(change([1_000.0, 3.002], [1_000.0, 3.0]).verdict(), Verdict::Same);
        assert_eq!(change([1_000.0, 2.0], [1_000.0, 3.0]).verdict(), Verdict::Better);
    }

    #[test]
    fn a_scenario_missing_in_the_baseline_fails() {
        let new = Change { before: None, ..change([1.0, 0.0], [1.0, 0.0]) };
        assert_eq!(new.verdict(), Verdict::New);
        assert_eq!(rows(&[new])[1][6], "NOT IN THE BASELINE");
    }

    #[test]
    fn the_difference_of_each_is_printed() {
        let rows = rows(&[change([2_600.0, 0.0], [2_500.0, 0.0])]);
        assert_eq!(rows[1], ["+4.0 %", "json", "2,600", "2,500", "0", "0", "WORSE"]);
    }

    #[test]
    fn the_baseline_has_every_guarded_scenario() {
        let baseline: Baseline = serde_json::from_str(&read(FILE).unwrap()).unwrap();
        let guarded = SCENARIOS.iter().filter(|scenario| scenario.is_guarded).map(|scenario| scenario.name);
        guarded.for_each(|name| assert!(baseline.scenarios.contains_key(name), "{name}"));
    }
}
