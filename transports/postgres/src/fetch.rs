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
}

/// A call in flight.
pub(crate) struct Call<T> {
    state: Mutex<State<T>>,
    unwanted: Notify,
}

struct State<T> {
    is_wanted: bool,
    answer: Option<Result<T, ReceiveError>>,
    /// Whether a cancelled call has ended and its answer is released.
    is_over: bool,
    waker: Option<Waker>,
}

impl<T> Call<T> {
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

impl<T: Locked> Call<T> {
    /// Returns the release of an answer that no caller waits for.
    fn end(&self, answer: Result<T, ReceiveError>) -> Option<BoxFuture<()>> {
        let mut state = self.state.lock();
        if !state.is_wanted {
            drop(state);
            return answer.ok().map(Locked::give_back);
        }
        state.answer = Some(answer);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }

    /// Records that a cancelled call has left no lock.
    fn is_over(&self) {
        let mut state = self.state.lock();
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
        Self { call: None, stopped: Vec::new(), releases: Vec::new(), failures: 0, not_before: None }
    }

    /// Returns the answer of the call in flight, or of one that `start` starts.
    pub(crate) fn poll<F>(
        &mut self,
        cx: &mut Context<'_>,
        start: impl FnOnce(Arc<Call<T>>) -> F,
    ) -> Poll<Result<T, ReceiveError>>
    where
        F: Future<Output = Result<T, ReceiveError>> + Send + 'static,
    {
        if self.call.is_none() {
            self.begin(start);
        }
        let Some(call) = &self.call else { return Poll::Pending };
        let mut state = call.state.lock();
        match state.answer.take() {
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(answer) => {
                drop(state);
                self.call = None;
                (self.failures, self.not_before) = match &answer {
                    Err(error) if error.is_retryable() => {
                        let failures = self.failures.saturating_add(1);
                        (failures, Some(Instant::now() + back_off(failures)))
                    }
                    _ => (0, None),
                };
                Poll::Ready(answer)
            }
        }
    }

    fn begin<F>(&mut self, start: impl FnOnce(Arc<Call<T>>) -> F)
    where
        F: Future<Output = Result<T, ReceiveError>> + Send + 'static,
    {
        let state = State { is_wanted: true, answer: None, is_over: false, waker: None };
        let call = Arc::new(Call { state: Mutex::new(state), unwanted: Notify::new() });
        let (begun, not_before) = (start(Arc::clone(&call)), self.not_before);
        let running = Arc::clone(&call);
        tokio::spawn(async move {
            let guard = Guard(running);
            if let Some(instant) = not_before {
                guard.0.pause(sleep_until(instant)).await;
            }
            let answer = begun.await;
            if let Some(release) = guard.0.end(answer) {
                release.await;
            }
        });
        self.call = Some(call);
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

/// Answers for a call that panicked, or whose runtime ends.
struct Guard<T: Locked>(Arc<Call<T>>);

impl<T: Locked> Drop for Guard<T> {
    fn drop(&mut self) {
        let has_ended = {
            let state = self.0.state.lock();
            state.answer.is_some() || !state.is_wanted
        };
        // The caller may have taken the answer already, and then this one is ignored.
        if !has_ended {
            drop(self.0.end(Err(ReceiveError::new(ErrorKind::General).with_detail("the call was dropped"))));
        }
        self.0.is_over();
    }
}

/// Returns how long to wait after so many failures in a row, at least 1: 50 ms to 2 s, each chosen between half of it and all.
fn back_off(failures: u32) -> Duration {
    const LONGEST: Duration = Duration::from_secs(2);
    let longest = Duration::from_millis(50u64 << failures.saturating_sub(1).min(7)).min(LONGEST);
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}
