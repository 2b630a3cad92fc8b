use std::{borrow::Cow, error, fmt};

use consign_codecs::{DecodeFailure, FailureReason};

use super::{DeadLetter, DeadLetterReason, Disposition, IntoDisposition};
use crate::{
    content_encoding,
    message::{ApplicationProperties, MessageBody},
};

/// A message that could not be decoded. As a [`Disposition`] it is a dead letter with the reason, a line for each attempt,
/// and the attempts in the property `x-decode-trail`. It holds no bytes of the body.
#[derive(Debug)]
pub struct Undecodable(Box<Cause>);

#[derive(Debug)]
enum Cause {
    Codecs(DecodeFailure),
    ContentEncoding(Box<str>),
    /// The kind of body.
    NotBytes(&'static str),
}

impl Undecodable {
    #[cold]
    pub(crate) fn codecs(failure: DecodeFailure) -> Self {
        Self(Box::new(Cause::Codecs(failure)))
    }

    #[cold]
    pub(crate) fn content_encoding(encoding: &str) -> Self {
        Self(Box::new(Cause::ContentEncoding(content_encoding::shown(encoding))))
    }

    #[cold]
    pub(crate) fn not_bytes(body: &MessageBody) -> Self {
        Self(Box::new(Cause::NotBytes(body.kind())))
    }

    #[cfg(feature = "amqp-value")]
    pub(crate) fn is_not_bytes(&self) -> bool {
        matches!(&*self.0, Cause::NotBytes(_))
    }

    /// Returns the attempts of the codecs, unless the body never reached them.
    #[must_use]
    pub fn failure(&self) -> Option<&DecodeFailure> {
        match &*self.0 {
            Cause::Codecs(failure) => Some(failure),
            Cause::ContentEncoding(_) | Cause::NotBytes(_) => None,
        }
    }

    /// Returns the code under which the message is dead-lettered.
    #[must_use]
    pub fn reason(&self) -> DeadLetterReason {
        match &*self.0 {
            Cause::ContentEncoding(_) => DeadLetterReason::UnsupportedEncoding,
            Cause::NotBytes(_) => DeadLetterReason::DeserializationFailed,
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
            Cause::ContentEncoding(encoding) => content_encoding::write_refusal(f, encoding),
            Cause::NotBytes(kind) => write!(
                f,
                "the body is {kind}, and bytes were expected: data sections, or an AMQP binary or string value"
            ),
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
