//! Why a command did not succeed, and the exit code for it.

use std::{fmt, io, process::ExitCode};

use consign::{
    broker::{StorageError, StorageErrorKind},
    message::InvalidArgument,
    transport::{ConnectError, ConnectErrorKind, ErrorKind, ManageError, ReceiveError, SendError, SettleError},
};

use super::Error;

/// The exit codes, as `docs/command-line.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Failure = 1,
    Usage = 2,
    NotFound = 3,
    NotSupported = 4,
    Connection = 5,
    Partly = 6,
    NoMessage = 7,
    Invalid = 8,
    Interrupted = 130,
    /// 128 and the number of SIGPIPE, as a shell reports it.
    OutputClosed = 141,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command that failed: its exit code, a code for programs, and a text for people.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) code: &'static str,
    text: String,
    /// What the program itself advises. It has nothing from outside, so its URLs are shown.
    advice: &'static str,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &'static str, text: impl Into<String>) -> Self {
        Self { exit, code, text: text.into(), advice: "" }
    }

    /// The same failure with advice, which follows the text.
    pub(crate) fn with_advice(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "Usage", text)
    }

    pub(crate) fn not_supported(text: impl Into<String>) -> Self {
        Self::new(Exit::NotSupported, ErrorKind::NotSupported.code(), text)
    }

    pub(crate) fn file(name: &std::path::Path, error: &io::Error) -> Self {
        Self::new(Exit::Failure, "Io", format!("{}: {error}", name.display()))
    }

    /// A store that cannot be opened.
    pub(crate) fn open(error: StorageError) -> Self {
        match error.kind() {
            StorageErrorKind::NewerFormat
            | StorageErrorKind::NotAStore
            | StorageErrorKind::Full
            | StorageErrorKind::Failed => Self { exit: Exit::Connection, ..error.into() },
            _ => error.into(),
        }
    }

    /// The same failure with more text.
    pub(crate) fn with(self, more: &str) -> Self {
        Self { text: format!("{}; {more}", self.text), ..self }
    }

    /// The text for people, with this change of what may be from outside.
    pub(crate) fn redacted(&self, redact: impl FnOnce(&str) -> String) -> String {
        redact(&self.text) + self.advice
    }

    /// The object for programs, with the same change.
    pub(crate) fn to_json(&self, redact: impl FnOnce(&str) -> String) -> serde_json::Value {
        serde_json::json!({
            "error": { "code": self.code, "exit": self.exit as u8, "message": self.redacted(redact) },
        })
    }

    /// The same failure after `done` messages were handled.
    pub(crate) fn after(self, done: u64) -> Self {
        match self.exit {
            Exit::NoMessage | Exit::OutputClosed | Exit::Interrupted => self,
            _ if done == 0 => self,
            _ => Self { exit: Exit::Partly, ..self },
        }
    }

    pub(crate) fn of_kind(kind: ErrorKind, error: impl fmt::Display) -> Self {
        let exit = match kind {
            ErrorKind::EntityNotFound | ErrorKind::MessageNotFound => Exit::NotFound,
            ErrorKind::NotSupported => Exit::NotSupported,
            ErrorKind::CommunicationProblem | ErrorKind::ServiceTimeout | ErrorKind::Unauthorized => Exit::Connection,
            ErrorKind::InvalidArgument => Exit::Usage,
            _ => Exit::Failure,
        };
        Self::new(exit, kind.code(), error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        f.write_str(self.advice)
    }
}

impl std::error::Error for Failure {}

macro_rules! of_an_operation {
    ($($error:ident),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::of_kind(error.kind(), error)
            }
        }
    )*};
}

of_an_operation!(SendError, ReceiveError, SettleError, ManageError);

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let exit = match error.kind() {
            ConnectErrorKind::Connection => Exit::Connection,
            _ => Exit::Usage,
        };
        Self::new(exit, "Connect", error.to_string())
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        let exit = match error.kind() {
            StorageErrorKind::Corrupted => Exit::Invalid,
            StorageErrorKind::InUse => Exit::Connection,
            _ => Exit::Failure,
        };
        Self::new(exit, "Storage", with_causes(&error))
    }
}

/// Returns the text of an error with those of its causes that it does not quote.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

impl From<InvalidArgument> for Failure {
    fn from(error: InvalidArgument) -> Self {
        Self::new(Exit::Usage, ErrorKind::InvalidArgument.code(), error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let exit = if error.kind() == io::ErrorKind::BrokenPipe { Exit::OutputClosed } else { Exit::Failure };
        Self::new(exit, "Io", error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(kind) => io::Error::from(kind).into(),
            None => Self::new(Exit::Failure, "Io", error.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let exit = match error {
            Error::NoKeys(_) | Error::PlainTcp(_) | Error::ShortKey { .. } => Exit::Usage,
            Error::Storage { error, .. } => Self::open(error).exit,
            Error::Io(error) => Self::from(error).exit,
            _ => Exit::Failure,
        };
        Self::new(exit, "Serve", text)
    }
}
