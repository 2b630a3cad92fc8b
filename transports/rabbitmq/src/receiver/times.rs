//! When the task of a receiver is due: locks that run out, a subscription without a receive, and one without messages.

use std::time::Duration;

use consign_core::settlement::Changes;
use tokio::time::Instant;

use super::{
    job::{Action, Job},
    state::State,
};

impl State {
    /// Returns whether the receiver is dropped and all dispatched deliveries are settled.
    pub(super) fn is_done(&self) -> bool {
        self.is_ended
            && self.held.is_empty()
            && self.completions.is_empty()
            && self.passing == 0
            && self.restores.is_empty()
    }

    /// Abandons deliveries whose lock has run out.
    pub(super) fn end_locks(&mut self, now: Instant) {
        while let Some(&(at, key)) = self.locks.front() {
            let until = self.held.get(&key).map(|held| held.until);
            match until {
                Some(until) if until == at && at > now => break,
                Some(until) if until == at => {
                    if let Some(held) = self.held.remove(&key) {
                        let action = Action::Abandon(Changes::NONE);
                        self.jobs.push(Job { held, action, done: None });
                    }
                }
                // Settled, or renewed and further behind.
                _ => {}
            }
            self.locks.pop_front();
        }
    }

    /// Returns whether a receive waits for the first message, and everything is settled.
    fn is_quiet(&self) -> bool {
        self.wanted > 0
            && self.held.is_empty()
            && self.completions.is_empty()
            && self.passing == 0
            && self.subscription.as_ref().is_some_and(|present| present.unsettled == 0)
    }

    /// Returns whether a receive has waited for so long, and the channel may be closed. Otherwise the time begins again.
    pub(super) fn is_quiet_for(&mut self, quiet: Duration, now: Instant, may_close: bool) -> bool {
        let is_quiet = may_close && self.is_quiet();
        let Some(present) = self.subscription.as_mut().filter(|present| now >= present.used + quiet) else {
            return false;
        };
        if !is_quiet {
            present.used = now;
        }
        is_quiet
    }

    pub(super) fn wake_at(&self, linger: Duration, quiet: Duration) -> Option<Instant> {
        let lock = self.locks.front().map(|&(at, _)| at);
        let idle = self.idle_since.filter(|_| self.wanted == 0 && !self.is_stepping).map(|since| since + linger);
        let renewed = self.subscription.as_ref().filter(|_| !self.is_stepping).map(|present| present.used + quiet);
        lock.into_iter().chain(idle).chain(renewed).min()
    }
}
