//! Codecs chosen by ContentType, with bounded fallback chains and a record of every attempt.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod codec;
mod content_type;
mod error;
mod limits;
mod media_type;

pub use codec::{Codec, DecodeContext, Format};
pub use content_type::ContentType;
pub use error::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, Position};
pub use limits::Limits;
pub use media_type::MediaType;

mod formats;

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
#[cfg(feature = "erased")]
pub use formats::{Plugin, PluginCodec, Visit};
pub use formats::{Raw, Text};
