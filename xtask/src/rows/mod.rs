//! `cargo xtask rows`: every row of `docs/semantics.md` has a test named after it, or a reviewed reason why not.

mod exceptions;
mod semantics;
mod tests_named;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::cli::Output;
use crate::error::Error;
use crate::workspace::{read, rust_files};
use exceptions::Exception;

const SEMANTICS: &str = "docs/semantics.md";
const EXCEPTIONS: &str = "docs/rows-exceptions.txt";

pub(crate) fn run(output: &Output) -> Result<(), Error> {
    let rows = semantics::row_ids(&read(SEMANTICS)?);
    let exceptions = exceptions::parse(&read(EXCEPTIONS)?);
    let mut named = BTreeSet::new();
    for file in rust_files()? {
        named.extend(tests_named::row_ids(&read(file)?));
    }
    let report = Report::new(&rows, &exceptions, &named);
    if output.json {
        println!("{}", report.json());
    } else {
        report.print();
    }
    if report.problems.is_empty() { Ok(()) } else { Err(Error::Rows(report.problems)) }
}

/// Something that keeps the rows and the tests from agreeing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The file has no row, so that every test of this passes.
    NoRow,
    /// Rows of one kind that have neither a test nor an exception.
    NoTest(Vec<String>),
    /// Two rows share an id.
    DuplicateRow(String),
    /// An exception names no row.
    ExceptionWithoutRow(String),
    /// An exception gives no reason.
    ExceptionWithoutReason(String),
    /// The row has a test by now.
    ExceptionOutlived(String),
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRow => write!(f, "{SEMANTICS} has no row"),
            Self::NoTest(ids) => {
                write!(f, "no test is named after, and {EXCEPTIONS} does not list: {}", ids.join(", "))
            }
            Self::DuplicateRow(id) => write!(f, "{id}: stands twice in {SEMANTICS}"),
            Self::ExceptionWithoutRow(id) => write!(f, "{id}: in {EXCEPTIONS}, but not in {SEMANTICS}"),
            Self::ExceptionWithoutReason(id) => write!(f, "{id}: in {EXCEPTIONS} without a reason"),
            Self::ExceptionOutlived(id) => write!(f, "{id}: in {EXCEPTIONS}, but it has a test"),
        }
    }
}

/// What one run found.
struct Report {
    rows: usize,
    tested: usize,
    excepted: usize,
    /// Tests that are named like a row of a kind that the file has, but after none that it has.
    strangers: Vec<String>,
    problems: Vec<Problem>,
}

impl Report {
    fn new(rows: &[String], exceptions: &[Exception], named: &BTreeSet<String>) -> Self {
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for id in rows {
            *count.entry(id).or_default() += 1;
        }
        let kinds: BTreeSet<_> = count.keys().filter_map(|id| id.chars().next()).collect();
        let excepted: BTreeSet<&str> = exceptions.iter().map(|exception| exception.id.as_str()).collect();

        let mut untested: BTreeMap<Option<char>, Vec<String>> = BTreeMap::new();
        for &id in count.keys().filter(|id| !named.contains(**id) && !excepted.contains(**id)) {
            untested.entry(id.chars().next()).or_default().push(id.into());
        }
        let repeated = count.iter().filter(|(_, times)| **times > 1).map(|(id, _)| (*id).to_owned());
        let mut problems: Vec<Problem> = repeated.map(Problem::DuplicateRow).collect();
        if rows.is_empty() {
            problems.push(Problem::NoRow);
        }
        problems.extend(untested.into_values().map(Problem::NoTest));
        for Exception { id, reason } in exceptions {
            if !count.contains_key(id.as_str()) {
                problems.push(Problem::ExceptionWithoutRow(id.clone()));
            } else if named.contains(id) {
                problems.push(Problem::ExceptionOutlived(id.clone()));
            }
            if reason.is_empty() {
                problems.push(Problem::ExceptionWithoutReason(id.clone()));
            }
        }
        let stranger = |id: &&String| !count.contains_key(id.as_str()) && id.starts_with(|kind| kinds.contains(&kind));
        Self {
            rows: count.len(),
            tested: count.keys().filter(|id| named.contains(**id)).count(),
            excepted: count.keys().filter(|id| excepted.contains(**id)).count(),
            strangers: named.iter().filter(stranger).cloned().collect(),
            problems,
        }
    }

    fn json(&self) -> serde_json::Value {
        let ids = |problem: &Problem| if let Problem::NoTest(ids) = problem { ids.clone() } else { Vec::new() };
        let missing: Vec<String> = self.problems.iter().flat_map(ids).collect();
        json!({
            "rows": self.rows,
            "tested": self.tested,
            "excepted": self.excepted,
            "missing": missing,
            "named_after_no_row": self.strangers,
        })
    }

    fn print(&self) {
        println!("{} rows: {} with a test, {} excepted", self.rows, self.tested, self.excepted);
        if !self.strangers.is_empty() {
            println!("tests named after no row of {SEMANTICS}: {}", self.strangers.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rows: &[&str], exceptions: &str, named: &[&str]) -> Report {
        let rows: Vec<String> = rows.iter().copied().map(String::from).collect();
        Report::new(&rows, &exceptions::parse(exceptions), &named.iter().copied().map(String::from).collect())
    }

    #[test]
    fn a_row_needs_a_test_or_an_exception() {
        let rows = ["S-01", "S-02", "S-03", "S-04", "T-01"];
        let report = report(&rows, "S-02 a setting of the network only\n", &["S-01"]);
        let untested = [vec!["S-03".into(), "S-04".into()], vec!["T-01".into()]];
        assert_eq!(report.problems, untested.map(Problem::NoTest));
        assert_eq!((report.rows, report.tested, report.excepted), (5, 1, 1));
        assert_eq!(report.json()["missing"], json!(["S-03", "S-04", "T-01"]));
    }

    #[test]
    fn an_exception_must_be_needed_and_explained() {
        let report = report(&["S-01", "S-02"], "S-01 no longer true\nS-02\nS-09 gone\n", &["S-01"]);
        let expected = [
            Problem::ExceptionOutlived("S-01".into()),
            Problem::ExceptionWithoutReason("S-02".into()),
            Problem::ExceptionWithoutRow("S-09".into()),
        ];
        assert_eq!(report.problems, expected);
    }

    #[test]
    fn a_file_without_rows_is_a_problem() {
        assert_eq!(report(&[], "", &["S-01"]).problems, [Problem::NoRow]);
    }

    #[test]
    fn a_row_that_stands_twice_is_a_problem_and_counts_once() {
        let report = report(&["S-01", "S-01"], "", &["S-01"]);
        assert_eq!(report.problems, [Problem::DuplicateRow("S-01".into())]);
        assert_eq!(report.rows, 1);
    }

    #[test]
    fn a_test_after_an_unknown_row_is_told_but_is_no_problem() {
        let report = report(&["S-01"], "", &["S-01", "S-77", "I-34"]);
        assert_eq!(report.strangers, ["S-77"]);
        assert!(report.problems.is_empty());
    }
}
