//! Layers that sign and verify messages. The receiving layer refuses messages that are not signed.
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
//! # Format
//!
//! HMAC-SHA256 (RFC 2104) under the newest of the [keys](super::keys), in the property [`SignLayer::SIGNATURE`] as
//! `2:hmac-sha256:` and 64 hexadecimal digits in lower case; [`SignLayer::KEY_ID`] has the id of the key. Signatures are
//! compared in constant time. The body is unchanged. `docs/signed-and-encrypted-messages.md` specifies the format, with
//! test vectors.
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
//! - the encryption's algorithm and key id, and the list of the properties that it binds;
//! - further application properties that the sender [binds](SignLayer::bind) by name.
//!
//! **Bind the property that names the type of a message**, if that is not the Subject
//! ([`TypeTable::by_property`](crate::message_types::TypeTable::by_property)), and a version in another property. A
//! [pipeline](crate::pipeline) requires it. A receiver that [requires](VerifyLayer::require_bound) such a property refuses
//! messages whose sender did not bind it.
//!
//! All other properties are not authenticated:
//!
//! - To, `PartitionKey`, the time to live, the scheduled time, the priority and the other pass-through properties;
//! - trace context, and the properties that retries, dead-lettering, forwarding and resubmission add;
//! - `x-claim`, and every application property that is not named above.
//!
//! Brokers and other layers change them. Put data that a handler relies on into the body, or bind its property by name. A
//! rule of a subscription that sets a bound property makes the signature wrong.
//!
//! In a ReplyTo for RabbitMQ's direct replies, the token that the broker appends is not authenticated, so that calls can
//! use direct replies. An attacker who can change requests in transit can redirect such a reply to another connection. They
//! cannot turn it into the answer to another call, because it has the id of its own call.
//!
//! Every receiver that can verify can also sign, because both use the same key. A message that is delivered twice is
//! authentic twice: use [duplicate detection](super::dedup).
//!
//! # Failure
//!
//! Sending: a body that is an AMQP value or sequence, and keys without a newest one, are a
//! [`SendError`](crate::transport::SendError) of the kind
//! [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument).
//!
//! Receiving: a message is dead-lettered if its signature is missing, of another version or algorithm, by an unknown key,
//! malformed or wrong. [`VerifyLayer::allow_unsigned`] accepts a missing one. The error is a [`VerifyError`], the reason is
//! `SignatureInvalid`, and the message is unchanged. No codec and no handler gets it.
//!
//! # Order
//!
//! Sending: after compression, before the claim check. Receiving: after the claim check, before decompression, so that a
//! message without a signature is not decompressed. [Encryption](super::encryption) authenticates too and needs no
//! signature. With both, sign inside of encrypt and verify outside of decrypt: the signature covers the encrypted body.
//!
//! # Cost
//!
//! The body is read once, and the bound properties are written to a buffer. The table *Layers* of `docs/benchmarks.md` has
//! the figures.

mod error;
mod sign;
mod verify;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub use self::{error::VerifyError, sign::SignLayer, verify::VerifyLayer};
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
