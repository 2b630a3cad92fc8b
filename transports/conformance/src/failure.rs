use std::{error, fmt};

use consign::{
    message::InvalidArgument,
    transport::{Capability, ErrorKind, ManageError, ReceiveError, SendError, SettleError, Unsupported},
};

/// Why a case did not pass: the transport answered with an error, or did something else than the case asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    cause: Cause,
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// An error of the transport.
    Answer(ErrorKind),
    /// The transport does not do what the case asks for.
    Behaviour,
    /// The broker has no such thing, and the case is about a detail that it may lack.
    Detail,
}

/// How a case ends.
pub type Verdict = Result<(), Failure>;

impl Failure {
    /// The transport did something else than it should.
    #[must_use]
    pub fn behaviour(why: impl Into<String>) -> Self {
        Self { cause: Cause::Behaviour, why: why.into() }
    }

    /// The transport answered with an error of this kind.
    #[must_use]
    pub fn answer(kind: ErrorKind, why: impl Into<String>) -> Self {
        Self { cause: Cause::Answer(kind), why: why.into() }
    }

    /// The kind of the transport's error, if it was one.
    #[must_use]
    pub fn kind(&self) -> Option<ErrorKind> {
        match self.cause {
            Cause::Answer(kind) => Some(kind),
            Cause::Behaviour | Cause::Detail => None,
        }
    }

    /// What the transport said or did.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Whether a detail is missing that no capability is about, and that a broker may lack.
    pub(crate) fn is_detail(&self) -> bool {
        self.cause == Cause::Detail
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl error::Error for Failure {}

macro_rules! from_operation_error {
    ($($error:ident),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::answer(error.kind(), error.to_string())
            }
        }
    )*};
}

from_operation_error!(SendError, ReceiveError, SettleError, ManageError);

impl From<Unsupported> for Failure {
    fn from(error: Unsupported) -> Self {
        Self::answer(ErrorKind::NotSupported, error.to_string())
    }
}

impl From<InvalidArgument> for Failure {
    fn from(error: InvalidArgument) -> Self {
        Self::answer(ErrorKind::InvalidArgument, error.to_string())
    }
}

/// What a default of a backend answers.
pub(crate) fn not_supported<E: From<Unsupported>>(capability: Capability) -> E {
    Unsupported::new(capability).into()
}

/// Passes over a case about a detail that the broker does not have, such as an entity that can be disabled: no
/// capability promises it.
pub(crate) fn detail<T, E: Into<Failure>>(result: Result<T, E>) -> Result<T, Failure> {
    result.map_err(|error| match error.into() {
        Failure { cause: Cause::Answer(ErrorKind::NotSupported), why } => Failure { cause: Cause::Detail, why },
        other => other,
    })
}

/// The call must be refused as one of `kinds`.
pub(crate) fn refused<T, E: Into<Failure>>(result: Result<T, E>, kinds: &[ErrorKind]) -> Verdict {
    let failure = match result {
        Ok(_) => return Err(Failure::behaviour(format!("accepted, and not refused as {kinds:?}"))),
        Err(error) => error.into(),
    };
    match failure.kind() {
        Some(kind) if kinds.contains(&kind) => Ok(()),
        Some(kind) if kind != ErrorKind::NotSupported => {
            Err(Failure::behaviour(format!("refused as {kind:?}, and not as {kinds:?}: {failure}")))
        }
        _ => Err(failure),
    }
}

/// Ends the case unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Failure::behaviour(format!($($text)+)));
        }
    };
}

/// Ends the case unless both are equal.
macro_rules! ensure_eq {
    ($left:expr, $right:expr) => {
        match (&$left, &$right) {
            (left, right) => {
                if left != right {
                    let what = stringify!($left);
                    return Err($crate::Failure::behaviour(format!("{what} is {left:?}, and not {right:?}")));
                }
            }
        }
    };
    ($left:expr, $right:expr, $($text:tt)+) => {
        match (&$left, &$right) {
            (left, right) => {
                if left != right {
                    let why = format!($($text)+);
                    return Err($crate::Failure::behaviour(format!("{why}: {left:?}, and not {right:?}")));
                }
            }
        }
    };
}

pub(crate) use {ensure, ensure_eq};
