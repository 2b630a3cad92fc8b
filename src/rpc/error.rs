use std::{error, fmt};

use consign_codecs::EncodeError;

use super::{Fault, FaultCode};
use crate::{message::InvalidArgument, settlement::Undecodable, transport::SendError};

type BoxError = Box<dyn error::Error + Send + Sync>;

/// The error of a call without a reply. It says of what kind the failure is and keeps its cause; what came from the other
/// side is in [`fault`](Self::fault).
pub struct CallError(Box<Cause>);

/// The kind of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// The maximum number of calls is waiting. Nothing was sent.
    TooManyRequests,
    /// No reply before the deadline. Whether the request was handled is unknown.
    Timeout,
    /// Replies cannot be received. Whether a request that was sent is handled is unknown.
    Disconnected,
    /// The requester was closed.
    Closed,
    /// The request could not be sent.
    Send,
    /// The request could not be written, or breaks a rule. Nothing was sent.
    InvalidRequest,
    /// The responder answered with a fault.
    Fault,
    /// The reply could not be decoded.
    Undecodable,
    /// A layer of the stack failed.
    Other,
}

impl CallErrorKind {
    /// The code: the name of the variant.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::TooManyRequests => "TooManyRequests",
            Self::Timeout => "Timeout",
            Self::Disconnected => "Disconnected",
            Self::Closed => "Closed",
            Self::Send => "Send",
            Self::InvalidRequest => "InvalidRequest",
            Self::Fault => "Fault",
            Self::Undecodable => "Undecodable",
            Self::Other => "Other",
        }
    }
}

#[derive(Debug)]
enum Cause {
    Plain(CallErrorKind),
    /// Refused before the request was sent.
    NotSent(CallErrorKind),
    /// A timeout of a call whose requester receives no replies.
    NotReceiving,
    Send(SendError),
    Encode(EncodeError),
    Invalid(InvalidArgument),
    Fault(Fault),
    Undecodable(Undecodable),
    Other(BoxError),
}

impl CallError {
    #[cold]
    pub(super) fn new(kind: CallErrorKind) -> Self {
        Self(Box::new(Cause::Plain(kind)))
    }

    /// A [timeout](CallErrorKind::Timeout) while no loop receives replies.
    #[cold]
    pub(super) fn not_receiving() -> Self {
        Self(Box::new(Cause::NotReceiving))
    }

    #[cold]
    pub(super) fn not_sent(kind: CallErrorKind) -> Self {
        Self(Box::new(Cause::NotSent(kind)))
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> CallErrorKind {
        match &*self.0 {
            Cause::Plain(kind) | Cause::NotSent(kind) => *kind,
            Cause::NotReceiving => CallErrorKind::Timeout,
            Cause::Send(_) => CallErrorKind::Send,
            Cause::Encode(_) | Cause::Invalid(_) => CallErrorKind::InvalidRequest,
            Cause::Fault(_) => CallErrorKind::Fault,
            Cause::Undecodable(_) => CallErrorKind::Undecodable,
            Cause::Other(_) => CallErrorKind::Other,
        }
    }

    /// Returns the fault that the responder sent instead of a reply.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        match &*self.0 {
            Cause::Fault(fault) => Some(fault),
            _ => None,
        }
    }

    /// Returns the error with which the reply could not be decoded.
    #[must_use]
    pub fn undecodable(&self) -> Option<&Undecodable> {
        match &*self.0 {
            Cause::Undecodable(undecodable) => Some(undecodable),
            _ => None,
        }
    }

    /// Returns the error with which the request could not be sent.
    #[must_use]
    pub fn send_error(&self) -> Option<&SendError> {
        match &*self.0 {
            Cause::Send(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the same call may succeed later. A call whose [outcome is unknown](Self::is_outcome_unknown) may have
    /// had its effect, so repeat it only if the responder may handle it twice.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match &*self.0 {
            Cause::Send(error) => error.is_retryable(),
            // No service is subscribed yet.
            Cause::Fault(fault) => {
                matches!(fault.code(), FaultCode::Application(code) if &**code == FaultCode::NO_RESPONDERS)
            }
            _ => matches!(
                self.kind(),
                CallErrorKind::TooManyRequests | CallErrorKind::Timeout | CallErrorKind::Disconnected
            ),
        }
    }

    /// Returns whether nothing tells if the request was handled. It is `false` for a [fault](CallErrorKind::Fault) and for a
    /// reply that [cannot be decoded](CallErrorKind::Undecodable), because these answer the request: its handler may have had
    /// effects, which a second call repeats.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        match &*self.0 {
            Cause::NotSent(_) => false,
            Cause::Send(error) => error.is_outcome_unknown(),
            _ => matches!(
                self.kind(),
                CallErrorKind::Timeout | CallErrorKind::Disconnected | CallErrorKind::Closed | CallErrorKind::Other
            ),
        }
    }
}

macro_rules! causes {
    ($($cause:ty => $variant:ident)*) => {$(
        impl From<$cause> for CallError {
            #[cold]
            fn from(cause: $cause) -> Self {
                Self(Box::new(Cause::$variant(cause)))
            }
        }
    )*};
}

causes! {
    SendError => Send
    EncodeError => Encode
    InvalidArgument => Invalid
    Fault => Fault
    Undecodable => Undecodable
}

/// A layer around a requester hands errors on in a box. One that was a `CallError` is that again, and so is what became of
/// a failed send; tower's timeout is a [`Timeout`](CallErrorKind::Timeout), and what its load shedding refused is
/// [`TooManyRequests`](CallErrorKind::TooManyRequests).
impl From<BoxError> for CallError {
    #[cold]
    fn from(error: BoxError) -> Self {
        if error.is::<tower::timeout::error::Elapsed>() {
            return Self::new(CallErrorKind::Timeout);
        }
        if error.is::<tower::load_shed::error::Overloaded>() {
            return Self::not_sent(CallErrorKind::TooManyRequests);
        }
        let other = match error.downcast::<Self>() {
            Ok(error) => return *error,
            Err(other) => other,
        };
        match other.downcast::<SendError>() {
            Ok(error) => Self::from(*error),
            Err(other) => Self(Box::new(Cause::Other(other))),
        }
    }
}

impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallError").field(&self.0).finish()
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call failed: ")?;
        match &*self.0 {
            Cause::Plain(kind) | Cause::NotSent(kind) => f.write_str(match kind {
                CallErrorKind::TooManyRequests => "too many calls wait for replies",
                CallErrorKind::Timeout => "no reply before the deadline",
                CallErrorKind::Disconnected => "replies cannot be received",
                CallErrorKind::Closed => "the requester is closed",
                _ => "the cause is unknown",
            }),
            Cause::NotReceiving => {
                f.write_str("no reply before the deadline, and no task runs the `Replies` of the requester")
            }
            Cause::Send(error) => fmt::Display::fmt(error, f),
            Cause::Encode(error) => fmt::Display::fmt(error, f),
            Cause::Invalid(error) => fmt::Display::fmt(error, f),
            Cause::Fault(fault) => fmt::Display::fmt(fault, f),
            Cause::Undecodable(error) => fmt::Display::fmt(error, f),
            Cause::Other(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl error::Error for CallError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &*self.0 {
            Cause::Plain(_) | Cause::NotSent(_) | Cause::NotReceiving => None,
            Cause::Send(error) => Some(error),
            Cause::Encode(error) => Some(error),
            Cause::Invalid(error) => Some(error),
            Cause::Fault(fault) => Some(fault),
            Cause::Undecodable(error) => Some(error),
            Cause::Other(error) => Some(&**error),
        }
    }
}
