//! What is known of the sizes of entities.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::failure::Failure;

/// Up to this size an entity is summed up each time.
const SMALL: u64 = 4 << 20;
/// How long a sum is valid.
const FRESH: Duration = Duration::from_secs(60);
/// How soon a large entity that was full is summed up again.
const FULL: Duration = Duration::from_secs(1);
/// A sum of a small and of a large entity that took no longer than this may be taken again at once.
const QUICK: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(100)];
/// How many entities are kept.
const MOST: usize = 10_000;

#[derive(Default)]
pub(crate) struct Quota(Mutex<Sums>);

#[derive(Default)]
struct Sums {
    known: HashMap<i64, Known>,
    running: HashMap<i64, Running>,
    /// How many changes of settings there were, and the number of the last one of each entity, and of all of them.
    changes: u64,
    changed: HashMap<i64, u64>,
    all_changed: u64,
}

impl Sums {
    /// A sum that began before a change is not kept.
    fn changes(&self, entity: i64) -> u64 {
        self.changed.get(&entity).copied().unwrap_or(0).max(self.all_changed)
    }
}

impl Quota {
    /// Has an entity summed up by the next send, because its size was changed. Until then the last sum is kept.
    pub(crate) fn forget(&self, entity: i64) {
        let mut sums = self.0.lock();
        sums.changes += 1;
        let now = sums.changes;
        if sums.changed.len() >= MOST {
            sums.changed.clear();
            sums.all_changed = now;
        }
        sums.changed.insert(entity, now);
        if let Some(known) = sums.known.get_mut(&entity) {
            known.is_stale = true;
        }
    }

    /// As [`forget`](Self::forget), for all entities: changes may have been missed.
    pub(crate) fn forget_all(&self) {
        let mut sums = self.0.lock();
        sums.changes += 1;
        sums.all_changed = sums.changes;
        sums.changed.clear();
        for known in sums.known.values_mut() {
            known.is_stale = true;
        }
    }

    /// Returns a number that differs after settings of the entity were changed, or may have been.
    pub(crate) fn changes(&self, entity: i64) -> u64 {
        self.0.lock().changes(entity)
    }

    pub(super) fn known(&self, entity: i64) -> Option<Known> {
        self.0.lock().known.get(&entity).copied()
    }

    /// Records that an entity is sent so many bytes.
    pub(super) fn add(&self, entity: i64, bytes: u64) {
        if let Some(known) = self.0.lock().known.get_mut(&entity) {
            known.added = known.added.saturating_add(bytes);
        }
    }

    /// Records that so many bytes of those were not sent.
    pub(super) fn take_back(&self, entity: i64, bytes: u64) {
        if let Some(known) = self.0.lock().known.get_mut(&entity) {
            known.added = known.added.saturating_sub(bytes);
        }
    }

    /// Records a sum that took so long, or that it failed. The limit of a failed one may have been read.
    pub(super) fn keep(
        &self,
        entity: i64,
        sum: &Result<Option<Sum>, Failure>,
        limit: Option<u64>,
        took: Duration,
        changes: u64,
    ) {
        let mut sums = self.0.lock();
        if sums.changes(entity) != changes {
            return;
        }
        if sums.known.len() > MOST {
            sums.known.clear();
        }
        let known = match sum {
            Ok(Some(sum)) => Known::new(*sum, took),
            Ok(None) => return,
            Err(_) => Known::not_summed(sums.known.get(&entity).copied(), limit, took),
        };
        sums.known.insert(entity, known);
    }

    /// Returns the sum that is being taken, and how long to wait for it; or what a new one is started with.
    pub(super) fn running(&self, entity: i64, longest: Duration) -> Result<(Answer, Instant), Begun> {
        let mut sums = self.0.lock();
        let changes = sums.changes(entity);
        if let Some(running) = sums.running.get(&entity).filter(|running| running.is_current(changes)) {
            return Ok((running.sum.clone(), running.until));
        }
        sums.running.retain(|_, running| running.sum.has_changed().is_ok());
        let (answer, sum) = watch::channel(None);
        let at = Instant::now();
        let until = at + longest;
        sums.running.insert(entity, Running { sum: sum.clone(), until, changes });
        Err(Begun { answer, sum, at, until, changes })
    }
}

/// The bytes that an entity may have, and has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) limit: u64,
    pub(super) used: u64,
}

impl Sum {
    /// Of an entity whose size does not matter.
    pub(super) const NONE: Self = Self { limit: u64::MAX, used: 0 };

    fn is_small(self) -> bool {
        self.limit <= SMALL
    }

    pub(super) fn free(self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The limit may have been changed since.
    pub(super) sum: Sum,
    /// Bytes that this process has sent since.
    added: u64,
    at: Instant,
    /// How long the sum is valid.
    fresh: Duration,
    /// How long no other is taken.
    pause: Duration,
    /// Whether settings were changed since, or may have been.
    is_stale: bool,
}

impl Known {
    fn new(sum: Sum, took: Duration) -> Self {
        let quick = QUICK[usize::from(!sum.is_small())];
        let pause = if took > quick { took * 2 } else { Duration::ZERO };
        Self { sum, added: 0, at: Instant::now(), fresh: FRESH, pause, is_stale: false }
    }

    /// As before, because the entity could not be summed up for so long. What was sent since the last sum still counts: an entity
    /// that is never summed up would have no limit.
    fn not_summed(before: Option<Self>, limit: Option<u64>, took: Duration) -> Self {
        let (sum, added) = before.map_or((Sum::NONE, 0), |known| (known.sum, known.added));
        // Of one that was never summed up, it is unknown what it has beside what was sent.
        let sum = if sum == Sum::NONE { sum } else { Sum { limit: limit.unwrap_or(sum.limit), ..sum } };
        let pause = (took * 4).clamp(FULL, FRESH);
        Self { sum, added, at: Instant::now(), fresh: pause, pause, is_stale: false }
    }

    /// Returns whether the entity may take so many bytes; `None` if it is to be summed up.
    pub(super) fn has_space(&self, bytes: u64) -> Option<bool> {
        if self.is_stale {
            return None;
        }
        let (free, age) = (self.sum.free(), self.at.elapsed());
        let is_large = !self.sum.is_small();
        if is_large && bytes > free && age < FULL {
            return Some(false);
        }
        // Others may be sending as well.
        if is_large && age < self.fresh && self.added.saturating_add(bytes) <= free / 8 {
            return Some(true);
        }
        (age < self.pause).then(|| bytes <= self.free())
    }

    /// Returns the free bytes, as far as this process knows.
    pub(super) fn free(&self) -> u64 {
        self.sum.free().saturating_sub(self.added)
    }

    /// Whether a call may well wait for the sum.
    pub(super) fn is_quick(&self) -> bool {
        self.sum.is_small() && self.pause.is_zero() && !self.is_stale
    }
}

/// The sum of a task, `None` until it has ended.
pub(super) type Answer = watch::Receiver<Option<Sum>>;

/// A task that sums an entity up.
struct Running {
    sum: Answer,
    /// How long sends wait for it.
    until: Instant,
    changes: u64,
}

/// What such a task begins with.
pub(super) struct Begun {
    pub(super) answer: watch::Sender<Option<Sum>>,
    pub(super) sum: Answer,
    pub(super) at: Instant,
    pub(super) until: Instant,
    pub(super) changes: u64,
}

impl Running {
    /// Whether it will have a sum of the present settings. Its runtime may have ended.
    fn is_current(&self, changes: u64) -> bool {
        self.changes == changes && self.sum.borrow().is_none() && self.sum.has_changed().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::TooLate;

    const ONE: i64 = 1;
    const MIB: u64 = 1 << 20;
    const SHORT: Duration = Duration::from_millis(1);

    fn summed() -> Quota {
        let quota = Quota::default();
        quota.keep(ONE, &Ok(Some(Sum { limit: 8 * MIB, used: 0 })), None, SHORT, quota.changes(ONE));
        quota
    }

    fn fails(quota: &Quota, limit: Option<u64>) {
        quota.keep(ONE, &Err(Failure::TooLate(TooLate)), limit, SHORT, quota.changes(ONE));
    }

    /// Rules: K-336.
    #[tokio::test(start_paused = true)]
    async fn what_was_sent_counts_until_the_entity_is_summed_up() {
        let quota = summed();
        for _ in 0..8 {
            assert_eq!(quota.known(ONE).map(|known| known.free() >= MIB), Some(true));
            quota.add(ONE, MIB);
            tokio::time::advance(FRESH).await;
            assert_eq!(quota.known(ONE).and_then(|known| known.has_space(MIB)), None);
            fails(&quota, None);
        }
        assert_eq!(quota.known(ONE).and_then(|known| known.has_space(MIB)), Some(false));
    }

    /// Rules: K-336.
    #[tokio::test(start_paused = true)]
    async fn the_last_sum_outlives_a_change_that_may_have_been_missed() {
        for forget in [Quota::forget_all, |quota: &Quota| quota.forget(ONE)] {
            let quota = summed();
            quota.add(ONE, 7 * MIB);
            forget(&quota);
            assert_eq!(quota.known(ONE).and_then(|known| known.has_space(1)), None, "it is summed up");
            fails(&quota, None);
            assert_eq!(quota.known(ONE).map(|known| known.free()), Some(MIB));
            // The limit was read, and the entity could not be summed up.
            fails(&quota, Some(9 * MIB));
            assert_eq!(quota.known(ONE).map(|known| known.free()), Some(2 * MIB));
        }
    }

    /// Rules: K-336.
    #[tokio::test(start_paused = true)]
    async fn what_was_refused_does_not_count() {
        let quota = summed();
        quota.add(ONE, 8 * MIB);
        assert_eq!(quota.known(ONE).map(|known| known.free()), Some(0));
        quota.take_back(ONE, 7 * MIB);
        assert_eq!(quota.known(ONE).map(|known| known.free()), Some(7 * MIB));
    }

    /// Rules: K-336.
    #[tokio::test(start_paused = true)]
    async fn an_entity_that_was_never_summed_up_is_not_full() {
        let quota = Quota::default();
        for _ in 0..3 {
            fails(&quota, Some(MIB));
            quota.add(ONE, 2 * MIB);
            assert_ne!(quota.known(ONE).and_then(|known| known.has_space(MIB)), Some(false));
        }
    }

    /// Rules: K-336.
    #[tokio::test(start_paused = true)]
    async fn a_change_of_another_entity_keeps_a_sum_that_is_being_taken() {
        let quota = Quota::default();
        let begun = quota.running(ONE, SHORT).err().unwrap();
        quota.forget(2);
        assert!(quota.running(ONE, SHORT).is_ok(), "it is not taken twice");
        quota.keep(ONE, &Ok(Some(Sum { limit: MIB, used: 0 })), None, SHORT, begun.changes);
        assert!(quota.known(ONE).is_some());
        for forget in [Quota::forget_all, |quota: &Quota| quota.forget(ONE)] {
            let changes = quota.changes(ONE);
            forget(&quota);
            quota.keep(ONE, &Ok(Some(Sum { limit: 2 * MIB, used: 0 })), None, SHORT, changes);
            assert_eq!(quota.known(ONE).map(|known| known.sum.limit), Some(MIB), "it is of the settings before");
        }
    }

    #[test]
    fn more_changes_than_are_kept_are_changes_of_all() {
        let quota = Quota::default();
        let before = quota.changes(ONE);
        for entity in (2..).take(MOST) {
            quota.forget(entity);
        }
        assert_eq!(quota.changes(ONE), before);
        quota.forget(0);
        assert_ne!(quota.changes(ONE), before);
        assert_ne!(quota.changes(2), 1, "the change of this one is not forgotten");
    }
}
