//! Dead letters that have failed again, and how long each waits for its next delivery.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use tokio::time::Instant;

use crate::Message;

/// How many dead letters are remembered. One that was forgotten waits as after its first failure.
const REMEMBERED: usize = 4_096;
/// How long a dead letter is remembered that does not fail.
const FORGOTTEN: Duration = Duration::from_secs(3_600);
/// The wait after the first failure. Each further one doubles it, up to the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// The failures of dead letters. A broker does not count deliveries in a dead-letter queue, so nothing else limits them.
#[derive(Default)]
pub(super) struct FailedAgain {
    /// The one that has failed last is the last.
    entries: VecDeque<Entry>,
    hasher: RandomState,
}

struct Entry {
    key: u64,
    failures: u32,
    /// The strongest failure that was reported.
    reported: Option<Kind>,
    at: Instant,
}

/// How a dead letter has failed again. Each kind is reported once for a message, and an abandon not after an outcome that the
/// message cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Abandoned,
    Undeliverable,
}

/// What a failure leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) delay: Duration,
    /// Whether the failure is to be reported.
    pub(super) is_new: bool,
}

impl FailedAgain {
    /// Counts a failure.
    pub(super) fn count(&mut self, message: &Message, kind: Kind, now: Instant) -> Wait {
        let number = message.received().map_or(0, |received| received.sequence_number.get());
        // Without a number, messages of another publisher may have one MessageId, or none. An abandon can change properties of the
        // application, so they do not count.
        let content = || {
            let body = message.payload().ok_or_else(|| message.body().size());
            (message.content_type(), message.subject(), message.correlation_id(), body)
        };
        let key = self.hasher.hash_one((number, message.message_id(), (number == 0).then(content)));
        let is_forgotten = |entry: &Entry| now.saturating_duration_since(entry.at) >= FORGOTTEN;
        while self.entries.front().is_some_and(is_forgotten) {
            self.entries.pop_front();
        }
        let known = self.entries.iter().position(|entry| entry.key == key).and_then(|at| self.entries.remove(at));
        let Entry { failures, reported, .. } = known.unwrap_or(Entry { key, failures: 0, reported: None, at: now });
        if self.entries.len() >= REMEMBERED {
            self.entries.pop_front();
        }
        let failures = failures.saturating_add(1);
        self.entries.push_back(Entry { key, failures, reported: reported.max(Some(kind)), at: now });
        let doubled = FIRST.saturating_mul(1 << (failures - 1).min(16));
        Wait { delay: doubled.min(LONGEST), is_new: reported < Some(kind) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        message::{Received, SequenceNumber},
        time::Timestamp,
    };

    fn message(number: u64) -> Message {
        Message::new("an order").with_received(Received::new(SequenceNumber::new(number), Timestamp::EPOCH, 1))
    }

    fn delays(failed: &mut FailedAgain, number: u64, count: usize, now: Instant) -> Vec<u64> {
        (0..count).map(|_| failed.count(&message(number), Kind::Abandoned, now).delay.as_secs()).collect()
    }

    /// Rules: J-234.
    #[test]
    fn the_delay_of_each_message_doubles_up_to_a_minute() {
        let (mut failed, now) = (FailedAgain::default(), Instant::now());
        assert_eq!(delays(&mut failed, 1, 9, now), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(delays(&mut failed, 2, 2, now), [1, 2]);
        assert_eq!(delays(&mut failed, 1, 40, now), [60; 40]);
    }

    /// Rules: J-234.
    #[test]
    fn each_kind_of_failure_is_new_once() {
        let (mut failed, now) = (FailedAgain::default(), Instant::now());
        let mut count = |number, kind| failed.count(&message(number), kind, now).is_new;
        assert!(count(1, Kind::Abandoned) && !count(1, Kind::Abandoned));
        assert!(count(1, Kind::Undeliverable) && !count(1, Kind::Undeliverable) && !count(1, Kind::Abandoned));
        assert!(count(2, Kind::Undeliverable) && !count(2, Kind::Abandoned));
    }

    /// Rules: J-234.
    #[test]
    fn messages_without_a_number_are_told_apart_by_their_ids_and_their_contents() {
        let (mut failed, now) = (FailedAgain::default(), Instant::now());
        let mut count = |message: &Message| {
            let wait = failed.count(message, Kind::Undeliverable, now);
            (wait.delay.as_secs(), wait.is_new)
        };
        let named = |id: &'static str, body: &'static str| Message::builder().message_id(id).build(body).unwrap();
        let typed = Message::builder().content_type("text/plain").build("an order").unwrap();
        let received = message(0).with_body("another order");
        let all =
            [message(0), received, named("1", "an order"), named("1", "another order"), named("2", "an order"), typed];
        for message in &all {
            assert_eq!(count(message), (1, true), "{message:?}");
        }
        for message in &all {
            assert_eq!(count(message), (2, false), "{message:?}");
        }
        assert_eq!(count(&message(0)), (4, false), "one with the same content shares the entry");
    }

    #[test]
    fn messages_are_forgotten() {
        let (mut failed, now) = (FailedAgain::default(), Instant::now());
        assert_eq!(delays(&mut failed, 1, 2, now), [1, 2]);
        assert_eq!(delays(&mut failed, 1, 1, now + FORGOTTEN), [1]);
        for number in 2..=1 + REMEMBERED as u64 {
            failed.count(&message(number), Kind::Abandoned, now + FORGOTTEN);
        }
        assert_eq!(failed.entries.len(), REMEMBERED);
        assert_eq!(delays(&mut failed, 1, 1, now + FORGOTTEN), [1]);
        assert_eq!(failed.entries.len(), REMEMBERED);
    }
}
