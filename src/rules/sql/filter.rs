use std::fmt;

use super::{ParseError, ParseErrorKind};
use crate::{message::Message, rules::FilterError};

/// Takes the messages for which an expression is true. The [module](crate::rules) describes the language.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlFilter {
    text: Box<str>,
}

impl SqlFilter {
    /// Reads an expression of at most 1,024 UTF-16 code units.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Err(ParseError::new(ParseErrorKind::UnexpectedEnd { expected: "support for SQL" }, text, 0, 0))
    }

    /// The text as it was written. [`Display`](fmt::Display) shows it in its canonical form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the filter takes the message.
    pub fn matches(&self, _message: &Message) -> Result<bool, FilterError> {
        Ok(false)
    }
}

impl fmt::Display for SqlFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
