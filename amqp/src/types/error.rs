use super::composite::composite;
use crate::value::{Map, Str, Symbol};

composite! {
    /// An error that is reported to the peer.
    Error = 0x1d "amqp:error:list" {
        /// What kind of error it is. Mandatory.
        condition: mandatory Symbol,
        /// A text for people.
        description: optional Str,
        /// More about it. Keys are symbols; some clients write strings.
        info: optional Map,
    }
}

impl Error {
    /// Creates an error with a description.
    #[must_use]
    pub fn new(condition: Symbol, description: impl Into<Str>) -> Self {
        Self { condition, description: Some(description.into()), info: None }
    }
}

/// The conditions of errors that AMQP 1.0 defines.
pub mod condition {
    use crate::value::Symbol;

    macro_rules! conditions {
        ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
            $($(#[$doc])* pub const $name: Symbol = Symbol::from_static($text);)*
        };
    }

    conditions! {
        /// An error of the peer itself.
        INTERNAL_ERROR "amqp:internal-error";
        /// A node that does not exist.
        NOT_FOUND "amqp:not-found";
        /// Access that is not permitted.
        UNAUTHORIZED_ACCESS "amqp:unauthorized-access";
        /// A frame that cannot be decoded.
        DECODE_ERROR "amqp:decode-error";
        /// A limit of a resource is exceeded.
        RESOURCE_LIMIT_EXCEEDED "amqp:resource-limit-exceeded";
        /// An operation that is not allowed.
        NOT_ALLOWED "amqp:not-allowed";
        /// A field whose value is not valid.
        INVALID_FIELD "amqp:invalid-field";
        /// An operation that is not implemented.
        NOT_IMPLEMENTED "amqp:not-implemented";
        /// A resource that another client has locked.
        RESOURCE_LOCKED "amqp:resource-locked";
        /// A precondition that does not hold.
        PRECONDITION_FAILED "amqp:precondition-failed";
        /// A resource that was deleted.
        RESOURCE_DELETED "amqp:resource-deleted";
        /// A frame that the state of the session does not permit.
        ILLEGAL_STATE "amqp:illegal-state";
        /// A frame that does not fit into the peer's largest frame.
        FRAME_SIZE_TOO_SMALL "amqp:frame-size-too-small";
        /// The connection was closed by an operator or for being idle.
        CONNECTION_FORCED "amqp:connection:forced";
        /// A frame that is malformed.
        FRAMING_ERROR "amqp:connection:framing-error";
        /// The container is at another address.
        CONNECTION_REDIRECT "amqp:connection:redirect";
        /// More transfers than the window of the session.
        WINDOW_VIOLATION "amqp:session:window-violation";
        /// A transfer for a link that is not attached.
        ERRANT_LINK "amqp:session:errant-link";
        /// A handle that is in use.
        HANDLE_IN_USE "amqp:session:handle-in-use";
        /// A frame for a handle without a link.
        UNATTACHED_HANDLE "amqp:session:unattached-handle";
        /// The link was detached by an operator or for being idle.
        DETACH_FORCED "amqp:link:detach-forced";
        /// More transfers than the credit of the link.
        TRANSFER_LIMIT_EXCEEDED "amqp:link:transfer-limit-exceeded";
        /// A message that is larger than the link accepts.
        MESSAGE_SIZE_EXCEEDED "amqp:link:message-size-exceeded";
        /// The node is at another address.
        LINK_REDIRECT "amqp:link:redirect";
        /// The link was attached elsewhere.
        STOLEN "amqp:link:stolen";
        /// A transaction that does not exist.
        TRANSACTION_UNKNOWN_ID "amqp:transaction:unknown-id";
        /// A transaction that was rolled back.
        TRANSACTION_ROLLBACK "amqp:transaction:rollback";
        /// A transaction that took too long.
        TRANSACTION_TIMEOUT "amqp:transaction:timeout";
    }
}
