//! Layers that read messages of NServiceBus and MassTransit as if this library had sent them.
//!
//! ```
//! use consign::{
//!     Disposition, Message,
//!     codecs::Codecs,
//!     middleware::interop::{MassTransitLayer, NServiceBusLayer},
//!     routing::{Body, Router},
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt};
//!
//! #[derive(serde::Deserialize)]
//! struct SubmitOrder {
//!     id: u64,
//! }
//!
//! async fn submit(Body(order): Body<SubmitOrder>) {
//!     assert_eq!(order.id, 7);
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let receiving = ServiceBuilder::new()
//!     .layer(MassTransitLayer::new())
//!     .layer(NServiceBusLayer::new())
//!     .service(Router::new(Codecs::json()).route("Shop:SubmitOrder", submit).build()?);
//!
//! let body = r#"{"messageType":["urn:message:Shop:SubmitOrder"],"message":{"id":7}}"#;
//! let message = Message::builder().content_type("application/vnd.masstransit+json").build(body)?;
//! assert_eq!(receiving.oneshot(message).await?, Disposition::Complete);
//! # Ok(())
//! # }
//! ```
//!
//! Each layer reads the messages of its library and passes every other message on unchanged. It sets only properties that
//! the message does not have, and never those of the broker. Each header of the other library becomes an application property,
//! unless the message has one of that name.
//!
//! # MassTransit
//!
//! With the ContentType `application/vnd.masstransit+json` the body is an envelope. Its member `message` becomes the body,
//! byte for byte, with the ContentType `application/json`. A byte order mark before the envelope is skipped.
//! The names of its members may begin with a capital, as `Message`.
//!
//! Without an envelope, as MassTransit's raw JSON serializer sends with transport headers, the same is read from the
//! application properties.
//! | in the envelope | as a property | becomes |
//! |---|---|---|
//! | `messageId` | `MessageId` | MessageId |
//! | `requestId`, else `correlationId` | `RequestId`, `CorrelationId` | CorrelationId |
//! | the first of `messageType` | `MT-MessageType`, with `;` between them | Subject, without `urn:message:` |
//! | `destinationAddress` | `MT-Destination-Address` | To |
//! | `expirationTime` | `MT-Expiration-Time` | `expires_at` of [`Received`](crate::message::Received), if it is earlier |
//! | `sentTime` | `MT-Sent-Time` | |
//! | `conversationId`, `initiatorId` | `ConversationId`, `MT-InitiatorId` | |
//! | `sourceAddress`, `responseAddress`, `faultAddress` | `MT-Source-Address`, `MT-Response-Address`, `MT-Fault-Address` | |
//! | `host`, as `machineName` | `MT-Host-` and the name of the member, as `MT-Host-MachineName` | |
//! | `headers` | each by its name, unless another member above or below has this property; none of null | |
//! | any other member | `MT-` and its name | |
//! | the header `MT-Activity-Id` | `MT-Activity-Id` | the trace context, in `traceparent`, if the message has none |
//!
//! Text, truth values and numbers become properties of that type, and lists and objects JSON text. Times are text, as they
//! are written. The other envelopes, in XML, in BSON and encrypted, each have their own ContentType. They are dead-lettered
//! unless a codec is registered for it.
//!
//! # NServiceBus
//!
//! By any of these application properties:
//!
//! | property | becomes |
//! |---|---|
//! | `NServiceBus.MessageId` | MessageId |
//! | `NServiceBus.CorrelationId` | CorrelationId |
//! | `NServiceBus.ContentType` | ContentType |
//! | the first of `NServiceBus.EnclosedMessageTypes` | Subject: the full name of the type, without its assembly |
//! | `NServiceBus.TimeSent` and `NServiceBus.TimeToBeReceived` | `expires_at` of [`Received`](crate::message::Received), if it is earlier |
//!
//! With the value `wcf/byte-array` of `NServiceBus.Transport.Encoding` the body is a .NET binary XML document with a byte array.
//! The array becomes the body, and the property is removed.
//!
//! On RabbitMQ NServiceBus writes the name of the type up to its first comma into the property `type`, which is the
//! Subject. If that cuts off the arguments of a generic type, the full name replaces it.
//!
//! # Expiry
//!
//! A message that has expired by its sender's expiration time is a dead letter, with the reason `TTLExpiredException`.
//! These messages do not expire:
//!
//! - in a dead-letter sub-queue, or with the property `x-resubmit-count`, which a [resubmission](crate::dead_letters) sets;
//! - that MassTransit or NServiceBus has moved to an error queue or copied to an audit queue;
//! - that NServiceBus retries with a delay, or that ServiceControl has returned to their queue.
//!
//! A time that cannot be parsed stays a property and has no effect. The times are the
//! sender's and the clock is that of this process; see `with_clock`.
//!
//! # Long headers
//!
//! Error queues add stack traces of many KiB. Headers that the transport delivers are never cut, also beyond the limits of
//! a message that is sent. Properties of an envelope are cut to these limits, so that the message can be sent again: 32,767
//! bytes for one property and 65,534 for all. The longest texts are cut first, but none to less than 1 KiB, and end with `
//! ... [cut]`. More than 1,024 properties or members, or texts that do not fit after that, are an error.
//!
//! # Signed and encrypted messages
//!
//! [Signing](super::signing) and [encryption](super::encryption) authenticate MessageId, CorrelationId, ContentType and
//! Subject, and the properties that these are filled from: `MT-MessageType`, `MessageId`, `RequestId`, `CorrelationId`,
//! `NServiceBus.MessageId`, `NServiceBus.CorrelationId`, `NServiceBus.ContentType`, `NServiceBus.EnclosedMessageTypes` and
//! `NServiceBus.Transport.Encoding`. They do not authenticate other properties that begin with `MT-` or `NServiceBus.`, such
//! as those of the destination and of the time of expiry, for error queues add to them.
//!
//! # No replies
//!
//! Neither layer sets `ReplyTo`: both libraries accept a reply only with their own envelope or headers, which this library
//! does not write.
//!
//! # Failure
//!
//! A message of one of these libraries that cannot be read is dead-lettered unchanged, with the reason
//! `DeserializationFailed`; the error is an [`InteropError`]. A compressed envelope has the reason `UnsupportedEncoding`. The router reports an unknown type: names are only looked up,
//! and nothing is loaded by name.
//!
//! # Order
//!
//! Directly outside of the handler, inside of all layers that change bodies, because an envelope cannot be read before it
//! is decompressed and decrypted.
//!
//! # Cost
//!
//! Another message costs a comparison of the ContentType and a look-up of each property above. An envelope is parsed once,
//! and the new body shares its bytes.

mod deadline;
mod envelope;
mod error;
mod fill;
mod fit;
mod instant;
mod masstransit;
mod nservicebus;

pub use self::{error::InteropError, masstransit::MassTransitLayer, nservicebus::NServiceBusLayer};
