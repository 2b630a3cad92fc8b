//! Compresses bodies on their way out, and decompresses them on their way in, within limits that no sender can widen.
//!
//! Neither is on until its layer is in a stack. How a body is encoded travels where AMQP has a place for it, in the
//! property `content-encoding`, [`PassThrough::content_encoding`](crate::message::PassThrough::content_encoding), which
//! every transport carries: `gzip` (RFC 1952), `zstd` (RFC 8878) or `deflate` (RFC 1950), each behind the feature of that
//! name. The feature `zstd` builds the C library and needs a C compiler. The ContentType stays that of the value.
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
//! Bodies of bytes from a threshold on, 1,024 by default, [`CompressLayer::threshold`]. Several sections become one. A
//! body stays unchanged in these cases: it is an AMQP value or sequence, it already has a content encoding, or it
//! begins like compressed data. So it does when compression does not make it smaller, or makes it over 100 times
//! smaller, which a receiver refuses. [`CompressLayer::level`] sets how hard the encoder tries. A frame of zstd has the
//! size of the body and a checksum.
//!
//! # What is read
//!
//! The encodings that [`DecompressLayer::new`] names, in one layer only, up to [`DecompressLayer::max_bytes`] and
//! [`DecompressLayer::max_ratio`]. Several members of gzip, several frames of zstd and frames to be skipped are one body.
//! `deflate` is read with the header of zlib and without it. Limits are enforced on the way and over the whole body, before
//! more memory is taken than they say; a frame of zstd is decoded into the body, so that its window takes no memory.
//!
//! Producers also write a charset (kombu, Spring AMQP) or a transfer encoding of MIME into this property. A message without
//! an encoding passes as it is, and so does one with `identity`, `binary`, `7bit`, `8bit` or a charset that is a superset of
//! US-ASCII: `utf-8`, `us-ascii`, `iso-8859-1` to `-16`, `windows-1250` to `-1258` and a few more. The charset is not used: a
//! text codec reads UTF-8 unless the ContentType names another charset. In a list these names are left out.
//!
//! # Signed and encrypted messages
//!
//! The content encoding is authenticated by [encryption](super::encryption) and [signing](super::signing), and so whether
//! there is one.
//!
//! # Failure
//!
//! Sending: none. Receiving: a message that cannot be decompressed is a dead letter, by a [`DecompressError`], with its
//! encoded body unchanged, and the code of the error in `x-decode-trail`:
//!
//! | what | reason | code |
//! |---|---|---|
//! | an encoding that is not named, or unknown | `UnsupportedEncoding` | `Encoding` |
//! | two encodings, or something compressed in something compressed | `UnsupportedEncoding` | `Nested` |
//! | an encoding of a body that is not bytes | `UnsupportedEncoding` | `NotBytes` |
//! | over `max_bytes`, over `max_ratio`, over the window | `LimitExceeded` | `Size`, `Ratio`, `Window` |
//! | not well-formed, a wrong checksum, a dictionary that nobody has | `DeserializationFailed` | `Syntax` |
//! | the end is missing | `DeserializationFailed` | `Truncated` |
//! | bytes follow that are no further member or frame | `DeserializationFailed` | `Trailing` |
//!
//! Without this layer an encoded message is a dead letter too: [`MessageExt::decode`](crate::MessageExt::decode) answers
//! `UnsupportedEncoding`. A handler that reads the bytes of the body by itself has to look at the property.
//!
//! # Order
//!
//! Sending: after [encode](super::encode) and before encryption, for what is encrypted does not get smaller. Receiving:
//! after decryption, right before the router. A retry and a dead letter outside of it have the encoded body.
//!
//! What an attacker can write beside a secret in one body, and whose size they see, tells them the secret little by
//! little: do not compress such bodies before encryption.
//!
//! # Cost
//!
//! Both work in the call, without another thread: a body of 256 KiB takes milliseconds, and its renewals wait for so long.
//! The decoder's tables (160 KiB for zstd) and the body are allocated for each message; what is below the threshold or not
//! encoded costs a comparison. Counted in the table *Layers* of `docs/benchmarks.md`.

mod compress;
mod decompress;
#[cfg(feature = "deflate")]
mod deflate;
mod encoding;
mod error;
#[cfg(feature = "gzip")]
mod gzip;
#[cfg(any(feature = "gzip", feature = "deflate"))]
mod inflate;
#[cfg(feature = "zstd")]
mod zstd;

pub use self::{
    compress::{Compress, CompressLayer},
    decompress::{Decompress, DecompressLayer},
    encoding::Encoding,
    error::{DecompressError, DecompressErrorKind},
};

/// How many times its compressed size a body may have, unless a receiver says otherwise.
const RATIO: usize = 100;
