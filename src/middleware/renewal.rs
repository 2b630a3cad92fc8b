//! When a lock is renewed: arithmetic only, shared by everything that renews.

use std::time::Duration;

/// The policy of renewals: when the lock of a message is renewed while it is handled.
///
/// Instants are readings of one monotonic clock, [`Moment::elapsed`](crate::time::Moment::elapsed); answers are how long
/// to wait from `now`.
///
/// ```
/// use std::time::Duration;
/// use consign::middleware::renewal::Renewal;
///
/// let renewal = Renewal::new(Duration::from_secs(60));
/// let (start, now) = (Duration::ZERO, Duration::from_secs(10));
/// assert_eq!(renewal.next(start, start, now), Some(Duration::from_secs(20)));
/// assert_eq!(renewal.next(start, Duration::from_secs(290), now), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    lock: Duration,
    every: Duration,
    asked: Duration,
    total: Duration,
}

impl Renewal {
    /// For how long a lock is renewed by default.
    pub const TOTAL: Duration = Duration::from_secs(300);

    const SHORTEST: Duration = Duration::from_millis(1);

    /// Locks that hold for `lock` are renewed at half of it, for five minutes in total.
    #[must_use]
    pub fn new(lock: Duration) -> Self {
        let lock = lock.max(Self::SHORTEST);
        let every = (lock / 2).max(Self::SHORTEST);
        Self { lock, every, asked: every, total: Self::TOTAL }
    }

    /// Renews this long after the lock was last taken: 1 ms up to the duration of the lock; what is outside is brought
    /// inside.
    #[must_use]
    pub fn every(self, every: Duration) -> Self {
        Self { every: every.clamp(Self::SHORTEST, self.lock), asked: every, ..self }
    }

    /// Returns the argument of [`Renewal::every`] before it was clamped: a value not less than the lock is a
    /// mistake.
    #[must_use]
    pub const fn asked_every(&self) -> Duration {
        self.asked
    }

    /// Renews no later than this long after the handler was started. Zero renews never. A renewal that fails is not
    /// [repeated](Self::retry) later than that.
    #[must_use]
    pub const fn total(self, total: Duration) -> Self {
        Self { total, ..self }
    }

    /// Returns how long a lock holds that is taken or renewed.
    #[must_use]
    pub const fn lock(&self) -> Duration {
        self.lock
    }

    /// Returns how long to wait for the next renewal, zero if it is due. `None` if it would come after the total.
    #[must_use]
    pub fn next(&self, started: Duration, last_renewed: Duration, now: Duration) -> Option<Duration> {
        let due = last_renewed.saturating_add(self.every);
        (due <= started.saturating_add(self.total)).then(|| due.saturating_sub(now))
    }

    /// Returns how long to wait before a renewal that failed is tried again: half of what is left of the lock, and not less
    /// than a sixteenth of all of it. `None` if nothing is [left](Self::left): the lock is lost. Also `None` if it would come after the
    /// total: the lock is not renewed any more.
    #[must_use]
    pub fn retry(&self, started: Duration, last_renewed: Duration, now: Duration) -> Option<Duration> {
        let left = self.left(last_renewed, now);
        let wait = (left / 2).max(self.lock / 16).max(Self::SHORTEST).min(left);
        (!left.is_zero() && now.saturating_add(wait) <= started.saturating_add(self.total)).then_some(wait)
    }

    /// Returns how long the lock still holds. `last_renewed` is when the renewal was asked for, not when it was answered:
    /// the broker extended the lock some time in between.
    #[must_use]
    pub fn left(&self, last_renewed: Duration, now: Duration) -> Duration {
        last_renewed.saturating_add(self.lock).saturating_sub(now)
    }

    /// Returns how long to wait for the first renewal of a lock that is known to hold for `left` more; otherwise as
    /// [`next`](Self::next) from `started`.
    #[must_use]
    pub fn first(&self, left: Duration) -> Option<Duration> {
        let wait = left.min(self.lock).saturating_sub(self.lock.saturating_sub(self.every));
        (wait <= self.total && !self.total.is_zero()).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Rules: S-58.
    #[test]
    fn half_of_the_lock_and_five_minutes() {
        let renewal = Renewal::new(s(60));
        assert_eq!(renewal.next(s(0), s(0), s(0)), Some(s(30)));
        assert_eq!(renewal.next(s(0), s(270), s(270)), Some(s(30)));
        assert_eq!(renewal.next(s(0), s(271), s(271)), None);
        assert_eq!(renewal.next(s(0), s(0), s(45)), Some(s(0)), "overdue");
    }

    #[test]
    fn a_lock_that_has_been_running_is_renewed_sooner() {
        let renewal = Renewal::new(s(60));
        assert_eq!(renewal.first(s(60)), Some(s(30)));
        assert_eq!(renewal.first(s(40)), Some(s(10)));
        assert_eq!(renewal.first(s(5)), Some(s(0)));
        assert_eq!(renewal.first(s(600)), Some(s(30)), "a clock that is behind");
        assert_eq!(renewal.total(s(0)).first(s(0)), None);
    }

    #[test]
    fn a_failed_renewal_is_repeated_until_the_lock_is_gone() {
        let renewal = Renewal::new(s(64));
        let (mut now, mut waits) = (s(32), Vec::new());
        while let Some(wait) = renewal.retry(s(0), s(0), now) {
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [16, 8, 4, 4]);
        assert_eq!(now, s(64));
    }

    /// Rules: S-58.
    #[test]
    fn a_failed_renewal_is_not_repeated_after_the_total() {
        let renewal = Renewal::new(s(64)).total(s(48));
        assert_eq!(renewal.retry(s(0), s(0), s(32)), Some(s(16)), "at the total");
        assert_eq!(renewal.retry(s(0), s(0), s(33)), None);
        assert_eq!(renewal.left(s(0), s(33)), s(31), "the lock holds");
        assert_eq!(renewal.retry(s(1), s(0), s(32)), Some(s(16)));
    }

    #[test]
    fn settings_are_brought_into_their_ranges() {
        let renewal = Renewal::new(s(0)).every(s(0));
        assert_eq!(renewal.next(s(0), s(0), s(0)), Some(Duration::from_millis(1)));
        assert_eq!(Renewal::new(s(10)).every(s(99)).next(s(0), s(0), s(0)), Some(s(10)));
        let longest = Renewal::new(Duration::MAX).total(Duration::MAX);
        assert_eq!(longest.next(Duration::MAX, Duration::MAX, s(0)), Some(Duration::MAX));
    }
}
