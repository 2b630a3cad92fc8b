use std::{error, fmt};

use consign::{
    message::InvalidArgument,
    transport::{
        Capability, CompleteAllError, ErrorKind, ManageError, ReceiveError, SendError, SettleError, TransactionError,
        Unsupported,
    },
};

/// Why a case did not pass: the transport returned an error, or did something else than the case requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    cause: Cause,
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// An error of the transport, and the capability that it names if it is [`Unsupported`].
    Answer(ErrorKind, Option<Capability>),
    /// The backend did not call the transport: it leaves out what the case needs.
    NoCall,
    /// The case panicked or hung, which shows nothing.
    Broken,
    /// The transport does not do what the case requires.
    Behaviour,
    /// The broker does not have a detail that it may lack, and the case is about that.
    Detail,
}

/// The result of a case.
pub type Verdict = Result<(), Failure>;

impl Failure {
    /// Returns the failure of a transport that did something else than it should.
    #[must_use]
    pub fn behaviour(why: impl Into<String>) -> Self {
        Self { cause: Cause::Behaviour, why: why.into() }
    }

    /// Returns the failure of a transport that returned an error of this kind.
    #[must_use]
    pub fn answer(kind: ErrorKind, why: impl Into<String>) -> Self {
        Self { cause: Cause::Answer(kind, None), why: why.into() }
    }

    /// Returns the failure of a case without an answer: it panicked, or took too long.
    pub(crate) fn broken(why: impl Into<String>) -> Self {
        Self { cause: Cause::Broken, why: why.into() }
    }

    /// Returns the kind of the transport's error, if it was one.
    #[must_use]
    pub fn kind(&self) -> Option<ErrorKind> {
        match self.cause {
            Cause::Answer(kind, _) => Some(kind),
            Cause::NoCall | Cause::Broken | Cause::Behaviour | Cause::Detail => None,
        }
    }

    /// Returns the answer or the behaviour of the transport.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Returns the capability that the transport itself refused as unsupported.
    #[must_use]
    pub fn refused(&self) -> Option<Capability> {
        match self.cause {
            Cause::Answer(ErrorKind::NotSupported, refused) => refused,
            _ => None,
        }
    }

    /// Returns whether the transport was not called: see [`NoCall`].
    #[must_use]
    pub fn is_no_call(&self) -> bool {
        self.cause == Cause::NoCall
    }

    /// Returns whether the transport did something else than the case requires, without an error.
    pub(crate) fn is_behaviour(&self) -> bool {
        self.cause == Cause::Behaviour
    }

    /// Returns whether a detail is missing that no capability is about, and that a broker may lack.
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

/// The answer of a [`Backend`](crate::Backend) in place of something that its tests cannot do.
///
/// It converts into the error of each operation. The suite does not count it as an answer of the transport: a case of an
/// unsupported capability that ends in it was not run, and a case of a supported capability fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCall(&'static str);

impl NoCall {
    /// Creates the answer, with what is missing: "no call for ...".
    #[must_use]
    pub const fn new(missing: &'static str) -> Self {
        Self(missing)
    }
}

impl fmt::Display for NoCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl error::Error for NoCall {}

/// Finds the origin of an error among its causes.
fn cause(kind: ErrorKind, error: &(dyn error::Error + 'static)) -> Cause {
    let mut next = error.source();
    while let Some(error) = next {
        if error.is::<NoCall>() {
            return Cause::NoCall;
        }
        if let Some(failure) = error.downcast_ref::<Failure>() {
            return failure.cause;
        }
        if let Some(unsupported) = error.downcast_ref::<Unsupported>() {
            return Cause::Answer(kind, Some(unsupported.capability()));
        }
        next = error.source();
    }
    Cause::Answer(kind, None)
}

macro_rules! from_operation_error {
    ($($error:ident),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self { cause: cause(error.kind(), &error), why: error.to_string() }
            }
        }

        impl From<NoCall> for $error {
            fn from(missing: NoCall) -> Self {
                Self::new(ErrorKind::NotSupported).with_detail(missing.0).with_source(missing)
            }
        }
    )*};
}

from_operation_error!(SendError, ReceiveError, SettleError, ManageError);

/// The first of the failures.
impl From<CompleteAllError> for Failure {
    fn from(error: CompleteAllError) -> Self {
        let why = error.to_string();
        let first = error.into_failures().into_iter().next();
        first.map_or_else(|| Self::behaviour("a failure of no message"), |(_, first)| Self { why, ..first.into() })
    }
}

impl<L> From<TransactionError<L>> for Failure {
    fn from(error: TransactionError<L>) -> Self {
        let cause = error::Error::source(&error)
            .map_or(Cause::Answer(error.kind(), None), |source| cause(error.kind(), source));
        Self { cause, why: format!("{error:?}") }
    }
}

impl From<Unsupported> for Failure {
    fn from(error: Unsupported) -> Self {
        Self { cause: Cause::Answer(ErrorKind::NotSupported, Some(error.capability())), why: error.to_string() }
    }
}

impl From<NoCall> for Failure {
    fn from(missing: NoCall) -> Self {
        Self { cause: Cause::NoCall, why: missing.to_string() }
    }
}

impl From<InvalidArgument> for Failure {
    fn from(error: InvalidArgument) -> Self {
        Self::answer(ErrorKind::InvalidArgument, error.to_string())
    }
}

/// Ends a case about a detail that the broker does not have, such as an entity that can be disabled: no capability promises it.
/// The case counts as not run.
pub(crate) fn detail<T, E: Into<Failure>>(result: Result<T, E>) -> Result<T, Failure> {
    result.map_err(|error| match error.into() {
        Failure { cause: Cause::Answer(ErrorKind::NotSupported, _) | Cause::NoCall, why } => {
            Failure { cause: Cause::Detail, why }
        }
        other => other,
    })
}

/// Returns the failure of a part of `consign` that works on top of the transport.
pub(crate) fn unexpected(error: impl fmt::Display) -> Failure {
    Failure::behaviour(error.to_string())
}

/// Checks that the call is refused as one of `kinds`.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: K-40.
    #[test]
    fn an_answer_of_the_transport_is_distinguished_from_a_call_that_was_not_made() {
        let refused = Failure::from(SendError::from(Unsupported::new(Capability::Scheduling)));
        assert_eq!((refused.refused(), refused.is_no_call()), (Some(Capability::Scheduling), false));
        let absent = Failure::from(SendError::from(NoCall::new("no such setting")));
        assert_eq!((absent.refused(), absent.kind(), absent.is_no_call()), (None, None, true));
        let unnamed = Failure::from(SendError::new(ErrorKind::NotSupported));
        assert_eq!((unnamed.refused(), unnamed.kind()), (None, Some(ErrorKind::NotSupported)));
        // Also behind the error of another operation.
        for (inner, is_no_call) in [(absent, true), (refused, false)] {
            let outer = Failure::from(SettleError::new(ErrorKind::NotSupported).with_source(inner.clone()));
            assert_eq!((outer.is_no_call(), outer.refused()), (is_no_call, inner.refused()));
        }
    }
}
