//! The locks of the broker: `parking_lot`'s, or shuttle's where the order of threads is what is tested.

#[cfg(all(shuttle, feature = "durable"))]
pub(crate) use self::explored::Condvar;
#[cfg(shuttle)]
pub(crate) use self::explored::Mutex;
#[cfg(all(not(shuttle), feature = "durable"))]
pub(crate) use parking_lot::Condvar;
#[cfg(not(shuttle))]
pub(crate) use parking_lot::Mutex;

/// The atomics of what shuttle explores.
pub(crate) mod atomic {
    #[cfg(all(shuttle, feature = "durable"))]
    pub(crate) use shuttle::sync::atomic::AtomicU64;
    #[cfg(shuttle)]
    pub(crate) use shuttle::sync::atomic::{AtomicBool, Ordering};
    #[cfg(all(not(shuttle), feature = "durable"))]
    pub(crate) use std::sync::atomic::AtomicU64;
    #[cfg(not(shuttle))]
    pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
}

#[cfg(shuttle)]
mod explored {
    use std::{
        ops::{Deref, DerefMut},
        sync::{PoisonError, TryLockError},
    };

    use shuttle::sync;

    /// Another thread may come first before each `lock` and after each unlock.
    #[derive(Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        /// As with `parking_lot`, a panic under the lock does not poison it.
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(guard) => Some(MutexGuard(Some(guard))),
                Err(TryLockError::Poisoned(poisoned)) => Some(MutexGuard(Some(poisoned.into_inner()))),
                Err(TryLockError::WouldBlock) => None,
            }
        }
    }

    /// Empty only while its thread waits.
    pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("the lock is held")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("the lock is held")
        }
    }

    /// Under shuttle no wait times out, so that a wake-up that is missing is found as a deadlock.
    #[cfg(feature = "durable")]
    #[derive(Default)]
    pub(crate) struct Condvar(sync::Condvar);

    #[cfg(feature = "durable")]
    impl Condvar {
        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: std::time::Duration) -> Waited {
            guard.0 = guard.0.take().map(|held| self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
            Waited
        }
    }

    #[cfg(feature = "durable")]
    pub(crate) struct Waited;

    #[cfg(feature = "durable")]
    impl Waited {
        #[expect(clippy::unused_self, reason = "as in `parking_lot`")]
        pub(crate) fn timed_out(&self) -> bool {
            false
        }
    }
}
