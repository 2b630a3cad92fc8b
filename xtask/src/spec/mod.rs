//! `cargo xtask spec`: every rule of `docs/semantics.md` has a test that names it, or a reviewed reason why not.

mod exceptions;
mod problem;
mod semantics;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::error::Error;
use crate::options::Output;
use crate::source::{self, Source};
use crate::workspace::read;
use exceptions::Exception;
pub(crate) use problem::Problem;
pub(crate) use semantics::is_id;
use semantics::{Page, family, number};

const SEMANTICS: &str = "docs/semantics.md";
const EXCEPTIONS: &str = "docs/spec-exceptions.txt";

pub(crate) fn run(output: &Output) -> Result<(), Error> {
    let page = Page::read(&read(SEMANTICS)?);
    let exceptions = exceptions::parse(&read(EXCEPTIONS)?);
    let mut tests = Tests::default();
    for (file, source) in source::all()? {
        tests.add(&file, source);
    }
    let report = Report::new(&page, &exceptions, tests);
    if output.json {
        println!("{}", report.json());
    } else {
        report.print();
    }
    if report.problems.is_empty() { Ok(()) } else { Err(Error::Spec(report.problems)) }
}

/// What all files name.
#[derive(Default)]
struct Tests {
    /// How many tests name an id.
    tested: BTreeMap<String, usize>,
    /// The ids of tests, and of items that tests use.
    named: BTreeSet<String>,
    problems: Vec<Problem>,
}

impl Tests {
    fn add(&mut self, file: &str, source: Source) {
        for id in source.tested {
            *self.tested.entry(id).or_default() += 1;
        }
        self.named.extend(source.named);
        let malformed = source.malformed.into_iter().map(|line| Problem::Malformed { file: file.into(), line });
        let misnamed = source.misnamed.into_iter().map(|test| Problem::IdInName { file: file.into(), test });
        self.problems.extend(malformed.chain(misnamed));
    }
}

/// What one run found.
struct Report {
    rules: usize,
    /// How many tests each rule has.
    tested: BTreeMap<String, usize>,
    excepted: usize,
    /// Ids that tests name, that are not rules, and that the exceptions list.
    others: Vec<String>,
    problems: Vec<Problem>,
}

impl Report {
    fn new(page: &Page, exceptions: &[Exception], tests: Tests) -> Self {
        let rules: BTreeSet<&str> = page.rules.iter().map(|rule| rule.id.as_str()).collect();
        let with_rules: BTreeSet<&str> = rules.iter().map(|id| family(id)).collect();
        let excepted: BTreeSet<&str> = exceptions.iter().map(|exception| exception.id.as_str()).collect();
        // A family without a section has no rule to compare with.
        let others: BTreeSet<&str> = tests.named.iter().map(String::as_str).filter(|id| !rules.contains(id)).collect();
        let (others, unlisted): (BTreeSet<&str>, BTreeSet<&str>) =
            others.into_iter().filter(|id| with_rules.contains(&family(id))).partition(|id| excepted.contains(id));

        let mut problems = order(page);
        problems.extend(families(page, &rules, &tests.named));
        let mut untested: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for &id in rules.iter().filter(|&&id| !tests.tested.contains_key(id) && !excepted.contains(id)) {
            untested.entry(family(id)).or_default().push(id.into());
        }
        problems.extend(untested.into_values().map(Problem::NoTest));
        problems.extend(unlisted.into_iter().map(|id| Problem::NotARule(id.into())));
        for Exception { id, reason } in exceptions {
            if !rules.contains(id.as_str()) && !others.contains(id.as_str()) {
                problems.push(Problem::ExceptionWithoutRule(id.clone()));
            } else if rules.contains(id.as_str()) && tests.tested.contains_key(id) {
                problems.push(Problem::ExceptionOutlived(id.clone()));
            }
            if reason.is_empty() {
                problems.push(Problem::ExceptionWithoutReason(id.clone()));
            }
        }
        problems.extend(tests.problems);
        Self {
            rules: rules.len(),
            excepted: rules.intersection(&excepted).count(),
            others: others.into_iter().map(String::from).collect(),
            tested: tests.tested.into_iter().filter(|(id, _)| rules.contains(id.as_str())).collect(),
            problems,
        }
    }

    fn json(&self) -> serde_json::Value {
        let ids = |problem: &Problem| if let Problem::NoTest(ids) = problem { ids.clone() } else { Vec::new() };
        let missing: Vec<String> = self.problems.iter().flat_map(ids).collect();
        json!({
            "rules": self.rules,
            "tested": self.tested.len(),
            "excepted": self.excepted,
            "missing": missing,
            "other_ids": self.others,
            "tests": self.tested,
        })
    }

    fn print(&self) {
        println!("{} rules: {} with a test, {} excepted", self.rules, self.tested.len(), self.excepted);
        if !self.others.is_empty() {
            println!("ids of tests that are not rules: {}", self.others.join(", "));
        }
    }
}

/// The page without rules, with one twice, or with one in another place than the legend and the ids give it.
fn order(page: &Page) -> Vec<Problem> {
    let mut problems = Vec::new();
    if page.rules.is_empty() {
        problems.push(Problem::NoRule);
    }
    let mut seen = BTreeSet::new();
    for rule in &page.rules {
        if !seen.insert(&rule.id) {
            problems.push(Problem::DuplicateRule(rule.id.clone()));
        }
    }
    let place = |id: &str| page.families.iter().position(|listed| listed == family(id));
    for pair in page.rules.windows(2) {
        let [before, rule] = pair else { continue };
        if place(&before.id).zip(place(&rule.id)).is_some_and(|(before, place)| place < before) {
            problems.push(Problem::FamilyOutOfOrder(rule.id.clone()));
        } else if family(&rule.id) == family(&before.id)
            && rule.table == before.table
            && number(&rule.id) < number(&before.id)
        {
            problems.push(Problem::RuleOutOfOrder(rule.id.clone()));
        }
    }
    problems
}

/// Families that the legend lists twice, and those that it does not list.
fn families(page: &Page, rules: &BTreeSet<&str>, named: &BTreeSet<String>) -> Vec<Problem> {
    let mut legend = BTreeSet::new();
    let repeated = page.families.iter().filter(|family| !legend.insert(family.as_str())).cloned();
    let mut problems: Vec<Problem> = repeated.map(Problem::DuplicateFamily).collect();
    let mut outside: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for id in rules.iter().copied().chain(named.iter().map(String::as_str)) {
        if !legend.contains(&family(id)) {
            outside.entry(family(id)).or_default().insert(id);
        }
    }
    let ids = |ids: BTreeSet<&str>| ids.into_iter().map(String::from).collect();
    problems.extend(outside.into_iter().map(|(family, outside)| Problem::NoFamily(family.into(), ids(outside))));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with these families in its legend and these rules, one table a section; `/` begins a table.
    fn page(families: &str, rules: &[&str]) -> Page {
        let legend = families.chars().map(|letter| format!("| {letter} | x |"));
        let rows = rules.iter().map(|&id| if id == "/" { String::new() } else { format!("| {id} | x |") });
        Page::read(&legend.chain([String::new()]).chain(rows).collect::<Vec<_>>().join("\n"))
    }

    fn report(page: &Page, exceptions: &str, named: &[&str]) -> Report {
        let mut tests = Tests::default();
        let ids: Vec<String> = named.iter().copied().map(String::from).collect();
        tests.add("a.rs", Source { tested: ids.clone(), named: ids, ..Source::default() });
        Report::new(page, &exceptions::parse(exceptions), tests)
    }

    #[test]
    fn a_rule_needs_a_test_or_an_exception() {
        let page = page("ST", &["S-01", "S-02", "S-03", "S-04", "T-01"]);
        let report = report(&page, "S-02 a setting of the network only\n", &["S-01", "S-01"]);
        let untested = [vec!["S-03".into(), "S-04".into()], vec!["T-01".into()]];
        assert_eq!(report.problems, untested.map(Problem::NoTest));
        assert_eq!((report.rules, report.tested.len(), report.excepted), (5, 1, 1));
        assert_eq!(report.json()["missing"], json!(["S-03", "S-04", "T-01"]));
        assert_eq!(report.json()["tests"], json!({ "S-01": 2 }));
    }

    #[test]
    fn a_helper_is_not_a_test() {
        let mut tests = Tests::default();
        tests.add("a.rs", Source { named: vec!["S-01".into()], ..Source::default() });
        let report = Report::new(&page("S", &["S-01"]), &[], tests);
        assert_eq!(report.problems, [Problem::NoTest(vec!["S-01".into()])]);
    }

    #[test]
    fn an_exception_must_be_needed_and_explained() {
        let page = page("S", &["S-01", "S-02"]);
        let report = report(&page, "S-01 no longer true\nS-02\nS-09 gone\n", &["S-01"]);
        let expected = [
            Problem::ExceptionOutlived("S-01".into()),
            Problem::ExceptionWithoutReason("S-02".into()),
            Problem::ExceptionWithoutRule("S-09".into()),
        ];
        assert_eq!(report.problems, expected);
    }

    #[test]
    fn a_page_without_rules_is_a_problem() {
        assert_eq!(report(&page("S", &[]), "", &[]).problems, [Problem::NoRule]);
    }

    #[test]
    fn a_duplicate_rule_is_a_problem_and_counts_once() {
        let report = report(&page("S", &["S-01", "/", "S-01"]), "", &["S-01"]);
        assert_eq!(report.problems, [Problem::DuplicateRule("S-01".into())]);
        assert_eq!(report.rules, 1);
    }

    #[test]
    fn an_id_that_is_not_a_rule_is_a_problem_unless_it_is_excepted() {
        let page = page("SI", &["S-01"]);
        let named = ["S-01", "S-77", "S-78", "I-34"];
        let report = report(&page, "S-77 of another page\n", &named);
        assert_eq!(report.problems, [Problem::NotARule("S-78".into())]);
        assert_eq!(report.others, ["S-77"]);
    }

    #[test]
    fn the_legend_lists_every_family_once() {
        let report = report(&page("SS", &["S-01", "T-01"]), "", &["S-01", "T-01", "I-34"]);
        let expected = [
            Problem::DuplicateFamily("S".into()),
            Problem::NoFamily("I".into(), vec!["I-34".into()]),
            Problem::NoFamily("T".into(), vec!["T-01".into()]),
        ];
        assert_eq!(report.problems, expected);
    }

    #[test]
    fn rules_are_in_the_order_of_the_legend() {
        let named = ["S-01", "S-02", "T-01"];
        let report = report(&page("ST", &["S-01", "/", "T-01", "/", "S-02"]), "", &named);
        assert_eq!(report.problems, [Problem::FamilyOutOfOrder("S-02".into())]);
    }

    #[test]
    fn ids_ascend_in_a_table() {
        let ids = ["S-20", "S-100", "S-30", "/", "S-01"];
        let report = report(&page("S", &ids), "", &["S-01", "S-20", "S-30", "S-100"]);
        assert_eq!(report.problems, [Problem::RuleOutOfOrder("S-30".into())]);
    }

    #[test]
    fn a_name_that_begins_with_an_id_and_a_malformed_line_are_problems() {
        let mut tests = Tests::default();
        let source = "/// Rules: S-1.\n#[test]\nfn s_01_x() { a() }\n/// Rules: S-01.\n#[test]\nfn y() { a() }";
        tests.add("a.rs", Source::read(source));
        let report = Report::new(&page("S", &["S-01"]), &[], tests);
        let expected = [
            Problem::Malformed { file: "a.rs".into(), line: 1 },
            Problem::IdInName { file: "a.rs".into(), test: "s_01_x".into() },
        ];
        assert_eq!(report.problems, expected);
    }
}
