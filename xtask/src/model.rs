//! `cargo xtask model`: random operations on the broker, compared with the model of it, over fresh seeds.
//!
//! Built in the profile `checked`, so that the code is optimised and an overflow still panics. `SEED` sets the base that
//! the seeds follow from.

use std::hash::{BuildHasher, Hasher, RandomState};

use serde_json::json;

use crate::Options;
use crate::error::Error;
use crate::workspace::{cargo, for_each_line};

const FILTER: &str = "i_01_";

/// Operations in all, and seeds they are spread over.
const OPS: u64 = 1_000_000;
const SEEDS: u64 = 20;

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let (ops, seeds) = (options.ops.unwrap_or(OPS), options.seeds.unwrap_or(SEEDS));
    let base = std::env::var("SEED").unwrap_or_else(|_| RandomState::new().build_hasher().finish().to_string());
    eprintln!("base seed {base}");
    let mut command = cargo(["test", "--profile", "checked", "--features", "full", "--test", "model", FILTER]);
    command.args(["--", "--nocapture"]).env("SEED", &base);
    command.env("CONSIGN_OPS", ops.to_string()).env("CONSIGN_SEEDS", seeds.to_string());
    let mut said = Vec::new();
    for_each_line(&mut command, |line| match line.strip_prefix("model: ") {
        Some(figures) => said.push(figures.to_owned()),
        None => eprintln!("{line}"),
    })?;
    let [runs, sessions, kinds @ ..] = &said[..] else { return Err(Error::NoTest { filter: FILTER }) };
    if options.json {
        let ([ops, seeds, kinds, _, divergences], [session_ops, inversions]) = (numbers(runs), numbers(sessions));
        println!(
            "{}",
            json!({
                "base_seed": base, "operations": ops, "seeds": seeds, "kinds": kinds, "divergences": divergences,
                "session_operations": session_ops, "inversions": inversions,
            })
        );
    } else {
        println!("base seed {base}\n{runs}\n{sessions}\n{}", kinds.join("\n"));
    }
    Ok(())
}

/// The first numbers of a line; 0 for those that it lacks.
pub(crate) fn numbers<const N: usize>(line: &str) -> [u64; N] {
    let mut found = line.split_whitespace().filter_map(|word| word.parse().ok());
    std::array::from_fn(|_| found.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_read_from_what_the_test_says() {
        assert_eq!(numbers("1000 operations, 20 seeds, 67 of 68 kinds, 0 divergences"), [1_000, 20, 67, 68, 0]);
        assert_eq!(numbers("7 session operations"), [7, 0]);
    }
}
