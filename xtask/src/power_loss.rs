//! `cargo xtask power-loss`: the journal of the durable broker on a simulated disk that loses power, fails, fills up and
//! changes what is on it.
//!
//! Built in the profile `checked`, so that the code is optimised and an overflow still panics.

use std::hash::{BuildHasher, Hasher, RandomState};

use serde_json::json;

use crate::Options;
use crate::error::Error;
use crate::workspace::{cargo, for_each_line};

const FILTER: &str = "durable::";

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let seed = options.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
    eprintln!("seed {seed}");
    let mut command = cargo(["test", "--profile", "checked", "--features", "full", "--lib", FILTER]);
    command.args(["--", "--nocapture"]).env("SEED", seed.to_string()).env("CONSIGN_EVERY", "1");
    if options.long {
        command.env("CONSIGN_LONG", "1");
    }
    let mut counts = Vec::new();
    for_each_line(&mut command, |line| match count(line) {
        Some((cases, what)) => counts.push((cases, what.to_owned())),
        None => eprintln!("{line}"),
    })?;
    if counts.is_empty() {
        return Err(Error::NoTest { filter: FILTER });
    }
    if options.json {
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
        assert_eq!(count("test x::i_06 ... power-loss: 200 failed syncs"), Some((200, "failed syncs")));
        assert_eq!(count("test x::i_06_power-loss ... ok"), None);
    }
}
