//! Layers that compress and decompress bodies, within limits that no sender can change.
//!
//! The property `content-encoding`, [`PassThrough::content_encoding`](crate::message::PassThrough::content_encoding), names
//! the encoding: `gzip` (RFC 1952), `zstd` (RFC 8878) or `deflate` (RFC 1950), each with the feature of that name. Every
//! transport carries it. The feature `zstd` builds the C library and needs a C compiler. The ContentType remains that of
//! the uncompressed body.
//!
//! ```
//! # #[cfg(feature = "gzip")] {
//! use consign::{
//!     Disposition, Message,
//!     middleware::content_encoding::{CompressLayer, DecompressLayer, Encoding},
//!     transport::SendError,
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # tokio_test::block_on(async {
//! let body = "a line that comes again and again\n".repeat(100);
//! let receiving = ServiceBuilder::new()
//!     .layer(DecompressLayer::new([Encoding::Gzip]))
//!     .service(service_fn(|message: Message| async move {
//!         assert_eq!(message.body().size(), 3_400);
//!         Ok::<_, BoxError>(Disposition::Complete)
//!     }));
//! let sending = ServiceBuilder::new()
//!     .layer(CompressLayer::new(Encoding::Gzip))
//!     .service(service_fn(move |message: Message| {
//!         assert!(message.body().size() < 100);
//!         let handled = receiving.clone().oneshot(message);
//!         async move {
//!             assert_eq!(handled.await?, Disposition::Complete);
//!             Ok::<_, SendError>(())
//!         }
//!     }));
//! sending.oneshot(Message::new(body)).await
//! # }).unwrap();
//! # }
//! ```
//!
//! # What is compressed
//!
//! Bodies of bytes from a threshold on, 1,024 by default, [`CompressLayer::threshold`]. Several sections become one. A body
//! is not compressed if it is an AMQP value or sequence, has a content encoding, or begins like gzip or zstd. It is sent
//! uncompressed if compression does not make it smaller, or makes it more than 100 times smaller, which a receiver refuses.
//! [`CompressLayer::level`] sets the compression level. A zstd frame has the size of the body and a checksum.
//!
//! # What is decompressed
//!
//! The encodings that [`DecompressLayer::new`] names, within [`DecompressLayer::max_bytes`] and
//! [`DecompressLayer::max_ratio`]. Consecutive gzip members and zstd frames are one body; skippable frames are skipped.
//! `deflate` is read with and without the header of zlib. The limits apply to the whole body. While it grows, it takes
//! at most about twice as much memory. A zstd frame is decoded directly into the body, so its window takes no memory.
//!
//! Producers also write a charset (kombu, Spring AMQP) or a transfer encoding of MIME into this property. These names do
//! not change the bytes, and the message passes unchanged: `identity`, `binary`, `7bit`, `8bit`, and charsets that are a
//! superset of US-ASCII, by their names in IANA's registry and in Python, such as `utf-8`, `us-ascii`, `iso-8859-1`,
//! `latin_1`, `cp437` and `windows-1252`. The charset is not used: a text codec reads UTF-8 unless the ContentType names
//! another charset. In a list, with commas or colons, these names are ignored.
//!
//! # Signed and encrypted messages
//!
//! [Encryption](super::encryption) and [signing](super::signing) authenticate the content encoding, and whether there is
//! one.
//!
//! # Failure
//!
//! Sending: none. Receiving: a message that cannot be decompressed is dead-lettered with its encoded body. The error is a
//! [`DecompressError`], and its code is in `x-decode-trail`:
//!
//! | case | reason | code |
//! |---|---|---|
//! | an encoding that is not named, or unknown | `UnsupportedEncoding` | `Encoding` |
//! | more than one encoding, by name, or by a body that is gzip or zstd after decompression | `UnsupportedEncoding` | `Nested` |
//! | a body that is not bytes, with an encoding | `UnsupportedEncoding` | `NotBytes` |
//! | over `max_bytes`, over `max_ratio`, over the window | `LimitExceeded` | `Size`, `Ratio`, `Window` |
//! | a zstd frame that declares more than these limits, also if its end is missing | `LimitExceeded` | `Size`, `Ratio` |
//! | not well-formed, a wrong checksum, a dictionary | `DeserializationFailed` | `Syntax` |
//! | the end is missing | `DeserializationFailed` | `Truncated` |
//! | other bytes follow | `DeserializationFailed` | `Trailing` |
//!
//! Without this layer an encoded message is dead-lettered too: [`MessageExt::decode`](crate::MessageExt::decode) returns
//! `UnsupportedEncoding`, and so do the readers of [CloudEvents](crate::cloud_events), of
//! [envelopes](super::interop) and of [JSON Schemas](super::json_schema). A handler that reads the raw body has to check the
//! property.
//!
//! # Order
//!
//! Sending: after [encode](super::encode) and before encryption, because encrypted bytes do not compress. Receiving: after
//! decryption, directly outside of the router. An outer retry, and a dead letter, have the encoded body.
//!
//! Do not compress a body before encryption if it has a secret together with text that an attacker can choose. The size of
//! such bodies reveals the secret step by step.
//!
//! # Cost
//!
//! Both layers work in the call, without another thread. A body of 256 KiB takes milliseconds, during which its lock is not
//! renewed. The body is allocated for each message, and so is an encoder of gzip or deflate: 160 KiB for a small body, 370 KiB
//! for one of 32 KiB and more. Up to 8 decoders of gzip and deflate (48 KiB each), 8 of zstd (160 KiB) and 8 encoders of
//! zstd (up to 2 MiB) are kept for the messages to come. A message below the threshold, or without an encoding, costs a
//! comparison. The table *Layers* of `docs/benchmarks.md` has the figures.

mod compress;
mod decompress;
#[cfg(feature = "deflate")]
mod deflate;
#[cfg(any(feature = "gzip", feature = "deflate"))]
mod deflater;
mod encoding;
mod error;
#[cfg(feature = "gzip")]
mod gzip;
#[cfg(any(feature = "gzip", feature = "deflate"))]
mod inflate;
#[cfg(any(feature = "gzip", feature = "deflate", feature = "zstd"))]
mod kept;
#[cfg(feature = "zstd")]
mod zstd;

pub use self::{compress::CompressLayer, decompress::DecompressLayer, encoding::Encoding, error::DecompressError};

/// How many times its compressed size a body may have, unless a receiver says otherwise.
const RATIO: usize = 100;
