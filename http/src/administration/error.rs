use std::{borrow::Cow, error, fmt};

use consign_core::message::InvalidArgument;

/// Why a document was not read. It has no text of the document but names of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    kind: DocumentErrorKind,
    element: Option<Box<str>>,
}

/// The kind of a [`DocumentError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentErrorKind {
    /// It is not well-formed XML in UTF-8.
    Malformed,
    /// It has a document type or an entity that is not one of the five of XML.
    DocumentType,
    /// It has too many bytes, levels, elements or attributes.
    TooLarge,
    /// An element is none of those that are expected there.
    Unexpected,
    /// An element is missing.
    Missing,
    /// An element occurs twice.
    Repeated,
    /// The text of an element is not of its type.
    InvalidValue,
}

impl DocumentError {
    pub(super) const fn new(kind: DocumentErrorKind) -> Self {
        Self { kind, element: None }
    }

    pub(super) fn of(kind: DocumentErrorKind, element: &str) -> Self {
        let element = element.chars().take(64).flat_map(char::escape_debug).collect();
        Self { kind, element: Some(element) }
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> DocumentErrorKind {
        self.kind
    }

    /// Returns the name of the element, cut to 64 characters.
    #[must_use]
    pub fn element(&self) -> Option<&str> {
        self.element.as_deref()
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element = self.element().unwrap_or("document");
        match self.kind {
            DocumentErrorKind::Malformed => f.write_str("the document is not well-formed XML in UTF-8"),
            DocumentErrorKind::DocumentType => {
                f.write_str("the document has a document type or an entity, which are not allowed")
            }
            DocumentErrorKind::TooLarge => f.write_str("the document exceeds a limit of size, levels or elements"),
            DocumentErrorKind::Unexpected => write!(f, "the element '{element}' is not expected there"),
            DocumentErrorKind::Missing => write!(f, "the element '{element}' is missing"),
            DocumentErrorKind::Repeated => write!(f, "the element '{element}' occurs twice"),
            DocumentErrorKind::InvalidValue => write!(f, "the value of the element '{element}' is invalid"),
        }
    }
}

impl error::Error for DocumentError {}

/// Why a description cannot be represented by settings or a rule. It names the field, and does not have its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    text: Cow<'static, str>,
}

impl SettingsError {
    pub(super) fn unsupported(field: &str) -> Self {
        Self { text: format!("the field {field} is not supported with this value").into() }
    }

    pub(super) fn invalid(field: &str) -> Self {
        Self { text: format!("the value of the field {field} is invalid").into() }
    }

    pub(super) fn fixed(field: &str) -> Self {
        Self { text: format!("the field {field} is fixed when the entity is created").into() }
    }

    pub(super) fn other(error: &impl fmt::Display) -> Self {
        Self { text: error.to_string().into() }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl error::Error for SettingsError {}

impl From<InvalidArgument> for SettingsError {
    fn from(error: InvalidArgument) -> Self {
        Self::other(&error)
    }
}
