use std::fmt;

use consign::transport::{Capabilities, Capability, Level};
use serde_json::{Value, json};

use crate::{Backend, Case, Failure};

/// How one case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The transport does what the case asks for.
    Passed,
    /// It does not, although it declares that it can.
    Failed(Failure),
    /// It declares that it cannot, and says so when it is asked.
    Refused,
    /// It declares that it cannot, and when it was asked it did not say so.
    SilentlyIgnored(Failure),
    /// It declares that it cannot, and it can.
    Undeclared,
    /// The case uses another capability, and the transport does not have that.
    PassedOver(Capability),
    /// The case is about a detail that no capability promises, and the broker does not have it.
    NoSuchDetail,
}

impl Outcome {
    /// Whether the transport keeps its word.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Passed | Self::Refused | Self::PassedOver(_) | Self::NoSuchDetail)
    }

    /// Whether the case says something of the transport.
    #[must_use]
    pub fn counts(&self) -> bool {
        !matches!(self, Self::PassedOver(_) | Self::NoSuchDetail)
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::Refused => "refused",
            Self::SilentlyIgnored(_) => "silently ignored",
            Self::Undeclared => "undeclared",
            Self::PassedOver(_) => "passed over",
            Self::NoSuchDetail => "no such detail",
        }
    }

    fn why(&self) -> Option<String> {
        match self {
            Self::Failed(failure) | Self::SilentlyIgnored(failure) => Some(failure.to_string()),
            Self::PassedOver(missing) => Some(format!("it needs {missing}")),
            Self::Undeclared => Some("it works, and is declared as unsupported".into()),
            Self::Passed | Self::Refused | Self::NoSuchDetail => None,
        }
    }
}

/// One case and how it ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaseReport {
    /// The case's name.
    pub name: &'static str,
    /// The rows of `docs/semantics.md` that it restates.
    pub rows: Vec<String>,
    /// What it is about.
    pub capability: Capability,
    /// What the transport declares of that.
    pub level: Level,
    /// How it ended.
    pub outcome: Outcome,
}

impl CaseReport {
    pub(crate) fn new<B: Backend>(case: &Case<B>, level: Level, outcome: Outcome) -> Self {
        Self { name: case.name(), rows: case.rows(), capability: case.capability(), level, outcome }
    }
}

/// What a run found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The transport's name.
    pub transport: &'static str,
    /// What it publishes.
    pub capabilities: Capabilities,
    /// What the order came from, if it was random.
    pub seed: Option<u64>,
    /// Every case, by capability and name.
    pub cases: Vec<CaseReport>,
}

/// How many cases of one capability there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases in which the transport keeps its word.
    pub good: usize,
    /// Cases that say something of the transport.
    pub all: usize,
}

impl Report {
    /// Whether the transport keeps its word in every case.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.cases.iter().all(|case| case.outcome.is_good())
    }

    /// The cases in which it does not.
    pub fn failed(&self) -> impl Iterator<Item = &CaseReport> {
        self.cases.iter().filter(|case| !case.outcome.is_good())
    }

    /// The tally of one capability, or of all.
    #[must_use]
    pub fn tally(&self, capability: Option<Capability>) -> Tally {
        let counted = self
            .cases
            .iter()
            .filter(|case| case.outcome.counts() && capability.is_none_or(|capability| case.capability == capability));
        counted.fold(Tally::default(), |tally, case| Tally {
            good: tally.good + usize::from(case.outcome.is_good()),
            all: tally.all + 1,
        })
    }

    /// The report as a JSON object.
    #[must_use]
    pub fn json(&self) -> Value {
        let cases = self.cases.iter().map(|case| {
            json!({
                "name": case.name,
                "rows": case.rows,
                "capability": case.capability.id(),
                "level": case.level.as_str(),
                "outcome": case.outcome.word(),
                "why": case.outcome.why(),
            })
        });
        let tally = self.tally(None);
        json!({
            "transport": self.transport,
            "seed": self.seed,
            "passed": tally.good,
            "failed": self.failed().count(),
            "passed_over": self.cases.len() - tally.all,
            "cases": cases.collect::<Vec<_>>(),
        })
    }
}

/// One line, and one more for each case that failed.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { good, all } = self.tally(None);
        write!(f, "{}: {good} of {all} cases, {} passed over", self.transport, self.cases.len() - all)?;
        if let Some(seed) = self.seed {
            write!(f, ", in the order of seed {seed}")?;
        }
        self.failed().try_for_each(|case| {
            let why = case.outcome.why().unwrap_or_default();
            write!(f, "\n{} {}: {}: {why}", case.capability.id(), case.name, case.outcome.word())
        })
    }
}
