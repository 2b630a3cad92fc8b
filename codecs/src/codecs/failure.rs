use std::{error, fmt};

use super::Attempt;
use crate::{DecodeErrorKind, MalformedContentType, MediaType, Trail, essence_of};

/// The class of a body's ContentType for a set of codecs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Declared {
    /// Absent, or blank.
    Missing,
    /// Not a media type.
    Malformed,
    /// A media type that the endpoint does not allow.
    NotAllowed,
    /// A media type that no codec reads.
    Unknown,
    /// A media type that a codec reads.
    Known,
}

/// The reason of a [`DecodeFailure`], as one code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureReason {
    /// The first codec that tried found that the bytes are not of its format, or not of the type.
    DeserializationFailed,
    /// No codec reads the declared type, or no type is declared, and the policy is to reject.
    UnsupportedContentType,
    /// The declared text is not a media type, and the policy is to reject.
    MalformedContentType,
    /// The declared type is not allowed here, and the policy is to reject.
    ContentTypeNotAllowed,
    /// The first codec that tried does not read the declared charset.
    UnsupportedCharset,
    /// The body is over a limit of the first codec that tried.
    LimitExceeded,
}

impl FailureReason {
    /// Returns the code: the name of the variant.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::DeserializationFailed => "DeserializationFailed",
            Self::UnsupportedContentType => "UnsupportedContentType",
            Self::MalformedContentType => "MalformedContentType",
            Self::ContentTypeNotAllowed => "ContentTypeNotAllowed",
            Self::UnsupportedCharset => "UnsupportedCharset",
            Self::LimitExceeded => "LimitExceeded",
        }
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A body that no codec could read, with all attempts. It never contains bytes of the body.
///
/// `Display` is the description of a dead letter: one line `codec: error` for each attempt, or why there was none.
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeFailure(Box<Failure>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    declared: Declared,
    malformed: Option<MalformedContentType>,
    content_type: Box<str>,
    attempts: Vec<Attempt>,
    /// What the type of the value reads if it has a format of its own.
    own_format: &'static [MediaType],
}

impl DecodeFailure {
    /// `content_type` is an excerpt already, see `content_type::excerpt`.
    #[cold]
    pub(crate) fn new(
        declared: Declared,
        malformed: Option<MalformedContentType>,
        content_type: String,
        attempts: Vec<Attempt>,
    ) -> Self {
        let content_type = content_type.into();
        Self(Box::new(Failure { declared, malformed, content_type, attempts, own_format: &[] }))
    }

    /// Returns the same failure for a type that reads only these media types, whatever the codecs of the set read.
    #[cold]
    pub(crate) fn of_own_format(mut self, media_types: &'static [MediaType]) -> Self {
        self.0.own_format = media_types;
        self
    }

    /// Returns the same failure after other attempts.
    pub(crate) fn with_attempts(&self, attempts: Vec<Attempt>) -> Self {
        let Failure { declared, malformed, content_type, own_format, .. } = &*self.0;
        Self(Box::new(Failure {
            declared: *declared,
            malformed: *malformed,
            content_type: content_type.clone(),
            attempts,
            own_format,
        }))
    }

    /// Returns the class of the ContentType.
    #[must_use]
    pub fn declared(&self) -> Declared {
        self.0.declared
    }

    /// Returns the reason, as one code. The first attempt decides if there was one, because it is the one that the producer
    /// meant.
    #[must_use]
    pub fn reason(&self) -> FailureReason {
        let Some(first) = self.attempts().first() else {
            return match self.declared() {
                Declared::Malformed => FailureReason::MalformedContentType,
                Declared::NotAllowed => FailureReason::ContentTypeNotAllowed,
                Declared::Missing | Declared::Unknown | Declared::Known => FailureReason::UnsupportedContentType,
            };
        };
        match first.error.kind() {
            DecodeErrorKind::UnsupportedCharset => FailureReason::UnsupportedCharset,
            kind if kind.is_limit() => FailureReason::LimitExceeded,
            _ => FailureReason::DeserializationFailed,
        }
    }

    /// Returns the attempts, in order.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.0.attempts
    }

    /// Returns the attempts, for a property.
    #[must_use]
    pub fn trail(&self) -> Trail {
        Trail::of(self.attempts())
    }
}

impl fmt::Display for DecodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, attempt) in self.attempts().iter().enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            write!(f, "{separator}{}: {}", attempt.codec, attempt.error)?;
        }
        if !self.attempts().is_empty() {
            return Ok(());
        }
        let text = &self.0.content_type;
        match (self.declared(), self.0.own_format) {
            (Declared::Missing, _) => f.write_str("no ContentType is declared, and none is assumed"),
            (Declared::Malformed, _) => {
                write!(f, "the ContentType `{text}` is malformed")?;
                self.0.malformed.map_or(Ok(()), |why| write!(f, ": {why}"))
            }
            (Declared::NotAllowed, _) => write!(f, "the ContentType `{text}` is not allowed here"),
            (Declared::Unknown | Declared::Known, [first, rest @ ..]) => {
                let what = "the type has a format of its own, which does not read the ContentType";
                write!(f, "{what} `{text}`: expected {first}")?;
                rest.iter().try_for_each(|media_type| write!(f, ", {media_type}"))
            }
            (declared @ (Declared::Unknown | Declared::Known), []) => {
                write!(f, "no codec reads the ContentType `{text}`")?;
                // Clients set these for any body.
                let essence = essence_of(text);
                let defaults = ["application/octet-stream", "text/plain"];
                let is_default = defaults.iter().any(|default| essence.eq_ignore_ascii_case(default));
                if is_default && declared == Declared::Unknown {
                    f.write_str("; `on_unknown` can name a codec for it")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for DecodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeFailure")
            .field("reason", &self.reason())
            .field("declared", &self.declared())
            .field("content_type", &self.0.content_type)
            .field("attempts", &self.attempts())
            .finish()
    }
}

impl error::Error for DecodeFailure {}
