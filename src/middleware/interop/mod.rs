//! Messages of NServiceBus and of MassTransit, read as if they had been sent by this library.
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
//! Each layer takes what its library has sent and passes everything else on as it is. What it finds fills the fields of
//! the message that are empty, and no other: what the broker says stands. All it was found in stays among the application
//! properties, so that nothing is lost.
//!
//! # MassTransit
//!
//! By the ContentType `application/vnd.masstransit+json` the body is an envelope. The member `message` becomes the body,
//! to the byte, and `application/json` its ContentType.
//!
//! Without an envelope, as MassTransit's raw JSON serializer sends with transport headers, the same is read from the
//! application properties.
//!
//! | in the envelope | as a property | becomes |
//! |---|---|---|
//! | `messageId` | `MessageId` | MessageId |
//! | `requestId`, else `correlationId` | `RequestId`, `CorrelationId` | CorrelationId |
//! | the first of `messageType` | `MT-MessageType`, with `;` between them | Subject, without `urn:message:` |
//! | `conversationId`, `initiatorId` | `ConversationId`, `MT-InitiatorId` | |
//! | `sourceAddress`, `responseAddress`, `faultAddress` | `MT-Source-Address`, `MT-Response-Address`, `MT-Fault-Address` | |
//! | `headers` | each by its name: text, truth values and numbers as they are, others as JSON | |
//!
//! The times and `host` are not read. The other envelopes, in XML, in BSON and encrypted, have each a ContentType of its own,
//! and are dead letters unless a codec is registered for it.
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
//!
//! # No replies
//!
//! Neither layer sets `ReplyTo`: both libraries take a reply only with an envelope or with headers of their own, which nothing
//! here writes.
//!
//! # Failure
//!
//! What says that it comes from one of them and cannot be read is a dead letter, by an [`InteropError`], with the reason
//! `DeserializationFailed` and everything unchanged. That a type is unknown is for the router to say: names are looked up,
//! and nothing is loaded by one.
//!
//! # Order
//!
//! Around the handler, inside of all that changes bodies: what is compressed or encrypted is no envelope yet.
//!
//! # Cost
//!
//! Of other messages, a comparison of the ContentType and a look-up for each property above. An envelope is read once, and
//! the new body shares its bytes.

mod error;
mod fill;
mod masstransit;
mod nservicebus;

pub use self::{
    error::InteropError,
    masstransit::{MassTransit, MassTransitLayer},
    nservicebus::{NServiceBus, NServiceBusLayer},
};
