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
//! HMAC-SHA256 (RFC 2104) under the newest of the [keys](super::keys), in the property [`SignLayer::SIGNATURE`] as
//! `2:hmac-sha256:` and 64 hexadecimal digits in lower case; [`SignLayer::KEY_ID`] says by which key. It is compared in a
//! time that does not depend on where it differs. The body stays as it is. The bytes of the format, with test vectors, are
//! specified in `docs/signed-and-encrypted-messages.md`.
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
//! - how the body is encrypted, by which key, and what that binds;
//! - further application properties that the sender [binds](SignLayer::bind) by name.
//!
//! **Bind the property that names the type of a message**, if that is not the Subject
//! ([`TypeTable::by_property`](crate::types::TypeTable::by_property)), and a version in another property. A
//! [pipeline](crate::pipeline) is not built without. A receiver that [requires](VerifyLayer::require_bound) such a property
//! refuses messages whose sender did not bind it.
//!
//! All other properties are not authenticated:
//!
//! - To, `PartitionKey`, the time to live, the scheduled time, the priority and the rest of the pass-through
//!   properties;
//! - trace context, and what retries, dead-lettering, forwarding and resubmission add;
//! - `x-claim`, and every application property that is not named above.
//!
//! Brokers and other layers change them. What a handler relies on belongs into the body, or is bound by name. A rule of
//! a subscription that sets a bound property makes the signature wrong.
//!
//! Of a ReplyTo for RabbitMQ's direct replies the token that the broker appends is not authenticated, so that calls by
//! direct replies work. Someone who can change requests in transit can have such a reply delivered to another
//! connection. They cannot turn it into the answer to another call, whose id it would have to name.
//!
//! Every receiver that can verify can also sign, for both use the same key. A message that is delivered twice is not a
//! forgery: use [duplicate detection](super::dedup) for that.
//!
//! # Failure
//!
//! Sending: a body that is an AMQP value or sequence, and keys without a newest one, are a
//! [`SendError`](crate::transport::SendError) of the kind
//! [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument).
//!
//! Receiving: a message is a dead letter if its signature is missing, of another version or algorithm, by an unknown
//! key, malformed or wrong. [`VerifyLayer::allow_unsigned`] accepts a missing one. The error is a [`VerifyError`], the
//! reason is `SignatureInvalid`, and the message is unchanged. No codec and no handler sees it.
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
use super::keys::{Bound, Key, Purpose};
use crate::message::Properties;

/// What a property says before the digits of a signature: the version of the format, and the algorithm.
const VERSION: &str = "2";
const ALGORITHM: &str = "hmac-sha256";
/// The purpose of a key of this layer, and of no other. The encryption of a body decides how to
/// read it.
const PURPOSE: Purpose = Purpose {
    text: "consign signature 2 hmac-sha256",
    list: SignLayer::BOUND,
    own: [SignLayer::SIGNATURE, SignLayer::KEY_ID],
    also: &["x-encryption", "x-encryption-bound", "x-encryption-key"],
};
const DIGEST: usize = 32;

/// `None` if the list of bound names is not text.
fn mac(key: &Key, properties: &Properties, body: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.secret()).expect("a key of any length will do");
    mac.update(Bound::new(&PURPOSE, key.id(), properties)?.as_bytes());
    mac.update(body);
    Some(mac)
}
