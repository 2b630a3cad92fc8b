use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

use crate::time::{Clock, Moment, Timestamp};

/// Where [`TestBroker`](super::TestBroker) has its time from: tokio's, if that is paused, and what the test skips. It
/// never follows a real clock.
#[derive(Debug)]
pub(super) struct TestClock {
    /// `None` if tokio's time is not virtual.
    start: Option<Instant>,
    /// Outside its runtime a paused time cannot be read.
    latest: AtomicU64,
    skipped: AtomicU64,
}

impl TestClock {
    pub(super) const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    pub(super) fn new() -> Self {
        let start = paused_now();
        Self { start, latest: AtomicU64::new(0), skipped: AtomicU64::new(0) }
    }

    /// Moves time on, in whole milliseconds.
    pub(super) fn skip(&self, by: Duration) {
        let (by, relaxed) = (millis(by), Ordering::Relaxed);
        // The closure refuses no value.
        let _ = self.skipped.fetch_update(relaxed, relaxed, |skipped| Some(skipped.saturating_add(by)));
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        let virtual_now = self.start.map_or(0, |start| match tokio::runtime::Handle::try_current() {
            Ok(_) => millis(start.elapsed()),
            Err(_) => 0,
        });
        let latest = self.latest.fetch_max(virtual_now, Ordering::Relaxed).max(virtual_now);
        let elapsed = Duration::from_millis(latest.saturating_add(self.skipped.load(Ordering::Relaxed)));
        Moment { elapsed, utc: Self::START.saturating_add(elapsed) }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// tokio's time, if it stands still while real time passes.
#[expect(clippy::disallowed_methods, reason = "to see that time is virtual takes a look at the real one")]
fn paused_now() -> Option<Instant> {
    tokio::runtime::Handle::try_current().ok()?;
    let (now, real) = (Instant::now(), std::time::Instant::now());
    while std::time::Instant::now() == real {
        std::hint::spin_loop();
    }
    (Instant::now() == now).then_some(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_paused_and_skipped_time() {
        let clock = TestClock::new();
        let second = Duration::from_secs(1);
        assert_eq!(clock.now(), Moment { elapsed: Duration::ZERO, utc: TestClock::START });
        tokio::time::sleep(second).await;
        clock.skip(second);
        assert_eq!(clock.now(), Moment { elapsed: 2 * second, utc: TestClock::START.saturating_add(2 * second) });
        let outside = std::thread::scope(|scope| scope.spawn(|| clock.now()).join());
        assert_eq!(outside.unwrap().elapsed, 2 * second);
    }

    #[tokio::test]
    async fn the_clock_never_follows_real_time() {
        assert_eq!(TestClock::new().start, None);
    }

    #[test]
    fn the_clock_needs_no_runtime() {
        let clock = TestClock::new();
        clock.skip(Duration::from_millis(5));
        assert_eq!(clock.now().elapsed, Duration::from_millis(5));
    }

    #[test]
    fn the_clock_stands_still_at_its_end() {
        let clock = TestClock::new();
        for by in [Duration::from_secs(1), Duration::MAX, Duration::from_secs(1)] {
            clock.skip(by);
        }
        assert_eq!(clock.now().elapsed, Duration::from_millis(u64::MAX));
    }
}
