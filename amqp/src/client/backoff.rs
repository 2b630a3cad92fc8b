use std::time::Duration;

use fastrand::Rng;

/// The pauses between attempts to connect again. They double from the first to the longest, and are random between half and all of
/// that.
///
/// It has no clock: the caller sleeps.
///
/// ```
/// use std::time::Duration;
///
/// use consign_amqp::client::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
/// let pause = backoff.next_pause();
/// assert!(pause >= Duration::from_millis(50) && pause <= Duration::from_millis(100));
/// // After the second failure in a row, between 100 and 200 milliseconds, and so on.
/// assert!(backoff.next_pause() >= Duration::from_millis(100));
/// // Connected: the next failure is the first one again.
/// backoff.reset();
/// assert!(backoff.next_pause() <= Duration::from_millis(100));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    random: Rng,
}

impl Backoff {
    /// Creates a backoff with its first and its longest pause. `first` is the longest one too if it is longer.
    #[must_use]
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest: longest.max(first), failures: 0, random: Rng::new() }
    }

    /// Sets the seed of the random part. Two backoffs with the same seed have the same pauses.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.random = Rng::with_seed(seed);
        self
    }

    /// Counts a failure, and returns the pause before the next attempt.
    pub fn next_pause(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let whole = self.first.saturating_mul(factor).min(self.longest);
        let half = whole / 2;
        let random = u64::try_from(whole.saturating_sub(half).as_nanos()).unwrap_or(u64::MAX);
        half + Duration::from_nanos(self.random.u64(..=random))
    }

    /// Returns the failures since the last reset.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Starts from the first pause again. Call it when a connection has been of use, not when it was merely opened: a server that
    /// closes each connection at once would be called without pause.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }
}
