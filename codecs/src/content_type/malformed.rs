use std::{error, fmt};

/// The reason why a text is not a media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MalformedContentType {
    /// Nothing but white space. A set of codecs treats it as no ContentType.
    Empty,
    /// Over [`ContentType::MAX_BYTES`](crate::ContentType::MAX_BYTES).
    TooLong,
    /// Over [`ContentType::MAX_PARAMETERS`](crate::ContentType::MAX_PARAMETERS).
    TooManyParameters,
    /// A control character other than a tab: NUL, or a line break that is not at the end.
    ControlCharacter,
    /// A character outside of US-ASCII that is not in a quoted value or a comment.
    NotAscii,
    /// No `/` between a type and a subtype: `json`.
    MissingSlash,
    /// `*/*` or `application/*`, which name no type of a message.
    Wildcard,
    /// The type or the subtype is empty or is not a token: `application/`, `a/b/c`, `application/+json`.
    InvalidName,
    /// A parameter is not `name=value`, or a second type follows the first.
    InvalidParameter,
    /// A quoted value does not end.
    UnclosedQuote,
    /// A comment does not end.
    UnclosedComment,
}

impl fmt::Display for MalformedContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::TooLong => "it is longer than 255 bytes",
            Self::TooManyParameters => "it has more than 8 parameters",
            Self::ControlCharacter => "it has a control character",
            Self::NotAscii => "it has a character outside of US-ASCII that is not in quotes",
            Self::MissingSlash => "it has no `/` between type and subtype",
            Self::Wildcard => "a wildcard names no type",
            Self::InvalidName => "its type or subtype is not a name",
            Self::InvalidParameter => "a parameter is not `name=value`",
            Self::UnclosedQuote => "a quoted value does not end",
            Self::UnclosedComment => "a comment does not end",
        })
    }
}

impl error::Error for MalformedContentType {}
