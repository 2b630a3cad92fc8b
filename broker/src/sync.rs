//! The lock that the broker is behind: `parking_lot`'s, or shuttle's where the order of threads is what is tested.

#[cfg(shuttle)]
pub(crate) use self::explored::Mutex;
#[cfg(not(shuttle))]
pub(crate) use parking_lot::Mutex;

#[cfg(shuttle)]
mod explored {
    use std::sync::PoisonError;

    use shuttle::sync::{self, MutexGuard};

    /// Another thread may come first before each `lock` and after each unlock.
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        /// As with `parking_lot`, a panic under the lock does not poison it.
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
