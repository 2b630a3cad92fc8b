use std::time::Duration;

use consign_core::time::{Moment, Timestamp};

/// Nanoseconds of the broker's monotonic clock.
pub(crate) type Ticks = u64;
/// "Never", as an instant of the monotonic clock.
pub(crate) const NEVER: Ticks = Ticks::MAX;

/// The time of a command: monotonic for deadlines, UTC for times that are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) ticks: Ticks,
    pub(crate) utc: Timestamp,
}

impl Now {
    /// Returns the time at an instant that has passed.
    pub(super) fn at(self, instant: Ticks) -> Self {
        let ago = self.ticks.saturating_sub(instant) / 1_000_000;
        let utc = self.utc.as_millis().saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX));
        Self { ticks: instant, utc: Timestamp::from_millis(utc) }
    }

    /// Returns the UTC of an instant, past or future.
    #[cfg(feature = "durable")]
    pub(super) fn utc_at(self, instant: Ticks) -> Timestamp {
        match instant.checked_sub(self.ticks) {
            Some(wait) => self.utc.saturating_add(Duration::from_nanos(wait)),
            None => self.at(instant).utc,
        }
    }

    /// Returns the instant of the monotonic clock at which UTC was, or will be, `at`, if it continues as it does now.
    pub(super) fn ticks_at(self, at: Timestamp) -> Ticks {
        if at < self.utc {
            self.ticks.saturating_sub(ticks(self.utc.saturating_since(at)))
        } else {
            self.ticks.saturating_add(ticks(at.saturating_since(self.utc)))
        }
    }
}

impl From<Moment> for Now {
    #[inline]
    fn from(moment: Moment) -> Self {
        Self { ticks: ticks(moment.elapsed), utc: moment.utc }
    }
}

#[inline]
pub(super) fn ticks(duration: Duration) -> Ticks {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

/// Returns whole milliseconds, so that the end that is shown is the one that holds.
pub(super) fn whole_millis(duration: Duration) -> Ticks {
    u64::try_from(duration.as_millis()).map_or(Ticks::MAX, |millis| millis.saturating_mul(1_000_000))
}
