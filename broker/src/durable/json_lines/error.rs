use std::{error, fmt, io};

use consign_core::message::InvalidArgument;

/// A line that is not a message. It shows nothing of the contents of the line.
#[derive(Debug)]
pub struct LineError {
    line: u64,
    problem: Problem,
}

#[derive(Debug)]
pub(super) enum Problem {
    /// The input failed, and nothing comes after this.
    Io(io::Error),
    TooLong {
        limit: usize,
    },
    /// With the column, in bytes from 1.
    NotJson(usize),
    NotAMessage(usize),
    Invalid(InvalidArgument),
}

impl LineError {
    pub(super) fn new(line: u64, problem: Problem) -> Self {
        Self { line, problem }
    }

    /// Returns the number of the line, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        match error.classify() {
            serde_json::error::Category::Data => Self::NotAMessage(error.column()),
            _ => Self::NotJson(error.column()),
        }
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        match &self.problem {
            Problem::Io(error) => write!(f, ": {error}"),
            Problem::TooLong { limit } => write!(f, ": longer than {limit} bytes"),
            Problem::NotJson(column) => write!(f, ", column {column}: not JSON"),
            Problem::NotAMessage(column) => write!(f, ", column {column}: not valid in a message"),
            Problem::Invalid(error) => write!(f, ": {error}"),
        }
    }
}

impl error::Error for LineError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) => Some(error),
            Problem::Invalid(error) => Some(error),
            Problem::TooLong { .. } | Problem::NotJson(_) | Problem::NotAMessage(_) => None,
        }
    }
}
