//! The results of all rounds of a folder, which a run that was interrupted continues.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    check::{Counts, Kind},
    faults::Fault,
    pauses::percentile,
};

/// A fault that was injected, and how long work stood still.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Injected {
    pub(crate) fault: Fault,
    pub(crate) node: usize,
    pub(crate) pause_ms: u64,
}

/// A round that was checked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) number: u64,
    pub(crate) faults: Vec<Injected>,
    pub(crate) violations: BTreeMap<Kind, u64>,
    pub(crate) counts: Counts,
}

/// What the rounds of a folder have in common. It is the first line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The commit, as `cargo xtask clusters` names it.
    pub(crate) code: String,
    pub(crate) seed: u64,
}

/// All rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) rounds: Vec<Round>,
}

impl Report {
    const FILE: &'static str = "rounds.jsonl";

    /// Fails if the folder has rounds of another origin, which tell nothing about this one.
    pub(crate) fn open(folder: &Path, origin: &Origin) -> io::Result<Self> {
        let path = folder.join(Self::FILE);
        if !path.exists() {
            fs::write(path, format!("{}\n", serde_json::to_string(origin)?))?;
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&path)?;
        let (first, rounds) = text.split_once('\n').unwrap_or((&text, ""));
        if serde_json::from_str::<Origin>(first).ok().as_ref() != Some(origin) {
            let (path, now) = (path.display(), serde_json::to_string(origin)?);
            let other = format!(
                "{path} begins with {first}, and this run has {now}: repeat its seed and code, or name another folder"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, other));
        }
        let rounds = rounds.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok(Self { rounds })
    }

    pub(crate) fn add(&mut self, folder: &Path, round: Round) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(folder.join(Self::FILE))?;
        file.write_all(format!("{}\n", serde_json::to_string(&round)?).as_bytes())?;
        self.rounds.push(round);
        Ok(())
    }

    pub(crate) fn faults(&self) -> usize {
        self.rounds.iter().map(|round| round.faults.len()).sum()
    }

    pub(crate) fn violations(&self) -> BTreeMap<Kind, u64> {
        let mut all = BTreeMap::new();
        for (kind, times) in self.rounds.iter().flat_map(|round| &round.violations) {
            *all.entry(*kind).or_default() += times;
        }
        all
    }

    fn counts(&self) -> Counts {
        let mut all = Counts::new();
        for (name, times) in self.rounds.iter().flat_map(|round| &round.counts) {
            *all.entry(name.clone()).or_default() += times;
        }
        all
    }

    fn pauses(&self) -> BTreeMap<Fault, Vec<u64>> {
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for injected in self.rounds.iter().flat_map(|round| &round.faults) {
            all.entry(injected.fault).or_default().push(injected.pause_ms);
        }
        all
    }

    /// The results as a table in Markdown, with sentences around it.
    pub(crate) fn page(&self, transport: &str) -> String {
        let mut page = format!("{transport}: {} faults in {} rounds\n\n", self.faults(), self.rounds.len());
        page.push_str("| fault | times | pause p50, ms | p99, ms |\n|---|---|---|---|\n");
        for (fault, mut pauses) in self.pauses() {
            let (half, most) = (percentile(&mut pauses, 0.5), percentile(&mut pauses, 0.99));
            let _ = writeln!(page, "| {} | {} | {half} | {most} |", fault.name(), pauses.len());
        }
        page.push('\n');
        let counts: Vec<_> = self.counts().iter().map(|(name, times)| format!("{name} {times}")).collect();
        let _ = writeln!(page, "{}", counts.join(", "));
        let violations: Vec<_> = self.violations().iter().map(|(kind, times)| format!("{kind:?} {times}")).collect();
        let violations = if violations.is_empty() { "none".into() } else { violations.join(", ") };
        let _ = writeln!(page, "violations: {violations}");
        page
    }

    pub(crate) fn json(&self, transport: &str) -> Value {
        let pauses: BTreeMap<_, _> = self
            .pauses()
            .into_iter()
            .map(|(fault, mut pauses)| {
                let times = pauses.len();
                let (half, most) = (percentile(&mut pauses, 0.5), percentile(&mut pauses, 0.99));
                (fault.name(), json!({ "times": times, "pause_p50_ms": half, "pause_p99_ms": most }))
            })
            .collect();
        json!({
            "transport": transport, "faults": self.faults(), "by_fault": pauses, "counts": self.counts(),
            "violations": self.violations(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_an_earlier_run_count() {
        let folder = std::env::temp_dir().join(format!("consign-clusters-{:016x}", fastrand::u64(..)));
        fs::create_dir_all(&folder).unwrap();
        let injected = |pause_ms| Injected { fault: Fault::Kill, node: 1, pause_ms };
        let round = Round {
            number: 1,
            faults: vec![injected(300), injected(100)],
            violations: BTreeMap::from([(Kind::Lost, 2)]),
            counts: Counts::from([("calls".into(), 5)]),
        };
        let origin = Origin { code: "0123abc".into(), seed: 7 };
        Report::open(&folder, &origin).unwrap().add(&folder, round.clone()).unwrap();
        for other in [Origin { seed: 8, ..origin.clone() }, Origin { code: "0123abd".into(), seed: 7 }] {
            let error = Report::open(&folder, &other).unwrap_err().to_string();
            assert!(error.contains(r#"begins with {"code":"0123abc","seed":7}"#), "{error}");
        }
        let mut report = Report::open(&folder, &origin).unwrap();
        report.add(&folder, round).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(report.faults(), 4);
        let page = report.page("nats");
        assert!(page.contains("| kill | 4 | 100 | 300 |"), "{page}");
        assert!(page.contains("calls 10") && page.contains("violations: Lost 4"), "{page}");
        assert_eq!(report.json("nats")["violations"]["lost"], 4);
    }
}
