/// The kind of an error, independent of the broker. The names follow Azure Service Bus.
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
    /// The broker is overloaded and requests a pause.
    ServiceBusy,
    /// An argument breaks a rule.
    InvalidArgument,
    /// The entity is disabled in the direction of the call.
    EntityDisabled,
    /// The entity exists.
    AlreadyExists,
    /// Not allowed for this identity.
    Unauthorized,
    /// No subscription of the topic takes the message, and the topic requires one.
    NoMatchingSubscription,
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
    /// The transaction is not known any more, was rolled back, or took too long. None of it was done.
    Transaction,
    /// The value could not be written, or its properties are too large.
    Serialization,
    /// A limit of this process was reached, or a blob store failed, before the broker was called.
    Throttled,
    /// Anything else.
    General,
}

impl ErrorKind {
    /// Returns whether the same call may succeed later. An error may know better: its broker, or its condition, said so.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::ServiceTimeout | Self::ServiceBusy | Self::CommunicationProblem | Self::General | Self::Throttled
        )
    }

    /// Returns whether a call that failed so may have had its effect.
    #[must_use]
    pub const fn is_outcome_unknown(self) -> bool {
        matches!(self, Self::ServiceTimeout | Self::CommunicationProblem | Self::General)
    }

    /// The code: the name of the variant.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::MessageLockLost => "MessageLockLost",
            Self::SessionLockLost => "SessionLockLost",
            Self::SessionCannotBeLocked => "SessionCannotBeLocked",
            Self::MessageNotFound => "MessageNotFound",
            Self::ServiceTimeout => "ServiceTimeout",
            Self::ServiceBusy => "ServiceBusy",
            Self::InvalidArgument => "InvalidArgument",
            Self::EntityDisabled => "EntityDisabled",
            Self::AlreadyExists => "AlreadyExists",
            Self::Unauthorized => "Unauthorized",
            Self::NoMatchingSubscription => "NoMatchingSubscription",
            Self::CommunicationProblem => "CommunicationProblem",
            Self::EntityNotFound => "EntityNotFound",
            Self::InvalidOperation => "InvalidOperation",
            Self::NotSupported => "NotSupported",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::MessageSizeExceeded => "MessageSizeExceeded",
            Self::Transaction => "Transaction",
            Self::Serialization => "Serialization",
            Self::Throttled => "Throttled",
            Self::General => "General",
        }
    }

    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::MessageLockLost => "the lock of the message is lost",
            Self::SessionLockLost => "the lock of the session is lost",
            Self::SessionCannotBeLocked => "another receiver holds the session",
            Self::MessageNotFound => "no such message",
            Self::ServiceTimeout => "no answer in time",
            Self::ServiceBusy => "the broker is busy",
            Self::InvalidArgument => "an argument is invalid",
            Self::EntityDisabled => "the entity is disabled",
            Self::AlreadyExists => "the entity exists",
            Self::Unauthorized => "not authorized",
            Self::NoMatchingSubscription => "no subscription matches the message",
            Self::CommunicationProblem => "the connection failed",
            Self::EntityNotFound => "no such entity",
            Self::InvalidOperation => "the operation is not allowed here",
            Self::NotSupported => "the transport does not support this",
            Self::QuotaExceeded => "the entity is full",
            Self::MessageSizeExceeded => "the message is too large",
            Self::Transaction => "the transaction failed",
            Self::Serialization => "the message could not be serialized",
            Self::Throttled => "the broker was not called",
            Self::General => "the operation failed",
        }
    }
}
