use bytes::BytesMut;
use serde::{Deserialize, Serialize};

use crate::{ContentType, DecodeError, EncodeError, Limits, MediaType};

/// What a format's bytes say about themselves, which decides where it may stand in a fallback chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// The bytes carry types or names, so a reader of the wrong format fails: JSON, `MessagePack`, CBOR.
    SelfDescribing,
    /// The bytes mean nothing without the Rust type, so almost any bytes may be accepted: bincode, postcard.
    Positional,
    /// Any bytes, or any text, are a valid value: `text/plain`, `application/octet-stream`.
    Opaque,
}

/// One wire format: bytes, media types and serde types, and nothing of messages or brokers.
///
/// A codec must consume the whole body, must keep to [`DecodeContext::limits`] before it hands bytes to a
/// third-party decoder, and must not put bytes of the body into an error.
pub trait Codec: Send + Sync + 'static {
    /// A short name, unique in a set: `json`. It stands in trails, in `describe()` and in policies.
    fn name(&self) -> &'static str;

    /// The media types this codec reads. The first is the one it writes.
    fn media_types(&self) -> &'static [MediaType];

    /// The ContentType that [`encode`](Self::encode) produces, in canonical form.
    fn content_type(&self) -> &'static str {
        self.media_types()[0].as_str()
    }

    /// What the bytes say about themselves.
    fn format(&self) -> Format;

    /// Reads one value out of the whole body.
    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError>;

    /// Appends one value to `out`. On an error what was appended is meaningless; the caller discards it.
    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError>;
}

/// What a codec may know besides the body.
#[derive(Clone, Copy, Debug)]
pub struct DecodeContext<'a> {
    content_type: Option<&'a ContentType>,
    limits: &'a Limits,
}

impl<'a> DecodeContext<'a> {
    /// A context for a body whose ContentType is absent, or is exactly the codec's own.
    #[must_use]
    pub const fn new(limits: &'a Limits) -> Self {
        Self { content_type: None, limits }
    }

    /// The same context for a body that declares `content_type`.
    #[must_use]
    pub const fn with_content_type(self, content_type: &'a ContentType) -> Self {
        Self { content_type: Some(content_type), ..self }
    }

    /// The ContentType that the message declares, if it is known to differ from the codec's own.
    #[must_use]
    pub const fn content_type(&self) -> Option<&'a ContentType> {
        self.content_type
    }

    /// A parameter of the declared ContentType, by case-insensitive name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.content_type.and_then(|declared| declared.parameter(name))
    }

    /// The limits to keep to.
    #[must_use]
    pub const fn limits(&self) -> &'a Limits {
        self.limits
    }
}
