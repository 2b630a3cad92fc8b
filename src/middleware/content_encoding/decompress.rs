use std::sync::Arc;

use tower_layer::Layer;

use super::{
    Encoding, RATIO,
    encoding::is_compressed,
    error::{DecompressError, DecompressErrorKind as Kind},
};
use crate::{
    Message, content_encoding,
    message::{MessageBody, limits},
    middleware::{Reader, Reading},
};

/// A layer that decompresses bodies; see the [module](super).
#[derive(Clone, Debug)]
pub struct DecompressLayer {
    pub(crate) encodings: Arc<[Encoding]>,
    pub(crate) max_bytes: usize,
    pub(crate) max_ratio: usize,
}

impl DecompressLayer {
    /// Reads these encodings and no other, up to 256 KiB and 100 times the encoded size.
    #[must_use]
    pub fn new(encodings: impl IntoIterator<Item = Encoding>) -> Self {
        Self { encodings: encodings.into_iter().collect(), max_bytes: limits::MESSAGE_BYTES, max_ratio: RATIO }
    }

    /// Sets how many bytes a body may have, clamped to at most 100 MiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes.min(100 << 20);
        self
    }

    /// Sets how many times its encoded size a body may have: 1 to 1,000, and the nearest of them otherwise.
    #[must_use]
    pub fn max_ratio(mut self, times: usize) -> Self {
        self.max_ratio = times.clamp(1, 1_000);
        self
    }

    /// Decompresses one message outside of a receiving stack, for example the reply to a call. A message without a content
    /// encoding is returned as it is.
    ///
    /// # Errors
    ///
    /// The body cannot be decompressed; see the [module](super).
    pub fn decompress(&self, message: Message) -> Result<Message, DecompressError> {
        let Some(named) = message.pass_through().and_then(|rest| rest.content_encoding.as_deref()) else {
            return Ok(message);
        };
        let Some(encoding) = only_encoding(named)? else { return Ok(message) };
        let body = self.decoded(encoding, message.body()).map_err(|kind| DecompressError::new(kind, encoding))?;
        let mut message = message.with_body(body);
        message.properties_mut().pass_through_mut().content_encoding = None;
        Ok(message)
    }

    fn decoded(&self, named: &str, body: &MessageBody) -> Result<Vec<u8>, Kind> {
        let encoding = self.encodings.iter().find(|encoding| encoding.is_named(named)).ok_or(Kind::Encoding)?;
        let encoded = body.codec_view().ok_or(Kind::NotBytes)?;
        let by_ratio = encoded.len().saturating_mul(self.max_ratio);
        let (limit, over) = if by_ratio < self.max_bytes {
            (by_ratio, Kind::Ratio { limit: self.max_ratio })
        } else {
            (self.max_bytes, Kind::Size { limit: self.max_bytes })
        };
        let decoded = encoding.decompress(encoded, limit, over)?;
        if is_compressed(&decoded) { Err(Kind::Nested) } else { Ok(decoded) }
    }
}

impl<S> Layer<S> for DecompressLayer {
    type Service = Decompress<S>;

    fn layer(&self, inner: S) -> Decompress<S> {
        Reading::new(inner, self.clone())
    }
}

fn only_encoding(named: &str) -> Result<Option<&str>, DecompressError> {
    let mut encodings = content_encoding::encodings(named);
    let only = encodings.next();
    if encodings.next().is_some() { Err(DecompressError::new(Kind::Nested, named)) } else { Ok(only) }
}

/// Decompresses bodies; see the [module](super).
pub(super) type Decompress<S> = Reading<S, DecompressLayer>;

impl Reader for DecompressLayer {
    type Error = DecompressError;

    #[inline]
    fn leaves(&self, message: &Message) -> bool {
        // An encoding is among the rare properties.
        !message.properties().has_rare()
    }

    fn read(&self, message: Message) -> Result<Message, DecompressError> {
        self.decompress(message)
    }
}
