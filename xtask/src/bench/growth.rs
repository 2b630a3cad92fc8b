//! `cargo xtask growth`: whether a message costs more while the broker holds more, counted by callgrind.
//!
//! Filling and warming up are not counted. It requires valgrind.

use std::path::Path;

use super::callgrind;
use super::figure::{Figure, Part, number};
use super::programs::GROWTH;
use super::{json, table};
use crate::error::Error;
use crate::options::Output;

/// How often the cost may grow by, from the smallest size to the largest.
const GOAL: f64 = 1.2;

/// One case of `benches/growth.rs`.
struct Case {
    name: &'static str,
    about: &'static str,
    sizes: &'static [u64],
    cycles: u64,
    /// Whether the largest size is to cost no more than the smallest one. Else it does more, and what counts is how much for
    /// each thing more.
    is_level: bool,
}

const fn level(name: &'static str, about: &'static str, sizes: &'static [u64]) -> Case {
    Case { name, about, sizes, cycles: 1_000, is_level: true }
}

const fn rising(name: &'static str, about: &'static str, sizes: &'static [u64]) -> Case {
    Case { name, about, sizes, cycles: 100, is_level: false }
}

const TO_A_MILLION: &[u64] = &[1_000, 10_000, 100_000, 1_000_000];
const TO_100_000: &[u64] = &[100, 1_000, 10_000, 100_000];
const FILTERS: &[u64] = &[1, 10, 100, 500, 1_000, 2_000];
const FEW: &[u64] = &[0, 10, 100, 1_000];

const CASES: &[Case] = &[
    level("depth", "waiting messages", TO_A_MILLION),
    level("peek", "waiting messages; a cycle peeks 50 from the middle on and reads the counters", TO_100_000),
    level("peek_sessions", "the same; each message is in a session of its own", TO_100_000),
    level("peek_partitions", "the same on a partitioned queue", TO_100_000),
    level("locked", "messages locked by other receivers", TO_A_MILLION),
    level("deferred", "deferred messages; a cycle defers one and fetches it", TO_A_MILLION),
    level("sessions", "sessions; a cycle accepts one and closes it", &[10, 100, 1_000, 10_000, 100_000]),
    level("schedule_and_cancel", "scheduled messages; a cycle schedules one behind them, cancels it", TO_A_MILLION),
    level("schedule_and_activate", "the same; one before them becomes active", TO_A_MILLION),
    level("duplicates", "remembered ids; a cycle adds one and forgets one", TO_A_MILLION),
    level("handled", "ids of handled messages; a cycle handles one more and forgets one", TO_A_MILLION),
    level("handled_before", "the same; a cycle is a duplicate", TO_A_MILLION),
    level("expiries", "messages with a time to live", TO_A_MILLION),
    level("entities", "queues in the broker", &[1, 10, 100, 1_000, 10_000]),
    level("others", "sessions, scheduled messages, ids, forwards and topics of other entities, of each", FEW),
    level("waiting", "receivers that wait on other entities", FEW),
    level("filters", "filters of one subscription that do not match; a cycle sends", FILTERS),
    rising("filtered_subscriptions", "subscriptions whose filter does not match; a cycle sends", FILTERS),
    rising("subscriptions", "subscriptions that get a copy; a cycle completes them all", &[1, 10, 100, 500, 1_000]),
];

pub(crate) fn run(output: &Output) -> Result<(), Error> {
    let figures = figures(|_| true)?;
    if output.json {
        println!("{}", json(&figures));
    } else {
        println!("{}", table::text(&curves(&figures)));
        println!("ratio: the largest size by the smallest; at most {GOAL}, or the case is one that does more");
    }
    match figures.iter().filter(|figure| figure.is_met() == Some(false)).count() {
        0 => Ok(()),
        missed => Err(Error::Growth(missed)),
    }
}

/// The requested cases, each with its curve.
pub(crate) fn figures(is_asked: impl Fn(&str) -> bool) -> Result<Vec<Figure>, Error> {
    let asked = || CASES.iter().filter(|case| is_asked(case.name));
    if asked().next().is_none() {
        return Ok(Vec::new());
    }
    let built = GROWTH.build()?;
    asked().map(|case| curve(&built, case).map(|curve| figure(case, curve))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn curve(built: &Path, case: &Case) -> Result<Vec<(u64, f64)>, Error> {
    let point = |&size: &u64| {
        eprintln!("counting {} at {size}", case.name);
        let arguments = [case.name, &size.to_string(), &case.cycles.to_string()];
        let (instructions, _) = callgrind::counted(&GROWTH, built, &arguments)?;
        Ok((size, (instructions / case.cycles) as f64))
    };
    case.sizes.iter().map(point).collect()
}

fn figure(case: &Case, curve: Vec<(u64, f64)>) -> Figure {
    let (first, last) = (curve[0], curve[curve.len() - 1]);
    let name = format!("growth/{}", case.name);
    let figure = if case.is_level {
        let unit = "times, the largest by the smallest";
        Figure { goal: Some(GOAL), ..Figure::new(Part::Growth, name, unit, last.1 / first.1) }
    } else {
        #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
        let each = (last.1 - first.1) / (last.0 - first.0) as f64;
        Figure::new(Part::Growth, name, "instructions for each more", each.round())
    };
    Figure { about: case.about.into(), curve, ..figure }
}

/// A row for each case: the ratio or the price of one more, and the curve.
pub(crate) fn curves(figures: &[Figure]) -> Vec<Vec<String>> {
    let head = ["case", "ratio", "each", "items", "sizes", "instructions per cycle"];
    let rows = figures.iter().map(|figure| {
        let is_level = figure.goal.is_some();
        let (ratio, each) = if is_level {
            (format!("{:.2}{}", figure.ours, table::mark(figure)), String::new())
        } else {
            (String::new(), number(figure.ours))
        };
        let join = |points: Vec<String>| points.join(" / ");
        let sizes = figure.curve.iter().map(|&(size, _)| table::size(size)).collect();
        let costs = figure.curve.iter().map(|&(_, cost)| number(cost)).collect();
        let name = figure.name.trim_start_matches("growth/").to_owned();
        vec![name, ratio, each, figure.about.clone(), join(sizes), join(costs)]
    });
    std::iter::once(head.map(String::from).to_vec()).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVEL: Case = level("depth", "", &[10, 20]);
    const RISING: Case = rising("copies", "", &[1, 11]);

    #[test]
    fn a_ratio_above_the_goal_is_missed() {
        for (costs, is_met) in [([100.0, 120.0], true), ([100.0, 121.0], false), ([100.0, 50.0], true)] {
            let figure = figure(&LEVEL, vec![(10, costs[0]), (20, costs[1])]);
            assert_eq!(figure.is_met(), Some(is_met), "{costs:?}");
        }
    }

    #[test]
    fn growing_work_is_counted_per_item() {
        let figure = figure(&RISING, vec![(1, 50.0), (11, 1_050.0)]);
        assert_eq!((figure.is_met(), figure.ours), (None, 100.0));
    }

    #[test]
    fn a_row_has_the_whole_curve() {
        let figure = figure(&LEVEL, vec![(1_000, 100.0), (10_000, 110.0), (1_000_000, 1_130.0)]);
        let rows = curves(&[figure]);
        assert_eq!(rows[1][1], "11.30 missed");
        assert_eq!(rows[1][4..], ["1k / 10k / 1M", "100 / 110 / 1,130"]);
    }
}
