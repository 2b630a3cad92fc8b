//! `cargo xtask random`: the tests that feed random bytes to the ContentType parser and to every codec, AMQP's too, many times over.
//!
//! Built in the profile `checked`, so that the code is optimised and an overflow still panics.

use std::process::Command;

use clap::Args;
use serde_json::json;

use crate::error::Error;
use crate::options::Output;
use crate::workspace::{cargo, for_each_line};

/// A test belongs to this subcommand when its name contains this, and then it runs `CONSIGN_CASES` cases.
const FILTER: &str = "random_bytes";

/// A test that only `--long` runs, with the number of cases that it has.
const IGNORED: &str = "many_random_messages_have_the_same_sections_behind_a_message";

const CASES: u32 = 100_000;
const CASES_LONG: u32 = 1_000_000;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run 1,000,000 cases per test instead of 100,000, and a test of messages of AMQP that is ignored otherwise
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

    let mut tests = ran(&mut command, FILTER)?;
    if options.long {
        let mut command = cargo(["test", "--profile", "checked", "--package", "consign-amqp", "--features", "message"]);
        command.args(["--test", "mapping", IGNORED, "--", "--ignored"]).env_remove("CONSIGN_CASES");
        tests += ran(&mut command, IGNORED)?;
    }
    if options.output.json {
        println!("{}", json!({ "tests": tests, "cases_per_test": cases }));
    } else {
        println!(
            "{tests} test(s) passed with {cases} cases each{}",
            if options.long { ", one with 100,000" } else { "" }
        );
    }
    Ok(())
}

/// Runs tests, and returns how many passed.
fn ran(command: &mut Command, filter: &'static str) -> Result<u32, Error> {
    let mut tests = 0;
    for_each_line(command, |line| {
        eprintln!("{line}");
        tests += passed(line).unwrap_or(0);
    })?;
    if tests == 0 { Err(Error::NoTest { filter }) } else { Ok(tests) }
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
    fn the_ignored_test_is_there() {
        let source = include_str!("../../amqp/tests/mapping/random.rs");
        assert!(source.contains(&format!("#[ignore = \"long\"]\nfn {IGNORED}()")));
    }

    #[test]
    fn only_a_summary_counts() {
        assert_eq!(passed("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out"), Some(12));
        assert_eq!(passed("test json::random_bytes_are_refused ... ok"), None);
        assert_eq!(passed("test result: FAILED. 12 passed; 1 failed"), None);
    }
}
