//! Codecs chosen by ContentType, with bounded fallback chains and a record of every attempt.
//!
//! A message may have a ContentType, no ContentType, or a wrong one. A set of codecs reads a body with the codec of the
//! ContentType, and then tries the codecs of a fallback chain. If no codec can read a body, the error lists every attempt
//! with its cause. The crate depends on bytes, media types and serde, and not on messages or brokers.
//!
//! ```
//! # #[cfg(all(feature = "json", feature = "msgpack"))] {
//! use consign_codecs::{Chosen, Codecs, Json, MessagePack};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Order<'a> {
//!     id: u32,
//!     customer: &'a str,
//! }
//!
//! let codecs = Codecs::builder()
//!     .with(Json::default())
//!     .with(MessagePack)
//!     .fallback(["json", "msgpack"])
//!     .build()
//!     .expect("both codecs are in the set, and both are self-describing");
//!
//! // A producer that declares what it sends.
//! let order: Order = codecs.decode(Some("application/json; charset=utf-8"), br#"{"id":7,"customer":"Ada"}"#).unwrap();
//! assert_eq!((order.id, order.customer), (7, "Ada"));
//!
//! // One that declares nothing and sends MessagePack: JSON is tried first.
//! let decoded = codecs.decode_traced::<Order>(None, b"\x82\xa2id\x07\xa8customer\xa3Ada").unwrap();
//! assert_eq!((decoded.by, decoded.chosen, decoded.attempts.len()), ("msgpack", Chosen::Fallback, 1));
//!
//! // One that sends a body that is cut off.
//! let failure = codecs.decode::<Order>(Some("application/json"), b"{\"id\":").err().unwrap();
//! assert_eq!(failure.reason().code(), "DeserializationFailed");
//! assert_eq!(failure.trail().to_string(), "json;exact;Truncated;1:6;id,msgpack;fallback;Trailing;1");
//! # }
//! ```
//!
//! # Choosing a codec
//!
//! 1. The codec that has the declared media type among its exact [media types](MediaType). Case, white space and parameters
//!    of the text do not matter. If two codecs have it, the one whose media type has more of the declared parameters is used.
//! 2. The codec that reads the declared suffix: `application/vnd.acme.order+json` is JSON.
//! 3. If there is neither, the codec that reads every subtype of the declared top-level type.
//! 4. The codecs of a [`Policy`]. There is one policy for each of five cases: the ContentType is *missing* (or blank),
//!    *unknown* to the set, *malformed*, *not allowed* (see [`CodecsBuilder::allow`]), or the codecs that read it *failed*.
//!    By default, a missing ContentType selects the first codec and then the fallback chain. The other four cases select the
//!    chain; without a chain the body is refused. [`CodecsBuilder::fallback`] sets the chain; by default there is none.
//!
//! Each codec is tried at most once for a body, from the first byte and with a decoder of its own. The size is checked before
//! a codec gets the body, and a panic in a codec or in a type is a failed attempt. [`Codecs::describe`] prints these
//! decisions for a set.
//!
//! # Media types
//!
//! Each codec writes the first media type of its row as the ContentType.
//!
//! | codec | reads |
//! |---|---|
//! | `Json` | `application/json`, `text/json`, `application/x-json`, `text/x-json`, `+json` |
//! | `MessagePack` | `application/msgpack`, `application/x-msgpack`, `application/messagepack`, `application/x-messagepack`, `application/vnd.msgpack`, `+msgpack` |
//! | `Cbor` | `application/cbor`, `application/x-cbor`, `+cbor` |
//! | `Avro` | `application/avro`, `avro/binary`, `application/vnd.apache.avro` |
//! | `Bincode` | `application/x-bincode`, `application/x-bincode;encoding=varint` |
//! | `Postcard` | `application/x-postcard` |
//! | `DataContractBinary` | `application/msbin1`; read only |
//! | `DataContractXml` | `application/xml`, `text/xml`, `+xml`; read only |
//! | `Protobuf` | `application/protobuf`, `application/x-protobuf`, `application/vnd.google.protobuf` |
//! | [`Text`] | `text/plain`, `text/*` |
//! | [`Raw`] | `application/octet-stream` |
//!
//! # The `mime` crate
//!
//! A [`Mime`](mime::Mime) is accepted wherever a ContentType is set: `codecs.encode_as(&value, mime::APPLICATION_JSON)`,
//! [`CodecsBuilder::allow`]. [`ContentType::mime`] returns one. This crate does not parse received texts with `mime`, because
//! `mime` refuses texts that producers send, and accepts texts that are not a media type of a message:
//!
//! | text | `mime` | [`ContentType`] |
//! |---|---|---|
//! | `text/plain; charset=us-ascii (Plain text)` (RFC 2045) | refused | the comment is dropped |
//! | `text/plain ;charset=utf-8`, a tab after `;`, white space or a line break at the end | refused | ignored (RFC 9110) |
//! | `text/plain;;charset=utf-8`, `text/plain;charset` | refused | empty parameters are ignored |
//! | `text/plain;charset=` | the charset is the empty text | empty parameters are ignored |
//! | `text/plain;a=""`, `text/plain;a="x\"y"` | refused | the values are the empty text, and `x"y` |
//! | `text/plain;a="x\y"` | the value is `x\y`, with the escape | the value is `xy` |
//! | `text/plain;charset="UTF-8"` and `text/plain;charset=utf-8` | not equal | equal |
//! | `*/*`, `application/*`, `application/+json` | accepted | malformed |
//! | 100,000 parameters | accepted | malformed: at most 255 bytes and 8 parameters |
//!
//! # Fallback chains
//!
//! A codec that accepts bytes of another format returns a wrong value instead of an error. So a set is checked when it is
//! built, and a [`ConfigError`] names the change to make. A chain has at most 4 codecs by default;
//! [`CodecsBuilder::max_fallbacks`] permits up to 8. Self-describing codecs (JSON, MessagePack, CBOR) come first. A
//! positional codec (bincode, postcard) accepts nearly any bytes, so it requires [`CodecsBuilder::allow_positional`]. A chain
//! has at most one, and after it only opaque codecs ([`Text`], [`Raw`]), which accept any text or any bytes.
//!
//! # Errors
//!
//! [`DecodeFailure`] has one [reason](DecodeFailure::reason), a description with a line for each attempt, and a [trail](Trail)
//! for machines. None of them contains bytes of the body, and quotations of the ContentType are escaped and cut.
//!
//! A [`DecodeError`] has the place and the cause: the path in the type, the line and column or the byte, what the type
//! expected, and which kind of value it found. To find these, a refused body is read a second time. An accepted body is read
//! once, except that MessagePack, CBOR and Avro read a body again if the type refused it and serde may have buffered a number
//! or a time in another form than the type needs.
//!
//! ```
//! # #[cfg(feature = "json")] {
//! use consign_codecs::Codecs;
//! use serde::Deserialize;
//!
//! #[derive(Debug, Deserialize)]
//! struct Order {
//!     lines: Vec<Line>,
//! }
//!
//! #[derive(Debug, Deserialize)]
//! struct Line {
//!     price: f64,
//! }
//!
//! let body = br#"{"lines":[{"price":1.5},{"price":"free"}]}"#;
//! let failure = Codecs::json().decode::<Order>(Some("application/json"), body).unwrap_err();
//! assert_eq!(
//!     failure.to_string(),
//!     "json: the value is not of the expected type: expected f64, found text at `lines[1].price`, line 1, column 39"
//! );
//! assert_eq!(failure.trail().to_string(), "json;exact;Type;1:39;lines[1].price;f64;text");
//! # }
//! ```
//!
//! # Types with a format of their own
//!
//! The set reads and writes every type that implements serde's traits. A type with one format of its own (a protobuf message in
//! a `Protobuf`, or your own type) implements [`Decode`] and [`Encode`] and is used by the same calls.
//!
//! # A codec of your own
//!
//! ```
//! use bytes::BytesMut;
//! use consign_codecs::{
//!     Codec, Codecs, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, Format, MediaType,
//! };
//! use serde::{Deserialize, Serialize, de::value::{Error, U64Deserializer}, de::IntoDeserializer};
//!
//! /// One number in decimal digits.
//! struct Digits;
//!
//! impl Codec for Digits {
//!     fn name(&self) -> &'static str {
//!         "digits"
//!     }
//!
//!     fn media_types(&self) -> &'static [MediaType] {
//!         const { &[MediaType::exact("application/x-digits")] }
//!     }
//!
//!     fn format(&self) -> Format {
//!         Format::SelfDescribing
//!     }
//!
//!     fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], _: &DecodeContext<'_>) -> Result<T, DecodeError> {
//!         let text = str::from_utf8(body).map_err(|_| DecodeError::new(DecodeErrorKind::Utf8))?;
//!         let number: u64 = text.parse().map_err(|_| DecodeError::new(DecodeErrorKind::Syntax))?;
//!         let number: U64Deserializer<Error> = number.into_deserializer();
//!         T::deserialize(number).map_err(|_| DecodeError::new(DecodeErrorKind::Type))
//!     }
//!
//!     fn encode<T: Serialize + ?Sized>(&self, _: &T, _: &mut BytesMut) -> Result<(), EncodeError> {
//!         Err(EncodeError::new(EncodeErrorKind::Unsupported).with_detail("digits are only read"))
//!     }
//! }
//!
//! let codecs = Codecs::builder().with(Digits).build().expect("one codec with one media type");
//! assert_eq!(codecs.decode::<u32>(Some("application/x-digits"), b"42").unwrap(), 42);
//! ```
//!
//! # Performance
//!
//! A set is one type. Its codec is chosen at run time, and the code of each codec is compiled for each value type. A
//! ContentType that is byte for byte a media type of a codec is compared in place. Any other text is parsed once; the last 32
//! well-formed texts are cached. Neither case allocates. Values may borrow from the body.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `json` (default) | `Json`, `Codecs::json` |
//! | `msgpack`, `cbor` | `MessagePack`, `Cbor` |
//! | `avro` | `Avro`, by schemas of yours |
//! | `bincode`, `postcard` | `Bincode`, `Postcard`: positional |
//! | `protobuf` | `Protobuf`, a type with a format of its own |
//! | `dotnet` | `DataContractBinary`, `DataContractXml`: bodies of .NET's `DataContractSerializer`, read only |
//! | `erased` | `Plugin`: a codec that is chosen at run time |
//! | `amqp-value` | `amqp_value`, `Codecs::decode_amqp_value`: values of AMQP 1.0, which are not bytes |
//! | `full` | all of them |
//!
//! [`Text`] and [`Raw`] need no feature.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "amqp-value")]
pub mod amqp_value;
mod codec;
mod codecs;
mod content_type;
mod decode;
mod encode_error;
mod error;
#[cfg(any(
    feature = "avro",
    feature = "json",
    feature = "msgpack",
    feature = "cbor",
    feature = "bincode",
    feature = "postcard",
    feature = "erased",
    feature = "dotnet",
    feature = "amqp-value"
))]
mod explain;
mod formats;
#[doc(hidden)]
pub mod instant;
mod limits;
mod media_type;
#[cfg(any(feature = "msgpack", feature = "cbor", feature = "amqp-value"))]
mod names;
mod one_of;
mod serde_error;
mod set;
mod transcode;
mod value_kind;

pub use codec::{Codec, DecodeContext, Format};
#[cfg(feature = "json")]
pub use codecs::JsonCodecs;
pub use codecs::{
    Attempt, Chosen, CodecEntry, Codecs, CodecsBuilder, CodecsDescription, ConfigError, ConfigErrorKind, DecisionTable,
    Declared, DecodeFailure, Decoded, Encoded, FailureReason, Observe, OwnFormat, Policy, Reading, Trail, TrailEntry,
    TrailError,
};
#[doc(hidden)]
pub use content_type::essence_of;
pub use content_type::{ContentType, MalformedContentType};
#[doc(hidden)]
pub use decode::OwnsItsData;
pub use decode::{Decode, DecodeOwned, Encode};
pub use encode_error::{EncodeError, EncodeErrorKind};
pub use error::{DecodeError, DecodeErrorKind, Position};
#[cfg(feature = "bincode")]
pub use formats::Bincode;
#[cfg(feature = "cbor")]
pub use formats::Cbor;
#[cfg(feature = "json")]
pub use formats::Json;
#[cfg(feature = "msgpack")]
pub use formats::MessagePack;
#[cfg(feature = "postcard")]
pub use formats::Postcard;
#[cfg(feature = "protobuf")]
pub use formats::Protobuf;
#[cfg(feature = "avro")]
pub use formats::{Avro, AvroSchema, AvroSchemaError, AvroSchemaErrorKind};
#[cfg(feature = "dotnet")]
pub use formats::{DataContractBinary, DataContractXml};
#[cfg(feature = "erased")]
pub use formats::{Plugin, PluginCodec, Visit};
pub use formats::{Raw, Text};
pub use limits::Limits;
pub use media_type::MediaType;
/// The crate [`mime`](https://docs.rs/mime), whose [`Mime`](mime::Mime) is accepted wherever a ContentType is set.
pub use mime;
pub use one_of::{Alternatives, Of2, Of3, Of4, OneOf};
pub use set::{And, CodecInfo, CodecSet, NoCodec};
pub use transcode::{Losses, TranscodeError};
pub use value_kind::ValueKind;
