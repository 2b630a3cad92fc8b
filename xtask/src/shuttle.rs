//! `cargo xtask shuttle`: the tests in which shuttle chooses the order of threads, and those in which loom tries all orders.
//!
//! They are built with `--cfg shuttle --cfg consign_loom`, in a folder of their own so that other builds stay warm.

use std::env;

use clap::Args;
use serde_json::{Value, json};

use crate::error::Error;
use crate::options::Output;
use crate::workspace::{cargo, for_each_line};

const SCHEDULES: u32 = 5_000;
const SCHEDULES_LONG: u32 = 200_000;

/// Arguments of `cargo test` that choose the tests: of the broker by its public API, of the commits of its writer, and of the
/// wake-ups of a consumer, the calls that wait for replies, and duplicate detection. The default features are enough, and build in half of the time.
const TESTS: [&[&str]; 5] = [
    &["--test", "shuttle"],
    &["--package", "consign-broker", "--features", "durable", "--lib", "durable::commits"],
    &["--lib", "consumer::woken"],
    &["--lib", "rpc::pending::explored"],
    &["--lib", "dedup::explored"],
];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Explore 200,000 schedules per property instead of 5,000, in an optimised build
    #[arg(long)]
    long: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let schedules = if options.long { SCHEDULES_LONG } else { SCHEDULES };
    let flags = env::var("RUSTFLAGS").unwrap_or_default() + " --cfg shuttle --cfg consign_loom";
    let mut properties = Vec::new();
    let mut outcome = Ok(());
    for tests in TESTS {
        let before = properties.len();
        let mut command = cargo(["test", "--target-dir", "target/shuttle"]);
        // Few schedules take less time than optimising what runs them.
        command.args(["--profile", if options.long { "checked" } else { "dev" }]).args(tests);
        command.args(["--", "--nocapture"]).env("RUSTFLAGS", flags.trim_start());
        if options.long || env::var_os("CONSIGN_SCHEDULES").is_none() {
            command.env("CONSIGN_SCHEDULES", schedules.to_string());
        }
        let ran = for_each_line(&mut command, |line| match Property::parse(line) {
            Some(property) => properties.push(property),
            None => eprintln!("{line}"),
        });
        outcome = outcome.and(ran).and(explored(tests, properties.len() - before));
    }
    if options.output.json {
        println!("{}", json!({ "properties": properties.iter().map(Property::json).collect::<Vec<_>>() }));
    } else {
        properties.iter().for_each(Property::print);
    }
    outcome
}

/// Fails if a command that passed explored nothing: its filter matches no test.
fn explored(tests: &[&'static str], properties: usize) -> Result<(), Error> {
    let filter = tests.last().copied().unwrap_or_default();
    if properties == 0 { Err(Error::NoTest { filter }) } else { Ok(()) }
}

/// What a test says of one property.
#[derive(Debug, PartialEq, Eq)]
struct Property {
    name: String,
    /// How schedules were chosen.
    how: String,
    schedules: u64,
    violations: u64,
}

impl Property {
    /// The line may begin with what the test harness has left there.
    fn parse(line: &str) -> Option<Self> {
        let (_, said) = line.split_once("shuttle: ")?;
        let mut words = said.split(' ');
        let (name, how) = (words.next()?.into(), words.next()?.into());
        let schedules = words.next()?.parse().ok()?;
        let violations = words.nth(1)?.parse().ok()?;
        Some(Self { name, how, schedules, violations })
    }

    fn print(&self) {
        let Self { name, how, schedules, violations } = self;
        println!("{schedules:>9} {how:<7} {violations:>2} violation(s)  {name}");
    }

    fn json(&self) -> Value {
        let Self { name, how, schedules, violations } = self;
        json!({ "name": name, "how": how, "schedules": schedules, "violations": violations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_explores_something() {
        assert!(explored(TESTS[4], 1).is_ok());
        let error = explored(TESTS[4], 0).unwrap_err();
        assert!(error.to_string().contains("`dedup::explored`"), "{error}");
    }

    #[test]
    fn a_property_is_a_line() {
        let property = |violations| {
            Some(Property { name: "settle_against_expiry".into(), how: "random".into(), schedules: 20, violations })
        };
        assert_eq!(Property::parse("shuttle: settle_against_expiry random 20 schedules 0 violations"), property(0));
        assert_eq!(
            Property::parse(
                "test a::settle_against_expiry ... shuttle: settle_against_expiry random 20 schedules 1 violations"
            ),
            property(1)
        );
        assert_eq!(Property::parse("test a::settle_against_expiry ... ok"), None);
    }
}
