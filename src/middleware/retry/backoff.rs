use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::message::random_id::random_uuid;

/// The delays before the next delivery: a first one, which is multiplied after each further failure, up to a maximum.
/// Delays are whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    factor: u32,
    longest: Duration,
    jitter: Jitter,
}

/// The jitter, which spreads the delays of messages that failed together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Jitter {
    /// Not at all.
    None,
    /// From half of the delay to all of it, which guarantees a minimum.
    #[default]
    Equal,
    /// From zero to all of the delay: the widest spread, without a minimum.
    Full,
}

/// As in `10s x 2 up to 3600s, jitter equal`; a fixed delay is that alone.
impl fmt::Display for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.first.min(self.longest))?;
        if self.factor > 1 {
            write!(f, " x {} up to {:?}", self.factor, self.longest)?;
        }
        match self.jitter {
            Jitter::None => Ok(()),
            Jitter::Equal => f.write_str(", jitter equal"),
            Jitter::Full => f.write_str(", jitter full"),
        }
    }
}

impl Backoff {
    /// The longest delay unless set: an hour.
    pub const LONGEST: Duration = Duration::from_secs(3_600);

    /// `first`, twice of it, four times of it, and so on up to an hour, with [`Jitter::Equal`].
    #[must_use]
    pub const fn exponential(first: Duration) -> Self {
        Self { first, factor: 2, longest: Self::LONGEST, jitter: Jitter::Equal }
    }

    /// Creates a policy with the same delay each time, without jitter.
    #[must_use]
    pub const fn fixed(delay: Duration) -> Self {
        Self { first: delay, factor: 1, longest: delay, jitter: Jitter::None }
    }

    /// By what each delay is longer than the one before; 0 counts as 1.
    #[must_use]
    pub const fn factor(mut self, factor: u32) -> Self {
        self.factor = if factor == 0 { 1 } else { factor };
        self
    }

    /// Sets the longest delay.
    #[must_use]
    pub const fn longest(mut self, delay: Duration) -> Self {
        self.longest = delay;
        self
    }

    /// Sets how delays are spread.
    #[must_use]
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Returns the delay after so many failures, of which the first is 1, at the place `random` between the least and the
    /// most that the jitter allows: 0 is the least, `u64::MAX` the most.
    #[must_use]
    pub fn delay(&self, failures: u32, random: u64) -> Duration {
        let factor = u128::from(self.factor).saturating_pow(failures.saturating_sub(1));
        let nanos = self.first.as_nanos().saturating_mul(factor).min(self.longest.as_nanos());
        let millis = u64::try_from(nanos / 1_000_000).unwrap_or(u64::MAX);
        let least = match self.jitter {
            Jitter::None => millis,
            Jitter::Equal => millis.div_ceil(2),
            Jitter::Full => 0,
        };
        let places = u128::from(millis - least) + 1;
        let place = (places * u128::from(random)) >> 64;
        Duration::from_millis(least + u64::try_from(place).unwrap_or(u64::MAX))
    }
}

/// Numbers for jitter: `SplitMix64`, by Steele, Lea and Flood. They need not be hard to guess.
#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

impl Random {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    pub(crate) fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    pub(crate) fn new() -> Self {
        let (_, low) = uuid::Uuid::from_bytes(random_uuid()).as_u64_pair();
        Self::seeded(low)
    }

    pub(crate) fn next(&self) -> u64 {
        let state = self.0.fetch_add(Self::STEP, Ordering::Relaxed).wrapping_add(Self::STEP);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Rules: Y-12.
    #[test]
    fn delays_grow_up_to_the_longest() {
        let backoff = Backoff::exponential(SECOND).longest(10 * SECOND).jitter(Jitter::None);
        let delays: Vec<_> = [0, 1, 2, 3, 4, 5, 33, u32::MAX].map(|n| backoff.delay(n, 7).as_secs()).into();
        assert_eq!(delays, [1, 1, 2, 4, 8, 10, 10, 10]);
        let slow = Backoff::exponential(SECOND).factor(3).longest(Duration::MAX).jitter(Jitter::None);
        assert_eq!([1, 2, 3].map(|n| slow.delay(n, 0).as_secs()), [1, 3, 9]);
        assert_eq!([1, 2, 99].map(|n| Backoff::fixed(SECOND).delay(n, 0)), [SECOND; 3]);
        let none = Backoff::exponential(Duration::ZERO).jitter(Jitter::None);
        assert_eq!([1, 33, 40, u32::MAX].map(|n| none.delay(n, 0)), [Duration::ZERO; 4]);
        let tiny = Backoff::exponential(Duration::from_nanos(1)).jitter(Jitter::None);
        assert_eq!([32, 33, 40].map(|n| tiny.delay(n, 0).as_millis()), [2_147, 4_294, 549_755]);
        let longest = Backoff::exponential(Duration::MAX).factor(0).longest(Duration::MAX);
        assert!(longest.delay(u32::MAX, u64::MAX) > Duration::from_secs(1 << 40));
    }

    /// Rules: Y-12.
    #[test]
    fn jitter_spreads_delays_over_its_whole_range_and_no_further() {
        let random = Random::new();
        for (jitter, least) in [(Jitter::Equal, 50), (Jitter::Full, 0), (Jitter::None, 100)] {
            let backoff = Backoff::exponential(Duration::from_millis(100)).jitter(jitter);
            let bounds = [0, u64::MAX].map(|place| backoff.delay(1, place).as_millis());
            assert_eq!(bounds, [least, 100]);
            let drawn: std::collections::BTreeSet<_> =
                (0..10_000).map(|_| backoff.delay(1, random.next()).as_millis()).collect();
            assert!(drawn.iter().copied().eq(least..=100), "{jitter:?}: {drawn:?}");
        }
    }

    #[test]
    fn numbers_of_one_seed_are_the_same_and_those_of_two_are_not() {
        let numbers = |random: &Random| -> Vec<_> { (0..100).map(|_| random.next()).collect() };
        assert_eq!(numbers(&Random::seeded(1)), numbers(&Random::seeded(1)));
        assert_ne!(numbers(&Random::seeded(1)), numbers(&Random::seeded(2)));
        assert_ne!(numbers(&Random::new()), numbers(&Random::new()));
        // Of the authors' own program, seeded with 0.
        assert_eq!(Random::seeded(0).next(), 0xe220_a839_7b1d_cdaf);
    }
}
