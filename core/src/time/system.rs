//! The clock of tokio and of the operating system.

use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use super::{Clock, Moment, Timestamp, millis};

/// The tokio clock: real time in production, virtual time under `tokio::time::pause`.
///
/// UTC is read from the operating system once a second at most and advanced by monotonic time in between. A reading steps back as
/// that of the operating system does, and by up to 2 ms from rounding. While tokio's time is virtual, UTC follows the virtual
/// time alone and never steps back.
#[derive(Debug)]
pub struct SystemClock {
    start: tokio::time::Instant,
    /// UTC milliseconds at `start`, as of the last reading of the operating system's clock.
    utc_at_start: AtomicI64,
    /// Elapsed milliseconds at that reading.
    read_at: AtomicU64,
}

impl SystemClock {
    const REREAD: u64 = 1_000;
    /// How often the first reading is repeated at most.
    const ATTEMPTS: usize = 16;

    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self::started(Reading::take)
    }

    /// Starts at the first reading that was not interrupted, or else at the one that took the shortest time.
    fn started(mut read: impl FnMut() -> Reading) -> Self {
        let mut best = read();
        for _ in 1..Self::ATTEMPTS {
            if !best.is_interrupted() {
                break;
            }
            let next = read();
            if next.took < best.took {
                best = next;
            }
        }
        Self { start: best.now, utc_at_start: AtomicI64::new(best.utc), read_at: AtomicU64::new(0) }
    }

    #[cold]
    fn reread(&self, elapsed: u64) {
        self.read_at.store(elapsed, Ordering::Relaxed);
        let reading = Reading::take();
        if reading.is_real && !reading.is_interrupted() {
            let elapsed = millis(reading.now.saturating_duration_since(self.start));
            let start = reading.utc.saturating_sub(i64::try_from(elapsed).unwrap_or(i64::MAX));
            self.utc_at_start.store(start, Ordering::Relaxed);
        }
    }
}

/// A reading of both clocks.
struct Reading {
    now: tokio::time::Instant,
    utc: i64,
    /// Whether tokio's time is real.
    is_real: bool,
    /// The time between the two readings at most.
    took: Duration,
}

impl Reading {
    const PREEMPTED: Duration = Duration::from_millis(1);

    #[expect(clippy::disallowed_methods, reason = "the one place where real time enters")]
    fn take() -> Self {
        let before = std::time::Instant::now();
        let (now, utc) = (tokio::time::Instant::now(), system_utc());
        let after = std::time::Instant::now();
        // Virtual time is before or after these two readings, however close it is to real time.
        let is_real = (before..=after).contains(&now.into_std());
        Self { now, utc, is_real, took: after.saturating_duration_since(before) }
    }

    /// Returns whether the thread was preempted between the two clocks. UTC may then be too large for the instant, and a later
    /// reading would step back.
    fn is_interrupted(&self) -> bool {
        self.took >= Self::PREEMPTED
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Moment {
        let elapsed = self.start.elapsed();
        let whole = millis(elapsed);
        if whole.saturating_sub(self.read_at.load(Ordering::Relaxed)) >= Self::REREAD {
            self.reread(whole);
        }
        let utc = self.utc_at_start.load(Ordering::Relaxed);
        Moment { elapsed, utc: Timestamp::from_millis(utc.saturating_add_unsigned(whole)) }
    }

    fn follows_tokio(&self) -> bool {
        true
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where real time enters")]
fn system_utc() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Virtual time that is close to real time is not real time.
    #[tokio::test(start_paused = true)]
    async fn utc_follows_virtual_time_alone() {
        let clock = SystemClock::new();
        let start = clock.now().utc;
        for step in [1, 500, 499, 1_000, 7_000] {
            tokio::time::advance(Duration::from_millis(step)).await;
            clock.reread(0);
            let Moment { elapsed, utc } = clock.now();
            assert_eq!(utc.saturating_since(start), elapsed);
        }
        // It is real time again, but ahead of that of the operating system.
        tokio::time::resume();
        clock.reread(0);
        assert!(clock.now().utc.saturating_since(start) >= Duration::from_secs(9));
    }

    #[test]
    fn utc_follows_the_operating_system() {
        let clock = SystemClock::new();
        clock.utc_at_start.fetch_sub(5_000, Ordering::Relaxed);
        // A preempted reading does not count.
        let is_read = || {
            clock.reread(0);
            system_utc().abs_diff(clock.now().utc.as_millis()) < 2_500
        };
        assert!((0..1_000).any(|_| is_read()));
    }

    #[test]
    fn a_clock_does_not_start_with_an_interrupted_reading() {
        let now = tokio::time::Instant::now();
        let reading = |(utc, took)| Reading { now, utc, is_real: true, took: Duration::from_micros(took) };
        let start = |readings: &[(i64, u64)]| {
            let mut readings = readings.iter().copied().cycle().map(reading);
            SystemClock::started(|| readings.next().unwrap()).utc_at_start.into_inner()
        };
        assert_eq!(start(&[(7, 0), (8, 0)]), 7);
        assert_eq!(start(&[(60_000, 1_000), (7, 999), (8, 0)]), 7);
        // Each reading was interrupted.
        assert_eq!(start(&[(60_000, 60_000_000), (5, 2_000), (9, 3_000)]), 5);
    }

    /// Without a server, nothing else would notice a clock that is years off.
    #[test]
    fn utc_is_after_the_release_of_this_crate() {
        assert!(SystemClock::new().now().utc > Timestamp::from_millis(1_750_000_000_000));
    }
}
