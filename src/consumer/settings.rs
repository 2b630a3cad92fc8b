use std::{fmt, time::Duration};

use serde::Serialize;

use super::{
    Consumer,
    buffered_receiver::LONGEST_PAUSE,
    control::{CONCURRENCY, Control, MAX_CONCURRENCY, check_concurrency},
    health::Health,
    log::Log,
    options::Options,
    stats::Stats,
};
use crate::{
    BuildError, BuildErrorKind as Kind,
    time::as_millis,
    transport::deadline::{self as operation, OPERATION_TIMEOUT},
};

/// The settings of a consumer, as one value that is checked. Its setters take what they are given; [`Settings::check`]
/// refuses what [`Consumer`]'s own setters bring inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    concurrency: usize,
    prefetch: usize,
    #[serde(serialize_with = "as_millis::some", rename = "lock_ms")]
    lock: Option<Duration>,
    #[serde(serialize_with = "as_millis::one", rename = "renew_for_ms")]
    renew_for: Duration,
    #[serde(serialize_with = "as_millis::one", rename = "drain_timeout_ms")]
    drain_timeout: Duration,
    max_held: usize,
    #[serde(serialize_with = "as_millis::one", rename = "operation_timeout_ms")]
    operation_timeout: Duration,
}

impl Settings {
    /// Most handlers at once, and most messages ahead.
    pub const MAX_CONCURRENCY: usize = MAX_CONCURRENCY;

    /// How many messages are held outside of the slots by default.
    pub const MAX_HELD: usize = 256;

    /// The default settings of a consumer.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            concurrency: CONCURRENCY,
            prefetch: 0,
            lock: None,
            renew_for: Duration::from_secs(300),
            drain_timeout: Duration::from_secs(30),
            max_held: Self::MAX_HELD,
            operation_timeout: OPERATION_TIMEOUT,
        }
    }

    /// Sets how many messages are handled at once: 1 to [`Settings::MAX_CONCURRENCY`], by default 16.
    #[must_use]
    pub const fn concurrency(mut self, messages: usize) -> Self {
        self.concurrency = messages;
        self
    }

    /// Sets how many messages are locked ahead: up to [`Settings::MAX_CONCURRENCY`], by default none.
    #[must_use]
    pub const fn prefetch(mut self, messages: usize) -> Self {
        self.prefetch = messages;
        self
    }

    /// Sets how long a lock of the entity lasts. Only the check uses it: the consumer uses the locks that it
    /// gets.
    #[must_use]
    pub const fn lock(mut self, lock: Duration) -> Self {
        self.lock = Some(lock);
        self
    }

    /// Sets for how long locks are renewed while a handler runs: by default five minutes. Zero renews never. A message that
    /// the consumer keeps for a [delay](crate::settlement::Changes::after) is then abandoned after half of its lock.
    #[must_use]
    pub const fn renew_for(mut self, total: Duration) -> Self {
        self.renew_for = total;
        self
    }

    /// Sets how long a shutdown waits for handlers that run: by default 30 seconds. It ends at most 1 second later.
    #[must_use]
    pub const fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Sets how many messages are held outside of the slots, by default [`Settings::MAX_HELD`]:
    /// [`Consumer::max_held`](Consumer::max_held).
    #[must_use]
    pub const fn max_held(mut self, messages: usize) -> Self {
        self.max_held = messages;
        self
    }

    /// Sets how long the transport may take to answer a settlement, a release or a renewal: 1 ms to a year, by default 60
    /// seconds.
    #[must_use]
    pub const fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    /// Checks that a consumer can have them. Errors: the first one that is wrong.
    pub fn check(&self) -> Result<(), BuildError> {
        let Self { concurrency, prefetch, lock, renew_for, operation_timeout, .. } = *self;
        let max = Self::MAX_CONCURRENCY;
        check_concurrency(concurrency)?;
        let wrong = if prefetch > max {
            (Kind::TooMuchPrefetch, format!("the consumer locks {prefetch} messages ahead: set at most {max}"))
        } else if let Some(lock) = lock.filter(|lock| !renew_for.is_zero() && renew_for < *lock / 2) {
            let advice = format!(
                "the consumer renews for {renew_for:?} a lock of {lock:?}, whose first renewal is due after {:?}: renew for \
                 longer, or not at all",
                lock / 2
            );
            (Kind::RenewalTooShort, advice)
        } else if operation_timeout != operation::clamped(operation_timeout) {
            let advice =
                format!("the consumer waits {operation_timeout:?} for answers of its transport: set 1 ms to a year");
            (Kind::OperationTimeout, advice)
        } else {
            return Ok(());
        };
        Err(BuildError::new(wrong.0, wrong.1))
    }

    pub(super) fn options(&self) -> Options {
        let stats = Stats::default();
        let (health, control) = (Health::new(self.concurrency, stats.clone()), Control::new(self.concurrency));
        control.configure(self.concurrency, &health);
        Options {
            concurrency: self.concurrency,
            control,
            prefetch: self.prefetch,
            renewal: self.renew_for,
            drain: self.drain_timeout,
            max_held: self.max_held,
            operation: self.operation_timeout,
            longest_refusal: LONGEST_PAUSE,
            health,
            stats,
            undeliverable: None,
            log: Log::new(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

impl<R, S> Consumer<R, S> {
    /// A consumer with these settings. Errors: those of [`Settings::check`].
    pub fn configured(receiver: R, service: S, settings: &Settings) -> Result<Self, BuildError>
    where
        S: Clone,
    {
        settings.check()?;
        Ok(Self { receiver, service, clone_service: Some(S::clone), options: settings.options() })
    }
}

/// One line.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at once, prefetch {}, ", self.concurrency, self.prefetch)?;
        if let Some(lock) = self.lock {
            write!(f, "locks of {lock:?}, ")?;
        }
        if self.renew_for.is_zero() {
            f.write_str("not renewed")?;
        } else {
            write!(f, "renewed for {:?}", self.renew_for)?;
        }
        write!(f, ", drains for {:?}, operations within {:?}", self.drain_timeout, self.operation_timeout)?;
        if self.max_held != Self::MAX_HELD {
            write!(f, ", holds up to {}", self.max_held)?;
        }
        Ok(())
    }
}
