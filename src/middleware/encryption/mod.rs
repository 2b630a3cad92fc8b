//! Encrypts bodies on their way out, and on their way in takes nothing that is not encrypted.
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
//!         assert_eq!(message.application().get(EncryptLayer::KEY_ID).and_then(|id| id.as_str()), Some("2026"));
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
//! # How
//!
//! XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03) under the newest of the [keys](super::keys). The body becomes a nonce of 24
//! bytes, the encrypted bytes and a tag of 16 bytes: 40 bytes more, in one section. The property
//! [`EncryptLayer::ALGORITHM`] says how, and in which version of the format, [`EncryptLayer::KEY_ID`] by which key.
//!
//! Nonces are random: 192 bits from the operating system. One key serves 2 to the power of 64 messages with a chance below
//! 2 to the power of -64 that a nonce comes twice, so no count is kept.
//!
//! The bytes of the format, with test vectors, are specified in `docs/signed-and-encrypted-messages.md`.
//!
//! # What is authenticated
//!
//! Beside the body, these cannot change without notice, and whether they are missing or empty cannot either:
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
//! ([`TypeTable::by_property`](crate::types::TypeTable::by_property)), and a version in another property. A
//! [pipeline](crate::pipeline) is not built without. A receiver that [requires](DecryptLayer::require_bound) such a
//! property refuses messages whose sender did not bind it.
//!
//! All other properties are neither secret nor authenticated:
//!
//! - To, `PartitionKey`, the time to live, the scheduled time, the priority and the rest of the pass-through
//!   properties;
//! - trace context, and what retries, dead-lettering, forwarding and resubmission add;
//! - `x-claim`, and every application property that is not named above.
//!
//! Brokers and other layers change them. What a handler relies on belongs into the body, or is bound by name. A rule of
//! a subscription that sets a bound property makes the message unreadable.
//!
//! Of a ReplyTo for RabbitMQ's direct replies the token that the broker appends is not authenticated, so that calls by
//! direct replies work. Someone who can change requests in transit can have such a reply delivered to another
//! connection, where it stays encrypted. They cannot turn it into the answer to another call, whose id it would have to
//! name.
//!
//! That a message comes twice is no forgery: [duplicate detection](super::dedup) is for that.
//!
//! # Failure
//!
//! Sending: a body that is an AMQP value or sequence, and keys without a newest one, are a
//! [`SendError`](crate::transport::SendError) of the kind
//! [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument). Nothing is sent in the clear.
//!
//! Receiving: what follows is a dead letter, by a [`DecryptError`], with the reason `SignatureInvalid` and the body
//! unchanged: a message that is not encrypted, unless [`DecryptLayer::allow_plaintext`] says otherwise; another version
//! of the format or another algorithm; a key that is not there; a body that is no bytes or too short; and bytes or
//! bound properties that are not what was encrypted. No codec and no handler sees any of them. A key that arrives later
//! makes them readable: resubmit the dead letters.
//!
//! # Order
//!
//! Sending: after compression, before the claim check and the size limit. Receiving: after the claim check, before
//! decompression. Retries and dead letters outside of it hold what is encrypted.
//!
//! # Cost
//!
//! Both work in the call, without another thread. The body is copied once, and what is bound is written to a buffer; for
//! the nonce the system is asked. Counted in the table *Layers* of `docs/benchmarks.md`.

mod decrypt;
mod encrypt;
mod error;

pub use self::{
    decrypt::{Decrypt, DecryptLayer},
    encrypt::{Encrypt, EncryptLayer},
    error::{DecryptError, DecryptErrorKind},
};
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
