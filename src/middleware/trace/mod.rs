//! A layer that opens a [tracing](https://docs.rs/tracing) span for each message that is sent or handled, with the fields
//! of OpenTelemetry's conventions for messaging.
//!
//! ```
//! use consign::{Disposition, Message, middleware::trace::TraceLayer};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let stack = ServiceBuilder::new()
//!     .layer(TraceLayer::receiving("orders"))
//!     .service(service_fn(|_: Message| async {
//!         tracing::info!("inside of `process`");
//!         Ok::<_, BoxError>(Disposition::Complete)
//!     }));
//! stack.oneshot(Message::new("body")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! In a sending stack, use `TraceLayer::sending("orders")`. Spans have the level `INFO`, the target
//! `consign::middleware::trace`, and the name `process` or `send`.
//!
//! | field | of | |
//! |---|---|---|
//! | `otel.name`, `otel.kind` | both | `process orders` and `consumer`, `send orders` and `producer` |
//! | `messaging.operation.type`, `messaging.operation.name` | both | `process` or `send` |
//! | `messaging.destination.name` | both | what the layer was given |
//! | `messaging.message.id`, `messaging.message.conversation_id` | both | MessageId and CorrelationId, of a single message |
//! | `messaging.batch.message_count` | `send` | of a batch |
//! | `messaging.message.body.size` | `process` | bytes, if [set](TraceLayer::body_size) |
//! | `consign.message.delivery_count` | `process` | |
//! | `trace_id` | `process` | the trace that the message belongs to, by its [`TraceContext`](crate::message::TraceContext) |
//! | `consign.disposition` | `process` | `complete`, `abandon`, `dead_letter`, `defer`, or `hold` of a message that waits for another handler of its id |
//! | `error.type` | both | a code from a closed list, or `_OTHER`: see [`outcome`] |
//!
//! Text from messages is [`Escaped`]: no control character of a message reaches a log. There is no field with bytes of a
//! body or with values of application properties, except `trace_id`.
//!
//! The layer does not write a context into messages, and does not make one the parent of a span, because `tracing` has no
//! trace ids. The crate `consign-opentelemetry` does both, and has metrics.
//!
//! # Signed and encrypted messages
//!
//! `traceparent`, `tracestate` and `Diagnostic-Id` are not authenticated, because every hop may set them. An attacker who
//! can change messages can have a span appear in another trace.
//!
//! # Failure
//!
//! The layer changes no result. A call that is dropped closes its span without `consign.disposition`.
//!
//! # Order
//!
//! Outermost, so that the logs and results of the other layers, and all attempts of a message, are inside of one span.
//!
//! # Cost
//!
//! If the span is disabled, one check per call and per poll. Otherwise the cost of the subscriber, and an allocation for
//! each field whose text has to be escaped. The table *Layers* of `docs/benchmarks.md` has the figures, without a
//! subscriber.

#[doc(hidden)]
pub mod outcome;
mod receiving;
mod sending;
mod service;

use std::{fmt, marker::PhantomData, sync::Arc};

use tower_layer::Layer;

use self::service::Trace;
use super::from_fn::{Receiving, Sending};
use crate::transport::Escaped;

/// A layer that opens a span for each message; see the [module](self).
pub struct TraceLayer<D> {
    names: Arc<Names>,
    direction: PhantomData<fn() -> D>,
}

#[derive(Clone)]
struct Names {
    destination: String,
    /// The operation and the destination.
    span: String,
    has_body_size: bool,
}

impl TraceLayer<Receiving> {
    /// Creates the layer of a stack that handles messages from `destination`, a queue or a
    /// subscription.
    #[must_use]
    pub fn receiving(destination: &str) -> Self {
        Self::new("process", destination)
    }

    /// Sets whether spans have `messaging.message.body.size`, in bytes: by default they have not, because the conventions make it
    /// opt-in.
    #[must_use]
    pub fn body_size(mut self, has_body_size: bool) -> Self {
        Arc::make_mut(&mut self.names).has_body_size = has_body_size;
        self
    }
}

impl TraceLayer<Sending> {
    /// Creates the layer of a stack that sends to `destination`, a queue or a topic.
    #[must_use]
    pub fn sending(destination: &str) -> Self {
        Self::new("send", destination)
    }
}

impl<D> TraceLayer<D> {
    /// Escaped.
    pub(crate) fn destination(&self) -> &str {
        &self.names.destination
    }

    fn new(operation: &str, destination: &str) -> Self {
        let destination = Escaped(destination).to_string();
        let span = format!("{operation} {destination}");
        Self { names: Arc::new(Names { destination, span, has_body_size: false }), direction: PhantomData }
    }
}

impl<D> Clone for TraceLayer<D> {
    fn clone(&self) -> Self {
        Self { names: Arc::clone(&self.names), direction: PhantomData }
    }
}

impl<D> fmt::Debug for TraceLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceLayer").field("span", &self.names.span).finish_non_exhaustive()
    }
}

impl<S, D> Layer<S> for TraceLayer<D> {
    type Service = Trace<S, D>;

    fn layer(&self, inner: S) -> Trace<S, D> {
        Trace { inner, names: Arc::clone(&self.names), direction: PhantomData }
    }
}
