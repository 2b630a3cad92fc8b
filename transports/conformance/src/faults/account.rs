use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The account of every message of a run, by its MessageId.
#[derive(Debug, Default)]
pub struct Account {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    messages: HashMap<Box<str>, Entry>,
    failures: Vec<String>,
    totals: Totals,
}

#[derive(Debug, Default)]
struct Entry {
    attempts: u64,
    is_accepted: bool,
    /// Whether the outcome of an attempt was unknown.
    is_unknown: bool,
    arrivals: u64,
    completions: u64,
}

/// The figures of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Messages that were sent at least once.
    pub(super) attempted: u64,
    /// Messages that were acknowledged.
    pub(super) accepted: u64,
    /// Messages with an attempt of unknown outcome.
    pub(super) unknown: u64,
    /// Of those, the ones that arrived.
    pub(super) recovered: u64,
    /// Messages that were acknowledged and did not arrive.
    pub(super) lost: u64,
    /// Arrivals of messages that were not sent.
    pub(super) unexpected: u64,
    /// Arrivals beyond the first of each message.
    pub(super) duplicated: u64,
    /// Arrivals after a completion that had succeeded.
    pub(super) after_completion: u64,
    /// Calls that did not return.
    pub(super) hung: u64,
    /// The longest recovery of a worker after a fault of its own connection.
    pub(super) slowest_return: Duration,
    /// The longest recovery after a restart of the server.
    pub(super) slowest_return_after_restart: Duration,
}

impl Account {
    /// The maximum of stored failures.
    const FAILURES: usize = 20;

    /// Records that a message is about to be sent.
    pub fn attempts(&self, id: &str) {
        self.book().entry(id).attempts += 1;
    }

    /// Records that it was acknowledged.
    pub fn accepted(&self, id: &str) {
        self.book().entry(id).is_accepted = true;
    }

    /// Records that its outcome is unknown.
    pub fn unknown(&self, id: &str) {
        self.book().entry(id).is_unknown = true;
    }

    /// Records that it was received.
    pub fn arrived(&self, id: &str) {
        let mut book = self.book();
        let entry = book.entry(id);
        entry.arrivals += 1;
        // Each attempt may have left a copy.
        if entry.completions >= entry.attempts.max(1) {
            book.totals.after_completion += 1;
        }
    }

    /// Records that its completion succeeded.
    pub fn completed(&self, id: &str) {
        self.book().entry(id).completions += 1;
    }

    /// Records that a call did not return.
    pub fn hung(&self, call: &str) {
        self.book().totals.hung += 1;
        self.failed(format!("{call} did not end"));
    }

    /// Records how long a worker took to recover from a fault of its connection.
    pub fn returned(&self, after: Duration) {
        let mut book = self.book();
        book.totals.slowest_return = book.totals.slowest_return.max(after);
    }

    /// Records how long a worker took to recover after the server listened again.
    pub fn returned_after_restart(&self, after: Duration) {
        let mut book = self.book();
        book.totals.slowest_return_after_restart = book.totals.slowest_return_after_restart.max(after);
    }

    /// Records a failure that no fault explains.
    pub fn failed(&self, why: String) {
        let mut book = self.book();
        if book.failures.len() < Self::FAILURES {
            book.failures.push(why);
        }
    }

    /// Returns how many messages were acknowledged and have not arrived so far.
    pub(super) fn missing(&self) -> usize {
        self.book().messages.values().filter(|entry| entry.is_accepted && entry.arrivals == 0).count()
    }

    pub(super) fn totals(&self) -> (Totals, Vec<String>) {
        let book = self.book();
        let mut totals = book.totals;
        for entry in book.messages.values() {
            let arrived = entry.arrivals > 0;
            totals.attempted += u64::from(entry.attempts > 0);
            totals.accepted += u64::from(entry.is_accepted);
            totals.unknown += u64::from(entry.is_unknown);
            totals.recovered += u64::from(entry.is_unknown && arrived);
            totals.lost += u64::from(entry.is_accepted && !arrived);
            totals.unexpected += if entry.attempts > 0 { 0 } else { entry.arrivals };
            totals.duplicated += entry.arrivals.saturating_sub(1);
        }
        (totals, book.failures.clone())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn entry(&mut self, id: &str) -> &mut Entry {
        self.messages.entry(id.into()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_way_to_go_wrong_is_counted() {
        let account = Account::default();
        for id in ["good", "lost", "twice", "again"] {
            account.attempts(id);
            account.accepted(id);
        }
        account.attempts("perhaps");
        account.unknown("perhaps");
        for id in ["good", "twice", "twice", "again", "perhaps", "stranger"] {
            account.arrived(id);
        }
        account.completed("again");
        account.arrived("again");
        assert_eq!(account.missing(), 1);
        let (totals, failures) = account.totals();
        assert_eq!(
            totals,
            Totals {
                attempted: 5,
                accepted: 4,
                unknown: 1,
                recovered: 1,
                lost: 1,
                unexpected: 1,
                duplicated: 2,
                after_completion: 1,
                ..Totals::default()
            }
        );
        assert!(failures.is_empty());
    }
}
