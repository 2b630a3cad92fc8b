//! The sources of replies, and the loop that passes replies to their calls.

mod again;
mod queue;
mod session;
mod watched;

use std::{
    convert::Infallible,
    fmt,
    future::{Future, Ready, pending, poll_fn, ready},
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
};

use tower_service::Service;

use self::watched::Watched;
pub use self::{queue::ReplyQueue, session::ReplySession};
use super::pending::{DeadlineTimer, Pending};
use crate::{
    Disposition, Message,
    consumer::{ConsumeError, Consumer, Health},
    message::Properties,
    transport::{Capabilities, DirectReceiver, ReplySource},
};

/// Receives replies and passes them to the waiting calls, and fails calls whose deadlines pass. It does nothing until
/// it is run. Dropping it fails those calls as [`Disconnected`](super::CallErrorKind::Disconnected), and every later
/// one as [`Closed`](super::CallErrorKind::Closed).
///
/// Every message that comes is completed, also one that no call waits for: it can never be of use to anybody.
#[must_use = "no reply arrives unless this is run"]
pub struct Replies<R> {
    receiver: R,
    end: End,
    /// Those of the transport of the requests, if they were given.
    capabilities: Option<Capabilities>,
}

/// Nothing arrives any more.
struct End(Arc<Pending>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<R: ReplySource> Replies<R> {
    pub(super) fn new(receiver: R, pending: Arc<Pending>, capabilities: Option<Capabilities>) -> Self {
        Self { receiver, end: End(pending), capabilities }
    }

    /// Receives until the requester is [closed](super::Requester::close), or dropped with all its clones, or until the
    /// receiver fails for good, which is an error, and the end of the requester: build another. Under a supervisor,
    /// [`Supervisor::replies_from`](crate::supervisor::Supervisor::replies_from) keeps it and makes another receiver. When the receiver
    /// fails transiently, waiting calls fail at once, and it is polled again after a pause.
    ///
    /// Run it in a task of its own: once it runs it keeps the deadlines of all calls, so what holds it up holds those up.
    pub async fn run(self) -> Result<(), ConsumeError> {
        self.run_until(pending::<()>()).await
    }

    /// As [`run`](Self::run), and ends when `shutdown` is ready: calls that wait then fail. Where handlers call, it has to be
    /// ready after they have ended: under a supervisor, use [`Supervisor::replies`](crate::supervisor::Supervisor::replies).
    pub async fn run_until<F: Future>(self, shutdown: F) -> Result<(), ConsumeError> {
        self.run_reported(shutdown, |_| {}).await
    }

    /// As [`run_until`](Self::run_until), and reports the health of the consumer of the replies.
    pub(crate) async fn run_reported<F: Future>(
        self,
        shutdown: F,
        report: impl FnOnce(&Health),
    ) -> Result<(), ConsumeError> {
        let Self { receiver, end, .. } = self;
        receive(receiver, &end.0, shutdown, report).await
    }
}

/// How many replies may be on their way to be completed: each takes a round trip to the broker, which no call waits for.
const SETTLING: usize = 64;

async fn receive<R: ReplySource>(
    mut receiver: R,
    pending: &Arc<Pending>,
    shutdown: impl Future,
    report: impl FnOnce(&Health),
) -> Result<(), ConsumeError> {
    let mut shutdown = pin!(shutdown);
    let mut keeper = DeadlineTimer::new(Arc::clone(pending));
    // Replies are passed on directly for as long as this lives.
    let direct: Arc<dyn DirectReceiver> = Arc::new(Direct(Arc::clone(pending)));
    receiver.receive_directly(&direct);
    let receiver = Watched::new(receiver, Arc::clone(pending));
    let consumer = Consumer::new(receiver, Offer(Arc::clone(pending))).concurrency(SETTLING);
    report(&consumer.health());
    let closed = poll_fn(move |cx| {
        if pending.is_closed() || shutdown.as_mut().poll(cx).is_ready() { Poll::Ready(()) } else { Poll::Pending }
    });
    let mut run = pin!(consumer.run_until(closed));
    // Here and not where it receives: that stops while settlements do not end.
    poll_fn(|cx| {
        keeper.poll(cx);
        run.as_mut().poll(cx)
    })
    .await?;
    Ok(())
}

impl<R: ReplySource> fmt::Debug for Replies<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replies").field("address", &self.receiver.address()).finish_non_exhaustive()
    }
}

/// Passes the replies to waiting calls that a broker in this process does not have to store.
struct Direct(Arc<Pending>);

impl DirectReceiver for Direct {
    fn expects(&self, properties: &Properties) -> bool {
        self.0.expects(properties)
    }

    fn receive(&self, reply: Message) {
        self.0.offer(reply);
    }
}

/// Takes every message there is.
#[derive(Clone)]
struct Offer(Arc<Pending>);

impl Service<Message> for Offer {
    type Response = Disposition;
    type Error = Infallible;
    type Future = Ready<Result<Disposition, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, reply: Message) -> Self::Future {
        self.0.offer(reply);
        ready(Ok(Disposition::Complete))
    }
}
