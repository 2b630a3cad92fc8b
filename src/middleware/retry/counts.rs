use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of a layer.
#[derive(Debug, Default)]
pub struct RetryCounts {
    immediate: AtomicU64,
    delayed: AtomicU64,
    exhausted: AtomicU64,
    not_sent: AtomicU64,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident, $count:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(&self) -> u64 {
            self.$name.load(Ordering::Relaxed)
        }

        pub(super) fn $count(&self) {
            self.$name.fetch_add(1, Ordering::Relaxed);
        }
    )*};
}

impl RetryCounts {
    counts! {
        /// Attempts within a delivery, the first one of each left out.
        immediate, count_immediate;
        /// Later deliveries: copies that were accepted, or messages that the transport was to delay.
        delayed, count_delayed;
        /// Messages that were dead-lettered, for no delivery was left.
        exhausted, count_exhausted;
        /// Copies that were not accepted, or could not be made; their messages were abandoned after the delay.
        not_sent, count_not_sent;
    }
}
