use std::{error, fmt};

/// Bytes or a text that are not a value: where, and what was expected there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    problem: Problem,
    expected: &'static str,
    at: usize,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes end within it.
    Truncated,
    /// Bytes follow it.
    Trailing,
    /// It breaks a rule.
    Invalid,
    /// It has more levels than are read.
    TooDeep,
}

impl Malformed {
    pub(super) const fn new(problem: Problem, expected: &'static str, at: usize) -> Self {
        Self { problem, expected, at }
    }

    /// Returns what is wrong.
    #[must_use]
    pub const fn problem(&self) -> Problem {
        self.problem
    }

    /// Returns what was expected, such as `number`.
    #[must_use]
    pub const fn expected(&self) -> &'static str {
        self.expected
    }

    /// Returns the offset in bytes.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { problem, expected, at } = self;
        match problem {
            Problem::Truncated => write!(f, "the bytes end within a {expected}, at byte {at}"),
            Problem::Trailing => write!(f, "bytes follow the {expected}, at byte {at}"),
            Problem::Invalid => write!(f, "not a {expected}, at byte {at}"),
            Problem::TooDeep => write!(f, "too many levels of a {expected}, at byte {at}"),
        }
    }
}

impl error::Error for Malformed {}
