use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, ready},
};

use consign::{
    Disposition, Message,
    message::Holding,
    middleware::trace::outcome,
    settlement::{DeadLetterReason, Undecodable},
};
use opentelemetry::{
    KeyValue,
    trace::{Link, SpanKind},
};
use pin_project_lite::pin_project;
use tower::BoxError;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Telemetry, attributes,
    context::{extract_counted, relation},
    destination::{Destination, Target},
    names::{Operation, attribute},
    operation::{Begin, Running, Watched},
    spans::Started,
};

/// A layer that makes [`Process`] services: a `process` span around the handling of each message, which continues the trace of
/// the message.
///
/// ```
/// use consign::{Disposition, Message};
/// use consign_opentelemetry::Telemetry;
/// use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let telemetry = Telemetry::builder("servicebus").build();
/// let stack = ServiceBuilder::new()
///     .layer(telemetry.process("orders"))
///     .service(service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete)));
/// stack.oneshot(Message::new("body")).await?;
/// # Ok(())
/// # }
/// ```
///
/// # The trace
///
/// [`Parent`](crate::Parent) sets the parent of the span. A `traceparent` that breaks the grammar of W3C Trace Context is
/// ignored, and counted. The span is current in the handler, so that its sends, calls and logs are inside of the span. Without
/// a provider the context of the message is current instead.
///
/// # Consumed messages
///
/// A delivery counts in `messaging.client.consumed.messages` when the handler ends, unless an
/// [`ObservedReceiver`](crate::ObservedReceiver) has counted it. A delivery that a layer holds and the consumer handles again
/// counts once.
///
/// # Failure
///
/// It does not change the result. The `error.type` is one of these: `abandoned`; the code of a dead letter or of an undecodable
/// body; `Panicked`, `LockLost`, `LockExpired`, `Timeout`; `cancelled` for a dropped call. It is `_OTHER` for every other error
/// and for the codes of an application, of which there may be any number. The text of an error is not recorded, because it may
/// quote a message.
///
/// # Order
///
/// Outermost in a receiving stack, so that it sees the result of the other layers. With a `SpawnLayer` it belongs directly
/// inside of that: the context of OpenTelemetry is that of a thread, and does not go with a call into its task.
///
/// # Cost
///
/// A span with its attributes, a duration and a count. If the span is not recorded, the attributes of the message are not set.
/// Without a provider the context of a message is one allocation, and a message without one costs none.
#[derive(Clone, Debug)]
pub struct ProcessLayer {
    telemetry: Telemetry,
    target: Arc<Target>,
}

impl ProcessLayer {
    pub(crate) fn new(telemetry: &Telemetry, destination: &Destination<'_>) -> Self {
        Self { telemetry: telemetry.clone(), target: destination.target(Operation::PROCESS) }
    }
}

impl<S> Layer<S> for ProcessLayer {
    type Service = Process<S>;

    fn layer(&self, inner: S) -> Process<S> {
        Process { inner, layer: self.clone() }
    }
}

/// A service that opens a `process` span; see [`ProcessLayer`].
#[derive(Clone)]
pub struct Process<S> {
    inner: S,
    layer: ProcessLayer,
}

impl<S> Service<Message> for Process<S>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = ProcessFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, message: Message) -> Self::Future {
        let mut running = self.layer.begin(&message);
        let current = running.enter();
        let watched = Watched(&mut running);
        let handler = self.inner.call(message);
        drop((watched, current));
        ProcessFuture { handler, running }
    }
}

impl ProcessLayer {
    fn begin(&self, message: &Message) -> Running {
        let telemetry = &self.telemetry;
        let carried = extract_counted(message.properties(), telemetry.metrics());
        let span = match telemetry.spans() {
            Some(spans) => {
                let (parent, link) = relation(telemetry.parent(), carried);
                let links = link.into_iter().map(Link::with_context).collect();
                let (kind, target) = (SpanKind::Consumer, &*self.target);
                let begin = Begin { spans, target, kind, parent: &parent, links, start: None };
                Some(begin.span(|| attributes::received(message, telemetry.names(), telemetry.has_body_size())))
            }
            // The API propagates a context without a tracer too.
            None => carried.map(|carried| {
                let (context, _) = relation(telemetry.parent(), Some(carried));
                Started { context, is_recording: false }
            }),
        };
        // A delivery counts once: not if its receiver has counted it, or it was kept and is handled again.
        let is_counted = message.is_counted() || matches!(message.holding(), Holding::Was);
        let running = Running::new(telemetry, &self.target, span, |metrics| &metrics.process);
        running.counting(u64::from(!is_counted), |metrics| &metrics.consumed)
    }
}

pin_project! {
    /// The future of a handler in its span.
    pub struct ProcessFuture<F> {
        #[pin]
        handler: F,
        running: Running,
    }
}

impl<F, E> Future for ProcessFuture<F>
where
    F: Future<Output = Result<Disposition, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Disposition, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let current = this.running.enter();
        let watched = Watched(this.running);
        let answer = ready!(this.handler.poll(cx)).map_err(Into::into);
        drop((watched, current));
        ended(this.running, &answer);
        Poll::Ready(answer)
    }
}

fn ended(running: &mut Running, answer: &Result<Disposition, BoxError>) {
    let (error, reason) = match answer {
        Ok(disposition) => {
            running.set(|| KeyValue::new(attribute::DISPOSITION, outcome::name_of(disposition)));
            let reason = match disposition {
                Disposition::DeadLetter(letter) => Some(letter.reason.clone()),
                _ => None,
            };
            (outcome::error_of(disposition), reason)
        }
        Err(error) => (Some(outcome::error_type(error)), error.downcast_ref::<Undecodable>().map(Undecodable::reason)),
    };
    if let Some(reason) = reason.filter(is_refusal) {
        refused(running, &reason);
    }
    running.end(error);
}

/// Returns whether a message was refused for a reason that may be an attack.
fn is_refusal(reason: &DeadLetterReason) -> bool {
    matches!(reason, DeadLetterReason::ReplyAddressNotAllowed | DeadLetterReason::SignatureInvalid)
}

#[cold]
fn refused(running: &Running, reason: &DeadLetterReason) {
    let reason = KeyValue::new(attribute::REASON, outcome::code_of(reason));
    let labels: Vec<_> = running.target().counts.labels().iter().cloned().chain([reason]).collect();
    running.telemetry().metrics().refused.add(1, &labels);
}

impl<S: fmt::Debug> fmt::Debug for Process<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for ProcessFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessFuture").finish_non_exhaustive()
    }
}
