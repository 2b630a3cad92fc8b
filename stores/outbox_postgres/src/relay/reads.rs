//! How much is read from the table at once, and how long that may take.

use std::time::Duration;

/// How many bytes of messages are read at once.
const MOST_BYTES: i64 = 8 << 20;
/// The longest limit of a read.
const LONGEST: Duration = Duration::from_secs(600);

/// The limits of the next read. One that takes too long would take too long again, and no message would be sent: the next one reads
/// half as much, and may take twice as long.
#[derive(Debug)]
pub(super) struct Reads {
    rows: u32,
    limit: Duration,
    /// How often the limits were halved and doubled.
    late: u32,
}

impl Reads {
    pub(super) fn new(rows: u32, limit: Duration) -> Self {
        Self { rows, limit, late: 0 }
    }

    pub(super) fn rows(&self) -> usize {
        let rows = self.rows.checked_shr(self.late).unwrap_or(0).max(1);
        usize::try_from(rows).unwrap_or(usize::MAX)
    }

    /// A batch has at most so many bytes of messages, or one message.
    pub(super) fn bytes(&self) -> i64 {
        MOST_BYTES.checked_shr(self.late).unwrap_or(0).max(1)
    }

    pub(super) fn limit(&self) -> Duration {
        let doubled = 1_u32.checked_shl(self.late).unwrap_or(u32::MAX);
        self.limit.saturating_mul(doubled).min(LONGEST.max(self.limit))
    }

    /// A read has failed. The server ends a statement a little before this side gives it up.
    pub(super) fn failed_after(&mut self, took: Duration) {
        if took >= self.limit() / 2 && self.limit() < LONGEST {
            self.late += 1;
        }
    }

    pub(super) fn succeeded_after(&mut self, took: Duration) {
        // Twice as much would still be in time.
        if took < self.limit / 4 {
            self.late = self.late.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_late_read_is_followed_by_smaller_ones_that_may_take_longer() {
        let mut reads = Reads::new(100, 10 * SECOND);
        let limits = |reads: &Reads| (reads.rows(), reads.bytes(), reads.limit());
        let first = limits(&reads);
        assert_eq!(first, (100, 8 << 20, 10 * SECOND));
        // A connection that was refused says nothing of reads.
        reads.failed_after(SECOND);
        assert_eq!(limits(&reads), first);
        reads.failed_after(10 * SECOND);
        assert_eq!(limits(&reads), (50, 4 << 20, 20 * SECOND));
        reads.succeeded_after(8 * SECOND);
        assert_eq!(reads.rows(), 50);
        reads.succeeded_after(SECOND);
        assert_eq!(limits(&reads), first);
    }

    #[test]
    fn a_batch_has_a_row_and_a_read_at_most_ten_minutes() {
        let mut reads = Reads::new(1, 10 * SECOND);
        for _ in 0..100 {
            reads.failed_after(reads.limit());
        }
        assert_eq!((reads.rows(), reads.limit()), (1, LONGEST));
        assert!(reads.bytes() > 0);
        let mut longer = Reads::new(1, 2 * LONGEST);
        longer.failed_after(2 * LONGEST);
        assert_eq!(longer.limit(), 2 * LONGEST);
    }
}
