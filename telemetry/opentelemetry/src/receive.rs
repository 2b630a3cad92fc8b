use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, ready},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use consign::{
    Disposition, Message,
    message::{LockToken, SequenceNumber},
    middleware::trace::outcome,
    settlement::Changes,
    time::Moment,
    transport::{Capabilities, Delivery, EntityInfo, Lease, ReceiveError, Receiver, Session, SettleError},
};
use opentelemetry::{
    Context, KeyValue,
    trace::{Link, SpanKind},
};
use pin_project_lite::pin_project;

use crate::{
    Telemetry, attributes,
    context::{extract, relation},
    destination::{Destination, Target},
    names::{Operation, attribute},
    operation::{Begin, Running},
};

/// A receiver with a `receive` span around each receive that ends, and a `complete`, `abandon`, `dead_letter` or `defer` span
/// around each settlement.
///
/// ```
/// # use consign::{broker::Broker, Disposition, Message, consumer::Consumer};
/// use consign_opentelemetry::Telemetry;
/// # use tower::{BoxError, service_fn};
///
/// # fn main() -> Result<(), BoxError> {
/// # let queue = Broker::new().create_queue("orders", Default::default())?;
/// # let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
/// let telemetry = Telemetry::builder("servicebus").build();
/// let consumer = Consumer::new(telemetry.receiver("orders", queue.receiver()), handler);
/// # drop(consumer);
/// # Ok(())
/// # }
/// ```
///
/// The span of a receive begins with the first poll that waits, and links to the contexts of its messages, at most 128 of them.
/// A settlement has the context of its message as its parent, or as a link, like a `process` span. Renewals and releases have
/// no span.
///
/// The deliveries count in `messaging.client.consumed.messages`, and a [`ProcessLayer`](crate::ProcessLayer) does not count them
/// again.
///
/// # Failure
///
/// It does not change the result. The `error.type` is that of the [`ErrorKind`](consign::transport::ErrorKind).
///
/// # Cost
///
/// Two spans for each message. A message is settled alone, so quick handlers lose the completion batches of a consumer. Leave
/// it out where the `process` spans suffice.
pub struct ObservedReceiver<R: Receiver> {
    receiver: R,
    shared: Arc<Shared>,
    /// Since when it has waited.
    began: Option<Moment>,
    batch: Vec<Delivery<R::Lease>>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    telemetry: Telemetry,
    receive: Arc<Target>,
    complete: Arc<Target>,
    abandon: Arc<Target>,
    dead_letter: Arc<Target>,
    defer: Arc<Target>,
}

impl<R: Receiver> ObservedReceiver<R> {
    pub(crate) fn new(telemetry: &Telemetry, destination: &Destination<'_>, receiver: R) -> Self {
        Self::of(Arc::new(Shared::new(telemetry, destination)), receiver)
    }

    pub(crate) fn of(shared: Arc<Shared>, receiver: R) -> Self {
        Self { receiver, shared, began: None, batch: Vec::new() }
    }

    /// The receive that has ended.
    fn running(&mut self, began: Moment) -> Running {
        let telemetry = &self.shared.telemetry;
        let span = telemetry.spans().map(|spans| {
            let links = self.batch.iter().take(Begin::MAX_LINKS);
            let links = links.filter_map(|delivery| extract(delivery.message.properties()));
            let links = links.map(Link::with_context).collect();
            let start = u64::try_from(began.utc.as_millis()).ok();
            let start = start.map(|millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
            let (target, kind, parent) = (&*self.shared.receive, SpanKind::Client, &Context::current());
            Begin { spans, target, kind, parent, links, start }.span(|| {
                let count = KeyValue::new(attribute::BATCH_COUNT, attributes::number(self.batch.len()));
                let [id, conversation, tag] = match &self.batch[..] {
                    [Delivery { message, .. }] => attributes::single(message, telemetry.names()),
                    _ => [None, None, None],
                };
                [Some(count), id, conversation, tag]
            })
        });
        let running =
            Running::since(began.elapsed, telemetry, &self.shared.receive, span, |metrics| &metrics.operation);
        let count = self.batch.iter_mut().map(|delivery| u64::from(delivery.message.set_counted())).sum();
        running.counting(count, |metrics| &metrics.consumed)
    }
}

fn observed<L>(shared: &Arc<Shared>, Delivery { message, lease }: Delivery<L>) -> Delivery<ObservedLease<L>> {
    Delivery { lease: ObservedLease { lease, message: message.clone(), shared: Arc::clone(shared) }, message }
}

/// Nothing in it is pinned in place.
impl<R: Receiver> Unpin for ObservedReceiver<R> {}

impl<R: Receiver> Receiver for ObservedReceiver<R> {
    type Lease = ObservedLease<R::Lease>;

    fn poll_receive(
        &mut self,
        cx: &mut TaskContext<'_>,
        max: usize,
        out: &mut Vec<Delivery<Self::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let began = *self.began.get_or_insert_with(|| self.shared.telemetry.now());
        let received = ready!(self.receiver.poll_receive(cx, max, &mut self.batch));
        self.began = None;
        let mut running = self.running(began);
        running.end(received.as_ref().err().map(|error| error.kind().code()));
        let shared = &self.shared;
        out.extend(self.batch.drain(..).map(|delivery| observed(shared, delivery)));
        Poll::Ready(received)
    }

    fn stop(&mut self) {
        self.began = None;
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.receiver.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }
}

impl<S: Session> Session for ObservedReceiver<S> {
    type Renew = S::Renew;
    type Close = S::Close;

    fn session_id(&self) -> &str {
        self.receiver.session_id()
    }

    fn lock_duration(&self) -> Duration {
        self.receiver.lock_duration()
    }

    fn renew(&self) -> S::Renew {
        self.receiver.renew()
    }

    fn close(self) -> S::Close {
        self.receiver.close()
    }

    fn state(&self) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send + use<S> {
        self.receiver.state()
    }

    fn set_state(&self, state: Option<Bytes>) -> impl Future<Output = Result<(), SettleError>> + Send + use<S> {
        self.receiver.set_state(state)
    }

    async fn receive_deferred(
        &mut self,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<Self::Lease>>, ReceiveError> {
        let deliveries = self.receiver.receive_deferred(numbers).await?;
        Ok(deliveries.into_iter().map(|delivery| observed(&self.shared, delivery)).collect())
    }

    async fn peek(&mut self, max: usize) -> Result<Vec<Message>, ReceiveError> {
        self.receiver.peek(max).await
    }
}

/// A lease with a span around its settlement; see [`ObservedReceiver`].
pub struct ObservedLease<L> {
    lease: L,
    message: Message,
    shared: Arc<Shared>,
}

impl<L: Lease> Lease for ObservedLease<L> {
    type Settle = SettleFuture<L::Settle>;
    type Renew = L::Renew;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        let running = self.shared.settle(&self.message, &disposition);
        let _current = running.enter();
        SettleFuture { settle: self.lease.settle(disposition), running: Some(running) }
    }

    fn release(self) -> Self::Settle {
        SettleFuture { settle: self.lease.release(), running: None }
    }

    fn abandon_after(self, changes: Changes, delay: Duration) -> Result<Self::Settle, Self> {
        let Self { lease, message, shared } = self;
        match lease.abandon_after(changes, delay) {
            Ok(settle) => {
                let running = shared.settle(&message, &Disposition::ABANDON);
                Ok(SettleFuture { settle, running: Some(running) })
            }
            Err(lease) => Err(Self { lease, message, shared }),
        }
    }

    fn release_after(self, delay: Duration) -> Result<Self::Settle, Self> {
        let Self { lease, message, shared } = self;
        match lease.release_after(delay) {
            Ok(settle) => Ok(SettleFuture { settle, running: None }),
            Err(lease) => Err(Self { lease, message, shared }),
        }
    }

    fn renew(&self) -> Self::Renew {
        self.lease.renew()
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.lease.lock_duration()
    }

    fn lock_token(&self) -> Option<LockToken> {
        self.lease.lock_token()
    }

    fn must_settle(&self) -> bool {
        self.lease.must_settle()
    }
}

impl Shared {
    pub(crate) fn new(telemetry: &Telemetry, destination: &Destination<'_>) -> Self {
        Self {
            telemetry: telemetry.clone(),
            receive: destination.target(Operation::RECEIVE),
            complete: destination.target(Operation::COMPLETE),
            abandon: destination.target(Operation::ABANDON),
            dead_letter: destination.target(Operation::DEAD_LETTER),
            defer: destination.target(Operation::DEFER),
        }
    }

    fn settle(&self, message: &Message, disposition: &Disposition) -> Running {
        let target = match disposition {
            Disposition::Complete => &self.complete,
            Disposition::Abandon(_) => &self.abandon,
            Disposition::DeadLetter(_) => &self.dead_letter,
            Disposition::Defer(_) => &self.defer,
        };
        let telemetry = &self.telemetry;
        let span = telemetry.spans().map(|spans| {
            let (parent, link) = relation(telemetry.parent(), extract(message.properties()));
            let links = link.into_iter().map(Link::with_context).collect();
            let begin = Begin { spans, target, kind: SpanKind::Client, parent: &parent, links, start: None };
            begin.span(|| {
                let names = telemetry.names();
                let [id, conversation, tag] = attributes::single(message, names);
                let status = KeyValue::new(names.disposition_status, outcome::name_of(disposition));
                [id, conversation, Some(status), tag]
            })
        });
        Running::new(telemetry, target, span, |metrics| &metrics.operation)
    }
}

pin_project! {
    /// The future of a settlement in its span.
    #[must_use = "a settlement has to be driven to its end"]
    pub struct SettleFuture<F> {
        #[pin]
        settle: F,
        // `None` for a release.
        running: Option<Running>,
    }
}

impl<F: Future<Output = Result<(), SettleError>>> Future for SettleFuture<F> {
    type Output = Result<(), SettleError>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let settled = ready!(this.settle.poll(cx));
        if let Some(running) = this.running {
            running.end(settled.as_ref().err().map(|error| error.kind().code()));
        }
        Poll::Ready(settled)
    }
}

impl<R: Receiver> fmt::Debug for ObservedReceiver<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedReceiver").field("target", &self.shared.receive).finish_non_exhaustive()
    }
}

impl<L> fmt::Debug for ObservedLease<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedLease").field("message", &self.message).finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for SettleFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettleFuture").finish_non_exhaustive()
    }
}
