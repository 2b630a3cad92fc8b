use std::sync::atomic::Ordering;

use crate::counters::counters;

counters! {
    /// The counts of a consumer. Clones show the same counts, also while the consumer runs.
    Stats;

    /// Sessions that were accepted.
    sessions, count_sessions;
    /// Messages that were dispatched to the stack.
    handled, count_handled;
    /// Messages that were completed, as the broker confirmed.
    completed, count_completed;
    /// Messages that were abandoned, as the broker confirmed.
    abandoned, count_abandoned;
    /// Messages that were dead-lettered, as the broker confirmed.
    dead_lettered, count_dead_lettered;
    /// Messages that were deferred, as the broker confirmed.
    deferred, count_deferred;
    /// Calls of the stack that answered with an error. Their messages are abandoned, or dead-lettered if the error is permanent or the
    /// delivery is the last.
    failed, count_failed;
    /// Calls of the stack that panicked. Their messages are abandoned, or dead-lettered if the delivery is the last.
    panicked, count_panicked;
    /// Handlers that were cancelled because the lock was lost, or the time to drain was over.
    cancelled, count_cancelled;
    /// Messages whose lock was lost before they were settled. They are redelivered.
    lock_lost, count_lock_lost;
    /// Settlements that failed for another reason. Whether they had their effect may be unknown.
    settle_failed, count_settle_failed;
    /// Settlements, releases, renewals and closes that the broker did not answer within the operation timeout, or before a
    /// shutdown ended. Whether they had their effect is unknown.
    timed_out, count_timed_out;
    /// Locks that were renewed.
    renewed, count_renewed;
    /// Messages that were held outside of the slots, each counted once a delivery.
    held, count_held;
    /// Messages that were released before a handler saw them.
    released, count_released;
    /// Messages that could not have their outcome: they were received and deleted and are not completed, or they are dead letters that
    /// were to be dead-lettered.
    undeliverable, count_undeliverable;
}

impl Stats {
    /// Several at once.
    pub(super) fn count_all_completed(&self, count: u64) {
        self.0.completed.fetch_add(count, Ordering::Relaxed);
    }

    /// Several at once.
    pub(super) fn count_all_settle_failed(&self, count: u64) {
        self.0.settle_failed.fetch_add(count, Ordering::Relaxed);
    }

    /// Several at once, each of which is a settlement that failed too.
    pub(super) fn count_all_unanswered(&self, count: u64) {
        self.count_all_settle_failed(count);
        self.0.timed_out.fetch_add(count, Ordering::Relaxed);
    }
}
