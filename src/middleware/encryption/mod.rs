//! Layers that encrypt and decrypt bodies. The receiving layer refuses messages that are not encrypted.
//!
//! ```
//! use consign::{
//!     Disposition, Message,
//!     middleware::{encryption::{DecryptLayer, EncryptLayer}, keys::{Key, Keys}},
//!     transport::SendError,
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! # let secret = [7; 32];
//! let keys = Keys::new(Key::new("2026", secret)?);
//! let receiving = ServiceBuilder::new()
//!     .layer(DecryptLayer::new(keys.clone()))
//!     .service(service_fn(|message: Message| async move {
//!         assert_eq!(message.payload(), Some(&b"4111 1111"[..]));
//!         Ok::<_, BoxError>(Disposition::Complete)
//!     }));
//! let sending = ServiceBuilder::new()
//!     .layer(EncryptLayer::new(keys))
//!     .service(service_fn(move |message: Message| {
//!         assert_eq!(message.application_properties().get(EncryptLayer::KEY_ID).and_then(|id| id.as_str()), Some("2026"));
//!         let handled = receiving.clone().oneshot(message);
//!         async move {
//!             assert_eq!(handled.await?, Disposition::Complete);
//!             Ok::<_, SendError>(())
//!         }
//!     }));
//! sending.oneshot(Message::new("4111 1111")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Format
//!
//! XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03) under the newest of the [keys](super::keys). The body becomes a nonce of
//! 24 bytes, the encrypted bytes and a tag of 16 bytes: 40 bytes more, in one section. The property
//! [`EncryptLayer::ALGORITHM`] has the version of the format and the algorithm, [`EncryptLayer::KEY_ID`] the id of the key.
//!
//! Nonces are random: 192 bits from the operating system. One key serves 2 to the power of 64 messages with a chance below
//! 2 to the power of -64 that a nonce is used twice, so no count is kept.
//!
//! `docs/signed-and-encrypted-messages.md` specifies the format, with test vectors.
//!
//! # What is authenticated
//!
//! Besides the body, a change of these is detected, also between missing and empty:
//!
//! - the MessageId, of a copy the first one (`x-original-message-id`); a message without one is given a random one;
//! - ContentType, content encoding, Subject, SessionId, CorrelationId, ReplyTo and `ReplyToSessionId`;
//! - the version of the body, `x-message-version`;
//! - CloudEvents attributes, whose names begin with `cloudEvents:`, `cloudEvents_`, `ce-` or `ce_`;
//! - `x-accept`, `x-fault` and the rest of a [fault](crate::rpc::Fault), and the properties from which
//!   [`interop`](super::interop) fills fields of a message;
//! - further application properties that the sender [binds](EncryptLayer::bind) by name.
//!
//! **Bind the property that names the type of a message**, if that is not the Subject
//! ([`TypeTable::by_property`](crate::message_types::TypeTable::by_property)), and a version in another property. A
//! [pipeline](crate::pipeline) requires it. A receiver that [requires](DecryptLayer::require_bound) such a property refuses
//! messages whose sender did not bind it.
//!
//! All other properties are neither secret nor authenticated:
//!
//! - To, `PartitionKey`, the time to live, the scheduled time, the priority and the other pass-through properties;
//! - trace context, and the properties that retries, dead-lettering, forwarding and resubmission add;
//! - `x-claim`, and every application property that is not named above.
//!
//! Brokers and other layers change them. Put data that a handler relies on into the body, or bind its property by name. A
//! rule of a subscription that sets a bound property makes the message unreadable.
//!
//! In a ReplyTo for RabbitMQ's direct replies, the token that the broker appends is not authenticated, so that calls can
//! use direct replies. An attacker who can change requests in transit can redirect such a reply to another connection,
//! where it stays encrypted. They cannot turn it into the answer to another call, because it has the id of its own call.
//!
//! A message that is delivered twice is authentic twice: use [duplicate detection](super::dedup).
//!
//! # Failure
//!
//! Sending: a body that is an AMQP value or sequence, and keys without a newest one, are a
//! [`SendError`](crate::transport::SendError) of the kind
//! [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument). Nothing is sent in the clear.
//!
//! Receiving: these messages are dead-lettered unchanged, with the reason `SignatureInvalid`; the error is a
//! [`DecryptError`]:
//!
//! - a message that is not encrypted, unless [`DecryptLayer::allow_plaintext`] admits it;
//! - another version of the format or another algorithm;
//! - a key id that the provider does not have;
//! - a body that is not bytes, or too short;
//! - a changed body, or a changed bound property.
//!
//! No codec and no handler gets any of them. If the key is added later, resubmit the dead letters.
//!
//! # Order
//!
//! Sending: after compression, before the claim check and the size limit. Receiving: after the claim check, before
//! decompression. Outer retries and dead letters have the encrypted body.
//!
//! # Cost
//!
//! Both layers work in the call, without another thread. The body is copied once, the bound properties are written to a
//! buffer, and the nonce takes a system call. The table *Layers* of `docs/benchmarks.md` has the figures.

mod decrypt;
mod encrypt;
mod error;

pub use self::{decrypt::DecryptLayer, encrypt::EncryptLayer, error::DecryptError};
use super::keys::Purpose;

/// What the property says: the version of the format, and the only algorithm.
const VERSION: &str = "2";
const XCHACHA: &str = "xchacha20poly1305";
/// What a key is used for here, and nowhere else.
const PURPOSE: Purpose = Purpose {
    text: "consign body encryption 2 xchacha20poly1305",
    list: EncryptLayer::BOUND,
    own: [EncryptLayer::ALGORITHM, EncryptLayer::KEY_ID],
    also: &[],
};
const NONCE: usize = 24;
const TAG: usize = 16;
