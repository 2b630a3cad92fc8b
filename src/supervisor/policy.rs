use std::{collections::VecDeque, fmt, time::Duration};

use tokio::time::Instant;

use crate::middleware::retry::Backoff;

/// How a part is restarted that fails: after a backoff, and not too often.
///
/// ```
/// use std::time::Duration;
///
/// use consign::{middleware::retry::Backoff, supervisor::RestartPolicy};
///
/// let policy = RestartPolicy::new()
///     .backoff(Backoff::exponential(Duration::from_millis(500)).longest(Duration::from_secs(30)))
///     .limit(10, Duration::from_secs(3_600));
/// assert_eq!(policy.to_string(), "after 500ms x 2 up to 30s, jitter equal, at most 10 restarts in 3600s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    backoff: Backoff,
    restarts: u32,
    within: Duration,
}

/// The failures of one part that count.
#[derive(Debug, Default)]
pub(super) struct Failures(VecDeque<Instant>);

impl RestartPolicy {
    /// Most restarts that can be counted.
    pub const MAX_RESTARTS: u32 = 1_000;

    /// Restarts after a second, then after twice of that and so on up to a minute, with jitter, and at most 5 times in 10
    /// minutes.
    #[must_use]
    pub const fn new() -> Self {
        let backoff = Backoff::exponential(Duration::from_secs(1)).longest(Duration::from_secs(60));
        Self { backoff, restarts: 5, within: Duration::from_secs(600) }
    }

    /// Never restarts: the first failure is for good.
    #[must_use]
    pub const fn never() -> Self {
        Self::new().limit(0, Duration::from_secs(600))
    }

    /// Sets the delays before a restart. The first failure after a time without one, see [`limit`](Self::limit), has the
    /// first delay again. A delay is at most a year.
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets how often a part is restarted in any period of `within`: at most
    /// [`MAX_RESTARTS`](Self::MAX_RESTARTS). One more failure is for good. `within` is at least a second: a shorter one
    /// would forget each failure at once, and restart without a limit.
    #[must_use]
    pub const fn limit(mut self, restarts: u32, within: Duration) -> Self {
        self.restarts = if restarts < Self::MAX_RESTARTS { restarts } else { Self::MAX_RESTARTS };
        self.within = if within.as_secs() < 1 { Duration::from_secs(1) } else { within };
        self
    }

    /// After how long to restart, now that a part has failed. `None` if it has failed for good.
    pub(super) fn next(&self, failures: &mut Failures, now: Instant, random: u64) -> Option<Duration> {
        let Failures(counted) = failures;
        while counted.front().is_some_and(|failed| now.saturating_duration_since(*failed) >= self.within) {
            counted.pop_front();
        }
        if counted.len() >= self.restarts as usize {
            return None;
        }
        counted.push_back(now);
        let count = u32::try_from(counted.len()).unwrap_or(u32::MAX);
        Some(self.backoff.delay(count, random).min(super::LONGEST))
    }
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for RestartPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {}, at most {} restarts in {:?}", self.backoff, self.restarts, self.within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::middleware::retry::Jitter;

    /// Rules: J-261.
    #[test]
    fn restarts_are_counted_in_a_period_that_moves() {
        let second = Duration::from_secs(1);
        let policy =
            RestartPolicy::new().backoff(Backoff::exponential(second).jitter(Jitter::None)).limit(3, 60 * second);
        let (start, mut failures) = (Instant::now(), Failures::default());
        let mut fail = |at: u32| policy.next(&mut failures, start + at * second, 0).map(|delay| delay.as_secs());
        assert_eq!([0, 10, 20, 59].map(&mut fail), [Some(1), Some(2), Some(4), None]);
        // The first one, and then the next two, are older than the period.
        assert_eq!([60, 61, 80].map(&mut fail), [Some(4), None, Some(2)]);
        assert_eq!(fail(1_000), Some(1));
        assert_eq!(RestartPolicy::never().next(&mut Failures::default(), start, 0), None);
        let none = RestartPolicy::new().limit(1, Duration::ZERO);
        let mut failures = Failures::default();
        assert_eq!([0, 0].map(|_| none.next(&mut failures, start, 0).is_some()), [true, false]);
        let most = RestartPolicy::new().limit(u32::MAX, Duration::MAX);
        let mut failures = Failures::default();
        let restarts = std::iter::repeat_with(|| most.next(&mut failures, start, 0)).take_while(Option::is_some);
        assert_eq!(restarts.count(), 1_000);
    }
}
