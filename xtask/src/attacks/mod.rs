//! `cargo xtask attacks`: the inputs of docs/attacks.toml, and the tests that send them.
//!
//! A test names its inputs by `/// Attacks: 7, 12.` in its doc comment. `docs/attacks.md` is the page that is made of both.

mod page;
pub(crate) mod problem;
mod run;

use std::collections::BTreeMap;

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use self::{problem::Problem, run::Passed};
use crate::error::Error;
use crate::options::Output;
use crate::source;
use crate::workspace::{read, write};

const LIST: &str = "docs/attacks.toml";
const PAGE: &str = "docs/attacks.md";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write docs/attacks.md again
    #[arg(long)]
    write: bool,
    /// Run the tests too, in the profiles dev and release (requires scripts/brokers)
    #[arg(long, conflicts_with = "write")]
    run: bool,
    #[command(flatten)]
    output: Output,
}

/// The file with the inputs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    group: Vec<Group>,
}

/// Inputs of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// Its heading in the page.
    title: String,
    attack: Vec<Attack>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    number: u32,
    input: String,
    /// The limit or the rule that applies.
    limit: String,
    /// What the sender or the receiver observes.
    answer: String,
    /// Why no test sends it.
    missing: Option<String>,
}

/// The tests of each attack, as `path/of/file.rs#name`.
type Tests = BTreeMap<u32, Vec<String>>;

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let list = read(LIST)?;
    let List { group: groups } = toml::from_str(&list).map_err(|source| Error::Toml { path: LIST, source })?;
    let (tests, malformed) = tests()?;
    let page = page::page(&groups, &tests);
    if options.write {
        write(PAGE, &page)?;
    }
    let mut problems = malformed;
    problems.extend(check(&groups, &tests));
    // A page that cannot be read is to be written, as an outdated one.
    if !read(PAGE).is_ok_and(|current| current == page) {
        problems.push(Problem::PageOutdated);
    }
    let all = || groups.iter().flat_map(|group| &group.attack);
    let missing: Vec<_> = all().filter(|attack| attack.missing.is_some()).map(|attack| attack.number).collect();
    let total = all().count();
    let passed = if options.run && problems.is_empty() { run::run(&tests)? } else { Vec::new() };
    if options.output.json {
        let passed = passed.iter().map(
            |Passed { profile, attacks, tests }| json!({ "profile": profile, "attacks": attacks, "tests": tests }),
        );
        let passed: Vec<_> = passed.collect();
        println!("{}", json!({ "attacks": total, "missing": missing, "problems": problems.len(), "passed": passed }));
    } else {
        println!("{total} attacks: {} with a test, {} without", total - missing.len(), missing.len());
        for attack in all() {
            if let Some(reason) = &attack.missing {
                println!("  {}: {reason}", attack.number);
            }
        }
        for Passed { profile, attacks, tests } in &passed {
            println!("{profile}: {attacks} attacks, {tests} tests passed");
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::Attacks(problems)) }
}

/// The tests of all files, and the lines that are meant to name attacks and do not.
fn tests() -> Result<(Tests, Vec<Problem>), Error> {
    let (mut tests, mut malformed) = (Tests::new(), Vec::new());
    for (file, source) in source::all()? {
        for (attack, test) in source.attacks {
            tests.entry(attack).or_default().push(format!("{file}#{test}"));
        }
        malformed.extend(source.malformed_attacks.into_iter().map(|line| Problem::Malformed(file.clone(), line)));
    }
    Ok((tests, malformed))
}

fn check(groups: &[Group], tests: &Tests) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut last = 0;
    for attack in groups.iter().flat_map(|group| &group.attack) {
        last += 1;
        if attack.number != last {
            problems.push(Problem::OutOfOrder(attack.number, last));
        }
        match (tests.contains_key(&attack.number), &attack.missing) {
            (false, None) => problems.push(Problem::NoTest(attack.number, attack.input.clone())),
            (true, Some(_)) => problems.push(Problem::TestedAndMissing(attack.number)),
            _ => {}
        }
    }
    if last == 0 {
        problems.push(Problem::NoAttack);
    }
    for (number, tests) in tests.iter().filter(|(number, _)| !(1..=last).contains(number)) {
        problems.extend(tests.iter().map(|test| Problem::NotAnAttack(*number, test.clone())));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "[[group]]\ntitle = 'Nesting'\n[[group.attack]]\nnumber = 1\ninput = 'a | b'\nlimit = '64 levels'\nanswer = '`Depth`'\n[[group.attack]]\nnumber = 2\ninput = 'c'\nlimit = 'none'\nanswer = 'd'\nmissing = 'why'\n";

    fn groups(text: &str) -> Vec<Group> {
        toml::from_str::<List>(text).unwrap().group
    }

    fn named(tests: &[(u32, &str)]) -> Tests {
        let mut all = Tests::new();
        for (number, test) in tests {
            all.entry(*number).or_default().push((*test).to_owned());
        }
        all
    }

    #[test]
    fn each_attack_has_a_test_or_a_reason() {
        assert_eq!(check(&groups(LIST), &named(&[(1, "a.rs#b")])), []);
        assert_eq!(check(&groups(LIST), &named(&[])), [Problem::NoTest(1, "a | b".into())]);
        let tests = named(&[(1, "a.rs#b"), (2, "a.rs#c"), (3, "a.rs#d")]);
        let expected = [Problem::TestedAndMissing(2), Problem::NotAnAttack(3, "a.rs#d".into())];
        assert_eq!(check(&groups(LIST), &tests), expected);
        assert_eq!(check(&[], &named(&[])), [Problem::NoAttack]);
    }

    #[test]
    fn numbers_begin_at_1_and_have_no_gap() {
        let groups = groups(&LIST.replace("number = 2", "number = 3"));
        assert_eq!(check(&groups, &named(&[(1, "a.rs#b")])), [Problem::OutOfOrder(3, 2)]);
    }

    #[test]
    fn the_page_has_a_row_for_each_attack() {
        let page = page::page(&groups(LIST), &named(&[(1, "a/b.rs#c"), (1, "d.rs#e")]));
        let rows = "\n## Nesting\n\n| # | input | limit | answer | tests |\n|---|---|---|---|---|\n| 1 | a \\| b | 64 levels | `Depth` | [`c`](../a/b.rs), [`e`](../d.rs) |\n| 2 | c | none | d | none: why |\n";
        assert!(page.ends_with(rows), "{page}");
    }
}
