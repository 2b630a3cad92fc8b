//! Codecs chosen by ContentType, with bounded fallback chains and a record of every attempt.
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
