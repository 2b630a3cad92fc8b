//! `cargo xtask call`: what a call over the embedded broker costs, counted by callgrind and an allocator, and how long it
//! takes.
//!
//! Every count is the difference between two runs, one of them twice as long, so what is done once is not in it. It wants
//! valgrind.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::Options;
use crate::bench;
use crate::error::Error;
use crate::workspace::output;

const GOAL_INSTRUCTIONS: u64 = 4_500;
const GOAL_ALLOCATIONS: u64 = 4;
/// How often a call may cost more while `PENDING` others wait.
const GOAL_RATIO: f64 = 1.2;

const PENDING: u64 = 100_000;
const CALLS: u64 = 20_000;
const IN_FLIGHT: [u64; 3] = [1, 64, 1_024];
const TIMED_CALLS: u64 = 200_000;

/// What one call costs.
struct Cost {
    instructions: u64,
    allocations: u64,
}

/// Wall clock of one call in nanoseconds, while so many run.
struct Times {
    in_flight: u64,
    p50: u64,
    p99: u64,
}

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let program = bench::build("call")?;
    let alone = cost(&program, 0)?;
    let crowded = cost(&program, PENDING)?;
    let times = IN_FLIGHT.iter().map(|&in_flight| times(&program, in_flight)).collect::<Result<Vec<_>, _>>()?;
    if options.json {
        println!("{}", as_json(&alone, &crowded, &times));
    } else {
        print(&alone, &crowded, &times);
    }
    if grows(&alone, &crowded) { Err(Error::Growth(1)) } else { Ok(()) }
}

fn cost(program: &Path, pending: u64) -> Result<Cost, Error> {
    let counted = |calls: u64| {
        let arguments = ["count", &pending.to_string(), &calls.to_string()];
        let instructions = bench::instructions_once_ready(program, &arguments)?;
        let allocations = figure(&printed(program, &arguments)?, "allocations")?;
        Ok((instructions, allocations))
    };
    let (once, twice): ((u64, u64), (u64, u64)) = (counted(CALLS)?, counted(2 * CALLS)?);
    let each = |once: u64, twice: u64| twice.saturating_sub(once) / CALLS;
    Ok(Cost { instructions: each(once.0, twice.0), allocations: each(once.1, twice.1) })
}

fn times(program: &Path, in_flight: u64) -> Result<Times, Error> {
    let printed = printed(program, &["time", &in_flight.to_string(), &TIMED_CALLS.to_string()])?;
    Ok(Times { in_flight, p50: figure(&printed, "p50")?, p99: figure(&printed, "p99")? })
}

fn printed(program: &Path, arguments: &[&str]) -> Result<String, Error> {
    output(Command::new(program).args(arguments).stdin(Stdio::null()))
}

/// The number on the line that begins with this name.
fn figure(printed: &str, name: &str) -> Result<u64, Error> {
    let number = printed.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    number.ok_or_else(|| Error::NoCount { command: format!("call: {name}") })
}

#[expect(clippy::cast_precision_loss, reason = "instructions of one call are far fewer than 2^52")]
fn ratio(alone: &Cost, crowded: &Cost) -> f64 {
    crowded.instructions as f64 / alone.instructions as f64
}

fn grows(alone: &Cost, crowded: &Cost) -> bool {
    ratio(alone, crowded) > GOAL_RATIO
}

fn print(alone: &Cost, crowded: &Cost, times: &[Times]) {
    println!("{:<36} {:>8} {:>8}", "of one call", "figure", "goal");
    println!("{:<36} {:>8} {:>8}", "instructions", alone.instructions, GOAL_INSTRUCTIONS);
    println!("{:<36} {:>8} {:>8}", "allocations", alone.allocations, GOAL_ALLOCATIONS);
    println!("{:<36} {:>8}", format!("instructions, {PENDING} others wait"), crowded.instructions);
    println!("{:<36} {:>8}", format!("allocations, {PENDING} others wait"), crowded.allocations);
    println!("{:<36} {:>8.2} {GOAL_RATIO:>8}", "ratio of the instructions", ratio(alone, crowded));
    println!("\n{:<36} {:>8} {:>8}", "wall clock in microseconds", "p50", "p99");
    for Times { in_flight, p50, p99 } in times {
        println!("{:<36} {:>8} {:>8}", format!("{in_flight} in flight"), p50 / 1_000, p99 / 1_000);
    }
    println!("wall clock is noisy: it is that of one thread, and of whatever else the machine does");
}

fn as_json(alone: &Cost, crowded: &Cost, times: &[Times]) -> serde_json::Value {
    let cost = |cost: &Cost| json!({ "instructions": cost.instructions, "allocations": cost.allocations });
    let time = |times: &Times| json!({ "in_flight": times.in_flight, "p50_ns": times.p50, "p99_ns": times.p99 });
    json!({
        "unit": "of one call",
        "goals": { "instructions": GOAL_INSTRUCTIONS, "allocations": GOAL_ALLOCATIONS, "ratio": GOAL_RATIO },
        "alone": cost(alone),
        "pending": PENDING,
        "while_pending": cost(crowded),
        "ratio": ratio(alone, crowded),
        "wall_clock": times.iter().map(time).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_by_its_name() {
        let printed = "ready\nallocations 12\np50 7\n";
        assert_eq!(figure(printed, "allocations").ok(), Some(12));
        assert_eq!(figure(printed, "p50").ok(), Some(7));
        assert!(figure(printed, "p99").is_err());
    }

    #[test]
    fn a_call_may_cost_a_fifth_more_among_others() {
        let cost = |instructions| Cost { instructions, allocations: 0 };
        for (crowded, expected) in [(120, false), (121, true), (50, false)] {
            assert_eq!(grows(&cost(100), &cost(crowded)), expected, "{crowded}");
        }
    }
}
