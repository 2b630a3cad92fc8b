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
    NotAMessage {
        column: usize,
        /// What should be there, or which field is missing.
        why: Option<Box<str>>,
    },
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
            serde_json::error::Category::Data => {
                Self::NotAMessage { column: error.column(), why: why(&error.to_string()) }
            }
            _ => Self::NotJson(error.column()),
        }
    }
}

/// The part of an error of serde that names what is expected, and nothing of the line: a value is before it.
fn shown(text: &str) -> Option<&str> {
    const FOUND: [&str; 5] =
        ["invalid type: ", "invalid value: ", "invalid length ", "unknown field `", "unknown variant `"];
    const ALONE: [&str; 5] =
        ["expected ", "missing field `", "duplicate field `", "not base64", "two properties of one key"];
    let (text, _) = text.rsplit_once(" at line ")?;
    if ALONE.iter().any(|start| text.starts_with(start)) {
        return Some(text);
    }
    let is_found = FOUND.iter().any(|start| text.starts_with(start));
    let at = text.rfind(", expected ").filter(|_| is_found)?;
    text.get(at + 2..)
}

fn why(text: &str) -> Option<Box<str>> {
    let shown = shown(text)?;
    let is_float = text.starts_with("invalid type: floating point");
    let form = if is_float { r#"; a floating-point number is an object such as {"f64":"1.5"}"# } else { "" };
    Some(format!("{shown}{form}").into())
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        match &self.problem {
            Problem::Io(error) => write!(f, ": {error}"),
            Problem::TooLong { limit } => write!(f, ": longer than {limit} bytes"),
            Problem::NotJson(column) => write!(f, ", column {column}: not JSON"),
            Problem::NotAMessage { column, why } => {
                write!(f, ", column {column}: not valid in a message")?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
            Problem::Invalid(error) => write!(f, ": {error}"),
        }
    }
}

impl error::Error for LineError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) => Some(error),
            Problem::Invalid(error) => Some(error),
            Problem::TooLong { .. } | Problem::NotJson(_) | Problem::NotAMessage { .. } => None,
        }
    }
}
