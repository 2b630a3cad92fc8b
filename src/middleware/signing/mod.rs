//! Signs messages on their way out, and on their way in takes nothing that is not signed.
//!
//! ```
//! use consign::{
//!     Disposition, Message,
//!     middleware::{keys::{Key, Keys}, signing::{SignLayer, VerifyLayer}},
//!     transport::SendError,
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! # let secret = [7; 32];
//! let keys = Keys::new(Key::new("2026", secret)?);
//! let receiving = ServiceBuilder::new()
//!     .layer(VerifyLayer::new(keys.clone()))
//!     .service(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
//! let sending = ServiceBuilder::new()
//!     .layer(SignLayer::new(keys))
//!     .service(service_fn(move |message: Message| {
//!         let handled = receiving.clone().oneshot(message);
//!         async move {
//!             assert_eq!(handled.await?, Disposition::Complete);
//!             Ok::<_, SendError>(())
//!         }
//!     }));
//! sending.oneshot(Message::builder().subject("order.paid").build(r#"{"id":1}"#)?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # How
//!
//! HMAC-SHA256 (RFC 2104) under the newest of the [keys](super::keys), in the property [`SignLayer::SIGNATURE`] as 64
//! hexadecimal digits in lower case; [`SignLayer::KEY_ID`] says by which key. It is compared in a time that does not depend
//! on where it differs. The body stays as it is.
//!
//! Signed are the body and, as by [encryption](super::keys#rotation): the MessageId, of a copy the first one
//! (`x-original-message-id`); ContentType and content encoding; Subject, SessionId, CorrelationId and ReplyTo; the id of
//! the key. A message without a MessageId is given a random one, as a broker would do. Other properties are not signed. A
//! rule of a subscription that sets one of the bound properties makes the signature wrong.
//!
//! Whoever can verify can sign, for both have the same key. That a message comes twice is no forgery:
//! [duplicate detection](super::dedup) is for that.
//!
//! # Failure
//!
//! Sending: a body that is an AMQP value or sequence, and keys without a newest one, are a
//! [`SendError`](crate::transport::SendError) of the kind
//! [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument).
//!
//! Receiving: a message without a signature, unless [`VerifyLayer::allow_unsigned`] says otherwise, with one by a key that is not there, with one that
//! is no signature, or with a wrong one is a dead letter, by a [`VerifyError`], with the reason `SignatureInvalid` and
//! everything unchanged. No codec and no handler sees it.
//!
//! # Order
//!
//! Where [encryption](super) is, which needs no signature beside it: after compression, before the claim check; on the
//! other side after the claim check, before decompression. So what is not signed costs no decompression. Beside encryption
//! the signature is of what is encrypted: sign inside of encrypt, verify outside of decrypt.
//!
//! # Cost
//!
//! The body is read once, and what is bound is written to a buffer. Counted in the table *Layers* of
//! `docs/benchmarks.md`.

mod error;
mod sign;
mod verify;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub use self::{
    error::{VerifyError, VerifyErrorKind},
    sign::{Sign, SignLayer},
    verify::{Verify, VerifyLayer},
};
use super::keys::{Bound, Key};
use crate::message::Properties;

/// What a key is used for here, and nowhere else.
const PURPOSE: &str = "consign signature 1 hmac-sha256";
const DIGEST: usize = 32;

fn mac(key: &Key, properties: &Properties, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.secret()).expect("a key of any length will do");
    mac.update(Bound::new(PURPOSE, key.id(), properties).as_bytes());
    mac.update(body);
    mac
}
