//! When a consumer that handles one message at a time has nothing more to do: it asks, and there is none.

use std::{
    future::{Future, poll_fn},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use crate::transport::{Capabilities, Delivery, EntityInfo, ReceiveError, Receiver};

/// Tells when a receiver found nothing.
#[derive(Clone, Default)]
pub(super) struct Idle(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_idle: bool,
    waker: Option<Waker>,
}

impl Idle {
    pub(super) fn watch<R: Receiver>(&self, receiver: R) -> Watched<R> {
        Watched { idle: self.clone(), receiver }
    }

    /// Ready when the receiver has found nothing.
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
        state.is_idle = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

pub(super) struct Watched<R> {
    idle: Idle,
    receiver: R,
}

impl<R: Receiver> Receiver for Watched<R> {
    type Lease = R::Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<R::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let polled = self.receiver.poll_receive(cx, max, out);
        if polled.is_pending() {
            self.idle.found_nothing();
        }
        polled
    }

    fn stop(&mut self) {
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }
}
