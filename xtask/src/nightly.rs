//! `cargo xtask nightly`: the checks that take too long for every change, one after another, and a page of their results.
//!
//! A part is a call of another subcommand. Its output goes to `target/nightly/NAME.log`, what it prints on the standard
//! output to `NAME.out` beside it and to the page, `target/nightly/page.md`. A part that takes too long is ended, and has failed.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use crate::error::Error;
use crate::options::Output;
use crate::workspace::{root, write};

const FOLDER: &str = "target/nightly";
/// Lines of a part's output that the page shows: the last ones.
const SHOWN_LINES: usize = 24;
/// Several times as long as any part takes.
const LIMIT: &str = "6h";

/// One check of the night.
struct Part {
    name: &'static str,
    /// What follows `cargo xtask`.
    call: &'static [&'static str],
}

const fn part(name: &'static str, call: &'static [&'static str]) -> Part {
    Part { name, call }
}

/// Short ones first, so that a night that is cut off has most of them.
const PARTS: &[Part] = &[
    part("random", &["random", "--long"]),
    part("attacks", &["attacks", "--run"]),
    part("fuzz", &["fuzz", "--seconds", "300"]),
    part("power-loss", &["power-loss"]),
    part("kill", &["kill", "--cycles", "200"]),
    part("kill-outbox", &["kill", "--outbox", "--cycles", "100"]),
    part("kill-servers", &["kill", "--servers", "--cycles", "60"]),
    part("model", &["model", "--ops", "10000000", "--seeds", "400"]),
    part("model-postgres", &["model", "--transport", "postgres"]),
    part("sabotage", &["sabotage"]),
    part("shuttle", &["shuttle", "--long"]),
    part("features", &["features", "--long"]),
    part("guide", &["guide"]),
    part("package", &["package"]),
    part("api", &["api"]),
    part("semver", &["semver"]),
    part("msrv", &["msrv"]),
    part("growth", &["growth"]),
    part("memory", &["memory"]),
    part("recovery", &["recovery"]),
    part("space", &["space"]),
    part("faults", &["faults"]),
    part("faults-amqp10", &["faults", "--transport", "amqp10"]),
    part("faults-amqp10-rabbitmq", &["faults", "--transport", "amqp10-rabbitmq"]),
    part("faults-nats", &["faults", "--transport", "nats"]),
    part("faults-rabbitmq", &["faults", "--transport", "rabbitmq"]),
    part("faults-postgres", &["faults", "--transport", "postgres"]),
    part("faults-servicebus", &["faults", "--transport", "servicebus"]),
    part("clusters", &["clusters", "--faults", "40"]),
    part("servicebus", &["foreign", "--suite", "servicebus", "--all"]),
    part("servicebus-upstream", &["foreign", "--suite", "servicebus-upstream"]),
    part("load", &["load"]),
    part("bench", &["bench", "--quick"]),
    part("bench-build", &["bench", "--build"]),
];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run only these parts, separated by commas
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(PARTS.iter().map(|part| part.name)))]
    only: Vec<String>,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    fs::create_dir_all(root().join(FOLDER)).map_err(|source| Error::Write { path: root().join(FOLDER), source })?;
    let mut results = Vec::new();
    for part in parts(&options.only) {
        eprintln!("nightly: {}", part.name);
        results.push(part.run()?);
        // After each part, so that a night that is cut off leaves the page of what it did.
        write(format!("{FOLDER}/page.md"), &page(&results))?;
    }
    if options.output.json {
        println!("{}", Value::Array(results.iter().map(Outcome::json).collect()));
    } else {
        print!("{}", page(&results));
    }
    let failed: Vec<_> =
        results.iter().filter(|outcome| outcome.verdict.is_failure()).map(|outcome| outcome.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(Error::Parts(failed)) }
}

/// The parts with one of these names, or all parts if there is no name.
fn parts(only: &[String]) -> impl Iterator<Item = &'static Part> {
    PARTS.iter().filter(|part| only.is_empty() || only.iter().any(|name| name == part.name))
}

impl Part {
    /// Runs the part in a process of its own. That it failed is an outcome.
    fn run(&self) -> Result<Outcome, Error> {
        let command = format!("xtask {}", self.call.join(" "));
        let start = |source| Error::Start { command: command.clone(), source };
        let create = |kind: &str| {
            let path = root().join(FOLDER).join(format!("{}.{kind}", self.name));
            File::create(&path).map_err(|source| Error::Write { path, source })
        };
        // A program of the GNU core utilities. It ends what the part has started too.
        let mut program = Command::new("timeout");
        program.args(["--kill-after=60s", LIMIT]).arg(std::env::current_exe().map_err(start)?);
        program.args(self.call).current_dir(root()).stdin(Stdio::null());
        program.stdout(create("out")?).stderr(create("log")?);
        let began = now();
        let status = program.status().map_err(start)?;
        let path = root().join(FOLDER).join(format!("{}.out", self.name));
        let printed = fs::read(&path).map_err(|source| Error::Read { path, source })?;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        Ok(Outcome {
            name: self.name,
            call: self.call,
            took: began.elapsed(),
            verdict: Verdict::of(status.code(), &printed),
            printed,
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "the page shows how long a part takes")]
fn now() -> Instant {
    Instant::now()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// It had nothing to check, or could not.
    LeftOut,
    Failed,
    /// It was ended.
    TookTooLong,
}

impl Verdict {
    /// By the status of `timeout`, and by what was printed.
    fn of(status: Option<i32>, printed: &str) -> Self {
        match status {
            Some(0) if printed.lines().any(|line| line.starts_with("LEFT OUT")) => Self::LeftOut,
            Some(0) => Self::Passed,
            Some(124 | 137) => Self::TookTooLong,
            _ => Self::Failed,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::LeftOut => "left out",
            Self::Failed => "FAILED",
            Self::TookTooLong => "FAILED: took too long",
        }
    }

    fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TookTooLong)
    }
}

/// How one part ended.
struct Outcome {
    name: &'static str,
    call: &'static [&'static str],
    took: Duration,
    verdict: Verdict,
    printed: String,
}

impl Outcome {
    fn json(&self) -> Value {
        json!({
            "part": self.name, "passed": !self.verdict.is_failure(), "verdict": self.verdict.text(),
            "seconds": self.took.as_secs(), "printed": self.printed,
        })
    }
}

/// The results as Markdown: a table of the parts, then what each one printed last.
fn page(results: &[Outcome]) -> String {
    let seconds: u64 = results.iter().map(|outcome| outcome.took.as_secs()).sum();
    let failed = results.iter().filter(|outcome| outcome.verdict.is_failure()).count();
    let left_out = results.iter().filter(|outcome| outcome.verdict == Verdict::LeftOut).count();
    let parts = results.len();
    let mut page = format!("# Nightly checks\n\n{parts} parts, {failed} failed, {left_out} left out, {seconds} s\n\n");
    page.push_str("| part | command | seconds | result |\n|---|---|---|---|\n");
    for outcome in results {
        let (name, call, took) = (outcome.name, outcome.call.join(" "), outcome.took.as_secs());
        let _ = writeln!(page, "| {name} | `cargo xtask {call}` | {took} | {} |", outcome.verdict.text());
    }
    for outcome in results {
        let lines: Vec<&str> = outcome.printed.lines().collect();
        let last = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        let _ = write!(page, "\n## {}\n\n```text\n{}\n```\n", outcome.name, last.join("\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::CommandLine;

    #[derive(Parser)]
    struct OnlyOptions {
        #[command(flatten)]
        options: Options,
    }

    fn outcome(name: &'static str, verdict: Verdict, printed: &str) -> Outcome {
        Outcome { name, call: &["kill"], took: Duration::from_secs(3), verdict, printed: printed.into() }
    }

    #[test]
    fn the_page_counts_failures_and_shows_the_last_lines() {
        let long = (0..100).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
        let page = page(&[
            outcome("kill", Verdict::Passed, "0 lost\n"),
            outcome("model", Verdict::Failed, &long),
            outcome("load", Verdict::TookTooLong, ""),
            outcome("msrv", Verdict::LeftOut, "LEFT OUT: rustup is missing"),
        ]);
        assert!(page.contains("4 parts, 2 failed, 1 left out, 12 s"), "{page}");
        assert!(page.contains("| msrv | `cargo xtask kill` | 3 | left out |"), "{page}");
        assert!(page.contains("| load | `cargo xtask kill` | 3 | FAILED: took too long |"), "{page}");
        assert!(page.contains("| kill | `cargo xtask kill` | 3 | passed |"), "{page}");
        assert!(page.contains("| model | `cargo xtask kill` | 3 | FAILED |"), "{page}");
        assert!(page.contains("0 lost") && page.contains("line 99") && !page.contains("line 75\n"), "{page}");
    }

    #[test]
    fn a_part_that_left_everything_out_did_not_pass() {
        assert_eq!(Verdict::of(Some(0), "3 crates break nothing"), Verdict::Passed);
        assert_eq!(Verdict::of(Some(0), "LEFT OUT: there is no tag v*"), Verdict::LeftOut);
        for status in [Some(1), None] {
            assert_eq!(Verdict::of(status, "LEFT OUT: there is no tag v*"), Verdict::Failed);
        }
    }

    #[test]
    fn a_part_that_timeout_has_ended_took_too_long() {
        let ended = Command::new("timeout").args(["0.01s", "sleep", "100"]).status().unwrap();
        assert_eq!(Verdict::of(ended.code(), ""), Verdict::TookTooLong);
    }

    #[test]
    fn each_name_has_to_be_that_of_a_part() {
        let parse = |only| OnlyOptions::try_parse_from(["nightly", "--only", only]).map(|parsed| parsed.options.only);
        assert_eq!(parse("kill,model").unwrap(), ["kill", "model"]);
        for wrong in ["", "kill,", "kill,modle"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_the_named_parts_run() {
        let names = |only: &[String]| parts(only).map(|part| part.name).collect::<Vec<_>>();
        assert_eq!(names(&["model".into(), "kill".into()]), ["kill", "model"]);
        assert_eq!(names(&[]).len(), PARTS.len());
    }

    #[test]
    fn every_part_is_a_call_that_the_command_line_takes() {
        for part in PARTS {
            let call = ["xtask"].iter().chain(part.call);
            assert!(CommandLine::try_parse_from(call).is_ok(), "{:?}", part.call);
        }
    }
}
