use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use consign_core::time::{Clock, Moment, Timestamp};

/// The clock of a broker on a disk. It can express instants before this process, and its UTC never goes back.
///
/// UTC may step back while the broker runs, and while it does not. Then this clock continues from the latest UTC that
/// it showed or that was stored, as fast as monotonic time. Pending events are due as if UTC had not stepped back.
pub(super) struct Later {
    clock: Arc<dyn Clock>,
    /// UTC in milliseconds when no time had elapsed, the latest that it ever was.
    start: AtomicI64,
    /// How many milliseconds this is ahead of the clock's UTC.
    pub(super) ahead: Arc<AtomicI64>,
}

impl Later {
    /// About a hundred years: longer than anything waits for its broker to be opened.
    const SPAN: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

    /// Creates a clock that shows at least `latest` from now on.
    pub(super) fn new(clock: Arc<dyn Clock>, latest: Timestamp) -> Self {
        let start = latest.as_millis().saturating_sub(millis(clock.now().elapsed));
        Self { clock, start: AtomicI64::new(start), ahead: Arc::default() }
    }
}

impl Clock for Later {
    fn now(&self) -> Moment {
        let Moment { elapsed, utc } = self.clock.now();
        let since = millis(elapsed);
        let start = utc.as_millis().saturating_sub(since);
        let mut latest = self.start.load(Ordering::Relaxed);
        if start > latest {
            latest = self.start.fetch_max(start, Ordering::Relaxed).max(start);
        }
        let shown = Timestamp::from_millis(latest.saturating_add(since));
        let ahead = shown.as_millis().saturating_sub(utc.as_millis());
        if ahead != self.ahead.load(Ordering::Relaxed) {
            self.ahead.store(ahead, Ordering::Relaxed);
        }
        Moment { elapsed: elapsed + Self::SPAN, utc: shown }
    }
}

/// Whole milliseconds, saturating.
fn millis(duration: Duration) -> i64 {
    let millis = duration.as_secs().saturating_mul(1_000).saturating_add(u64::from(duration.subsec_millis()));
    i64::try_from(millis).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use consign_core::time::ManualClock;

    use super::*;

    /// Rules: D-244.
    #[test]
    fn utc_never_goes_back_while_the_broker_runs() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let start = Timestamp::from_millis(1_700_000_000_000);
        let clock = Arc::new(ManualClock::new(start));
        let later = Later::new(Arc::<ManualClock>::clone(&clock), start);
        clock.set_utc(start.saturating_add(HOUR));
        let latest = later.now().utc;
        assert_eq!(latest, start.saturating_add(HOUR));
        clock.set_utc(start);
        assert_eq!(later.now().utc, latest);
        assert_eq!(later.ahead.load(Ordering::Relaxed), 3_600_000);
        // It continues as fast as time passes, until UTC has caught up.
        clock.advance(HOUR / 2);
        assert_eq!(later.now().utc, latest.saturating_add(HOUR / 2));
        clock.set_utc(latest.saturating_add(HOUR));
        assert_eq!(later.now().utc, latest.saturating_add(HOUR));
    }
}
