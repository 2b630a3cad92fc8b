//! What the last full run measured, and with what: `docs/benchmarks/results.json`, from which the page is written.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::callgrind;
use super::figure::{Figure, Part};
use crate::error::Error;
use crate::workspace::{output, read, root, write};

const FILE: &str = "docs/benchmarks/results.json";

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) toolchain: String,
    pub(crate) valgrind: String,
    pub(crate) machine: String,
    /// The oldest commit of the figures of each part.
    #[serde(default)]
    pub(crate) commits: BTreeMap<Part, String>,
    pub(crate) figures: Vec<Figure>,
}

impl Results {
    /// What the last full run left.
    pub(crate) fn read() -> Result<Self, Error> {
        serde_json::from_str(&read(FILE)?).map_err(Error::Results)
    }

    /// These results, and in the place of each figure that was measured again the new one.
    pub(crate) fn with(self, measured: Vec<Figure>) -> Result<Self, Error> {
        let commit = commit()?;
        let measured = measured.into_iter().map(|figure| Figure { commit: commit.clone(), ..figure }).collect();
        let figures = merged(self.figures, measured);
        let commits = oldest(&figures, &self.commits, commits_since);
        Ok(Self { toolchain: toolchain()?, valgrind: callgrind::present()?, machine: machine(), commits, figures })
    }

    pub(crate) fn write(&self) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).map_err(Error::Results)?;
        write(FILE, &(text + "\n"))
    }

    pub(crate) fn part(&self, part: Part) -> Vec<Figure> {
        self.figures.iter().filter(|figure| figure.part == part).cloned().collect()
    }
}

/// `rustc 1.95.0`.
pub(crate) fn toolchain() -> Result<String, Error> {
    let version = output(Command::new("rustc").arg("--version"))?;
    Ok(version.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

/// The commit, and whether files differ from it.
fn commit() -> Result<String, Error> {
    let id = output(Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=9", "--exclude=*"]))?;
    Ok(id.trim().to_owned())
}

/// How many commits came after this one. A clone without the history does not know.
fn commits_since(commit: &str) -> Option<u64> {
    let range = format!("{}..HEAD", commit.trim_end_matches("-dirty"));
    let mut count = Command::new("git");
    count.args(["rev-list", "--count", &range]).current_dir(root()).stderr(Stdio::null());
    output(&mut count).ok()?.trim().parse().ok()
}

/// The oldest commit of each part. One whose age is not known counts as older than the others.
fn oldest(
    figures: &[Figure],
    before: &BTreeMap<Part, String>,
    age: impl Fn(&str) -> Option<u64>,
) -> BTreeMap<Part, String> {
    let mut commits: BTreeMap<Part, BTreeSet<&str>> = BTreeMap::new();
    for figure in figures {
        let commit = if figure.commit.is_empty() { before.get(&figure.part) } else { Some(&figure.commit) };
        commits.entry(figure.part).or_default().extend(commit.map(String::as_str));
    }
    let oldest = commits.into_iter().filter_map(|(part, commits)| {
        let oldest = commits.into_iter().max_by_key(|commit| age(commit).unwrap_or(u64::MAX))?;
        Some((part, oldest.to_owned()))
    });
    oldest.collect()
}

/// The properties of this machine that a reader of the page needs.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{cores} virtual cores, {}, {}", std::env::consts::ARCH, std::env::consts::OS)
}

/// The figures of before, and in the place of each that was measured again the new one. New ones come last in their part.
fn merged(mut before: Vec<Figure>, now: Vec<Figure>) -> Vec<Figure> {
    for figure in now {
        match before.iter_mut().find(|old| old.name == figure.name) {
            Some(old) => *old = figure,
            None => before.push(figure),
        }
    }
    before.sort_by_key(|figure| figure.part);
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::scenarios::SCENARIOS;

    #[test]
    fn each_scenario_has_its_figures_and_nothing_else_has_one() {
        let results = Results::read().unwrap();
        for (part, suffix) in [(Part::Counted, ""), (Part::Allocations, "/allocations")] {
            let mut names: Vec<_> = results.part(part).into_iter().map(|figure| figure.name).collect();
            let mut expected: Vec<_> = SCENARIOS.iter().map(|scenario| format!("{}{suffix}", scenario.name)).collect();
            names.sort_unstable();
            expected.sort_unstable();
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn a_part_is_as_old_as_its_oldest_figure() {
        let figure = |part, commit: &str| Figure { commit: commit.into(), ..Figure::new(part, "a", "", 1.0) };
        let age =
            |commit: &str| [("new", 0), ("old", 7)].into_iter().find(|(name, _)| *name == commit).map(|(_, age)| age);
        let before = BTreeMap::from([(Part::Wall, "old".to_owned())]);
        let figures = [
            figure(Part::Counted, "old"),
            figure(Part::Counted, "new"),
            figure(Part::Growth, "new"),
            figure(Part::Wall, ""),
            figure(Part::Wall, "new"),
            figure(Part::Rest, "old"),
            figure(Part::Rest, "unknown"),
        ];
        let expected = [(Part::Counted, "old"), (Part::Growth, "new"), (Part::Wall, "old"), (Part::Rest, "unknown")];
        assert_eq!(oldest(&figures, &before, age), expected.map(|(part, commit)| (part, commit.to_owned())).into());
    }

    #[test]
    fn the_stored_commit_of_a_part_is_one_of_its_figures() {
        let results = Results::read().unwrap();
        for figure in &results.figures {
            assert!(!figure.commit.is_empty(), "{}", figure.name);
        }
        for (part, commit) in &results.commits {
            assert!(results.part(*part).iter().any(|figure| figure.commit == *commit), "{part:?}");
        }
    }

    #[test]
    fn a_new_figure_takes_the_place_of_the_old() {
        let figure = |part, name: &str, ours| Figure::new(part, name, "", ours);
        let before = vec![figure(Part::Counted, "json", 1.0), figure(Part::Counted, "bytes", 2.0)];
        let before = merged(before, vec![figure(Part::Wall, "a", 3.0), figure(Part::Counted, "router", 4.0)]);
        let now = merged(before, vec![figure(Part::Counted, "json", 5.0)]);
        let now: Vec<_> = now.iter().map(|figure| (&*figure.name, figure.ours)).collect();
        assert_eq!(now, [("json", 5.0), ("bytes", 2.0), ("router", 4.0), ("a", 3.0)]);
    }
}
