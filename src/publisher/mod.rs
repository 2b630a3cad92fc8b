//! A handle that encodes values and sends them, for the state of an application.
//!
//! ```
//! # #[cfg(all(feature = "json", feature = "embedded"))] {
//! use consign::{
//!     administration::QueueSettings,
//!     broker::Broker,
//!     codecs::Codecs,
//!     publisher::Publisher,
//!     transport::SendError,
//! };
//!
//! #[derive(serde::Serialize)]
//! struct Order {
//!     id: u64,
//! }
//!
//! /// The state of a web service.
//! #[derive(Clone)]
//! struct App {
//!     orders: Publisher,
//! }
//!
//! async fn place(app: &App, order: Order) -> Result<(), SendError> {
//!     app.orders.publish("order.placed", &order).await
//! }
//!
//! # tokio_test::block_on(async {
//! let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
//! let app = App { orders: Publisher::new(Codecs::json(), queue.sender()?) };
//! place(&app, Order { id: 1 }).await?;
//! app.orders.message("order.placed").session_id("customer-7").property("tenant", 7).send(&Order { id: 2 }).await?;
//! # Ok::<(), tower::BoxError>(())
//! # }).unwrap();
//! # }
//! ```
//!
//! A publisher is made of the [`Sender`] of any transport, [`DynSender`](crate::transport::DynSender) included. It sets a
//! random MessageId, and at most 100 sends are in flight: see [`message_id`](crate::middleware::message_id) and
//! [`in_flight`](crate::middleware::in_flight). [`Publisher::builder`] adds layers between these two. They get encoded
//! messages and batches, so a [retry](crate::middleware::send_retry) repeats the MessageId and the bytes.
//!
//! ```
//! # #[cfg(all(feature = "json", feature = "embedded"))] {
//! use std::time::Duration;
//!
//! use consign::{
//!     codecs::Codecs,
//!     middleware::{retry::Backoff, send_retry::SendRetryLayer, size_limit::SizeLimitLayer, trace::TraceLayer},
//!     publisher::Publisher,
//! };
//! # use consign::{administration::QueueSettings, broker::Broker};
//!
//! # let sender = Broker::new().create_queue("orders", QueueSettings::default())?.sender()?;
//! let publisher = Publisher::builder(Codecs::json())
//!     .layer(TraceLayer::sending("orders"))
//!     .layer(SendRetryLayer::new(Backoff::exponential(Duration::from_millis(100))))
//!     .layer(SizeLimitLayer::default())
//!     .in_flight(200)
//!     .build(sender);
//! # let _ = publisher;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Batches
//!
//! [`Publisher::publish_batch`] sends values of one type as one transfer. For values of several types, encode each with
//! [`PublishMessage::encode`], and pass the messages to [`Publisher::send_batch`].
//!
//! # Scheduled messages
//!
//! `.delay(duration)` or `.scheduled_enqueue_time(at)` on a [message](Publisher::message) delays it until then, on a transport with
//! [scheduling](crate::transport::Capability::Scheduling); any other refuses it. To cancel it later, pass what
//! [`PublishMessage::encode`] returns to [`ScheduleMessages::schedule`](crate::transport::ScheduleMessages::schedule), which
//! returns sequence numbers. Such a message does not pass the layers.
//!
//! # Performance
//!
//! The types of the sender and of the layers are erased, so a publisher has the codecs as its only type parameter. A send
//! allocates one box for its future. `cargo xtask bench --only erased` counts a value of two numbers, as JSON, to a transport that
//! drops it:
//!
//! | through | instructions | allocations |
//! |---|---|---|
//! | the same layers as one type, with [`EncodeLayer`](crate::middleware::encode::EncodeLayer) | 2,160 | 3 |
//! | a publisher | 2,329 | 4 |
//! | a publisher with [`SendRetryLayer`](crate::middleware::send_retry::SendRetryLayer) | 2,505 | 4 |

mod builder;
mod message;
mod stack;

use std::{borrow::Cow, fmt, future::ready, sync::Arc};

use consign_codecs::{CodecSet, Codecs, Encode};

use self::stack::Stack;
pub use self::{builder::PublisherBuilder, message::PublishMessage};
use crate::{
    Message,
    middleware::encode::{OutboundMessage, encode_message},
    time::Clock,
    transport::{Batch, BoxFuture, SendError, Sender},
};

/// Encodes values and sends them to one entity; see the [module](self). A clone is two reference counts, and shares the bound
/// of sends in flight.
///
/// In the type of a field, `Publisher` alone is a publisher with [`Codecs::json`]. With other codecs the type lists them:
/// `Publisher<And<And<NoCodec, Json>, MessagePack>>`.
pub struct Publisher<
    #[cfg(feature = "json")] C = consign_codecs::And<consign_codecs::NoCodec, consign_codecs::Json>,
    #[cfg(not(feature = "json"))] C,
> {
    codecs: Codecs<C>,
    stack: Arc<dyn Stack>,
    /// That of the sender, if it has one.
    clock: Option<Arc<dyn Clock>>,
}

impl<C: CodecSet> Publisher<C> {
    /// Creates a publisher that sends by `sender`, without further layers.
    pub fn new(codecs: Codecs<C>, sender: impl Sender) -> Self {
        Self::builder(codecs).build(sender)
    }

    /// Starts a publisher with layers.
    pub fn builder(codecs: Codecs<C>) -> PublisherBuilder<C> {
        PublisherBuilder::new(codecs)
    }

    /// Encodes `value` with the first codec of the set, or in its own format, and sends it under this subject.
    ///
    /// The value is encoded by the call, so the future does not borrow it. It sends when it is awaited.
    ///
    /// # Errors
    ///
    /// [`Serialization`](crate::transport::ErrorKind::Serialization) if the value cannot be encoded, and those of
    /// [`Sender::send`].
    ///
    /// # Cancel safety
    ///
    /// The outcome of a send whose future is dropped is unknown.
    pub fn publish<T: Encode + ?Sized>(
        &self,
        subject: impl Into<Cow<'static, str>>,
        value: &T,
    ) -> BoxFuture<Result<(), SendError>> {
        self.message(subject).send(value)
    }

    /// Starts a message with properties: `publisher.message("order.placed").session_id("customer-7").send(&order)`.
    pub fn message(&self, subject: impl Into<Cow<'static, str>>) -> PublishMessage<'_, C> {
        PublishMessage::new(self, subject.into())
    }

    /// Encodes values and sends them under this subject, as one transfer: the broker accepts all of them or none, except on
    /// NATS, RabbitMQ and AMQP 1.0; see [`Sender::send_batch`]. Without values nothing is sent.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish). If one value cannot be encoded, nothing is sent.
    pub fn publish_batch<'v, T: Encode + ?Sized + 'v>(
        &self,
        subject: impl Into<Cow<'static, str>>,
        values: impl IntoIterator<Item = &'v T>,
    ) -> BoxFuture<Result<(), SendError>> {
        let subject = subject.into();
        let messages = values.into_iter().map(|value| self.message(subject.clone()).encode(value));
        match messages.collect::<Result<Batch, _>>() {
            Ok(batch) => self.send_batch(batch),
            Err(error) => refused(error),
        }
    }

    /// Encodes and sends a value with the properties that it was given, such as one of an enum of
    /// [message types](crate::message_types): `publisher.send(OutboundMessage::typed(event))`.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    pub fn send<T: Encode>(&self, outbound: OutboundMessage<T>) -> BoxFuture<Result<(), SendError>> {
        match encode_message(&self.codecs, None, outbound) {
            Ok(message) => self.stack.send(message),
            Err(error) => refused(error),
        }
    }

    /// Sends messages that are encoded already as one transfer. An empty batch sends nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Sender::send_batch`].
    #[must_use = "a send does nothing until it is awaited"]
    pub fn send_batch(&self, batch: Batch) -> BoxFuture<Result<(), SendError>> {
        if batch.is_empty() {
            return Box::pin(ready(Ok(())));
        }
        self.stack.send_batch(batch)
    }

    fn send_encoded(&self, message: Result<Message, SendError>) -> BoxFuture<Result<(), SendError>> {
        match message {
            Ok(message) => self.stack.send(message),
            Err(error) => refused(error),
        }
    }
}

#[cold]
fn refused(error: SendError) -> BoxFuture<Result<(), SendError>> {
    Box::pin(ready(Err(error)))
}

impl<C> Clone for Publisher<C> {
    fn clone(&self) -> Self {
        Self { codecs: self.codecs.clone(), stack: Arc::clone(&self.stack), clock: self.clock.clone() }
    }
}

impl<C> fmt::Debug for Publisher<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}
