//! `cargo xtask nightly`: the checks that take too long for every change, one after another, and a page of their results.
//!
//! A part is a call of another subcommand. Its output goes to `target/nightly/NAME.log`, what it prints on the standard
//! output to the page, `target/nightly/page.md`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Options;
use crate::error::Error;
use crate::workspace::{root, write};

const FOLDER: &str = "target/nightly";
/// Lines of a part's output that the page shows: the last ones.
const SHOWN_LINES: usize = 24;

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
    part("power-loss", &["power-loss"]),
    part("kill", &["kill", "--cycles", "200"]),
    part("model", &["model", "--ops", "10000000", "--seeds", "400"]),
    part("sabotage", &["sabotage"]),
    part("shuttle", &["shuttle", "--long"]),
    part("features", &["features", "--long"]),
    part("growth", &["growth"]),
    part("memory", &["memory"]),
    part("recovery", &["recovery"]),
    part("faults", &["faults"]),
    part("faults-nats", &["faults", "--transport", "nats"]),
    part("faults-rabbitmq", &["faults", "--transport", "rabbitmq"]),
    part("faults-postgres", &["faults", "--transport", "postgres"]),
    part("bench", &["bench", "--quick"]),
];

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let parts = parts(options.only)?;
    fs::create_dir_all(root().join(FOLDER)).map_err(|source| Error::Write { path: root().join(FOLDER), source })?;
    let mut results = Vec::new();
    for part in parts {
        eprintln!("nightly: {}", part.name);
        results.push(part.run()?);
        // After each part, so that a night that is cut off leaves the page of what it did.
        write(format!("{FOLDER}/page.md"), &page(&results))?;
    }
    if options.json {
        println!("{}", Value::Array(results.iter().map(Outcome::json).collect()));
    } else {
        print!("{}", page(&results));
    }
    let failed: Vec<_> = results.iter().filter(|outcome| !outcome.passed).map(|outcome| outcome.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(Error::Parts(failed)) }
}

/// All parts, or those with one of these names, of which each has to be there.
fn parts(only: Option<&str>) -> Result<Vec<&'static Part>, Error> {
    let Some(only) = only else { return Ok(PARTS.iter().collect()) };
    let unknown = only.split(',').find(|name| PARTS.iter().all(|part| part.name != *name));
    match unknown {
        Some(name) => Err(Error::NoPart { asked: name.into(), parts: names(PARTS.iter()) }),
        None => Ok(PARTS.iter().filter(|part| only.split(',').any(|name| name == part.name)).collect()),
    }
}

fn names<'a>(parts: impl Iterator<Item = &'a Part>) -> String {
    parts.map(|part| part.name).collect::<Vec<_>>().join(", ")
}

impl Part {
    /// Runs the part in a process of its own. That it failed is an outcome.
    fn run(&self) -> Result<Outcome, Error> {
        let command = format!("xtask {}", self.call.join(" "));
        let start = |source| Error::Start { command: command.clone(), source };
        let path = root().join(FOLDER).join(format!("{}.log", self.name));
        let log = File::create(&path).map_err(|source| Error::Write { path, source })?;
        let began = now();
        let output = Command::new(std::env::current_exe().map_err(start)?)
            .args(self.call)
            .current_dir(root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .output()
            .map_err(start)?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Outcome {
            name: self.name,
            call: self.call,
            took: began.elapsed(),
            passed: output.status.success(),
            printed,
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "the page shows how long a part takes")]
fn now() -> Instant {
    Instant::now()
}

/// How one part ended.
struct Outcome {
    name: &'static str,
    call: &'static [&'static str],
    took: Duration,
    passed: bool,
    printed: String,
}

impl Outcome {
    fn verdict(&self) -> &'static str {
        if self.passed { "passed" } else { "FAILED" }
    }

    fn json(&self) -> Value {
        json!({
            "part": self.name, "passed": self.passed, "seconds": self.took.as_secs(), "printed": self.printed,
        })
    }
}

/// The results as Markdown: a table of the parts, then what each one printed last.
fn page(results: &[Outcome]) -> String {
    let seconds: u64 = results.iter().map(|outcome| outcome.took.as_secs()).sum();
    let failed = results.iter().filter(|outcome| !outcome.passed).count();
    let mut page = format!("# Nightly checks\n\n{} parts, {failed} failed, {seconds} s\n\n", results.len());
    page.push_str("| part | command | seconds | result |\n|---|---|---|---|\n");
    for outcome in results {
        let (name, call, took) = (outcome.name, outcome.call.join(" "), outcome.took.as_secs());
        let _ = writeln!(page, "| {name} | `cargo xtask {call}` | {took} | {} |", outcome.verdict());
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
    use super::*;

    fn outcome(name: &'static str, passed: bool, printed: &str) -> Outcome {
        Outcome { name, call: &["kill"], took: Duration::from_secs(3), passed, printed: printed.into() }
    }

    #[test]
    fn the_page_counts_failures_and_shows_the_last_lines() {
        let long = (0..100).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
        let page = page(&[outcome("kill", true, "0 lost\n"), outcome("model", false, &long)]);
        assert!(page.contains("2 parts, 1 failed, 6 s"), "{page}");
        assert!(page.contains("| kill | `cargo xtask kill` | 3 | passed |"), "{page}");
        assert!(page.contains("| model | `cargo xtask kill` | 3 | FAILED |"), "{page}");
        assert!(page.contains("0 lost") && page.contains("line 99") && !page.contains("line 75\n"), "{page}");
    }

    #[test]
    fn each_name_has_to_be_that_of_a_part() {
        let names = |only| parts(only).map(|parts| parts.iter().map(|part| part.name).collect::<Vec<_>>());
        assert_eq!(names(Some("kill,model")).unwrap(), ["kill", "model"]);
        assert_eq!(names(None).unwrap().len(), PARTS.len());
        for wrong in ["", "kill,", "kill,modle"] {
            assert!(matches!(names(Some(wrong)), Err(Error::NoPart { .. })), "{wrong}");
        }
    }

    #[test]
    fn every_part_is_a_call_that_the_command_line_takes() {
        for part in PARTS {
            let call: Vec<String> = part.call.iter().copied().map(String::from).collect();
            assert!(crate::parse(&call).is_ok(), "{:?}", part.call);
        }
    }
}
