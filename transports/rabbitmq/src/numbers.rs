use std::sync::atomic::{AtomicU64, Ordering};

use consign_core::time::Timestamp;

/// Numbers for the messages of one process. They ascend and begin with the time, so that those of several processes are nearly
/// in order and hardly ever the same.
#[derive(Debug)]
pub(crate) struct Numbers {
    last: AtomicU64,
    /// What this process adds to the time.
    salt: u64,
}

/// 2^20 numbers for each millisecond.
const SHIFT: u32 = 20;

impl Numbers {
    pub(crate) fn new() -> Self {
        Self { last: AtomicU64::new(0), salt: fastrand::u64(..1 << (SHIFT - 1)) }
    }

    /// Returns the time of a number. It is that of [`next`](Self::next), unless the clock was set back or too many numbers were
    /// given in a millisecond.
    pub(crate) fn time_of(number: u64) -> Timestamp {
        Timestamp::from_millis((number >> SHIFT).cast_signed())
    }

    pub(crate) fn next(&self, now: Timestamp) -> u64 {
        let at = (now.as_millis().max(0).cast_unsigned() << SHIFT) | self.salt;
        let next = |last: u64| at.max(last + 1);
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        last.map_or(at, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_whatever_the_clock_does() {
        let numbers = Numbers::new();
        let times = [5_000, 5_000, 5_001, 4_000, 4_000, 6_000];
        let given: Vec<u64> = times.iter().map(|&at| numbers.next(Timestamp::from_millis(at))).collect();
        assert!(given.is_sorted_by(|one, next| one < next), "{given:?}");
        let times = given.iter().map(|&number| Numbers::time_of(number).as_millis());
        assert_eq!(times.collect::<Vec<_>>(), [5_000, 5_000, 5_001, 5_001, 5_001, 6_000]);
    }
}
