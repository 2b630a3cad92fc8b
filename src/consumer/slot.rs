use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::Instant;

use super::{cause::Cause, woken::WokenSet};
use crate::{
    Disposition, Message,
    middleware::catch_panic::Panicked,
    transport::{Lease, SettleError},
};

/// What a longer lock is taken for: a year.
pub(super) const LONGEST_LOCK: Duration = Duration::from_secs(365 * 24 * 3_600);

/// The place where one message at a time is handled and settled. Its boxes are made once and used again.
pub(super) struct Slot<F, L: Lease> {
    call: Pin<Box<Option<F>>>,
    settle: Pin<Box<Option<L::Settle>>>,
    settling: Settling,
    /// When a settlement that was not answered at once is given up.
    pub(super) settle_by: Option<Instant>,
    /// The message of a settlement that was not answered at once.
    pub(super) settled: Option<Message>,
    /// Why it is not completed.
    pub(super) cause: Option<Box<Cause>>,
    /// It is there exactly while a call goes on.
    pub(super) held: Option<Unsettled<L>>,
    /// When its lock was taken, if that was not in this turn of the driver.
    pub(super) locked_at: Option<Instant>,
    pub(super) renewing: Option<Renewing<L>>,
    waker: Waker,
}

/// What is kept of a message while a handler has it.
pub(super) struct Unsettled<L> {
    /// The right to settle it.
    pub(super) lease: L,
    /// As it was received.
    pub(super) message: Message,
    /// If it was held outside of the slots before.
    pub(super) before: Option<Before>,
}

/// How a message was held outside of the slots.
#[derive(Clone, Copy)]
pub(super) struct Before {
    pub(super) since: Instant,
    pub(super) locked_at: Instant,
}

/// The renewal of the lock of a handler that is still running.
pub(super) struct Renewing<L: Lease> {
    pub(super) lock: Duration,
    pub(super) started: Instant,
    pub(super) last: Instant,
    /// When to renew, or when the lock ends if it is not to be renewed.
    pub(super) due: Instant,
    pub(super) asked: Option<(Instant, Pin<Box<L::Renew>>)>,
}

/// What a settlement was for, to count it when it succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Settling {
    #[default]
    Complete,
    Abandon,
    DeadLetter,
    Defer,
    Release,
}

impl Settling {
    #[inline]
    pub(super) fn by(disposition: &Disposition) -> Self {
        match disposition {
            Disposition::Complete => Self::Complete,
            Disposition::Abandon(_) => Self::Abandon,
            Disposition::DeadLetter(_) => Self::DeadLetter,
            Disposition::Defer(_) => Self::Defer,
        }
    }
}

impl Settling {
    /// As it is in log lines.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Abandon => "abandon",
            Self::DeadLetter => "dead_letter",
            Self::Defer => "defer",
            Self::Release => "release",
        }
    }
}

/// How a call of the stack ended.
pub(super) enum Ended<T> {
    Answered(T),
    Panicked(Panicked),
}

/// Runs code of the user. `None` if it panicked.
#[inline]
pub(super) fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).map_err(Panicked::new).ok()
}

/// How long a lease says that its lock holds. A transport may answer with anything, and instants must not overflow.
#[inline]
pub(super) fn lock_of(lease: &impl Lease) -> Option<Duration> {
    lease.lock_duration().map(|lock| lock.min(LONGEST_LOCK))
}

/// How long a settlement may take at most: within the lock, if it runs out. `None` if the delivery cannot be settled.
#[inline]
pub(super) fn settled_within(lease: &impl Lease) -> Option<Duration> {
    lease.must_settle().then(|| lock_of(lease).unwrap_or(LONGEST_LOCK))
}

impl<F: Future, L: Lease> Slot<F, L> {
    pub(super) fn new(set: &Arc<WokenSet>, index: usize) -> Self {
        Self {
            call: Box::pin(None),
            settle: Box::pin(None),
            settling: Settling::Complete,
            settle_by: None,
            settled: None,
            cause: None,
            held: None,
            locked_at: None,
            renewing: None,
            waker: set.waker(index),
        }
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// What is pending has to be polled again.
    pub(super) fn set_waker(&mut self, waker: Waker) {
        self.waker = waker;
    }

    #[inline]
    pub(super) fn is_calling(&self) -> bool {
        self.held.is_some()
    }

    pub(super) fn is_settling(&self) -> bool {
        self.settle.is_some()
    }

    /// Makes the call and polls it. It is gone when it has ended.
    #[inline]
    pub(super) fn start(&mut self, call: impl FnOnce() -> F) -> Poll<Ended<F::Output>> {
        self.run(|mut place| place.set(Some(call())))
    }

    #[inline]
    pub(super) fn poll_call(&mut self) -> Poll<Ended<F::Output>> {
        self.run(|_| {})
    }

    /// Making the call, polling and dropping it is the user's code.
    #[inline]
    fn run(&mut self, begin: impl FnOnce(Pin<&mut Option<F>>)) -> Poll<Ended<F::Output>> {
        let Self { call, waker, .. } = self;
        let mut answer = None;
        let ran = catch_unwind(AssertUnwindSafe(|| {
            begin(call.as_mut());
            let Some(running) = call.as_mut().as_pin_mut() else { return };
            if let Poll::Ready(ready) = running.poll(&mut Context::from_waker(waker)) {
                answer = Some(ready);
                call.set(None);
            }
        }));
        match (ran, answer) {
            (Ok(()), None) => Poll::Pending,
            (Ok(()), Some(answer)) => Poll::Ready(Ended::Answered(answer)),
            (Err(payload), answer) => Poll::Ready(self.panicked(payload, answer)),
        }
    }

    /// A call panicked, or it was answered and its drop panicked.
    #[cold]
    fn panicked(&mut self, payload: Box<dyn Any + Send>, answer: Option<F::Output>) -> Ended<F::Output> {
        let panicked = Panicked::new(payload);
        if let Some(answer) = answer {
            self.forget_call();
            return Ended::Answered(answer);
        }
        self.drop_call();
        Ended::Panicked(panicked)
    }

    /// Drops the call, finished or not. A panic of the drop is as good as a finished drop.
    fn drop_call(&mut self) {
        if caught(|| self.call.set(None)).is_none() {
            self.forget_call();
        }
    }

    #[cold]
    fn forget_call(&mut self) {
        self.call = Box::pin(None);
    }

    /// Drops the call and hands out what it takes to settle its message.
    pub(super) fn end_call(&mut self) -> Option<Unsettled<L>> {
        self.drop_call();
        self.release()
    }

    /// Hands out what it takes to settle the message of a call that has ended.
    #[inline]
    pub(super) fn release(&mut self) -> Option<Unsettled<L>> {
        self.renewing = None;
        self.held.take()
    }

    #[inline]
    pub(super) fn start_settling(&mut self, settling: Settling, future: L::Settle) {
        self.settling = settling;
        self.settle.as_mut().set(Some(future));
    }

    #[inline]
    pub(super) fn poll_settle(&mut self) -> Poll<(Settling, Result<(), SettleError>)> {
        let mut cx = Context::from_waker(&self.waker);
        let Some(settle) = self.settle.as_mut().as_pin_mut() else { return Poll::Pending };
        match settle.poll(&mut cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(result) => {
                self.forget_settling();
                Poll::Ready((self.settling, result))
            }
        }
    }

    #[inline]
    pub(super) fn forget_settling(&mut self) {
        self.settle_by = None;
        self.settle.as_mut().set(None);
    }
}
