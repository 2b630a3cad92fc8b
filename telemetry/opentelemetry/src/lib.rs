//! Spans and metrics of [consign]'s stacks by OpenTelemetry's
//! [conventions for messaging](https://opentelemetry.io/docs/specs/semconv/messaging/), and W3C trace context in messages.
//!
//! ```
//! use consign::{
//!     administration::QueueSettings,
//!     broker::Broker,
//!     codecs::{Codecs, Json},
//!     consumer::Consumer,
//!     middleware::encode::{EncodeLayer, OutboundMessage},
//!     routing::{Body, Router},
//!     transport::{SendExt, SendService},
//! };
//! use consign_opentelemetry::Telemetry;
//! use tower::ServiceBuilder;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower::BoxError> {
//! let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
//! // With the global providers of OpenTelemetry.
//! let telemetry = Telemetry::builder("servicebus").build();
//! let codecs = Codecs::builder().with(Json::default()).observe(telemetry.decodes()).build()?;
//!
//! let mut sender = ServiceBuilder::new()
//!     .layer(telemetry.send("orders"))
//!     .layer(EncodeLayer::new(codecs.clone()))
//!     .service(SendService::new(queue.sender()?));
//! sender.send(OutboundMessage::new("one order")).await?;
//!
//! let router = Router::new(codecs).fallback(async |Body(order): Body<String>| println!("{order}")).build()?;
//! let stack = ServiceBuilder::new().layer(telemetry.process("orders")).service(router);
//! let consumer = Consumer::new(telemetry.receiver("orders", queue.receiver()), stack);
//! # consumer.run_until(tokio::time::sleep(std::time::Duration::from_millis(10))).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Spans
//!
//! | span | kind | parent | links | of |
//! |---|---|---|---|---|
//! | `send orders` | PRODUCER; CLIENT where the messages carry other contexts | the current span | those other contexts | [`SendLayer`], [`ObservedSender`] |
//! | `create orders` | PRODUCER | the current span | | each message of a batch, [`SendLayer`] |
//! | `receive orders` | CLIENT | the current span | its messages | [`ObservedReceiver`], [`ObservedSessions`] |
//! | `process orders` | CONSUMER | as [`Parent`] says | its message, and a current span that is not the parent | [`ProcessLayer`] |
//! | `complete orders`, `abandon orders`, `dead_letter orders`, `defer orders` | CLIENT | as [`Parent`] says | the same | [`ObservedReceiver`] |
//! | `call orders` | CLIENT | the current span | | [`CallLayer`] |
//!
//! Each has `messaging.system`, `messaging.operation.name`, `messaging.operation.type` (except for `call`),
//! `messaging.destination.name`, for a subscription `messaging.destination.subscription.name`, and `error.type` if it failed.
//! Beside these:
//!
//! | attribute | of |
//! |---|---|
//! | `messaging.message.id`, `messaging.message.conversation_id` | spans of a single message |
//! | `messaging.batch.message_count` | `receive`, and `send` of a batch |
//! | `messaging.message.body.size`, `messaging.servicebus.message.delivery_count`, `messaging.servicebus.message.enqueued_time` | `process` |
//! | `messaging.servicebus.disposition_status` | settlements |
//! | `consign.disposition` | `process`: `complete`, `abandon`, `dead_letter` or `defer` |
//! | `consign.decode.codec`, `.decision`, `.outcome`, `.declared` | the span that is current when a body is read, [`DecodeObserver`] |
//!
//! # Metrics
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | `messaging.client.sent.messages` | count | system, operation name, destination, error |
//! | `messaging.client.consumed.messages` | count | the same |
//! | `messaging.client.operation.duration` | seconds | the same, operation type |
//! | `messaging.process.duration` | seconds | the same |
//! | `consign.decode.bodies` | count | `consign.decode.codec`, `.decision`, `.outcome`, `.declared` |
//! | `consign.decode.attempts` | count | `consign.decode.codec`, `.decision`, `.outcome` |
//! | `consign.trace.not_propagated` | count | `consign.trace.part`: `malformed_traceparent`, `malformed_tracestate`, `no_room` |
//! | `consign.security.refused.messages` | count | system, operation name, destination, `consign.security.reason`: `ReplyAddressNotAllowed`, `SignatureInvalid` |
//!
//! The number of values of every label is bounded. Operations and errors are closed lists, and codecs are those of the
//! application's sets. Up to [`TelemetryBuilder::max_destinations`] destinations have labels; the others are `_other`. No id
//! and no text of a message is a label. Texts on spans are [escaped](consign::transport::Escaped).
//!
//! # A trace through the broker
//!
//! The context is in the application properties `traceparent` and `tracestate`. A message keeps them in a delayed retry, in
//! the dead-letter sub-queue and when it is resubmitted. A reply gets them from its request. `Diagnostic-Id`, which older
//! clients of Azure Service Bus use, is read if there is no `traceparent`. If a message has both, a new context replaces
//! both.
#![forbid(unsafe_code)]

mod attributes;
mod call;
mod context;
mod decode;
mod destination;
mod metrics;
mod names;
mod operation;
mod process;
mod receive;
mod send;
mod sender;
mod series;
mod sessions;
mod span_names;
mod spans;
mod telemetry;

pub use crate::{
    call::{Call, CallFuture, CallLayer},
    decode::DecodeObserver,
    names::Conventions,
    process::{Process, ProcessFuture, ProcessLayer},
    receive::{ObservedLease, ObservedReceiver, SettleFuture},
    send::{Send, SendFuture, SendLayer},
    sender::ObservedSender,
    sessions::{AcceptFuture, ObservedSessions},
    telemetry::{Parent, Telemetry, TelemetryBuilder},
};
