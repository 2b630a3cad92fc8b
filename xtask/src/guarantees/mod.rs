//! `cargo xtask guarantees`: each guarantee of the README, and the tests that show it on each transport.
//!
//! `docs/guarantees.toml` assigns tests to guarantees, and `docs/guarantees.md` is the page that is made of it.

mod cases;
mod page;
pub(crate) mod problem;
mod readme;
mod transports;

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use self::problem::Problem;
use self::{cases::Cases, readme::sentences, transports::Levels};
use crate::error::Error;
use crate::options::Output;
use crate::source::Source;
use crate::workspace::{read, root, write};

const ASSIGNED: &str = "docs/guarantees.toml";
const PAGE: &str = "docs/guarantees.md";
const README: &str = "README.md";
const CONFORMANCE: &str = "docs/conformance.md";
/// The transports of the page, by their names in docs/conformance.md.
const TRANSPORTS: [&str; 7] = ["embedded", "durable", "postgres", "rabbitmq", "nats", "amqp10", "servicebus"];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write docs/guarantees.md again
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    output: Output,
}

/// The file that assigns tests to guarantees.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Assigned {
    guarantee: Vec<Guarantee>,
}

/// A guarantee, and what is known of it on each transport.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Guarantee {
    /// Its heading in the page.
    title: String,
    /// A sentence of the README.
    promise: String,
    /// Cases of the conformance suite, which run on each transport that has their capabilities.
    #[serde(default)]
    cases: Vec<String>,
    /// Tests of one transport, each as `path/of/file.rs#name`.
    #[serde(default)]
    tests: BTreeMap<String, Vec<String>>,
    /// What is different on a transport.
    #[serde(default)]
    limits: BTreeMap<String, String>,
    /// Why a transport does not give this guarantee.
    #[serde(default)]
    no: BTreeMap<String, String>,
}

/// The tests of one guarantee on one transport.
#[derive(Debug, PartialEq, Eq)]
struct Cell<'a> {
    cases: Vec<&'a str>,
    tests: &'a [String],
    limit: Option<&'a str>,
    no: Option<&'a str>,
}

impl Guarantee {
    fn cell<'a>(&'a self, transport: &str, cases: &Cases, levels: &Levels) -> Cell<'a> {
        let has = |case: &&String| {
            cases.needs(case).is_some_and(|needs| needs.iter().all(|needed| levels.has(transport, needed)))
        };
        let no = self.no.get(transport).map(String::as_str);
        Cell {
            // A case may pass and show less than the promise.
            cases: if no.is_some() { Vec::new() } else { self.cases.iter().filter(has).map(String::as_str).collect() },
            tests: self.tests.get(transport).map_or(&[], Vec::as_slice),
            limit: self.limits.get(transport).map(String::as_str),
            no,
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let assigned = read(ASSIGNED)?;
    let assigned: Assigned = toml::from_str(&assigned).map_err(|source| Error::Toml { path: ASSIGNED, source })?;
    let cases = Cases::read()?;
    let levels = Levels::read(&read(CONFORMANCE)?);
    let page = page::page(&assigned.guarantee, &cases, &levels);
    if options.write {
        write(PAGE, &page)?;
    }
    let mut problems = problems(&assigned.guarantee, &read(README)?, &cases, &levels);
    problems.extend(missing_tests(&assigned.guarantee)?);
    // A page that cannot be read is to be written, as an outdated one.
    if !read(PAGE).is_ok_and(|current| current == page) {
        problems.push(Problem::PageOutdated);
    }
    let (yes, no) = (
        page::count(&assigned.guarantee, &cases, &levels, true),
        page::count(&assigned.guarantee, &cases, &levels, false),
    );
    if options.output.json {
        println!(
            "{}",
            json!({ "guarantees": assigned.guarantee.len(), "yes": yes, "no": no, "problems": problems.len() })
        );
    } else {
        println!(
            "{} guarantees on {} transports: {yes} with tests, {no} not given",
            assigned.guarantee.len(),
            TRANSPORTS.len(),
        );
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::Guarantees(problems)) }
}

/// Everything but tests that do not exist.
fn problems(guarantees: &[Guarantee], readme: &str, cases: &Cases, levels: &Levels) -> Vec<Problem> {
    let mut problems = Vec::new();
    let one_line = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    let promised: BTreeSet<&str> = guarantees.iter().map(|guarantee| guarantee.promise.as_str()).collect();
    let sentences = sentences(readme);
    if sentences.is_empty() {
        problems.push(Problem::NoGuarantee);
    }
    problems.extend(
        sentences.into_iter().filter(|sentence| !promised.contains(sentence.as_str())).map(Problem::NotAssigned),
    );
    for transport in TRANSPORTS.iter().filter(|transport| !levels.lists(transport)) {
        problems.push(Problem::NoTransport((*transport).into()));
    }
    for guarantee in guarantees {
        let title = || guarantee.title.clone();
        if !one_line.contains(&guarantee.promise) {
            problems.push(Problem::NotInReadme(guarantee.promise.clone()));
        }
        problems.extend(
            guarantee
                .cases
                .iter()
                .filter(|case| cases.needs(case).is_none())
                .map(|case| Problem::NoCase(title(), case.clone())),
        );
        let named = guarantee.tests.keys().chain(guarantee.limits.keys()).chain(guarantee.no.keys());
        problems.extend(
            named.filter(|name| !TRANSPORTS.contains(&name.as_str())).map(|name| Problem::NoTransport(name.clone())),
        );
        for transport in TRANSPORTS {
            let cell = guarantee.cell(transport, cases, levels);
            let is_tested = !cell.cases.is_empty() || !cell.tests.is_empty();
            match (is_tested, cell.no.is_some()) {
                (false, false) => problems.push(Problem::NoTest(title(), transport)),
                (true, true) => problems.push(Problem::TestedAndNot(title(), transport)),
                _ => {}
            }
        }
    }
    problems
}

/// The tests that are named and do not exist, are ignored, or call nothing.
fn missing_tests(guarantees: &[Guarantee]) -> Result<Vec<Problem>, Error> {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut missing = Vec::new();
    for test in guarantees.iter().flat_map(|guarantee| guarantee.tests.values().flatten()) {
        let exists = match test.split_once('#') {
            Some((file, name)) if root().join(file).is_file() => {
                if !files.contains_key(file) {
                    files.insert(file, Source::read(&read(file)?).tests);
                }
                files[file].iter().any(|test| test == name)
            }
            _ => false,
        };
        if !exists {
            missing.push(Problem::TestGone(test.clone()));
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str =
        "# x\n\n## Guarantees\n\nThese hold:\n\n- **Sends.** A send is stored.\n  It stays.\n\n## Limits\n\nNone.\n";
    const TABLE: &str = "| id | capability | embedded | durable | nats | postgres | rabbitmq | amqp10 | servicebus |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n| K-01 | a | native 1/1 | native 1/1 | native 1/1 | native 1/1 | native 1/1 | native 1/1 | native 1/1 |\n| K-02 | b | native 1/1 | native 1/1 | unsupported, tried 1 | native 1/1 | native 1/1 | native 1/1 | native 1/1 |\n";

    fn found(text: &str) -> Vec<Problem> {
        let assigned: Assigned = toml::from_str(text).unwrap();
        let cases = Cases::of([("stored", vec!["K-01"]), ("stays", vec!["K-01", "K-02"])]);
        problems(&assigned.guarantee, README, &cases, &Levels::read(TABLE))
    }

    #[test]
    fn every_sentence_has_tests_on_each_transport() {
        let text = "[[guarantee]]\ntitle = 'A'\npromise = 'A send is stored.'\ncases = ['stored']\n[[guarantee]]\ntitle = 'B'\npromise = 'It stays.'\ncases = ['stays']\nno = { nats = 'why' }";
        assert_eq!(found(text), []);
        assert_eq!(found(&text.replace("no = { nats = 'why' }", "")), [Problem::NoTest("B".into(), "nats")]);
        assert_eq!(
            found(&text.replace("no =", "tests = { nats = ['a.rs#b'] }\nno =")),
            [Problem::TestedAndNot("B".into(), "nats")]
        );
    }

    #[test]
    fn a_sentence_and_its_guarantee_agree() {
        let text = "[[guarantee]]\ntitle = 'A'\npromise = 'A send is stored.'\ncases = ['stored', 'gone']\ntests = { kafka = [] }";
        assert_eq!(
            found(text),
            [
                Problem::NotAssigned("It stays.".into()),
                Problem::NoCase("A".into(), "gone".into()),
                Problem::NoTransport("kafka".into())
            ]
        );
        let other = "[[guarantee]]\ntitle = 'C'\npromise = 'It flies.'\ncases = ['stored']";
        assert!(found(other).contains(&Problem::NotInReadme("It flies.".into())));
    }
}
