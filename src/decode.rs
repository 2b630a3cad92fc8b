//! From a message to a value: by its ContentType, or to a dead letter that says why not.

use std::{borrow::Cow, error, fmt};

use consign_codecs::{CodecSet, Codecs, Decode, DecodeFailure, Decoded, FailureReason};

use crate::{
    Disposition, Message,
    message::{ApplicationProperties, Body},
    settlement::{DeadLetter, DeadLetterReason, IntoDisposition},
};

/// A message that could not be decoded. As a [`Disposition`] it is a dead letter with the reason, a line for each attempt,
/// and the attempts in the property `x-decode-trail`. It holds no bytes of the body.
#[derive(Debug)]
pub struct Undecodable(Box<Cause>);

#[derive(Debug)]
enum Cause {
    Codecs(DecodeFailure),
    ContentEncoding(Box<str>),
    NotBytes,
}

impl Message {
    /// Reads the body as a `T`, by the message's ContentType and the rules of `codecs`. The value may borrow from the
    /// message.
    ///
    /// A body that is an AMQP string without a ContentType is text. A `ContentEncoding` other than `identity` is refused.
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

    #[inline]
    fn encoded(&self) -> Result<(Option<&str>, &[u8]), Undecodable> {
        let encoding = self.pass_through().and_then(|rest| rest.content_encoding.as_deref()).unwrap_or_default();
        if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
            return Err(Undecodable::content_encoding(encoding));
        }
        let Some(body) = self.payload() else {
            return Err(Undecodable(Box::new(Cause::NotBytes)));
        };
        let is_text = matches!(self.body(), Body::Value(value) if value.as_str().is_some());
        let content_type = match self.content_type() {
            None if is_text => Some("text/plain"),
            declared => declared,
        };
        Ok((content_type, body))
    }
}

impl Undecodable {
    #[cold]
    fn codecs(failure: DecodeFailure) -> Self {
        Self(Box::new(Cause::Codecs(failure)))
    }

    #[cold]
    fn content_encoding(encoding: &str) -> Self {
        let shown = encoding.chars().take(64).flat_map(char::escape_debug).collect();
        Self(Box::new(Cause::ContentEncoding(shown)))
    }

    /// What the codecs tried, unless the body never came to them.
    #[must_use]
    pub fn failure(&self) -> Option<&DecodeFailure> {
        match &*self.0 {
            Cause::Codecs(failure) => Some(failure),
            Cause::ContentEncoding(_) | Cause::NotBytes => None,
        }
    }

    /// The code under which the message is dead-lettered.
    #[must_use]
    pub fn reason(&self) -> DeadLetterReason {
        match &*self.0 {
            Cause::ContentEncoding(_) => DeadLetterReason::UnsupportedEncoding,
            Cause::NotBytes => DeadLetterReason::DeserializationFailed,
            Cause::Codecs(failure) => match failure.reason() {
                FailureReason::UnsupportedContentType => DeadLetterReason::UnsupportedContentType,
                FailureReason::MalformedContentType => DeadLetterReason::MalformedContentType,
                FailureReason::ContentTypeNotAllowed => DeadLetterReason::ContentTypeNotAllowed,
                FailureReason::UnsupportedCharset => DeadLetterReason::UnsupportedCharset,
                FailureReason::LimitExceeded => DeadLetterReason::LimitExceeded,
                _ => DeadLetterReason::DeserializationFailed,
            },
        }
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Codecs(failure) => fmt::Display::fmt(failure, f),
            Cause::ContentEncoding(encoding) => write!(f, "the content encoding `{encoding}` is not supported"),
            Cause::NotBytes => f.write_str("the body is an AMQP value or sequence that byte codecs cannot read"),
        }
    }
}

impl error::Error for Undecodable {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.failure().map(|failure| failure as _)
    }
}

impl IntoDisposition for Undecodable {
    #[cold]
    fn into_disposition(self) -> Disposition {
        let mut dead_letter = DeadLetter::new(self.reason(), Cow::Owned(self.to_string()));
        if let Some(failure) = self.failure().filter(|failure| !failure.attempts().is_empty()) {
            let trail: ApplicationProperties = [(DeadLetter::TRAIL, failure.trail().to_string())].into_iter().collect();
            dead_letter.changes = trail.into();
        }
        dead_letter.into_disposition()
    }
}
