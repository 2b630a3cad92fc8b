//! Panics of code that is not the broker's own, which are contained, and panics within the engine, which end it.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
};

use consign_core::transport::{ErrorKind, ManageError, ReceiveError, SendError, SettleError};

#[cfg(feature = "durable")]
use super::{StorageError, StorageErrorKind};

/// A call panicked within the engine. Its changes are incomplete, so the broker answers every later call with this.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poisoned;

impl Poisoned {
    const DETAIL: &str = "the broker has failed: a call panicked within it";
}

macro_rules! operations {
    ($($name:ident),*) => {$(
        impl From<Poisoned> for $name {
            #[cold]
            fn from(_: Poisoned) -> Self {
                Self::new(ErrorKind::General).with_detail(Poisoned::DETAIL).with_retryable(false)
            }
        }
    )*};
}

operations!(ManageError, ReceiveError, SendError, SettleError);

#[cfg(feature = "durable")]
impl From<Poisoned> for StorageError {
    fn from(_: Poisoned) -> Self {
        Self::new(StorageErrorKind::Failed, Poisoned::DETAIL)
    }
}

/// Wakes a task. A waker is the user's code: a panic is logged, and nothing else is lost.
pub(super) fn wake(waker: Waker) {
    contain("a waker", || waker.wake());
}

/// Drops values that the user may own, such as the bytes of bodies. A panic is logged, and the rest is dropped.
#[inline]
pub(super) fn release_all<T>(owned: Vec<T>) {
    let mut left = owned.into_iter();
    while !left.as_slice().is_empty() {
        contain("the drop of a message", || left.by_ref().for_each(drop));
    }
}

/// Does the same, and keeps the memory that the values were in.
#[cfg(feature = "durable")]
pub(super) fn release<T>(owned: &mut Vec<T>) {
    while !owned.is_empty() {
        contain("the drop of a message", || owned.drain(..).for_each(drop));
    }
}

#[inline]
pub(super) fn contain(what: &str, work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        report(what, panic);
    }
}

#[cold]
fn report(what: &str, panic: Box<dyn Any + Send>) {
    tracing::error!(panic = text(&*panic), "{what} panicked");
    // Its drop may panic as well.
    std::mem::forget(panic);
}

/// Returns the text of a panic.
pub(super) fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Runs the work of a thread of the broker. A panic becomes its error.
#[cfg(feature = "durable")]
pub(super) fn caught<T>(thread: &str, work: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let detail = format!("the {thread} panicked: {}", text(&*panic));
        std::mem::forget(panic);
        Err(StorageError::new(StorageErrorKind::Failed, detail))
    })
}
