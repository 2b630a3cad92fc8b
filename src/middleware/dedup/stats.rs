use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What became of the messages. Clones show the same counts.
        #[derive(Clone, Debug, Default)]
        pub struct DedupStats(Arc<Counters>);

        #[derive(Debug, Default)]
        struct Counters {
            $($name: AtomicU64,)*
        }

        impl DedupStats {
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
            use super::{DedupStats, Ordering};

            $(
                #[inline]
                pub(in crate::middleware::dedup) fn $name(stats: &DedupStats) {
                    stats.0.$name.fetch_add(1, Ordering::Relaxed);
                }
            )*
        }
    };
}

counters! {
    /// Messages that were handed on under a reservation.
    handled,
    /// Messages that were handed on because they have no key.
    without_key,
    /// Messages that were completed because their id was committed.
    duplicates,
    /// Messages that met an id that was reserved. What became of them is counted too.
    in_progress,
    /// Messages that were abandoned because their id was still reserved when they had waited long enough.
    given_up,
    /// Ids that were committed.
    committed,
    /// Ids that were forgotten because their message was not completed.
    forgotten,
    /// Calls of the store that failed, but for commits.
    store_failed,
    /// Commits that failed. Their messages are completed.
    commit_failed,
}
