use std::{error, fmt};

use consign_core::message::InvalidArgument;

/// The reason why an expression has no value. It quotes the rule at most, never a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvaluationError {
    /// There is no system property of that name. The name is cut to 64 characters, and escaped.
    UnknownSystemProperty(Box<str>),
    /// The result of an operation on integers does not fit into 64 bits with a sign.
    Overflow,
    /// An integer was divided by zero. Floating-point numbers can be: the result is infinite, or not a number.
    DivisionByZero,
    /// Text was joined to more than `limit` bytes.
    TextTooLong {
        /// The largest length that is allowed.
        limit: usize,
    },
    /// The escape character of a `LIKE` is not one character, or its pattern ends in it.
    InvalidPattern,
    /// The `LIKE` operators of one filter, or of all filters of one set, took more than `limit` steps together.
    TooManySteps {
        /// The largest number that is allowed.
        limit: usize,
    },
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownSystemProperty(name) => write!(f, "there is no system property \"{name}\""),
            Self::Overflow => f.write_str("an integer does not fit into 64 bits"),
            Self::DivisionByZero => f.write_str("an integer was divided by zero"),
            Self::TextTooLong { limit } => write!(f, "text was joined to more than {limit} bytes"),
            Self::InvalidPattern => {
                f.write_str("the escape character of LIKE is not one character, or the pattern ends in it")
            }
            Self::TooManySteps { limit } => write!(f, "LIKE took more than {limit} steps"),
        }
    }
}

impl error::Error for EvaluationError {}

/// A filter that could not be evaluated for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError(EvaluationError);

impl FilterError {
    pub(super) fn new(kind: EvaluationError) -> Self {
        Self(kind)
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &EvaluationError {
        &self.0
    }

    /// Returns the reason of the dead letter that such a message becomes: `FilterException`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        "FilterException"
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the filter failed: {}", self.0)
    }
}

impl error::Error for FilterError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.0)
    }
}

/// The reason why an action cannot change a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActionErrorKind {
    /// An expression has no value.
    Evaluation(EvaluationError),
    /// A system property cannot have a value of that type.
    WrongType {
        /// The property.
        property: &'static str,
    },
    /// The message would break a rule of its properties.
    InvalidArgument(InvalidArgument),
}

impl fmt::Display for ActionErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evaluation(error) => error.fmt(f),
            Self::WrongType { property } => write!(f, "{property} cannot have a value of that type"),
            Self::InvalidArgument(error) => error.fmt(f),
        }
    }
}

/// An action that could not be applied to a message, which stays as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionError {
    kind: ActionErrorKind,
    statement: Option<usize>,
}

impl ActionError {
    /// An error of one statement, counted from 1.
    pub(super) fn in_statement(statement: usize, kind: ActionErrorKind) -> Self {
        Self { kind, statement: Some(statement) }
    }

    /// An error of what all statements made together.
    pub(super) fn after_all(error: InvalidArgument) -> Self {
        Self { kind: ActionErrorKind::InvalidArgument(error), statement: None }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ActionErrorKind {
        &self.kind
    }

    /// Returns the statement that failed, from 1; `None` if each of them could be applied, and what they made together
    /// breaks a rule of a message's properties.
    #[must_use]
    pub fn statement(&self) -> Option<usize> {
        self.statement
    }

    /// Returns the reason of the dead letter that such a message becomes: `RuleActionException`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        "RuleActionException"
    }
}

impl fmt::Display for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.statement {
            Some(statement) => write!(f, "statement {statement} of the action failed: {}", self.kind),
            None => write!(f, "the action failed: {}", self.kind),
        }
    }
}

impl error::Error for ActionError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.kind {
            ActionErrorKind::Evaluation(error) => Some(error),
            ActionErrorKind::InvalidArgument(error) => Some(error),
            ActionErrorKind::WrongType { .. } => None,
        }
    }
}

/// A rule that failed for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleError {
    /// Its filter.
    Filter(FilterError),
    /// Its action.
    Action(ActionError),
}

impl RuleError {
    /// Returns the reason of the dead letter that such a message becomes: `FilterException` or `RuleActionException`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Filter(error) => error.name(),
            Self::Action(error) => error.name(),
        }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter(error) => error.fmt(f),
            Self::Action(error) => error.fmt(f),
        }
    }
}

impl error::Error for RuleError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Filter(error) => Some(error),
            Self::Action(error) => Some(error),
        }
    }
}
