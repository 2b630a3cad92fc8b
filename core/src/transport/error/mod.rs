//! The errors of operations: one opaque type for each operation, one pointer wide.

mod condition;
mod failure;
mod kind;
mod session_required;
mod tracking;

use std::{borrow::Cow, convert::Infallible, error, fmt};

use self::failure::{BoxError, Failure};
pub use self::kind::ErrorKind;
use crate::{message::InvalidArgument, time::Timestamp};

macro_rules! operation_error {
    ($($(#[$doc:meta])* $name:ident: $operation:literal, $not_found:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name(Box<Failure>);

        impl $name {
            /// An error of the given kind.
            #[cold]
            #[must_use]
            pub fn new(kind: ErrorKind) -> Self {
                Self(Box::new(Failure::new(kind)))
            }

            /// Creates the error for a wire condition, such as `com.microsoft:server-busy`. One that is unknown is
            /// [`General`](ErrorKind::General), and may succeed later.
            #[cold]
            #[must_use]
            pub fn from_condition(condition: impl Into<Cow<'static, str>>) -> Self {
                Self(Box::new(Failure::from_condition(condition.into(), ErrorKind::$not_found)))
            }

            /// Adds what exactly went wrong. It must not quote a body.
            #[must_use]
            pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
                self.0.set_detail(detail.into());
                self
            }

            /// Replaces the description by what `write` makes of it, when it is read for the first time. It must not quote
            /// a body.
            #[must_use]
            pub fn map_detail(mut self, write: impl FnOnce(Option<&str>) -> String + Send + Sync + 'static) -> Self {
                self.0.map_detail(write);
                self
            }

            /// Adds the cause.
            #[must_use]
            pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
                self.0.source = Some(source.into());
                self
            }

            /// Adds the condition by which the broker named the failure. The kind stays as it is.
            #[must_use]
            pub fn with_condition(mut self, condition: impl Into<Cow<'static, str>>) -> Self {
                self.0.condition = Some(condition.into());
                self
            }

            /// Sets whether the same call may succeed later, whatever the kind.
            #[must_use]
            pub fn with_retryable(mut self, retryable: bool) -> Self {
                self.0.retryable = Some(retryable);
                self
            }

            /// Adds when the broker refused.
            #[must_use]
            pub fn with_timestamp(mut self, timestamp: Timestamp) -> Self {
                self.0.timestamp = Some(timestamp);
                self
            }

            /// Returns the kind of the error.
            #[must_use]
            pub fn kind(&self) -> ErrorKind {
                self.0.kind
            }

            /// Returns the condition by which the broker named the failure, such as `com.microsoft:server-busy`; `None` if
            /// no broker named it.
            #[must_use]
            pub fn condition(&self) -> Option<&str> {
                self.0.condition.as_deref()
            }

            /// Returns the status of a reply that fails so, like a status of HTTP; see [`ErrorKind::status`].
            #[must_use]
            pub fn status(&self) -> Option<u16> {
                self.0.status()
            }

            /// Returns the description of the error.
            #[must_use]
            pub fn description(&self) -> Option<&str> {
                self.0.description()
            }

            /// Returns the id by which the broker's operators find the failure: in the description, the text from
            /// `TrackingId:` to a comma or white space. `None` without one.
            #[must_use]
            pub fn tracking_id(&self) -> Option<&str> {
                self.0.description().and_then(tracking::tracking_id)
            }

            /// Returns when the broker refused, by its own clock, if it reported that.
            #[must_use]
            pub fn timestamp(&self) -> Option<Timestamp> {
                self.0.timestamp
            }

            /// Returns whether the same call may succeed later: as the broker reported, or else by the kind.
            #[must_use]
            pub fn is_retryable(&self) -> bool {
                self.0.retryable.unwrap_or(self.0.kind.is_transient())
            }

            /// Returns whether the call may have had its effect although it failed.
            #[must_use]
            pub fn is_outcome_unknown(&self) -> bool {
                self.0.kind.is_outcome_unknown()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}: ", $operation)?;
                self.0.fmt_display(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_debug(f, stringify!($name))
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
                    Err(other) => Self(Box::new(Failure::from_other(other))),
                }
            }
        }
    )*};
}

operation_error! {
    /// A message that was not accepted, or of which that is unknown: [`is_outcome_unknown`](Self::is_outcome_unknown).
    SendError: "send", EntityNotFound;
    /// A receive, a peek or a fetch by sequence number that failed. No message was lost by it.
    ReceiveError: "receive", EntityNotFound;
    /// A settlement or a renewal that had no effect, or of which that is unknown. The condition `amqp:not-found` is a
    /// lock that is lost.
    SettleError: "settle", MessageLockLost;
    /// An entity that could not be created, found or changed.
    ManageError: "manage", EntityNotFound;
}

impl SettleError {
    /// Returns whether the lock is lost: the message will be, or has been, redelivered.
    #[must_use]
    pub fn is_lock_lost(&self) -> bool {
        matches!(self.kind(), ErrorKind::MessageLockLost | ErrorKind::SessionLockLost)
    }
}

/// What cannot fail has no error to convert.
impl From<Infallible> for SendError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests;
