use std::fmt;

use consign_core::message::Message;

use super::{Parameters, ParseError, evaluate::Evaluator, like::MAX_STEPS_OF_SET, parser::Parser, tree::Predicate};
use crate::{EvaluationError, FilterError};

/// A filter that matches the messages for which an expression is true. The [module](crate) describes the language.
///
/// Two filters are equal if they mean the same tree, however they were written.
#[derive(Clone, Debug)]
pub struct SqlFilter {
    text: Box<str>,
    parameters: Parameters,
    predicate: Predicate,
}

impl SqlFilter {
    /// Reads an expression: at most 1,024 UTF-16 code units, with parentheses, signs, `NOT` and functions inside each
    /// other at most 64 times.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, Parameters::default())
    }

    /// Reads an expression with parameters, such as `@name`. Each of them needs a value; a value may be without a use.
    pub fn parse_with(text: &str, parameters: Parameters) -> Result<Self, ParseError> {
        let predicate = Parser::new(text, &parameters, false)?.whole_predicate()?;
        Ok(Self { text: text.into(), parameters, predicate })
    }

    /// Returns the parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns the text as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the filter matches the message: the expression is true, and not false or unknown.
    pub fn matches(&self, message: &Message) -> Result<bool, FilterError> {
        self.evaluate(message).map(|truth| truth == Some(true))
    }

    /// As the above, of which all take no more than `left` steps together.
    pub(crate) fn matches_within(&self, message: &Message, left: &mut usize) -> Result<bool, FilterError> {
        let mut evaluator = Evaluator::new(message);
        let allowed = evaluator.steps.min(*left);
        evaluator.steps = allowed;
        let truth = evaluator.predicate(&self.predicate);
        *left -= allowed - evaluator.steps;
        match truth {
            Ok(truth) => Ok(truth == Some(true)),
            Err(EvaluationError::TooManySteps { limit }) if allowed < limit => {
                Err(FilterError::new(EvaluationError::TooManySteps { limit: MAX_STEPS_OF_SET }))
            }
            Err(error) => Err(FilterError::new(error)),
        }
    }

    /// Returns the value of the expression for the message: true, false or, as `None`, unknown.
    pub fn evaluate(&self, message: &Message) -> Result<Option<bool>, FilterError> {
        Evaluator::new(message).predicate(&self.predicate).map_err(FilterError::new)
    }
}

impl PartialEq for SqlFilter {
    fn eq(&self, other: &Self) -> bool {
        self.predicate == other.predicate && self.parameters == other.parameters
    }
}

/// The canonical form, which reads as an equal filter unless it is longer than a filter may be.
impl fmt::Display for SqlFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.predicate.fmt(f)
    }
}
