use std::{error, fmt};

use consign_core::message::InvalidArgument;

use crate::{codec::DecodeError, message::Section};

/// Why a message could not be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MappingErrorKind {
    /// A section is not AMQP 1.0, or exceeds a limit of the decoder.
    Malformed,
    /// A property breaks a rule of messages, such as a MessageId of more than 128 UTF-16 code units.
    InvalidArgument,
    /// A value of a type that the field or the property does not have.
    UnsupportedType,
    /// A key occurs twice.
    DuplicateKey,
    /// A time to live of more than 4,294,967,295 milliseconds.
    TtlTooLong,
    /// A text that has to be a symbol has a character that is not ASCII.
    NotAscii,
    /// The elements of an array have several types.
    MixedArray,
    /// More than 64 values inside one another.
    TooDeep,
    /// A name that no peer may send: an annotation for the type of an id, or the descriptor of a value for which a message has no
    /// type.
    Reserved,
}

impl MappingErrorKind {
    const fn describe(self) -> &'static str {
        match self {
            Self::Malformed => "the section is malformed",
            Self::InvalidArgument => "the property is not allowed",
            Self::UnsupportedType => "the type is not supported here",
            Self::DuplicateKey => "the key occurs twice",
            Self::TtlTooLong => "the time to live is over 4294967295 milliseconds",
            Self::NotAscii => "a symbol has only ASCII characters",
            Self::MixedArray => "the elements of the array have several types",
            Self::TooDeep => "nested deeper than 64 levels",
            Self::Reserved => "the name is reserved",
        }
    }
}

/// The refusal of a message: why, and where. It has the name of a field or a property, never a value.
#[derive(Clone, PartialEq, Eq)]
pub struct MappingError(Box<Refusal>);

#[derive(Clone, PartialEq, Eq)]
struct Refusal {
    kind: MappingErrorKind,
    section: Section,
    key: Option<Box<str>>,
    expected: Option<&'static str>,
    found: Option<&'static str>,
    cause: Option<Cause>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    Decode(DecodeError),
    Argument(InvalidArgument),
}

impl MappingError {
    #[cold]
    fn new(kind: MappingErrorKind, section: Section) -> Self {
        Self(Box::new(Refusal { kind, section, key: None, expected: None, found: None, cause: None }))
    }

    #[cold]
    pub(super) fn malformed(cause: DecodeError) -> Self {
        let mut error = Self::new(MappingErrorKind::Malformed, Section::Body);
        error.0.cause = Some(Cause::Decode(cause));
        error
    }

    pub(super) fn expected(mut self, expected: &'static str) -> Self {
        self.0.expected = Some(expected);
        self
    }

    pub(super) fn found(mut self, found: &'static str) -> Self {
        self.0.found = Some(found);
        self
    }

    /// Returns why the message was refused.
    #[must_use]
    pub fn kind(&self) -> MappingErrorKind {
        self.0.kind
    }

    /// Returns the section. A malformed one is named by the [source](error::Error::source) instead: then it is none.
    #[must_use]
    pub fn section(&self) -> Option<Section> {
        (self.0.kind != MappingErrorKind::Malformed).then_some(self.0.section)
    }

    /// Returns the field, the annotation or the application property: its first 64 characters, escaped. None for a body.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }
}

/// A field or a key of a section.
#[derive(Clone, Copy)]
pub(super) struct Place<'k> {
    pub(super) section: Section,
    pub(super) key: &'k str,
}

impl<'k> Place<'k> {
    pub(super) const BODY: Self = Self { section: Section::Body, key: "" };

    pub(super) const fn new(section: Section, key: &'k str) -> Self {
        Self { section, key }
    }

    pub(super) const fn property(key: &'k str) -> Self {
        Self::new(Section::Properties, key)
    }

    pub(super) const fn annotation(key: &'k str) -> Self {
        Self::new(Section::MessageAnnotations, key)
    }

    #[cold]
    pub(super) fn error(self, kind: MappingErrorKind) -> MappingError {
        let mut error = MappingError::new(kind, self.section);
        if self.section != Section::Body {
            error.0.key = Some(self.key.chars().take(64).flat_map(char::escape_debug).collect());
        }
        error
    }

    #[cold]
    pub(super) fn invalid(self, cause: InvalidArgument) -> MappingError {
        let mut error = self.error(MappingErrorKind::InvalidArgument);
        error.0.cause = Some(Cause::Argument(cause));
        error
    }
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { kind, section, key, expected, found, cause } = &*self.0;
        f.write_str(kind.describe())?;
        match cause {
            Some(Cause::Decode(cause)) => return write!(f, ": {cause}"),
            Some(Cause::Argument(cause)) => write!(f, ": {cause}")?,
            None => {}
        }
        let mut separator = ": ";
        if let Some(expected) = expected {
            write!(f, "{separator}expected {expected}")?;
            separator = ", ";
        }
        if let Some(found) = found {
            write!(f, "{separator}found {found}")?;
        }
        match key {
            Some(key) => write!(f, ", at `{key}` in {}", section.name()),
            None => write!(f, ", in {}", section.name()),
        }
    }
}

impl fmt::Debug for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappingError")
            .field("kind", &self.kind())
            .field("section", &self.section())
            .field("key", &self.key())
            .field("expected", &self.0.expected)
            .field("found", &self.0.found)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl error::Error for MappingError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self.0.cause.as_ref()? {
            Cause::Decode(cause) => Some(cause),
            Cause::Argument(cause) => Some(cause),
        }
    }
}
