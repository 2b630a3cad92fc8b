//! The clock of the library: a monotonic instant for locks and a UTC timestamp for properties, from one [`Clock`].

mod instant;
mod rfc3339;
mod serde;
mod system;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use self::instant::date;
pub use self::system::SystemClock;

/// Milliseconds since the Unix epoch, UTC. It saturates at [`Timestamp::MAX`], which stands for "never".
///
/// # In bodies
///
/// A timestamp is read from these forms. Fractions of a millisecond are discarded.
///
/// | in the body | read as |
/// |---|---|
/// | text of RFC 3339: `2023-11-14T22:13:20.5+01:00` | that instant |
/// | a number: an integer, or a float that is a whole number | milliseconds since 1970 |
/// | the timestamp extension of `MessagePack` (type -1) | that instant |
/// | CBOR's tag 1: seconds since 1970, as an integer or a float | that instant |
///
/// It is written as text in JSON and other human-readable formats, and as milliseconds in the others.
///
/// ```
/// use consign::time::Timestamp;
///
/// let at: Timestamp = serde_json::from_str("\"2023-11-14T22:13:20.5Z\"")?;
/// assert_eq!(at, Timestamp::from_millis(1_700_000_000_500));
/// assert_eq!(at, serde_json::from_str("1700000000500")?);
/// assert_eq!(serde_json::to_string(&at)?, "\"2023-11-14T22:13:20.500Z\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The end of 9999-12-31: later instants saturate here, and an expiry at it never comes.
    pub const MAX: Self = Self(253_402_300_799_999);
    /// 1970-01-01.
    pub const EPOCH: Self = Self(0);

    /// Creates a timestamp from milliseconds since the Unix epoch, saturating at [`Timestamp::MAX`].
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        if millis > Self::MAX.0 { Self::MAX } else { Self(millis) }
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This instant plus `duration`, whole milliseconds, saturating.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self::from_millis(self.0.saturating_add_unsigned(millis(duration)))
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Whole milliseconds, saturating. Times before 1970 are negative.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Self::EPOCH.saturating_add(after),
            Err(before) => {
                let (before, millisecond) = (before.duration(), Duration::from_millis(1));
                // An instant within a millisecond belongs to the one that has begun.
                let whole = before.saturating_add(millisecond.saturating_sub(Duration::from_nanos(1)));
                Self(0_i64.saturating_sub_unsigned(millis(whole)))
            }
        }
    }
}

/// Durations as whole milliseconds, for serde.
#[doc(hidden)]
pub mod as_millis {
    use std::time::Duration;

    use ::serde::Serializer;

    #[doc(hidden)]
    pub fn one<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(super::millis(*duration))
    }

    #[doc(hidden)]
    pub fn some<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => one(duration, serializer),
            None => serializer.serialize_none(),
        }
    }
}

/// ISO 8601 with milliseconds, in UTC: `2023-11-14T22:13:20.000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: i64 = 24 * 60 * 60 * 1_000;
        let (year, month, day) = date(self.0.div_euclid(DAY));
        let millis = self.0.rem_euclid(DAY);
        let (hours, minutes, seconds) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", millis % 1_000)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// One reading of a [`Clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Time since the clock's own start. It never goes back, whatever the operating system does to UTC.
    pub elapsed: Duration,
    /// UTC at that instant.
    pub utc: Timestamp,
}

/// A source of time: a monotonic instant and UTC. Locks and deadlines follow [`Moment::elapsed`], properties show
/// [`Moment::utc`].
pub trait Clock: Send + Sync + 'static {
    /// Reads the clock.
    fn now(&self) -> Moment;

    /// Returns whether [`Moment::elapsed`] advances exactly as tokio's time does, so that a timer of tokio that was set for
    /// an instant of this clock is not set again. By default it does not.
    fn follows_tokio(&self) -> bool {
        false
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Moment {
        (**self).now()
    }

    fn follows_tokio(&self) -> bool {
        (**self).follows_tokio()
    }
}

/// A clock that only moves when it is set or advanced.
#[derive(Debug)]
pub struct ManualClock {
    elapsed: AtomicU64,
    utc: AtomicI64,
}

impl ManualClock {
    /// A clock that shows `utc` and has run for no time.
    #[must_use]
    pub fn new(utc: Timestamp) -> Self {
        Self { elapsed: AtomicU64::new(0), utc: AtomicI64::new(utc.as_millis()) }
    }

    /// Moves time on, in whole milliseconds, up to the last that it can show.
    pub fn advance(&self, by: Duration) {
        let by = millis(by);
        let relaxed = Ordering::Relaxed;
        // Neither closure refuses a value.
        let _ = self.elapsed.fetch_update(relaxed, relaxed, |elapsed| Some(elapsed.saturating_add(by)));
        let _ = self.utc.fetch_update(relaxed, relaxed, |utc| Some(utc.saturating_add_unsigned(by)));
    }

    /// Sets UTC as an operating system may, forwards or back. Monotonic time does not notice.
    pub fn set_utc(&self, utc: Timestamp) {
        self.utc.store(utc.as_millis(), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment {
            elapsed: Duration::from_millis(self.elapsed.load(Ordering::Relaxed)),
            utc: Timestamp::from_millis(self.utc.load(Ordering::Relaxed)),
        }
    }
}

/// Whole milliseconds, saturating, without the 128 bits of [`Duration::as_millis`].
#[inline]
fn millis(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000).saturating_add(u64::from(duration.subsec_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_time_is_cut_to_the_millisecond_that_has_begun() {
        let at = |nanos: i64| {
            let distance = Duration::from_nanos(nanos.unsigned_abs());
            let epoch = SystemTime::UNIX_EPOCH;
            Timestamp::from(if nanos < 0 { epoch - distance } else { epoch + distance }).as_millis()
        };
        let millis = [0, 999_999, 1_000_000, -1, -1_000_000, -1_000_001].map(at);
        assert_eq!(millis, [0, 0, 1, -1, -1, -2]);
        let late = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        assert_eq!(Timestamp::from(late), Timestamp::MAX);
    }

    #[test]
    fn a_timestamp_is_written_in_iso_8601() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_700_000_000_000, "2023-11-14T22:13:20.000Z"),
            (951_782_400_001, "2000-02-29T00:00:00.001Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (4_107_456_000_000, "2100-02-28T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text, "{millis}");
        }
    }

    #[test]
    fn a_shared_clock_answers_as_the_one_inside() {
        let manual = ManualClock::new(Timestamp::from_millis(7));
        manual.advance(Duration::from_millis(3));
        let moment = Moment { elapsed: Duration::from_millis(3), utc: Timestamp::from_millis(10) };
        let clocks: [(Arc<dyn Clock>, bool); 2] = [(Arc::new(manual), false), (Arc::new(SystemClock::new()), true)];
        assert_eq!(Arc::new(Arc::clone(&clocks[0].0)).now(), moment);
        for (clock, follows) in clocks {
            assert_eq!((clock.follows_tokio(), Arc::new(clock).follows_tokio()), (follows, follows));
        }
    }

    #[test]
    fn a_manual_clock_stands_still_at_its_end() {
        let clock = ManualClock::new(Timestamp::from_millis(1));
        clock.advance(Duration::from_secs(1));
        clock.advance(Duration::MAX);
        clock.advance(Duration::from_secs(1));
        let end = Moment { elapsed: Duration::from_millis(u64::MAX), utc: Timestamp::from_millis(i64::MAX) };
        assert_eq!(clock.now(), end);
    }
}
