use std::{borrow::Cow, error, fmt};

use crate::message::InvalidArgument;

/// What went wrong, whatever the broker. The names follow Azure Service Bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The lock has run out, was lost, or was used for a settlement before. Nothing was done.
    MessageLockLost,
    /// The session's lock was lost.
    SessionLockLost,
    /// Another receiver holds the session.
    SessionCannotBeLocked,
    /// No such message, or not in the state that the call needs.
    MessageNotFound,
    /// No answer in time. Whether the call had its effect is unknown.
    ServiceTimeout,
    /// The broker asks to be left alone for a while.
    ServiceBusy,
    /// An argument breaks a rule.
    InvalidArgument,
    /// The entity is disabled in the direction of the call.
    EntityDisabled,
    /// The entity exists.
    AlreadyExists,
    /// Not allowed for this identity.
    Unauthorized,
    /// The connection failed. Whether the call had its effect is unknown.
    CommunicationProblem,
    /// No such entity.
    EntityNotFound,
    /// The call makes no sense there: a settlement after receive-and-delete, a dead letter dead-lettered again.
    InvalidOperation,
    /// The transport cannot do this.
    NotSupported,
    /// The entity is full.
    QuotaExceeded,
    /// The message is larger than the entity or the connection takes.
    MessageSizeExceeded,
    /// The value could not be written, or its properties are too large.
    Serialization,
    /// The transaction is unknown, has timed out, or was rolled back.
    Transaction,
    /// A limit of this process was reached before the broker was asked.
    Throttled,
    /// Anything else.
    General,
}

impl ErrorKind {
    const fn describe(self) -> &'static str {
        match self {
            Self::MessageLockLost => "the lock of the message is lost",
            Self::SessionLockLost => "the lock of the session is lost",
            Self::SessionCannotBeLocked => "another receiver holds the session",
            Self::MessageNotFound => "no such message",
            Self::ServiceTimeout => "no answer in time",
            Self::ServiceBusy => "the broker is busy",
            Self::InvalidArgument => "an argument is not allowed",
            Self::EntityDisabled => "the entity is disabled",
            Self::AlreadyExists => "the entity exists",
            Self::Unauthorized => "not authorized",
            Self::CommunicationProblem => "the connection failed",
            Self::EntityNotFound => "no such entity",
            Self::InvalidOperation => "the operation is not allowed here",
            Self::NotSupported => "the transport does not support this",
            Self::QuotaExceeded => "the entity is full",
            Self::MessageSizeExceeded => "the message is too large",
            Self::Serialization => "the message could not be written",
            Self::Transaction => "the transaction is over",
            Self::Throttled => "a limit of this process was reached",
            Self::General => "the operation failed",
        }
    }
}

#[derive(Debug)]
struct Failure {
    kind: ErrorKind,
    detail: Option<Cow<'static, str>>,
    source: Option<BoxError>,
}

type BoxError = Box<dyn error::Error + Send + Sync>;

fn kind_of(error: &BoxError) -> ErrorKind {
    if error.is::<tower::timeout::error::Elapsed>() {
        ErrorKind::ServiceTimeout
    } else if error.is::<tower::load_shed::error::Overloaded>() {
        ErrorKind::Throttled
    } else {
        ErrorKind::General
    }
}

macro_rules! operation_error {
    ($($(#[$doc:meta])* $name:ident: $operation:literal;)*) => {$(
        $(#[$doc])*
        pub struct $name(Box<Failure>);

        impl $name {
            /// An error of the given kind.
            #[cold]
            #[must_use]
            pub fn new(kind: ErrorKind) -> Self {
                Self(Box::new(Failure { kind, detail: None, source: None }))
            }

            /// Adds what exactly went wrong. It must not quote a body.
            #[must_use]
            pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
                self.0.detail = Some(detail.into());
                self
            }

            /// Adds the cause.
            #[must_use]
            pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
                self.0.source = Some(source.into());
                self
            }

            /// What went wrong.
            #[must_use]
            pub fn kind(&self) -> ErrorKind {
                self.0.kind
            }

            /// Whether the same call may succeed later.
            #[must_use]
            pub fn is_retryable(&self) -> bool {
                use ErrorKind as E;
                matches!(self.kind(), E::ServiceTimeout | E::ServiceBusy | E::CommunicationProblem | E::General | E::Throttled)
            }

            /// Whether the call may have had its effect although it failed.
            #[must_use]
            pub fn is_outcome_unknown(&self) -> bool {
                matches!(self.kind(), ErrorKind::ServiceTimeout | ErrorKind::CommunicationProblem | ErrorKind::General)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}: {}", $operation, self.kind().describe())?;
                match &self.0.detail {
                    Some(detail) => write!(f, " ({detail})"),
                    None => Ok(()),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("kind", &self.0.kind)
                    .field("detail", &self.0.detail)
                    .field("source", &self.0.source)
                    .finish()
            }
        }

        impl error::Error for $name {
            fn source(&self) -> Option<&(dyn error::Error + 'static)> {
                self.0.source.as_ref().map(|source| &**source as _)
            }
        }

        impl From<InvalidArgument> for $name {
            fn from(error: InvalidArgument) -> Self {
                Self::new(ErrorKind::InvalidArgument).with_detail(error.to_string()).with_source(error)
            }
        }

        /// An error of another layer of a stack. One that is this error already stays what it is; tower's time-out is
        /// [`ServiceTimeout`](ErrorKind::ServiceTimeout), its load-shed is [`Throttled`](ErrorKind::Throttled).
        impl From<BoxError> for $name {
            fn from(error: BoxError) -> Self {
                match error.downcast::<Self>() {
                    Ok(own) => *own,
                    Err(other) => Self::new(kind_of(&other)).with_detail(other.to_string()).with_source(other),
                }
            }
        }
    )*};
}

operation_error! {
    /// A message that was not accepted, or of which that is unknown: [`is_outcome_unknown`](Self::is_outcome_unknown).
    SendError: "send";
    /// A receive, a peek or a fetch by sequence number that failed. No message was lost by it.
    ReceiveError: "receive";
    /// A settlement or a renewal that had no effect, or of which that is unknown.
    SettleError: "settle";
    /// An entity that could not be created, found or changed.
    ManageError: "manage";
}

impl SettleError {
    /// Whether the lock is gone: the message will be, or has been, delivered again.
    #[must_use]
    pub fn is_lock_lost(&self) -> bool {
        matches!(self.kind(), ErrorKind::MessageLockLost | ErrorKind::SessionLockLost)
    }
}

impl From<consign_codecs::EncodeError> for SendError {
    fn from(error: consign_codecs::EncodeError) -> Self {
        Self::new(ErrorKind::Serialization).with_detail(error.to_string()).with_source(error)
    }
}
