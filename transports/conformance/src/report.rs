use std::fmt;

use consign::transport::{Capabilities, Capability, Level};
use serde_json::{Value, json};

use crate::{Case, Failure};

/// The outcome of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The transport does what the case requires.
    Passed,
    /// It does not, although it declares the capability.
    Failed(Failure),
    /// It declares the capability as unsupported, and its own answer to the call is a refusal that names the capability.
    Refused,
    /// It declares the capability as unsupported, and the call was not refused, or not as that.
    SilentlyIgnored(Failure),
    /// It declares the capability as unsupported, and supports it.
    Undeclared,
    /// It does not promise this, and does not do it.
    Absent(Failure),
    /// It does not promise this, and did it here all the same.
    Unpromised,
    /// The case uses another capability, and the transport does not have that.
    PassedOver(Capability),
    /// The backend leaves out what the case needs, so nothing was called.
    NoCall(Failure),
    /// The case is about a detail that no capability promises, and the broker does not have it.
    NoSuchDetail(Failure),
}

impl Outcome {
    /// Returns whether the transport behaves as declared.
    #[must_use]
    pub fn is_good(&self) -> bool {
        !matches!(self, Self::Failed(_) | Self::SilentlyIgnored(_) | Self::Undeclared)
    }

    /// Returns whether the case was run, so that its result counts.
    #[must_use]
    pub fn counts(&self) -> bool {
        !matches!(self, Self::PassedOver(_) | Self::NoCall(_) | Self::NoSuchDetail(_))
    }

    /// Returns whether it shows that the declared level is the right one.
    fn is_proof(&self) -> bool {
        matches!(self, Self::Passed | Self::Refused | Self::Absent(_))
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::Refused => "refused",
            Self::SilentlyIgnored(_) => "silently ignored",
            Self::Undeclared => "undeclared",
            Self::Absent(_) => "absent",
            Self::Unpromised => "unpromised",
            Self::PassedOver(_) => "passed over",
            Self::NoCall(_) => "no call",
            Self::NoSuchDetail(_) => "no such detail",
        }
    }

    fn why(&self) -> Option<String> {
        match self {
            Self::Failed(failure)
            | Self::SilentlyIgnored(failure)
            | Self::Absent(failure)
            | Self::NoCall(failure)
            | Self::NoSuchDetail(failure) => Some(failure.to_string()),
            Self::PassedOver(missing) => Some(format!("it needs {missing}")),
            Self::Undeclared => Some("it works, and is declared as unsupported".into()),
            Self::Passed | Self::Refused | Self::Unpromised => None,
        }
    }
}

/// A fault of a capability as a whole, whatever the results of its cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Complaint {
    /// It is declared, and the transport does not implement the trait that it requires.
    NoTrait(Capability),
    /// It is declared, and no case of it passed.
    NeverPassed(Capability),
    /// It is declared as unsupported, and no case shows that; nor does [`Backend::not_tested`](crate::Backend::not_tested) have the reason.
    NotTested(Capability),
    /// [`Backend::not_tested`](crate::Backend::not_tested) has it, and it was tested.
    Tested(Capability),
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTrait(capability) => write!(f, "{capability}: declared, and its trait is not implemented"),
            Self::NeverPassed(capability) => write!(f, "{capability}: declared, and no case of it passed"),
            Self::NotTested(capability) => {
                write!(f, "{capability}: no case shows that it is unsupported, and no reason is listed")
            }
            Self::Tested(capability) => write!(f, "{capability}: listed as not tested, and it was"),
        }
    }
}

/// The result of one case.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaseReport {
    /// The case's name.
    pub name: &'static str,
    /// Its specification rules in `docs/semantics.md`.
    pub rules: Vec<&'static str>,
    /// The capability that it tests.
    pub capability: Capability,
    /// The level that the transport declares for it.
    pub level: Level,
    /// The outcome.
    pub outcome: Outcome,
    /// The failures of the broker itself after which the case was run again: see
    /// [`Backend::is_outage`](crate::Backend::is_outage).
    pub outages: Vec<Failure>,
}

impl CaseReport {
    pub(crate) fn new(case: &Case, level: Level, outcome: Outcome, outages: Vec<Failure>) -> Self {
        Self { name: case.name(), rules: case.rules(), capability: case.capability(), level, outcome, outages }
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The transport's name.
    pub transport: &'static str,
    /// The capabilities that it publishes.
    pub capabilities: Capabilities,
    /// The seed of the order, if it was random.
    pub seed: Option<u64>,
    /// The capabilities of which every case was in the suite.
    pub whole: Vec<Capability>,
    /// The capabilities that are declared without the trait that each of them requires.
    pub without_trait: Vec<Capability>,
    /// [`Backend::not_tested`](crate::Backend::not_tested).
    pub not_tested: &'static [(Capability, &'static str)],
    /// Every case, by capability and name.
    pub cases: Vec<CaseReport>,
}

/// The numbers of cases of one capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of cases in which the transport behaves as declared.
    pub good: usize,
    /// Cases that were run, and whose result counts.
    pub run: usize,
    /// Cases that were not run.
    pub not_run: usize,
}

impl Report {
    /// Returns whether a case was run, the transport behaves as declared in every case, and there is no complaint.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        let listed = |case: &CaseReport| self.reason(case.capability).is_some();
        self.cases.iter().any(|case| case.outcome.counts() || listed(case))
            && self.cases.iter().all(|case| case.outcome.is_good())
            && self.complaints().is_empty()
    }

    /// Returns why a capability is not tested, as the backend lists it.
    #[must_use]
    pub fn reason(&self, capability: Capability) -> Option<&'static str> {
        self.not_tested.iter().find(|(listed, _)| *listed == capability).map(|(_, reason)| *reason)
    }

    /// Returns the capabilities that are not tested as they must be.
    #[must_use]
    pub fn complaints(&self) -> Vec<Complaint> {
        let complaint = |capability| {
            let mut cases = self.cases.iter().filter(|case| case.capability == capability);
            let (is_proved, listed) = (cases.any(|case| case.outcome.is_proof()), self.reason(capability));
            match (self.capabilities.supports(capability), is_proved, listed) {
                (true, false, _) => Some(Complaint::NeverPassed(capability)),
                (_, true, Some(_)) => Some(Complaint::Tested(capability)),
                (false, false, None | Some("")) => Some(Complaint::NotTested(capability)),
                _ => None,
            }
        };
        let without_trait = self.without_trait.iter().copied().map(Complaint::NoTrait);
        without_trait.chain(self.whole.iter().copied().filter_map(complaint)).collect()
    }

    /// Merges another report of the same transport, such as one of other capabilities.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.whole.extend(other.whole);
        self.whole.sort_unstable();
        self.without_trait.extend(other.without_trait);
        self.without_trait.sort_unstable();
        self.cases.extend(other.cases);
        self.cases.sort_by_key(|case| (case.capability, case.name));
        self
    }

    /// Returns the cases in which the transport does not behave as declared.
    pub fn failed(&self) -> impl Iterator<Item = &CaseReport> {
        self.cases.iter().filter(|case| !case.outcome.is_good())
    }

    /// Returns the tally of one capability, or of all.
    #[must_use]
    pub fn tally(&self, capability: Option<Capability>) -> Tally {
        let cases = self.cases.iter().filter(|case| capability.is_none_or(|capability| case.capability == capability));
        cases.fold(Tally::default(), |tally, case| {
            let (counts, is_good) = (case.outcome.counts(), case.outcome.is_good());
            Tally {
                good: tally.good + usize::from(counts && is_good),
                run: tally.run + usize::from(counts),
                not_run: tally.not_run + usize::from(!counts),
            }
        })
    }

    /// Returns the report as a JSON object.
    #[must_use]
    pub fn json(&self) -> Value {
        let cases = self.cases.iter().map(|case| {
            json!({
                "name": case.name,
                "rules": case.rules,
                "capability": case.capability.id(),
                "level": case.level.as_str(),
                "outcome": case.outcome.word(),
                "why": case.outcome.why(),
                "outages": case.outages.iter().map(Failure::why).collect::<Vec<_>>(),
            })
        });
        let tally = self.tally(None);
        json!({
            "transport": self.transport,
            "seed": self.seed,
            "passed": tally.good,
            "failed": self.failed().count(),
            "not_run": tally.not_run,
            "complaints": self.complaints().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "cases": cases.collect::<Vec<_>>(),
        })
    }
}

/// One line, and one more for each case that failed, each failure of the broker itself, and each complaint.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { good, run, not_run } = self.tally(None);
        write!(f, "{}: {good} of {run} cases, {not_run} not run", self.transport)?;
        if let Some(seed) = self.seed {
            write!(f, ", in the order of seed {seed}")?;
        }
        self.failed().try_for_each(|case| {
            let why = case.outcome.why().unwrap_or_default();
            write!(f, "\n{} {}: {}: {why}", case.capability.id(), case.name, case.outcome.word())
        })?;
        self.cases.iter().try_for_each(|case| {
            let of_case = |outage| write!(f, "\n{} {}: the broker failed: {outage}", case.capability.id(), case.name);
            case.outages.iter().try_for_each(of_case)
        })?;
        self.complaints().iter().try_for_each(|complaint| write!(f, "\n{complaint}"))
    }
}
