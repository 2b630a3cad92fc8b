use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

#[cfg(feature = "durable")]
use super::{StorageError, durable::Commit};

/// The future of a call that has already happened; it is ready when the result is as safe as the broker makes it. In
/// memory that is at once, otherwise when the result is on the disk.
///
/// The call has happened whether or not this is awaited. On a disk, what it has changed is written when this is first
/// polled or dropped, with all earlier changes: calls that are made before the first of them is awaited are one commit.
///
/// Errors are those of the call, and
/// [`General`](consign_core::transport::ErrorKind::General) if the disk failed meanwhile: then the outcome is unknown.
#[must_use = "await it: what the call has done may be lost until the future returns `Ok`"]
pub struct Acknowledged<T, E> {
    answer: Option<Result<T, E>>,
    /// The commit to wait for, and the error if it fails.
    #[cfg(feature = "durable")]
    commit: Option<(Commit, Failed<E>)>,
}

/// Makes the error of an operation when the disk fails.
#[cfg(feature = "durable")]
type Failed<E> = fn(StorageError) -> E;

impl<T, E> Acknowledged<T, E> {
    /// Returns a future that is ready: for wrappers of a broker that return their own results.
    #[inline]
    pub fn ready(answer: Result<T, E>) -> Self {
        Self {
            answer: Some(answer),
            #[cfg(feature = "durable")]
            commit: None,
        }
    }

    #[cfg(feature = "durable")]
    pub(super) fn when(commit: Option<Commit>, answer: Result<T, E>) -> Self
    where
        E: From<StorageError>,
    {
        let commit = commit.filter(|_| answer.is_ok()).map(|commit| (commit, E::from as _));
        Self { answer: Some(answer), commit }
    }

    /// Whether the call was refused. A disk may still fail for one that was not.
    #[cfg(feature = "durable")]
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.answer, Some(Err(_)))
    }

    pub(super) fn map<U>(self, map: impl FnOnce(T) -> U) -> Acknowledged<U, E> {
        Acknowledged {
            answer: self.answer.map(|answer| answer.map(map)),
            #[cfg(feature = "durable")]
            commit: self.commit,
        }
    }

    /// Blocks this thread until the result is ready: for code that is not asynchronous. On a broker in memory it does
    /// not block.
    #[inline]
    pub fn wait(mut self) -> Result<T, E> {
        // An answer that is here already needs no waker of this thread, which is an allocation.
        match Pin::new(&mut self).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => self.park(),
        }
    }

    #[inline(never)]
    fn park(mut self) -> Result<T, E> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            match Pin::new(&mut self).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => thread::park(),
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

// The result is moved, and never pinned.
impl<T, E> Unpin for Acknowledged<T, E> {}

impl<T, E> Future for Acknowledged<T, E> {
    type Output = Result<T, E>;

    /// Panics if it is polled again after it was ready.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        #[cfg(feature = "durable")]
        if let Some((commit, failed)) = &mut self.commit {
            let outcome = std::task::ready!(Pin::new(commit).poll(cx));
            if let Err(failure) = outcome {
                self.answer = Some(Err(failed(failure)));
            }
            self.commit = None;
        }
        #[cfg(not(feature = "durable"))]
        let _ = cx;
        Poll::Ready(self.answer.take().expect("it is not polled after it was ready"))
    }
}

impl<T, E> fmt::Debug for Acknowledged<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acknowledged").finish_non_exhaustive()
    }
}
