//! Codecs chosen by ContentType, with bounded fallback chains and a record of every attempt.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod codec;
mod content_type;
mod door;
mod error;
mod formats;
mod limits;
mod media_type;
mod registry;
mod set;

pub use codec::{Codec, DecodeContext, Format};
pub use content_type::{ContentType, MalformedContentType};
pub use door::{Decode, DecodeOwned, Encode};
pub use error::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, Position};
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
pub use limits::Limits;
pub use media_type::MediaType;
#[cfg(feature = "json")]
pub use registry::JsonCodecs;
pub use registry::{
    Attempt, Chosen, Codecs, CodecsBuilder, ConfigError, ConfigErrorKind, Declared, DecodeFailure, Decoded,
    Description, Encoded, FailureReason, OwnFormat, Policy, Trail, TrailEntry, TrailError,
};
pub use set::{And, CodecInfo, CodecSet, NoCodec};
