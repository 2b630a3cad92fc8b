use std::{fmt, time::Duration};

use serde_json::{Value, json};

use super::account::{Account, Totals};

/// The result of a run, with the counts of Jepsen.
#[derive(Clone, Debug)]
pub struct FaultReport {
    pub(super) transport: &'static str,
    pub(super) seed: u64,
    pub(super) faults: u64,
    /// How many random faults were planned.
    pub(super) planned: u64,
    pub(super) restarts: u64,
    pub(super) steps: u64,
    pub(super) totals: Totals,
    pub(super) answers_settlements: bool,
    /// The server was restarted, and may have lost earlier settlements.
    pub(super) may_forget: bool,
    pub(super) failures: Vec<String>,
    pub(super) left_out: Vec<&'static str>,
}

impl FaultReport {
    pub(super) fn take(&mut self, account: &Account) {
        let (totals, failures) = account.totals();
        let mine = &mut self.totals;
        mine.attempted += totals.attempted;
        mine.accepted += totals.accepted;
        mine.unknown += totals.unknown;
        mine.recovered += totals.recovered;
        mine.lost += totals.lost;
        mine.unexpected += totals.unexpected;
        mine.duplicated += totals.duplicated;
        mine.after_completion += totals.after_completion;
        mine.hung += totals.hung;
        mine.slowest_return = mine.slowest_return.max(totals.slowest_return);
        mine.slowest_return_after_restart = mine.slowest_return_after_restart.max(totals.slowest_return_after_restart);
        self.failures.extend(failures);
    }

    /// Returns whether all requirements hold.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.verdicts().iter().all(|(holds, _)| *holds)
    }

    /// Returns the parts that were not run, because the server or the transport cannot.
    #[must_use]
    pub fn left_out(&self) -> &[&'static str] {
        &self.left_out
    }

    fn verdicts(&self) -> [(bool, &'static str); 8] {
        let totals = &self.totals;
        // Settlements that a killed server loses have a verdict of their own, and are not duplicates of a fault.
        let forgotten = if self.may_forget { totals.after_completion } else { 0 };
        [
            (totals.accepted > 0 && self.steps > 0, "messages are sent, and connections cut at each of their steps"),
            (self.faults >= self.planned.max(1), "as many faults happen as were planned"),
            (totals.lost == 0, "no acknowledged message is lost"),
            (totals.unexpected == 0, "nothing arrives that nobody sent"),
            (totals.duplicated.saturating_sub(forgotten) <= self.faults, "no more duplicates than faults"),
            (
                totals.after_completion == 0 || !self.answers_settlements || self.may_forget,
                "nothing arrives after its completion was answered",
            ),
            (totals.hung == 0, "every call ends"),
            (self.failures.is_empty(), "nothing fails without a fault"),
        ]
    }

    /// Returns the figures, on one line.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let totals = &self.totals;
        json!({
            "transport": self.transport,
            "seed": self.seed,
            "faults": self.faults,
            "restarts": self.restarts,
            "steps": self.steps,
            "attempted": totals.attempted,
            "accepted": totals.accepted,
            "unknown": totals.unknown,
            "recovered": totals.recovered,
            "lost": totals.lost,
            "unexpected": totals.unexpected,
            "duplicated": totals.duplicated,
            "after_completion": totals.after_completion,
            "hung": totals.hung,
            "slowest_return_ms": millis(totals.slowest_return),
            "slowest_return_after_restart_ms": millis(totals.slowest_return_after_restart),
            "left_out": self.left_out,
            "passed": self.is_passed(),
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The figures, what does not hold, and what failed.
impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.to_json())?;
        for (_, promise) in self.verdicts().iter().filter(|(holds, _)| !holds) {
            writeln!(f, "does not hold: {promise}")?;
        }
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        write!(f, "the same faults again: SEED={}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> FaultReport {
        FaultReport {
            transport: "one",
            seed: 1,
            faults: 12,
            planned: 10,
            restarts: 0,
            steps: 3,
            totals: Totals { attempted: 5, accepted: 5, ..Totals::default() },
            answers_settlements: true,
            may_forget: false,
            failures: Vec::new(),
            left_out: Vec::new(),
        }
    }

    #[test]
    fn a_run_in_which_nothing_happened_is_not_passed() {
        assert!(report().is_passed());
        for idle in [
            FaultReport { faults: 9, ..report() },
            FaultReport { faults: 0, planned: 0, ..report() },
            FaultReport { steps: 0, ..report() },
            FaultReport { totals: Totals::default(), ..report() },
        ] {
            assert!(!idle.is_passed(), "{idle}");
        }
    }
}
