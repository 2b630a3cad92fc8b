//! How a part of the library shows what it has done.

/// A handle to counts. For each the reader, which is public, and what adds to it, which is for the rooms around.
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
