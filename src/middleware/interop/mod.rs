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
//! Each layer reads the messages of its library and passes every other message on unchanged. It fills the fields of the
//! message that are empty, and no other: what the broker says stands. Everything that the other library has written is an
//! application property afterwards, so that nothing is lost.
//!
//! # MassTransit
//!
//! By the ContentType `application/vnd.masstransit+json` the body is an envelope. The member `message` becomes the body,
//! to the byte, and `application/json` its ContentType. A byte order mark before the envelope is skipped.
//!
//! Without an envelope, as MassTransit's raw JSON serializer sends with transport headers, the same is read from the
//! application properties.
//!
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
//! | `headers` | each by its name | |
//! | any other member | `MT-` and its name | |
//! | the header `MT-Activity-Id` | `MT-Activity-Id` | the trace context, in `traceparent`, if the message has none |
//!
//! Text, truth values and numbers become properties of that type, and lists and objects JSON. Times are text, as they are
//! written. The other envelopes, in XML, in BSON and encrypted, have each a ContentType of its own, and are dead letters
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
//! On RabbitMQ NServiceBus writes the name of the type up to its first comma into the property `type`, which is the
//! Subject here. Where that cuts the arguments of a generic type off, the full name takes its place.
//!
//! # Expiry
//!
//! A message that has expired by the time that its sender gave is a dead letter, with the reason `TTLExpiredException`. Nothing
//! expires in a dead-letter sub-queue, nor what MassTransit or NServiceBus has moved to an error queue or copied to an audit
//! queue. A time that cannot be read stays a property, and the message does not expire by it. The instants are the
//! sender's and the clock is this process's; see `with_clock`.
//!
//! # Long headers
//!
//! Error queues add stack traces of many KiB. Headers that the transport delivers stay whole, also beyond the limits of
//! a message that is sent. What an envelope adds is kept within these limits, so that the message can be sent on:
//! 32,767 bytes for one property and 65,534 for all. Of the added texts the longest are cut, none to less than 1 KiB,
//! and end with ` ... [cut]`. More than 1,024 properties, or texts that do not fit when cut like that, are an error.
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
//! Neither layer sets `ReplyTo`: both libraries take a reply only with an envelope or with headers of their own, which
//! nothing here writes.
//!
//! # Failure
//!
//! A message of one of them that cannot be read is a dead letter, by an [`InteropError`], with the reason
//! `DeserializationFailed` and everything unchanged. An unknown type is for the router to report: names are looked up, and
//! nothing is loaded by one.
//!
//! # Order
//!
//! Around the handler, inside of all that changes bodies: what is compressed or encrypted is not an envelope yet.
//!
//! # Cost
//!
//! For other messages, a comparison of the ContentType and a look-up for each property above. An envelope is read once, and
//! the new body shares its bytes.

mod deadline;
mod envelope;
mod error;
mod fill;
mod fit;
mod instant;
mod masstransit;
mod nservicebus;

pub use self::{
    error::InteropError,
    masstransit::{MassTransit, MassTransitLayer},
    nservicebus::{NServiceBus, NServiceBusLayer},
};
