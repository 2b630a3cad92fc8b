use bytes::BytesMut;
use serde::{Deserialize, Serialize};

use crate::{ContentType, DecodeError, EncodeError, Limits, MediaType};

/// The kind of a format: what its bytes say about themselves. It determines where the codec may be in a fallback chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// The bytes carry types or names, so a reader of the wrong format fails: JSON, `MessagePack`, CBOR.
    SelfDescribing,
    /// The bytes mean nothing without the Rust type, so almost any bytes may be accepted: bincode, postcard.
    Positional,
    /// Any bytes, or any text, are a valid value: `text/plain`, `application/octet-stream`.
    Opaque,
}

/// One wire format: bytes, media types and serde types, independent of messages and brokers.
///
/// A codec must consume the whole body. It must check [`DecodeContext::limits`] before it passes bytes to a third-party
/// decoder. It must not put bytes of the body into an error.
pub trait Codec: Send + Sync + 'static {
    /// Returns a short name, unique in a set: `json`. It is used in trails, in `describe()` and in policies.
    fn name(&self) -> &'static str;

    /// Returns the media types this codec reads. The first is the one it writes.
    fn media_types(&self) -> &'static [MediaType];

    /// Returns the ContentType that [`encode`](Self::encode) produces, in canonical form.
    fn content_type(&self) -> &'static str {
        self.media_types()[0].as_str()
    }

    /// Returns the kind of the format.
    fn format(&self) -> Format;

    /// Reads one value from the whole body.
    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError>;

    /// Appends one value to `out`. After an error the appended bytes are meaningless; the caller discards them.
    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError>;
}

/// The facts that a codec has besides the body.
#[derive(Clone, Copy, Debug)]
pub struct DecodeContext<'a> {
    content_type: Option<&'a ContentType>,
    limits: &'a Limits,
}

impl<'a> DecodeContext<'a> {
    /// Creates a context for a body whose ContentType is absent, or is exactly the codec's own.
    #[must_use]
    pub const fn new(limits: &'a Limits) -> Self {
        Self { content_type: None, limits }
    }

    /// Returns the same context for a body that declares `content_type`.
    #[must_use]
    pub const fn with_content_type(self, content_type: &'a ContentType) -> Self {
        Self { content_type: Some(content_type), ..self }
    }

    /// Returns the ContentType that the message declares, if it is known to differ from the codec's own.
    #[must_use]
    pub const fn content_type(&self) -> Option<&'a ContentType> {
        self.content_type
    }

    /// Returns a parameter of the declared ContentType, by case-insensitive name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.content_type.and_then(|declared| declared.parameter(name))
    }

    /// Returns the limits.
    #[must_use]
    pub const fn limits(&self) -> &'a Limits {
        self.limits
    }
}
