//! Counts that a part of the library publishes.

/// A handle to counts. Each has a public reader, and a method that adds to it for the surrounding modules.
macro_rules! counters {
    ($(#[$doc:meta])* $stats:ident; $($(#[$of:meta])* $name:ident, $count:ident;)*) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $stats(std::sync::Arc<Counters>);

        #[derive(Debug, Default)]
        struct Counters {
            $($name: std::sync::atomic::AtomicU64,)*
        }

        impl $stats {
            $(
                $(#[$of])*
                #[must_use]
                pub fn $name(&self) -> u64 {
                    self.0.$name.load(std::sync::atomic::Ordering::Relaxed)
                }

                #[inline]
                pub(super) fn $count(&self) {
                    self.0.$name.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            )*
        }
    };
}

pub(crate) use counters;
