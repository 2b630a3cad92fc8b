use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident, $count:ident;)*) => {
        /// What a responder has answered. Clones show the same counts.
        #[derive(Clone, Debug, Default)]
        pub struct ResponderStats(Arc<Counters>);

        #[derive(Debug, Default)]
        struct Counters {
            $($name: AtomicU64,)*
        }

        impl ResponderStats {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(&self) -> u64 {
                    self.0.$name.load(Ordering::Relaxed)
                }

                pub(super) fn $count(&self) {
                    self.0.$name.fetch_add(1, Ordering::Relaxed);
                }
            )*
        }
    };
}

impl ResponderStats {
    /// Counts what the broker accepted.
    pub(super) fn count(&self, is_fault: bool) {
        if is_fault { self.count_fault() } else { self.count_answered() }
    }
}

counters! {
    /// Replies that the broker accepted.
    answered, count_answered;
    /// Faults that the broker accepted.
    faults, count_fault;
    /// Replies and faults that the broker accepted a second time, for a duplicate. They are not counted above.
    replayed, count_replayed;
    /// Duplicates of requests whose reply was not recorded, or not any more.
    unrecorded, count_unrecorded;
    /// Values for requests without an address for a reply.
    unwanted, count_unwanted;
    /// Replies and faults that the broker refused.
    undelivered, count_undelivered;
}
