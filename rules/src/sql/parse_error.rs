use std::{error, fmt};

/// The kind of an error in the text of a filter or an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text is longer than `limit` UTF-16 code units.
    TooLong {
        /// The largest length that is allowed.
        limit: usize,
    },
    /// Parentheses, signs, `NOT` and functions are inside each other more than `limit` times.
    TooDeep {
        /// The largest depth that is allowed.
        limit: usize,
    },
    /// An action has more than `limit` statements.
    TooManyExpressions {
        /// The largest number that is allowed.
        limit: usize,
    },
    /// A character that means nothing there.
    UnexpectedCharacter,
    /// A word, a sign or a constant that is not allowed at its place.
    UnexpectedToken {
        /// What could.
        expected: &'static str,
    },
    /// The text ends too early.
    UnexpectedEnd {
        /// What could follow.
        expected: &'static str,
    },
    /// The quote at the position is never closed.
    UnterminatedString,
    /// The bracket or the double quote at the position is never closed.
    UnterminatedName,
    /// A name of no characters.
    EmptyName,
    /// A number that is not written as one: digits, perhaps a point and digits, perhaps `E`, a sign and digits.
    MalformedNumber,
    /// An integer that does not fit into 64 bits with a sign, or a number that is not finite.
    NumberOutOfRange,
    /// The escape character of a `LIKE` is not one character, or its pattern ends in it.
    InvalidPattern,
    /// A parameter without a value.
    UnknownParameter,
    /// Two parameters have the same name.
    RepeatedParameter,
    /// There are more than `limit` parameters.
    TooManyParameters {
        /// The largest number that is allowed.
        limit: usize,
    },
    /// The name or the value of a parameter has more than `limit` bytes.
    ParameterTooLong {
        /// The largest length that is allowed.
        limit: usize,
    },
    /// An action changes a system property that does not exist.
    UnknownSystemProperty,
    /// An action changes a system property that the broker sets, or removes `MessageId`.
    ReadOnlyProperty,
}

/// A filter or an action that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(Box<Failure>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    kind: ParseErrorKind,
    position: usize,
    line: usize,
    column: usize,
    found: Box<str>,
}

impl ParseError {
    /// Longest part of the text that is shown: characters.
    const SHOWN: usize = 16;

    /// An error about the part of `text` from `start` to `end`, both bytes at the border of a character.
    #[cold]
    pub(super) fn new(kind: ParseErrorKind, text: &str, start: usize, end: usize) -> Self {
        let (before, rest) = text.split_at(start);
        let found = &rest[..end - start];
        let mut shown: String = found.chars().take(Self::SHOWN).flat_map(char::escape_debug).collect();
        if found.chars().nth(Self::SHOWN).is_some() {
            shown.push_str("...");
        }
        Self(Box::new(Failure {
            kind,
            position: start,
            line: before.matches('\n').count() + 1,
            column: before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1,
            found: shown.into(),
        }))
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ParseErrorKind {
        self.0.kind
    }

    /// Returns the position: bytes from the start of the text.
    #[must_use]
    pub fn position(&self) -> usize {
        self.0.position
    }

    /// Returns the line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.0.line
    }

    /// Returns the character in the line, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.0.column
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ParseErrorKind as K;
        let Failure { found, line, column, .. } = &*self.0;
        write!(f, "line {line}, column {column}: ")?;
        match self.0.kind {
            K::TooLong { limit } => write!(f, "the text is longer than {limit}"),
            K::TooDeep { limit } => write!(f, "the expression is nested more than {limit} deep"),
            K::TooManyExpressions { limit } => write!(f, "there are more than {limit} statements"),
            K::UnexpectedCharacter => write!(f, "unexpected character \"{found}\""),
            K::UnexpectedToken { expected } => write!(f, "expected {expected}, found \"{found}\""),
            K::UnexpectedEnd { expected } => write!(f, "expected {expected}, found the end"),
            K::UnterminatedString => f.write_str("the text constant is not closed"),
            K::UnterminatedName => f.write_str("the name is not closed"),
            K::EmptyName => f.write_str("the name is empty"),
            K::MalformedNumber => write!(f, "\"{found}\" is not a number"),
            K::NumberOutOfRange => write!(f, "the number \"{found}\" is out of range"),
            K::InvalidPattern => {
                f.write_str("the escape character of LIKE is not one character, or the pattern ends in it")
            }
            K::UnknownParameter => write!(f, "the parameter \"{found}\" has no value"),
            K::RepeatedParameter => write!(f, "the parameter \"{found}\" is there twice"),
            K::TooManyParameters { limit } => write!(f, "there are more than {limit} parameters"),
            K::ParameterTooLong { limit } => {
                write!(f, "the name or the value of the parameter \"{found}\" has more than {limit} bytes")
            }
            K::UnknownSystemProperty => write!(f, "there is no system property \"{found}\""),
            K::ReadOnlyProperty => write!(f, "the system property \"{found}\" cannot be changed by an action"),
        }
    }
}

impl error::Error for ParseError {}
