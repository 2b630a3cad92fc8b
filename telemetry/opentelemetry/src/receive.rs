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
    settlement::Changes,
    time::Moment,
    transport::{Capabilities, Delivery, EntityInfo, Lease, ReceiveError, Receiver, Session, SettleError},
};
use opentelemetry::{KeyValue, trace::SpanKind};
use pin_project_lite::pin_project;

use crate::{
    Telemetry, attributes,
    context::{current, extract},
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
    counts: bool,
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
    pub(crate) fn new(telemetry: &Telemetry, destination: &Destination, receiver: R) -> Self {
        Self::of(Arc::new(Shared::new(telemetry, destination)), receiver)
    }

    pub(crate) fn of(shared: Arc<Shared>, receiver: R) -> Self {
        Self { receiver, shared, began: None, counts: false, batch: Vec::new() }
    }

    /// Counts received messages as consumed, for a loop without a stack. With a [`ProcessLayer`](crate::ProcessLayer) that
    /// counts, each message would count twice.
    #[must_use]
    pub fn counting(mut self) -> Self {
        self.counts = true;
        self
    }

    fn running(&self, began: Moment) -> Running {
        let telemetry = &self.shared.telemetry;
        let (parent, _) = current();
        let links = self
            .batch
            .iter()
            .take(Begin::MAX_LINKS)
            .filter_map(|delivery| extract(delivery.message.properties()))
            .collect();
        let attributes = vec![KeyValue::new(attribute::BATCH_COUNT, attributes::number(self.batch.len()))];
        let target = &self.shared.receive;
        let start = u64::try_from(began.utc.as_millis()).ok();
        let start = start.map(|millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        let running = Begin { telemetry, target, kind: SpanKind::Client, parent: &parent, links, attributes }
            .run_since(began.elapsed, start, |metrics| &metrics.operation);
        if !self.counts {
            return running;
        }
        running.counting(u64::try_from(self.batch.len()).unwrap_or(u64::MAX), |metrics| &metrics.consumed)
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
        let _current = running.context().clone().attach();
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
    pub(crate) fn new(telemetry: &Telemetry, destination: &Destination) -> Self {
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
        let (parent, links) = self.telemetry.relation(extract(message.properties()));
        let status = consign::middleware::trace::outcome::name_of(disposition);
        let mut attributes = attributes::ids(message.properties());
        attributes.push(KeyValue::new(attribute::DISPOSITION_STATUS, status));
        let telemetry = &self.telemetry;
        Begin { telemetry, target, kind: SpanKind::Client, parent: &parent, links, attributes }
            .run(|metrics| &metrics.operation)
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
