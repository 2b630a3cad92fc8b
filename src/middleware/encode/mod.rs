//! Encodes a value, and stamps the ContentType that says how.
//!
//! Below this layer a stack takes a [`Message`](crate::Message) or a [`Batch`](crate::transport::Batch), above it an
//! [`Outgoing`] value or an [`OutgoingBatch`].
//!
//! ```
//! # #[cfg(feature = "json")] {
//! use consign::{
//!     Message,
//!     codecs::Codecs,
//!     middleware::{encode::{EncodeLayer, Outgoing}, message_id::MessageIdLayer},
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
//! sender.oneshot(Outgoing::new(Order { id: 1 }).subject("order.created")).await
//! # }).unwrap();
//! # }
//! ```
//!
//! # Which codec
//!
//! | what names one | by |
//! |---|---|
//! | the message | [`Outgoing::codec`] |
//! | else its type | `codec = ".."` in an enum of [`types`](crate::types), sent by [`Outgoing::typed`] |
//! | else the entity | [`EncodeLayer::codec`] |
//! | else nothing | the first of the set |
//!
//! A type with a format of its own, as protobuf, is written in that, unless the message or its type names a codec: that is an
//! error.
//!
//! # Failure
//!
//! A value that cannot be encoded is answered as a [`SendError`](crate::transport::SendError) of the kind
//! [`Serialization`](crate::transport::ErrorKind::Serialization), never sent as an empty body. Properties that break a
//! rule are answered as [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument), the first one of them. Nothing
//! is sent then, of a batch neither.
//!
//! # Order
//!
//! Inside of everything that only stamps properties, outside of everything that looks at bytes: compression, encryption,
//! claim check, [size limit](super::size_limit). A retry outside encodes again for each attempt, and needs values that
//! are `Clone`; a retry inside repeats the bytes.
//!
//! # Cost
//!
//! That of the codec, and the bytes it writes are allocated: the table *Codecs* of `docs/benchmarks.md`.

mod outgoing;
mod service;

pub use self::{
    outgoing::{Outgoing, OutgoingBatch},
    service::{EncodeLayer, Encoder, UnknownCodec},
};
