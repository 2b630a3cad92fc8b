//! A call that locks something, run beside its caller: when the caller is dropped, the locks are released.

use std::{
    future::Future,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign_core::transport::{BoxFuture, ErrorKind, ReceiveError};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, sleep_until},
};

/// The answer of a call.
pub(crate) trait Locked: Send + 'static {
    /// Releases an answer that was not taken. It begins when it is called, and the future ends when the database has it.
    fn give_back(self) -> BoxFuture<()>;
}

/// At most one call in flight.
pub(crate) struct Fetch<T: Locked> {
    call: Option<Arc<Call<T>>>,
    /// Calls that were cancelled and have not ended, and releases of their answers.
    stopped: Vec<Arc<Call<T>>>,
    releases: Vec<BoxFuture<()>>,
    /// Retryable failures in a row.
    failures: u32,
    /// When the next call may start. A caller with a shorter deadline advances with each call.
    not_before: Option<Instant>,
    /// Whether the last call has ended without an answer.
    is_repeated: bool,
}

/// A call in flight.
pub(crate) struct Call<T> {
    state: Mutex<State<T>>,
    unwanted: Arc<Notify>,
}

struct State<T> {
    is_wanted: bool,
    answer: Option<Result<T, ReceiveError>>,
    /// Whether nothing works on it any more: the answer of a cancelled call is released.
    is_over: bool,
    waker: Option<Waker>,
}

impl<T: Locked> Call<T> {
    /// Creates a call. Its cancellation is signalled to `unwanted`.
    pub(crate) fn new(unwanted: Arc<Notify>) -> Arc<Self> {
        let state = State { is_wanted: true, answer: None, is_over: false, waker: None };
        Arc::new(Self { state: Mutex::new(state), unwanted })
    }

    /// Creates a call that a task of its own runs, not before that instant.
    pub(crate) fn spawn<F>(not_before: Option<Instant>, start: impl FnOnce(Arc<Self>) -> F) -> Arc<Self>
    where
        F: Future<Output = Result<T, ReceiveError>> + Send + 'static,
    {
        let call = Self::new(Arc::default());
        let (begun, work) = (start(Arc::clone(&call)), Work::new(Arc::clone(&call)));
        tokio::spawn(async move {
            if let Some(instant) = not_before {
                work.0.pause(sleep_until(instant)).await;
            }
            let answer = begun.await;
            if let Some(release) = work.end(answer) {
                release.await;
            }
        });
        call
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.state.lock().is_wanted
    }

    /// Ends early when the call is cancelled.
    pub(crate) async fn pause(&self, waiting: impl Future<Output = ()>) {
        tokio::select! {
            () = waiting => {}
            () = self.unwanted.notified() => {}
        }
    }
}

/// What works on a call. Dropped, it leaves no lock of a cancelled call; one that is wanted and has no answer is made again by
/// its caller.
pub(crate) struct Work<T: Locked>(Arc<Call<T>>);

impl<T: Locked> Work<T> {
    pub(crate) fn new(call: Arc<Call<T>>) -> Self {
        Self(call)
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_wanted()
    }

    /// Returns the release of an answer that no caller waits for: the work ends with that.
    pub(crate) fn end(self, answer: Result<T, ReceiveError>) -> Option<BoxFuture<()>> {
        let mut state = self.0.state.lock();
        if state.is_wanted {
            state.answer = Some(answer);
            return None;
        }
        drop(state);
        let release = answer.ok()?.give_back();
        Some(Box::pin(async move {
            release.await;
            drop(self);
        }))
    }
}

impl<T: Locked> Drop for Work<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_over = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T: Locked> Fetch<T> {
    pub(crate) const fn new() -> Self {
        Self {
            call: None,
            stopped: Vec::new(),
            releases: Vec::new(),
            failures: 0,
            not_before: None,
            is_repeated: false,
        }
    }

    /// Returns the answer of the call in flight, or of one that `start` starts, not before that instant.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        start: impl Fn(Option<Instant>) -> Arc<Call<T>>,
    ) -> Poll<Result<T, ReceiveError>> {
        loop {
            let call = self.call.get_or_insert_with(|| start(self.not_before));
            let mut state = call.state.lock();
            if let Some(answer) = state.answer.take() {
                drop(state);
                self.call = None;
                self.is_repeated = false;
                (self.failures, self.not_before) = match &answer {
                    Err(error) if error.is_retryable() => {
                        let failures = self.failures.saturating_add(1);
                        (failures, Some(Instant::now() + back_off(failures)))
                    }
                    _ => (0, None),
                };
                return Poll::Ready(answer);
            }
            if !state.is_over {
                state.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            drop(state);
            self.call = None;
            // The runtime that it ran in has ended, which need not be that of the caller. Or it has panicked.
            if std::mem::replace(&mut self.is_repeated, true) || Handle::try_current().is_err() {
                self.is_repeated = false;
                return Poll::Ready(Err(ReceiveError::new(ErrorKind::General).with_detail("the call was dropped")));
            }
        }
    }

    /// Records that no caller waits for the call any more.
    pub(crate) fn stop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let answer = {
            let mut state = call.state.lock();
            state.is_wanted = false;
            state.answer.take()
        };
        call.unwanted.notify_one();
        let mut unwoken = Context::from_waker(Waker::noop());
        self.releases.retain_mut(|release| release.as_mut().poll(&mut unwoken).is_pending());
        self.stopped.retain(|call| !call.state.lock().is_over);
        match answer {
            Some(Ok(locked)) => self.releases.push(locked.give_back()),
            Some(Err(_)) => {}
            None => self.stopped.push(call),
        }
    }

    /// Releases an answer that was taken and is not wanted.
    pub(crate) fn release(&mut self, locked: T) {
        self.releases.push(locked.give_back());
    }

    /// Waits until cancelled calls have left no lock.
    pub(crate) fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.releases.retain_mut(|release| release.as_mut().poll(cx).is_pending());
        self.stopped.retain(|call| {
            let mut state = call.state.lock();
            if !state.is_over {
                state.waker = Some(cx.waker().clone());
            }
            !state.is_over
        });
        if self.releases.is_empty() && self.stopped.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<T: Locked> Drop for Fetch<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns how long to wait after so many failures in a row, at least 1: 50 ms to 2 s, each chosen between half of it and all.
fn back_off(failures: u32) -> Duration {
    const LONGEST: Duration = Duration::from_secs(2);
    let longest = Duration::from_millis(50u64 << failures.saturating_sub(1).min(7)).min(LONGEST);
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}
