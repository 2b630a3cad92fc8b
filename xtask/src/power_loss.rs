//! `cargo xtask power-loss`: the journal of the durable broker on a simulated disk that loses power, fails, fills up and
//! changes what is on it; and, on Linux, images of what a disk may hold by the system calls of real processes, which need
//! strace.
//!
//! Built in the profile `checked`, so that the code is optimised and an overflow still panics.

use clap::Args;
use serde_json::json;

use crate::error::Error;
use crate::options::{Output, positive, random_seed};
use crate::workspace::{cargo, for_each_line};

/// Arguments of `cargo test` that choose the tests. The filter is the last.
const SIMULATED: &[&str] = &["--package", "consign-broker", "--features", "durable", "--lib", "durable::"];
const RECORDED: &[&str] = &["--features", "full", "--test", "durable", "recorded::"];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run 100,000 seeds of power loss instead of 2,000, and truncate a store at every length
    #[arg(long)]
    long: bool,
    /// Choose the cases by this seed [default: a random one]
    #[arg(long, value_name = "N", value_parser = positive)]
    seed: Option<u64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let seed = options.seed.unwrap_or_else(random_seed);
    eprintln!("seed {seed}");
    let mut counts = Vec::new();
    counts.extend(counted(SIMULATED, seed, options.long)?);
    if cfg!(target_os = "linux") {
        counts.extend(counted(RECORDED, seed, options.long)?);
    }
    if options.output.json {
        let counts: Vec<_> = counts.iter().map(|(cases, what)| json!({ "cases": cases, "what": what })).collect();
        println!("{}", json!({ "seed": seed, "counts": counts }));
    } else {
        println!("seed {seed}: nothing lost, torn or silently wrong");
        for (cases, what) in counts {
            println!("{cases:>9} {what}");
        }
    }
    Ok(())
}

/// Runs these tests, and returns what they say they did.
fn counted(tests: &[&'static str], seed: u64, is_long: bool) -> Result<Vec<(u64, String)>, Error> {
    let mut command = cargo(["test", "--profile", "checked"]);
    command.args(tests).args(["--", "--nocapture"]).env("SEED", seed.to_string()).env("CONSIGN_EVERY", "1");
    // Without strace.
    command.env("CONSIGN_LEAVE_NOTHING_OUT", "1");
    if is_long {
        command.env("CONSIGN_LONG", "1");
    }
    let mut counts = Vec::new();
    for_each_line(&mut command, |line| match count(line) {
        Some((cases, what)) => counts.push((cases, what.to_owned())),
        None => eprintln!("{line}"),
    })?;
    let filter = tests.last().copied().unwrap_or_default();
    if counts.is_empty() { Err(Error::NoTest { filter }) } else { Ok(counts) }
}

/// What a test says it did. The line may begin with what the test harness has left there.
fn count(line: &str) -> Option<(u64, &str)> {
    let (_, said) = line.split_once("power-loss: ")?;
    let (cases, what) = said.split_once(' ')?;
    Some((cases.parse().ok()?, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_a_line() {
        assert_eq!(count("power-loss: 200 failed syncs"), Some((200, "failed syncs")));
        assert_eq!(count("test x::a_test ... power-loss: 200 failed syncs"), Some((200, "failed syncs")));
        assert_eq!(count("test x::a_power-loss ... ok"), None);
    }
}
