//! A receive loop that runs again, with another source, while the requester stays.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use tower::BoxError;

use super::{End, Replies, receive};
use crate::{
    consumer::Health,
    rpc::{
        address::ReplyAddress,
        pending::{DeadlineTimer, Pending},
    },
    transport::{Capabilities, ReplySource},
};

/// What outlives the runs of a receive loop. The requester is closed when it is dropped.
pub(crate) struct Again {
    end: End,
    capabilities: Option<Capabilities>,
}

impl<R: ReplySource> Replies<R> {
    /// The source for the first run, and what all runs share.
    pub(crate) fn into_again(self) -> (R, Again) {
        let Self { receiver, end, capabilities } = self;
        (receiver, Again { end, capabilities })
    }
}

impl Again {
    /// Whether there is nothing to receive for any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.end.0.is_closed()
    }

    /// Waits until there is nothing to receive for any more.
    pub(crate) async fn closed(self: Arc<Self>) {
        let pending = &self.end.0;
        // A close wakes the task that keeps the deadlines.
        let mut keeper = DeadlineTimer::new(Arc::clone(pending));
        poll_fn(|cx| {
            keeper.poll(cx);
            if pending.is_closed() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Makes a source and receives from it, until it fails, the requester is closed, or `shutdown` is ready. However that ends,
    /// calls that wait fail, and later ones are refused until a source of a further run receives.
    pub(crate) async fn run<R: ReplySource>(
        self: Arc<Self>,
        source: impl Future<Output = Result<R, BoxError>>,
        shutdown: impl Future,
        report: impl FnOnce(&Health),
    ) -> Result<(), BoxError> {
        let pending = &self.end.0;
        let _disconnected = Disconnected(pending);
        let (mut source, mut shutdown) = (pin!(source), pin!(shutdown));
        // A close wakes the task that keeps the deadlines.
        let mut keeper = DeadlineTimer::new(Arc::clone(pending));
        let made = poll_fn(|cx| {
            keeper.poll(cx);
            if pending.is_closed() || shutdown.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            source.as_mut().poll(cx).map(Some)
        });
        let Some(made) = made.await else { return Ok(()) };
        drop(keeper);
        let source = made?;
        pending.set_address(ReplyAddress::of(&source, self.capabilities)?);
        Ok(receive(source, pending, shutdown, report).await?)
    }
}

/// Refuses calls from when it is dropped.
struct Disconnected<'p>(&'p Pending);

impl Drop for Disconnected<'_> {
    fn drop(&mut self) {
        self.0.disconnect();
    }
}
