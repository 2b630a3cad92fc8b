//! From a message to a value, by its ContentType.

use consign_codecs::{CodecSet, Codecs, Decode, Decoded};

use crate::{
    Message,
    message::{Body, content_encoding},
    settlement::Undecodable,
};

impl Message {
    /// Reads the body as a `T`, by the message's ContentType and the rules of `codecs`. The value may borrow from the
    /// message.
    ///
    /// A body that is an AMQP string without a ContentType is text. A compressed body is refused: the
    /// layer `middleware::content_encoding::DecompressLayer` reads it first. A `ContentEncoding` that names
    /// a charset, `identity`, `binary`, `7bit` or `8bit` says nothing of the bytes.
    #[inline]
    pub fn decode<'m, T: Decode<'m>, C: CodecSet>(&'m self, codecs: &Codecs<C>) -> Result<T, Undecodable> {
        let (content_type, body) = self.encoded()?;
        codecs.decode(content_type, body).map_err(Undecodable::codecs)
    }

    /// Reads the body as [`decode`](Self::decode) does, and says by which codec and after which failed attempts.
    #[inline]
    pub fn decode_traced<'m, T: Decode<'m>, C: CodecSet>(
        &'m self,
        codecs: &Codecs<C>,
    ) -> Result<Decoded<T>, Undecodable> {
        let (content_type, body) = self.encoded()?;
        codecs.decode_traced(content_type, body).map_err(Undecodable::codecs)
    }

    /// The ContentType and the bytes that a codec gets.
    #[inline]
    pub(crate) fn encoded(&self) -> Result<(Option<&str>, &[u8]), Undecodable> {
        if let Some(encoding) = self.pass_through().and_then(|rest| rest.content_encoding.as_deref())
            && content_encoding::encodings(encoding).next().is_some()
        {
            return Err(Undecodable::content_encoding(encoding));
        }
        let Some(body) = self.payload() else {
            return Err(Undecodable::not_bytes(self.body()));
        };
        let content_type = self.content_type().or_else(|| self.is_text().then_some("text/plain"));
        Ok((content_type, body))
    }

    fn is_text(&self) -> bool {
        matches!(self.body(), Body::Value(value) if value.as_str().is_some())
    }
}
