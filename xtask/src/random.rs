//! `cargo xtask random`: the tests that feed random bytes to the ContentType parser and to every codec, AMQP's too, many times over.
//!
//! Built in the profile `checked`, so that the code is optimised and an overflow still panics.

use clap::Args;
use serde_json::json;

use crate::error::Error;
use crate::options::Output;
use crate::workspace::{cargo, for_each_line};

/// A test belongs to this subcommand when its name contains this, and then it runs `CONSIGN_CASES` cases.
const FILTER: &str = "random_bytes";

const CASES: u32 = 100_000;
const CASES_LONG: u32 = 1_000_000;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run 1,000,000 cases per test instead of 100,000
    #[arg(long)]
    pub(crate) long: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let cases = if options.long { CASES_LONG } else { CASES };
    let mut command =
        cargo(["test", "--profile", "checked", "--package", "consign-codecs", "--package", "consign-amqp"]);
    command
        .args(["--features", "consign-codecs/full"])
        .args(["--tests", FILTER, "--", "--nocapture"])
        .env("CONSIGN_CASES", cases.to_string());

    let mut tests = 0;
    for_each_line(&mut command, |line| {
        eprintln!("{line}");
        tests += passed(line).unwrap_or(0);
    })?;
    if tests == 0 {
        return Err(Error::NoTest { filter: FILTER });
    }
    if options.output.json {
        println!("{}", json!({ "tests": tests, "cases_per_test": cases }));
    } else {
        println!("{tests} test(s) passed with {cases} cases each");
    }
    Ok(())
}

/// The number of tests that passed, when the line is a test binary's summary.
fn passed(line: &str) -> Option<u32> {
    let (_, counts) = line.split_once("test result: ok. ")?;
    counts.split_once(" passed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_summary_counts() {
        assert_eq!(passed("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out"), Some(12));
        assert_eq!(passed("test json::random_bytes_are_refused ... ok"), None);
        assert_eq!(passed("test result: FAILED. 12 passed; 1 failed"), None);
    }
}
