//! The page docs/guarantees.md.

use std::fmt::Write as _;

use super::{Guarantee, TRANSPORTS, cases::Cases, transports::Levels};
use crate::markdown::{link, list};

const INTRODUCTION: &str = "\
# Guarantees

Each row is a promise of the [README](../README.md#guarantees). A cell has the number of tests that show it on that transport, or
*no*, with the reason in the section of the promise. `cargo xtask guarantees --write` makes this page of `docs/guarantees.toml`,
and CI fails if a sentence of the README has no row, if a cell has neither a test nor a reason, or if a test does not exist.

A *case* is a case of the conformance suite, `transports/conformance/src/cases`, which runs on each transport that has the
capabilities of the case: [Conformance](conformance.md). *embedded* is the embedded broker in memory, *durable* the same on a disk,
*amqp10* an AMQP 1.0 broker of Qpid Proton, and *servicebus* `consign-server`; the hosted service was not used.
";

/// Returns the page.
pub(super) fn page(guarantees: &[Guarantee], cases: &Cases, levels: &Levels) -> String {
    let mut page = INTRODUCTION.to_owned();
    let _ = write!(page, "\n| guarantee | {} |\n|---|", TRANSPORTS.join(" | "));
    page.push_str(&"---|".repeat(TRANSPORTS.len()));
    page.push('\n');
    for guarantee in guarantees {
        let _ = write!(page, "| [{}](#{})", guarantee.title, anchor(&guarantee.title));
        for transport in TRANSPORTS {
            let cell = guarantee.cell(transport, cases, levels);
            let tests = cell.cases.len() + cell.tests.len();
            let _ = match cell.no {
                Some(_) => write!(page, " | no"),
                None if cell.limit.is_some() => write!(page, " | {tests}, limited"),
                None => write!(page, " | {tests}"),
            };
        }
        page.push_str(" |\n");
    }
    for guarantee in guarantees {
        section(&mut page, guarantee, cases, levels);
    }
    page
}

fn section(page: &mut String, guarantee: &Guarantee, cases: &Cases, levels: &Levels) {
    let _ = writeln!(page, "\n## {}\n\n> {}\n", guarantee.title, guarantee.promise);
    let everywhere = |case: &&String| {
        let has = |transport| guarantee.cell(transport, cases, levels).cases.contains(&case.as_str());
        TRANSPORTS.into_iter().filter(|transport| !guarantee.no.contains_key(*transport)).all(has)
    };
    let (all, some): (Vec<_>, Vec<_>) = guarantee.cases.iter().partition(everywhere);
    if !all.is_empty() {
        let _ = writeln!(page, "- on each transport, the cases {}", list(all.iter().map(|case| format!("`{case}`"))));
    }
    for transport in TRANSPORTS {
        let cell = guarantee.cell(transport, cases, levels);
        if let Some(reason) = cell.no {
            let _ = writeln!(page, "- *{transport}*: no, {reason}");
            continue;
        }
        let of_cases =
            some.iter().filter(|case| cell.cases.contains(&case.as_str())).map(|case| format!("the case `{case}`"));
        let named: Vec<_> = of_cases.chain(cell.tests.iter().map(|test| link(test))).collect();
        if named.is_empty() && cell.limit.is_none() {
            continue;
        }
        let limit = cell.limit.map(|limit| if named.is_empty() { limit.to_owned() } else { format!("; {limit}") });
        let _ = writeln!(page, "- *{transport}*: {}{}", list(named), limit.unwrap_or_default());
    }
}

/// The number of cells with tests, or without.
pub(super) fn count(guarantees: &[Guarantee], cases: &Cases, levels: &Levels, with_tests: bool) -> usize {
    let cells = guarantees
        .iter()
        .flat_map(|guarantee| TRANSPORTS.map(|transport| guarantee.cell(transport, cases, levels).no.is_none()));
    cells.filter(|has| *has == with_tests).count()
}

/// The anchor of a heading.
fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_row_and_a_section_for_each_guarantee() {
        let text = "title = 'Stored sends'\npromise = 'A send is stored.'\ncases = ['stored']\n[tests]\ndurable = ['a/b.rs#c']\n[limits]\nservicebus = 'only once'\n[no]\nnats = 'it has none'";
        let guarantee: Guarantee = toml::from_str(text).unwrap();
        let table = "| id | capability | embedded | durable | postgres | rabbitmq | amqp10 | servicebus |\n|---|---|---|---|---|---|---|---|\n| K-01 | a | native 1/1 | native 1/1 | native 1/1 | native 1/1 | native 1/1 | native 1/1 |\n";
        let page = page(&[guarantee], &Cases::of([("stored", vec!["K-01"])]), &Levels::read(table));
        assert!(page.contains("| [Stored sends](#stored-sends) | 1 | 2 | 1 | 1 | no | 1 | 1, limited |\n"), "{page}");
        let section = "## Stored sends\n\n> A send is stored.\n\n- on each transport, the cases `stored`\n- *durable*: [`c`](../a/b.rs)\n- *nats*: no, it has none\n- *servicebus*: only once\n";
        assert!(page.ends_with(section), "{page}");
    }
}
