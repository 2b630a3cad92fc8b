//! Time as the library sees it: a monotonic instant for locks and a UTC timestamp for properties, from one [`Clock`].

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Milliseconds since the Unix epoch, UTC. It saturates at [`Timestamp::MAX`], which stands for "never".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The end of 9999-12-31: later instants saturate here, and an expiry at it never comes.
    pub const MAX: Self = Self(253_402_300_799_999);
    /// 1970-01-01.
    pub const EPOCH: Self = Self(0);

    /// From milliseconds since the Unix epoch, saturating at [`Timestamp::MAX`].
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

/// Where time comes from. Locks and deadlines follow [`Moment::elapsed`], properties show [`Moment::utc`].
pub trait Clock: Send + Sync + 'static {
    /// Reads the clock.
    fn now(&self) -> Moment;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Moment {
        (**self).now()
    }
}

/// The tokio clock: real time in production, virtual time under `tokio::time::pause`.
///
/// UTC is read from the operating system once a second at most and advanced by monotonic time in between. While tokio's
/// time is virtual UTC follows the virtual time alone.
#[derive(Debug)]
pub struct SystemClock {
    start: tokio::time::Instant,
    real_start: std::time::Instant,
    /// UTC milliseconds at `start`, as of the last reading of the operating system's clock.
    utc_at_start: AtomicI64,
    /// Elapsed milliseconds at that reading.
    read_at: AtomicU64,
}

impl SystemClock {
    const REREAD: u64 = 1_000;

    /// A clock that starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place where real time enters")]
    pub fn new() -> Self {
        Self {
            start: tokio::time::Instant::now(),
            real_start: std::time::Instant::now(),
            utc_at_start: AtomicI64::new(system_utc()),
            read_at: AtomicU64::new(0),
        }
    }

    #[cold]
    #[expect(clippy::disallowed_methods, reason = "the one place where real time enters")]
    fn reread(&self, elapsed: u64) {
        self.read_at.store(elapsed, Ordering::Relaxed);
        let real = millis(std::time::Instant::now().saturating_duration_since(self.real_start));
        if real.abs_diff(elapsed) < Self::REREAD {
            let start = system_utc().saturating_sub(i64::try_from(elapsed).unwrap_or(i64::MAX));
            self.utc_at_start.store(start, Ordering::Relaxed);
        }
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
}

/// A clock that stands still until it is told otherwise.
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

    /// Moves time on, in whole milliseconds.
    pub fn advance(&self, by: Duration) {
        self.elapsed.fetch_add(millis(by), Ordering::Relaxed);
        self.utc.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::Relaxed);
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

#[expect(clippy::disallowed_methods, reason = "the one place where real time enters")]
fn system_utc() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
