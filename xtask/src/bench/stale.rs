//! `cargo xtask bench --check`: which parts of the page are older than the last change of what they measure.

use std::process::Command;

use serde_json::{Value, json};

use super::figure::Part;
use super::results::Results;
use super::sections::SECTIONS;
use super::table;
use crate::error::Error;
use crate::options::Output;
use crate::workspace::{output, root};

/// One part of the page, and how many commits have changed since what it measures.
struct Age {
    title: &'static str,
    /// The commit at which it was measured.
    commit: String,
    /// Nothing if the commit is not known here.
    changes: Option<u64>,
}

impl Age {
    fn mark(&self) -> &'static str {
        match self.changes {
            Some(0) => "",
            Some(_) => "stale",
            None => "unknown",
        }
    }

    fn row(&self) -> Vec<String> {
        let changes = self.changes.map(|changes| changes.to_string()).unwrap_or_default();
        vec![self.title.to_owned(), self.commit.clone(), changes, self.mark().to_owned()]
    }

    fn json(&self) -> Value {
        json!({ "part": self.title, "commit": self.commit, "changes": self.changes, "mark": self.mark() })
    }
}

/// The folders whose code a part measures.
fn sources(part: Part) -> &'static [&'static str] {
    match part {
        Part::Counted | Part::Allocations | Part::Release | Part::Layers | Part::Row | Part::Wall | Part::Times => {
            &["core/src", "codecs/src", "rules/src", "broker/src", "src", "telemetry/opentelemetry/src"]
        }
        Part::Codecs => &["codecs/src"],
        Part::Amqp => &["amqp/src"],
        Part::Growth | Part::Brokers => &["core/src", "rules/src", "broker/src"],
        Part::Transports | Part::Costs | Part::Kinds | Part::Depth | Part::Rest => {
            &["core/src", "rules/src", "transports"]
        }
    }
}

/// Prints the age of each part. It fails for none: to measure again is a commit of its own.
pub(crate) fn run(out: &Output) -> Result<(), Error> {
    let results = Results::read()?;
    let measured = SECTIONS.iter().filter(|section| !results.part(section.part).is_empty());
    let ages: Vec<Age> = measured
        .map(|section| {
            let commit = results.commits.get(&section.part).cloned().unwrap_or_default();
            let changes = changes_since(commit.trim_end_matches("-dirty"), sources(section.part));
            Age { title: section.title, commit, changes }
        })
        .collect();
    if out.json {
        println!("{}", json!({ "parts": ages.iter().map(Age::json).collect::<Vec<_>>() }));
    } else {
        println!("{}", table::text(&rows(&ages)));
        println!("stale: what it measures has changed since; changes: in so many commits");
    }
    Ok(())
}

fn rows(ages: &[Age]) -> table::Rows {
    let head = ["part", "measured at", "changes", ""].map(String::from).to_vec();
    std::iter::once(head).chain(ages.iter().map(Age::row)).collect()
}

/// How many commits after this one have changed these folders. A clone without the history does not know.
fn changes_since(commit: &str, folders: &[&str]) -> Option<u64> {
    if commit.is_empty() {
        return None;
    }
    let mut count = Command::new("git");
    count.args(["rev-list", "--count", "--no-merges", &format!("{commit}..HEAD"), "--"]).args(folders);
    output(count.current_dir(root())).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_stale_after_a_change_of_its_sources() {
        let age = |changes| Age { title: "Growth", commit: "0123abc".into(), changes };
        let rows = rows(&[age(Some(0)), age(Some(7)), age(None)]);
        assert_eq!(rows[1], ["Growth", "0123abc", "0", ""]);
        assert_eq!(rows[2], ["Growth", "0123abc", "7", "stale"]);
        assert_eq!(rows[3], ["Growth", "0123abc", "", "unknown"]);
    }

    #[test]
    fn every_part_of_the_page_has_its_commit_and_its_folders() {
        let results = Results::read().unwrap();
        for section in SECTIONS.iter().filter(|section| !results.part(section.part).is_empty()) {
            assert!(results.commits.contains_key(&section.part), "{}", section.title);
            for folder in sources(section.part) {
                assert!(root().join(folder).is_dir(), "{folder}");
            }
        }
    }

    #[test]
    fn a_commit_that_is_not_here_has_no_count() {
        assert_eq!(changes_since("", &["src"]), None);
        assert_eq!(changes_since("0000000000000000000000000000000000000000", &["src"]), None);
    }
}
