//! The destinations that do not take messages, and when each is tried again.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use consign_core::transport::deadline;
use tokio::time::Instant;

/// How many destinations are kept. Beyond that, the next failure forgets the one whose pause ends or has ended first.
const MOST: usize = 1_024;
/// How many sessions of a destination are kept. Those beyond do not keep its pauses long.
const MOST_SESSIONS: usize = 1_024;

/// Pauses of destinations.
#[derive(Debug)]
pub(super) struct Pauses {
    first: Duration,
    longest: Duration,
    all: HashMap<String, Pause>,
}

#[derive(Debug)]
struct Pause {
    until: Instant,
    failures: u32,
    /// The sessions whose last send failed. As long as there is one, another session that is sent does not end the failures.
    failing: HashSet<Option<String>>,
}

impl Pauses {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        // More than a year overflows instants.
        Self { first: deadline::clamped(first), longest: deadline::clamped(longest), all: HashMap::new() }
    }

    /// Begins a pause, twice as long as the last one of the destination. `None` if it pauses already.
    pub(super) fn begin(&mut self, destination: &str, session: Option<&str>, now: Instant) -> Option<Duration> {
        if self.all.len() >= MOST && !self.all.contains_key(destination) {
            self.forget_one();
        }
        let new = || Pause { until: now, failures: 0, failing: HashSet::new() };
        let pause = self.all.entry(destination.to_owned()).or_insert_with(new);
        if pause.failing.len() < MOST_SESSIONS {
            pause.failing.insert(session.map(str::to_owned));
        }
        if pause.until > now {
            return None;
        }
        let length = length(self.first, self.longest, pause.failures);
        pause.failures = pause.failures.saturating_add(1);
        pause.until = now + length;
        Some(length)
    }

    /// A destination that does not pause has answered for a session. If this was its last failing one, its pauses begin anew.
    pub(super) fn end(&mut self, destination: &str, session: Option<&str>, now: Instant) {
        let Some(pause) = self.all.get_mut(destination).filter(|pause| pause.until <= now) else { return };
        pause.failing.retain(|failing| failing.as_deref() != session);
        if pause.failing.is_empty() {
            self.all.remove(destination);
        }
    }

    /// Forgets the destination whose pause ends first, or has ended.
    fn forget_one(&mut self) {
        let first = self.all.iter().min_by_key(|(_, pause)| pause.until).map(|(destination, _)| destination.clone());
        if let Some(first) = first {
            self.all.remove(&first);
        }
    }

    /// No message waits.
    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// Returns the destinations that pause.
    pub(super) fn destinations(&self, now: Instant) -> Vec<&str> {
        self.all.iter().filter(|(_, pause)| pause.until > now).map(|(destination, _)| destination.as_str()).collect()
    }

    /// Returns how many rows can be read, at most `batch`: each may be of one more destination that pauses. `Err` is when the next
    /// pause ends, if no destination can be added before: one whose pause is forgotten would be tried again at once.
    pub(super) fn most_read(&self, batch: u32, now: Instant) -> Result<u32, Instant> {
        let running = self.all.values().filter(|pause| pause.until > now).count();
        let free = u32::try_from(MOST.saturating_sub(running)).unwrap_or(u32::MAX);
        match self.next(now) {
            Some(next) if free == 0 => Err(next),
            _ => Ok(batch.min(free)),
        }
    }

    /// Returns when the next pause ends.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        self.all.values().map(|pause| pause.until).filter(|until| *until > now).min()
    }
}

/// Returns a random time up to the pause after so many failures, and at least half of it.
pub(super) fn length(first: Duration, longest: Duration, failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    first.saturating_mul(doubled).min(longest).mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_end() {
        let mut pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(1));
        let mut now = Instant::now();
        let mut lengths = Vec::new();
        for _ in 0..8 {
            lengths.push(pauses.begin("orders", None, now).unwrap());
            assert_eq!(pauses.begin("orders", None, now), None, "one failure of several at once counts");
            assert_eq!(
                (pauses.destinations(now), pauses.next(now)),
                (vec!["orders"], Some(now + lengths[lengths.len() - 1]))
            );
            pauses.end("orders", None, now);
            now += Duration::from_secs(1);
            assert_eq!((pauses.destinations(now).len(), pauses.next(now)), (0, None));
        }
        assert!(lengths[0] <= Duration::from_millis(100) && lengths[7] >= Duration::from_millis(500), "{lengths:?}");
        assert!(lengths.iter().all(|length| *length <= Duration::from_secs(1)), "{lengths:?}");
        pauses.end("orders", None, now);
        assert!(pauses.begin("orders", None, now).unwrap() <= Duration::from_millis(100));
        for other in 0..2 * MOST {
            pauses.begin(&other.to_string(), None, now);
            pauses.begin("orders", Some(&other.to_string()), now);
        }
        assert!(pauses.all.len() <= MOST && pauses.all["orders"].failing.len() <= MOST_SESSIONS);
    }

    #[tokio::test(start_paused = true)]
    async fn one_destination_is_forgotten_for_one_more_and_not_all() {
        let mut pauses = Pauses::new(Duration::from_secs(100), Duration::from_secs(1_000));
        let now = Instant::now();
        for failures in 0..3 {
            pauses.begin("orders", None, now + failures * Duration::from_secs(1_000));
        }
        let now = now + Duration::from_secs(2_000);
        for other in 0..2 * MOST {
            pauses.begin(&other.to_string(), None, now);
        }
        assert_eq!(pauses.all.len(), MOST);
        assert_eq!(pauses.all["orders"].failures, 3, "its pause ends last");
    }

    /// Rules: X-47.
    #[tokio::test(start_paused = true)]
    async fn a_destination_that_pauses_is_not_tried_again_for_others_that_fail() {
        let mut pauses = Pauses::new(Duration::from_secs(100), Duration::from_secs(1_000));
        let (batch, now) = (100, Instant::now());
        let mut tried = HashSet::new();
        let next = loop {
            let most = match pauses.most_read(batch, now) {
                Ok(most) => most,
                Err(next) => break next,
            };
            let pausing: HashSet<_> = pauses.destinations(now).into_iter().map(str::to_owned).collect();
            let waiting = (0..3 * MOST).map(|number| number.to_string()).filter(|it| !pausing.contains(it));
            for destination in waiting.take(most.try_into().unwrap()) {
                pauses.begin(&destination, None, now);
                assert!(tried.insert(destination), "it is tried again in its pause");
            }
        };
        assert_eq!((tried.len(), Some(next)), (MOST, pauses.next(now)));
        assert_eq!(pauses.most_read(batch, next), Ok(1));
        pauses.clear();
        assert_eq!(pauses.most_read(batch, now), Ok(batch));
    }

    #[test]
    fn pauses_reach_the_longest_whatever_the_first() {
        let (first, longest) = (Duration::from_millis(1), Duration::from_secs(24 * 3_600));
        for failures in [27, 31, 32, 33, u32::MAX] {
            let length = length(first, longest, failures);
            assert!(length >= longest / 2 && length <= longest, "{failures}: {length:?}");
        }
        assert!(length(first, longest, 10) <= Duration::from_millis(1_024));
    }

    /// Rules: X-47.
    #[tokio::test(start_paused = true)]
    async fn another_session_that_is_sent_does_not_make_the_pauses_short_again() {
        let mut pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(30));
        let mut now = Instant::now();
        let fail = |pauses: &mut Pauses, now: &mut Instant| {
            let length = pauses.begin("orders", Some("a"), *now).unwrap();
            *now += length;
            pauses.end("orders", Some("b"), *now);
            pauses.end("orders", None, *now);
            length
        };
        let lengths: Vec<_> = (0..10).map(|_| fail(&mut pauses, &mut now)).collect();
        assert!(lengths[9] >= Duration::from_secs(15), "{lengths:?}");
        pauses.begin("orders", Some("b"), now);
        now += Duration::from_secs(30);
        pauses.end("orders", Some("a"), now);
        assert_eq!(pauses.all["orders"].failures, 11, "b fails still");
        pauses.end("orders", Some("b"), now);
        assert!(fail(&mut pauses, &mut now) <= Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn no_pause_is_too_long_for_an_instant() {
        let mut pauses = Pauses::new(Duration::MAX, Duration::MAX);
        let now = Instant::now();
        assert!(pauses.begin("orders", None, now).is_some() && pauses.next(now).is_some());
    }
}
