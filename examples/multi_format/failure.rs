use std::{fmt, io, path::PathBuf};

use consign::transport::SendError;
use tower::BoxError;

use crate::format::Format;

/// Why a run did not come to an end. What it found out about messages is the report, and no failure.
#[derive(Debug)]
pub enum Failure {
    /// The command line is not understood.
    Usage { argument: String, expected: &'static str },
    /// The file cannot be read.
    File { path: PathBuf, source: io::Error },
    /// The file is larger than the limit, in bytes.
    FileTooLarge { limit: u64 },
    /// No line of the input is an event.
    NoEvents,
    /// A line of the input is not an event, or one that cannot be sent.
    Line { line: usize, source: BoxError },
    /// An event was not accepted by the queue.
    Send { line: usize, format: Format, source: SendError },
    /// The store is that of a run with other options.
    OtherRun { found: String, expected: String },
    /// Something that the run stands on failed.
    Broken(BoxError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage { argument, expected } => write!(f, "`{}`: {expected}", argument.escape_debug()),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::FileTooLarge { limit } => write!(f, "the input is larger than {limit} bytes"),
            Self::NoEvents => f.write_str("the input holds no event"),
            Self::Line { line, source } => write!(f, "line {line} is not an event that can be sent: {source}"),
            Self::Send { line, format, source } => write!(f, "line {line} as {}: {source}", format.name()),
            Self::OtherRun { found, expected } => {
                write!(f, "the store is of a run of {}, and this is one of {expected}", found.escape_debug())
            }
            Self::Broken(source) => {
                write!(f, "{source}")?;
                let mut causes = std::iter::successors(source.source(), |cause| cause.source());
                causes.try_for_each(|cause| write!(f, ": {cause}"))
            }
        }
    }
}

/// Any error is something that the run stands on, unless it is given a place above.
impl<E: Into<BoxError>> From<E> for Failure {
    fn from(source: E) -> Self {
        Self::Broken(source.into())
    }
}
