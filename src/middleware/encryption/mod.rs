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
//! [`EncryptLayer::ALGORITHM`] says how, [`EncryptLayer::KEY_ID`] by which key.
//!
//! Nonces are random: 192 bits from the operating system. One key serves 2 to the power of 64 messages with a chance below
//! 2 to the power of -64 that a nonce comes twice, so no count is kept.
//!
//! What is authenticated beside the body, and so cannot be changed on the way without notice: the MessageId, of a copy the
//! first one (`x-original-message-id`); ContentType and content encoding; Subject, SessionId, CorrelationId and ReplyTo; the
//! algorithm and the id of the key. A message without a MessageId is given a random one, as a broker would do. Properties
//! are not secret, and application properties are not authenticated: what must be belongs in the body. A rule of a
//! subscription that sets one of the bound properties makes the message unreadable.
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
//! unchanged: a message that is not encrypted, unless [`DecryptLayer::allow_plaintext`] says otherwise; another algorithm; a key that is
//! not there; a body that is no bytes or too short; and bytes or bound properties that are not what was encrypted. No codec and no handler sees any of
//! them. A key that arrives later makes them readable: resubmit the dead letters.
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

/// The only algorithm.
const XCHACHA: &str = "xchacha20poly1305";
/// What a key is used for here, and nowhere else.
const PURPOSE: &str = "consign body encryption 1 xchacha20poly1305";
const NONCE: usize = 24;
const TAG: usize = 16;
