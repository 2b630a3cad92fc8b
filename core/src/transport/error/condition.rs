//! The conditions that a broker puts on the wire, and what they mean here.

use super::ErrorKind;

/// One kind as a broker names it. The first condition is the one that is written.
pub(super) struct Row {
    conditions: &'static [&'static str],
    pub(super) status: Option<u16>,
    pub(super) kind: ErrorKind,
    pub(super) is_transient: bool,
}

const fn row(conditions: &'static [&'static str], status: u16, kind: ErrorKind) -> Row {
    Row { conditions, status: Some(status), kind, is_transient: kind.is_transient() }
}

const fn without_status(conditions: &'static [&'static str], kind: ErrorKind) -> Row {
    Row { conditions, status: None, kind, is_transient: kind.is_transient() }
}

/// A kind that has several rows is written as the first of them.
const ROWS: &[Row] = &[
    row(&["com.microsoft:message-lock-lost"], 410, ErrorKind::MessageLockLost),
    row(&["com.microsoft:session-lock-lost"], 410, ErrorKind::SessionLockLost),
    row(&["com.microsoft:session-cannot-be-locked"], 410, ErrorKind::SessionCannotBeLocked),
    row(&["com.microsoft:message-not-found"], 404, ErrorKind::MessageNotFound),
    row(&["com.microsoft:timeout"], 408, ErrorKind::ServiceTimeout),
    row(&["com.microsoft:server-busy"], 503, ErrorKind::ServiceBusy),
    row(&["com.microsoft:argument-error", "com.microsoft:argument-out-of-range"], 400, ErrorKind::InvalidArgument),
    row(&["com.microsoft:entity-disabled"], 400, ErrorKind::EntityDisabled),
    row(&["com.microsoft:entity-already-exists"], 409, ErrorKind::AlreadyExists),
    row(
        &["amqp:unauthorized-access", "com.microsoft:auth-failed", "com.microsoft:publisher-revoked"],
        401,
        ErrorKind::Unauthorized,
    ),
    row(&["com.microsoft:no-matching-subscription"], 500, ErrorKind::NoMatchingSubscription),
    without_status(&["amqp:connection:forced", "amqp:link:detach-forced"], ErrorKind::CommunicationProblem),
    row(
        &["com.microsoft:store-lock-lost", "com.microsoft:partition-not-owned", "amqp:link:stolen"],
        410,
        ErrorKind::CommunicationProblem,
    ),
    row(&["amqp:internal-error"], 500, ErrorKind::General),
    Row {
        is_transient: false,
        ..without_status(
            &[
                "com.microsoft:operation-cancelled",
                "com.microsoft:address-already-in-use",
                "com.microsoft:relay-not-found",
            ],
            ErrorKind::General,
        )
    },
    row(&["amqp:not-found"], 404, ErrorKind::EntityNotFound),
    row(&["amqp:not-allowed"], 400, ErrorKind::InvalidOperation),
    row(&["amqp:not-implemented"], 501, ErrorKind::NotSupported),
    row(&["amqp:resource-limit-exceeded"], 403, ErrorKind::QuotaExceeded),
    row(&["amqp:link:message-size-exceeded"], 403, ErrorKind::MessageSizeExceeded),
    without_status(
        &["amqp:transaction:unknown-id", "amqp:transaction:rollback", "amqp:transaction:timeout"],
        ErrorKind::Transaction,
    ),
];

/// What a condition means.
pub(super) fn meaning(condition: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.conditions.contains(&condition))
}

impl ErrorKind {
    /// Returns the kind of a wire condition, such as `com.microsoft:server-busy`, or `None` for an unknown one. Conditions
    /// are compared exactly.
    ///
    /// `amqp:not-found` is [`EntityNotFound`](Self::EntityNotFound); in answer to a settlement it means that the lock is
    /// lost, as [`SettleError::from_condition`](super::SettleError::from_condition) has it.
    #[must_use]
    pub fn from_condition(condition: &str) -> Option<Self> {
        meaning(condition).map(|meaning| meaning.kind)
    }

    /// The kind of a reply that has a status and no condition: the most common one of that status.
    /// [`General`](Self::General) for a status that stands for no kind, and for 500, which says nothing.
    #[must_use]
    pub const fn from_status(status: u16) -> Self {
        match status {
            400 => Self::InvalidOperation,
            401 => Self::Unauthorized,
            403 => Self::QuotaExceeded,
            404 => Self::EntityNotFound,
            408 => Self::ServiceTimeout,
            409 => Self::AlreadyExists,
            410 => Self::MessageLockLost,
            501 => Self::NotSupported,
            503 => Self::ServiceBusy,
            _ => Self::General,
        }
    }

    /// The condition that a broker names this kind by; `None` for what never leaves the process.
    #[must_use]
    pub fn condition(self) -> Option<&'static str> {
        self.row().and_then(|row| row.conditions.first().copied())
    }

    /// The status of a reply that fails with this kind, like a status of HTTP; `None` where a broker ends the link or
    /// the connection instead, and for what never leaves the process.
    #[must_use]
    pub fn status(self) -> Option<u16> {
        self.row().and_then(|row| row.status)
    }

    fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.kind == self)
    }
}
