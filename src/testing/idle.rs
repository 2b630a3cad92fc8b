//! When a consumer has nothing more to do.

use std::{
    future::{Future, poll_fn},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    Disposition,
    message::LockToken,
    transport::{BoxFuture, Delivery, Lease, ReceiveError, Receiver, SettleError},
};

/// Notes what a receiver has delivered that is not settled, and whether it found nothing when it was last asked.
#[derive(Clone, Default)]
pub(super) struct Idle(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    open: usize,
    is_idle: bool,
    waker: Option<Waker>,
}

impl Idle {
    pub(super) fn watch<R: Receiver>(&self, receiver: R) -> Watched<R> {
        Watched { idle: self.clone(), receiver, received: Vec::new() }
    }

    /// Ready when the receiver finds nothing and all that it delivered is settled.
    pub(super) fn wait(&self) -> impl Future<Output = ()> + use<> {
        let idle = self.clone();
        poll_fn(move |cx| {
            let mut state = idle.0.lock();
            if state.is_idle {
                return Poll::Ready(());
            }
            let replaced = state.waker.replace(cx.waker().clone());
            drop(state);
            drop(replaced);
            Poll::Pending
        })
    }

    fn found_nothing(&self) {
        let mut state = self.0.lock();
        state.is_idle = state.open == 0;
        let waker = state.is_idle.then(|| state.waker.take()).flatten();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// One delivery that is not settled. A settled one may be there again, which only the next receive can tell.
struct Open(Idle);

impl Open {
    fn new(idle: &Idle) -> Self {
        let mut state = idle.0.lock();
        state.open += 1;
        state.is_idle = false;
        Self(idle.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.open -= 1;
        state.is_idle = false;
    }
}

pub(super) struct Watched<R: Receiver> {
    idle: Idle,
    receiver: R,
    received: Vec<Delivery<R::Lease>>,
}

impl<R: Receiver> Unpin for Watched<R> {}

impl<R: Receiver> Receiver for Watched<R> {
    type Lease = WatchedLease<R::Lease>;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<Self::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let polled = self.receiver.poll_receive(cx, max, &mut self.received);
        out.extend(self.received.drain(..).map(|Delivery { message, lease }| {
            let lease = WatchedLease { lease, open: Open::new(&self.idle) };
            Delivery { message, lease }
        }));
        if polled.is_pending() {
            self.idle.found_nothing();
        }
        polled
    }

    fn stop(&mut self) {
        self.receiver.stop();
    }
}

pub(super) struct WatchedLease<L> {
    lease: L,
    open: Open,
}

impl<L: Lease> Lease for WatchedLease<L> {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = L::Renew;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        let Self { lease, open } = self;
        let settle = lease.settle(disposition);
        Box::pin(async move {
            let settled = settle.await;
            drop(open);
            settled
        })
    }

    fn release(self) -> Self::Settle {
        let Self { lease, open } = self;
        let release = lease.release();
        Box::pin(async move {
            let released = release.await;
            drop(open);
            released
        })
    }

    fn renew(&self) -> L::Renew {
        self.lease.renew()
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.lease.lock_duration()
    }

    fn lock_token(&self) -> Option<LockToken> {
        self.lease.lock_token()
    }
}
