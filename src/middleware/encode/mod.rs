//! A layer that encodes a value into a message, and sets its ContentType.
//!
//! Inside of this layer a stack takes a [`Message`](crate::Message) or a [`Batch`](crate::transport::Batch), outside of it
//! an [`OutboundMessage`] value or an [`OutboundBatch`].
//!
//! ```
//! # #[cfg(feature = "json")] {
//! use consign::{
//!     Message,
//!     codecs::Codecs,
//!     middleware::{encode::{EncodeLayer, OutboundMessage}, message_id::MessageIdLayer},
//!     transport::SendError,
//! };
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! #[derive(serde::Serialize)]
//! struct Order {
//!     id: u32,
//! }
//!
//! # tokio_test::block_on(async {
//! let sender = ServiceBuilder::new()
//!     .layer(MessageIdLayer::new())
//!     .layer(EncodeLayer::new(Codecs::json()))
//!     .service(service_fn(|message: Message| async move {
//!         assert_eq!(message.content_type(), Some("application/json"));
//!         assert_eq!(message.payload(), Some(&b"{\"id\":1}"[..]));
//!         Ok::<_, SendError>(())
//!     }));
//! sender.oneshot(OutboundMessage::new(Order { id: 1 }).subject("order.created")).await
//! # }).unwrap();
//! # }
//! ```
//!
//! # Choice of the codec
//!
//! | the codec is named by | with |
//! |---|---|
//! | the message | [`OutboundMessage::codec`] |
//! | else its type | `codec = ".."` in an enum of [`types`](crate::message_types), sent by [`OutboundMessage::typed`] |
//! | else the entity | [`EncodeLayer::codec`] |
//! | else | the first of the set is used |
//!
//! A type with its own format, such as protobuf, is written in that format. If the message or its type names a codec, that
//! is an error.
//!
//! # Failure
//!
//! If a value cannot be encoded, the call fails as a [`SendError`](crate::transport::SendError) of the kind
//! [`Serialization`](crate::transport::ErrorKind::Serialization); it is never sent as an empty body. An invalid property is
//! an [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument). Then nothing is sent, also of a batch.
//!
//! # Order
//!
//! Inside of layers that only set properties, outside of layers that use the bytes: compression, encryption, claim check,
//! [size limit](super::size_limit). An outer retry encodes again for each attempt, and needs values that are `Clone`; an
//! inner retry repeats the bytes.
//!
//! # Cost
//!
//! The cost is that of the codec and of allocating its output: see the table *Codecs* of `docs/benchmarks.md`.

mod outbound;
mod service;

pub(crate) use self::service::{Outbound, encode_message, encode_value};
pub use self::{
    outbound::{OutboundBatch, OutboundMessage},
    service::EncodeLayer,
};
