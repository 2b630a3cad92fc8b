use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a consumer has done so far. Clones show the same counts, also while the consumer runs.
        #[derive(Clone, Debug, Default)]
        pub struct Stats(Arc<Counters>);

        #[derive(Debug, Default)]
        struct Counters {
            $($name: AtomicU64,)*
        }

        impl Stats {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(&self) -> u64 {
                    self.0.$name.load(Ordering::Relaxed)
                }
            )*
        }

        /// The counters, to add to.
        pub(super) mod count {
            use super::{Ordering, Stats};

            $(
                #[inline]
                pub(in crate::consumer) fn $name(stats: &Stats) {
                    stats.0.$name.fetch_add(1, Ordering::Relaxed);
                }
            )*

            /// Several at once.
            pub(in crate::consumer) fn completed_many(stats: &Stats, count: u64) {
                stats.0.completed.fetch_add(count, Ordering::Relaxed);
            }
        }
    };
}

counters! {
    /// Sessions that were accepted.
    sessions,
    /// Messages that were handed to the stack.
    handled,
    /// Messages that were completed, and the broker said so.
    completed,
    /// Messages that were abandoned, and the broker said so.
    abandoned,
    /// Messages that were dead-lettered, and the broker said so.
    dead_lettered,
    /// Messages that were deferred, and the broker said so.
    deferred,
    /// Calls of the stack that answered with an error. Their messages are abandoned.
    failed,
    /// Calls of the stack that panicked. Their messages are abandoned.
    panicked,
    /// Handlers that were cancelled because the lock was lost, or the time to drain was over.
    cancelled,
    /// Messages whose lock was lost before they were settled. They come again.
    lock_lost,
    /// Settlements that failed for another reason. Whether they had their effect may be unknown.
    settle_failed,
    /// Locks that were renewed.
    renewed,
    /// Messages that were given back before a handler saw them.
    released,
    /// Messages that could not be dead-lettered, because they were received and deleted or are dead letters already.
    undeliverable,
}
