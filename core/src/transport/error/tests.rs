use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{ErrorKind as E, *};

/// Condition, status, kind, transient: as the rows have them.
const CONDITIONS: &[(&str, Option<u16>, E, bool)] = &[
    ("com.microsoft:message-lock-lost", Some(410), E::MessageLockLost, false),
    ("com.microsoft:session-lock-lost", Some(410), E::SessionLockLost, false),
    ("com.microsoft:session-cannot-be-locked", Some(410), E::SessionCannotBeLocked, false),
    ("com.microsoft:message-not-found", Some(404), E::MessageNotFound, false),
    ("com.microsoft:timeout", Some(408), E::ServiceTimeout, true),
    ("com.microsoft:server-busy", Some(503), E::ServiceBusy, true),
    ("com.microsoft:argument-error", Some(400), E::InvalidArgument, false),
    ("com.microsoft:argument-out-of-range", Some(400), E::InvalidArgument, false),
    ("com.microsoft:entity-disabled", Some(400), E::EntityDisabled, false),
    ("com.microsoft:entity-already-exists", Some(409), E::AlreadyExists, false),
    ("com.microsoft:auth-failed", Some(401), E::Unauthorized, false),
    ("amqp:unauthorized-access", Some(401), E::Unauthorized, false),
    ("com.microsoft:publisher-revoked", Some(401), E::Unauthorized, false),
    ("com.microsoft:no-matching-subscription", Some(500), E::NoMatchingSubscription, false),
    ("com.microsoft:store-lock-lost", Some(410), E::CommunicationProblem, true),
    ("com.microsoft:partition-not-owned", Some(410), E::CommunicationProblem, true),
    ("amqp:link:stolen", Some(410), E::CommunicationProblem, true),
    ("com.microsoft:operation-cancelled", None, E::General, false),
    ("com.microsoft:address-already-in-use", None, E::General, false),
    ("com.microsoft:relay-not-found", None, E::General, false),
    ("amqp:not-found", Some(404), E::EntityNotFound, false),
    ("amqp:not-allowed", Some(400), E::InvalidOperation, false),
    ("amqp:not-implemented", Some(501), E::NotSupported, false),
    ("amqp:resource-limit-exceeded", Some(403), E::QuotaExceeded, false),
    ("amqp:link:message-size-exceeded", Some(403), E::MessageSizeExceeded, false),
    ("amqp:internal-error", Some(500), E::General, true),
    ("amqp:link:detach-forced", None, E::CommunicationProblem, true),
    ("amqp:connection:forced", None, E::CommunicationProblem, true),
    ("amqp:transaction:unknown-id", None, E::Transaction, false),
    ("amqp:transaction:rollback", None, E::Transaction, false),
    ("amqp:transaction:timeout", None, E::Transaction, false),
];

/// Rules: E-01, E-02, E-03, E-04, E-05, E-06, E-07, E-08, E-09, E-10, E-11.
#[test]
fn conditions_have_their_kinds() {
    holds(|condition| condition.starts_with("com.microsoft:"));
}

/// Rules: E-12, E-13, E-15, E-16, E-17, E-18, E-19, E-20, E-21, E-22.
#[test]
fn conditions_of_the_protocol_have_their_kinds() {
    holds(|condition| condition.starts_with("amqp:"));
}

fn holds(of: impl Fn(&str) -> bool) {
    for &(condition, status, kind, transient) in CONDITIONS.iter().filter(|row| of(row.0)) {
        assert_eq!(E::from_condition(condition), Some(kind), "{condition}");
        let error = SendError::from_condition(condition);
        assert_eq!((error.kind(), error.condition()), (kind, Some(condition)));
        assert_eq!((error.status(), error.is_retryable()), (status, transient), "{condition}");
    }
}

#[test]
fn every_kind_that_is_on_the_wire_is_read_back() {
    for kind in CONDITIONS.iter().map(|row| row.2) {
        assert_eq!(kind.condition().and_then(E::from_condition), Some(kind));
        assert_eq!(SendError::new(kind).status(), kind.status());
    }
    for kind in [E::Serialization, E::Throttled] {
        assert_eq!((kind.condition(), kind.status()), (None, None));
    }
}

/// Rules: E-14.
#[test]
fn dead_letter_is_no_error_of_a_broker() {
    assert_eq!(E::from_condition("com.microsoft:dead-letter"), None);
}

/// Rules: E-15.
#[test]
fn not_found_is_a_lost_lock_when_a_message_was_settled() {
    assert_eq!(ReceiveError::from_condition("amqp:not-found").kind(), E::EntityNotFound);
    let error = SettleError::from_condition("amqp:not-found");
    assert!(error.is_lock_lost() && !error.is_retryable());
}

/// Rules: E-20.
#[test]
fn an_unknown_condition_is_kept_and_may_pass() {
    let error = ReceiveError::from_condition("com.example:odd".to_owned());
    assert_eq!((error.kind(), error.condition(), error.is_retryable()), (E::General, Some("com.example:odd"), true));
    assert_eq!(E::from_condition("COM.MICROSOFT:TIMEOUT"), None);
}

/// Rules: E-30.
#[test]
fn a_status_alone_has_a_kind() {
    for status in CONDITIONS.iter().filter_map(|row| row.1) {
        let kind = E::from_status(status);
        assert_eq!(kind.status(), Some(status), "{kind:?}");
        assert!(CONDITIONS.iter().any(|row| row.1 == Some(status) && row.2 == kind), "{kind:?}");
    }
    for (status, kind) in [(410, E::MessageLockLost), (404, E::EntityNotFound), (500, E::General), (418, E::General)] {
        assert_eq!(E::from_status(status), kind);
    }
}

/// Rules: E-31.
#[test]
fn a_failed_transaction_is_not_tried_again() {
    assert!(!SendError::new(E::Transaction).is_retryable());
    assert!(!SettleError::from_condition("amqp:transaction:timeout").is_retryable());
}

/// Rules: X-02.
#[test]
fn a_rejection_says_what_why_and_when() {
    let error = SendError::from_condition("com.microsoft:server-busy")
        .with_detail("Slow down. TrackingId:1f_orders, SystemTracker:ns:Queue:orders")
        .with_timestamp(Timestamp::EPOCH);
    assert_eq!(error.kind(), E::ServiceBusy);
    assert_eq!(error.condition(), Some("com.microsoft:server-busy"));
    assert_eq!(error.description(), Some("Slow down. TrackingId:1f_orders, SystemTracker:ns:Queue:orders"));
    assert_eq!(error.tracking_id(), Some("1f_orders"));
    assert_eq!(error.timestamp(), Some(Timestamp::EPOCH));
    assert!(error.is_retryable());
    assert_eq!(error.to_string(), "send: the broker is busy (Slow down; tracking id 1f_orders)");
}

/// Rules: X-03.
#[test]
fn an_error_without_a_tracking_id_has_none() {
    let error = SendError::new(E::QuotaExceeded);
    assert_eq!((error.tracking_id(), error.description(), error.condition()), (None, None, None));
    assert_eq!(error.with_detail("full").tracking_id(), None);
}

/// Rules: X-05.
#[test]
fn a_broker_can_overrule_what_the_condition_says_of_a_retry() {
    assert!(!SendError::from_condition("com.microsoft:server-busy").with_retryable(false).is_retryable());
    assert!(SendError::from_condition("amqp:not-allowed").with_retryable(true).is_retryable());
    assert!(SendError::new(E::ServiceTimeout).is_retryable());
}

#[test]
fn a_description_is_written_once_and_only_if_it_is_read() {
    let written = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&written);
    let error = SendError::new(E::General).with_detail("first").map_detail(move |detail| {
        counted.fetch_add(1, Ordering::Relaxed);
        format!("{} and second", detail.unwrap_or_default())
    });
    assert_eq!((written.load(Ordering::Relaxed), error.kind()), (0, E::General));
    for _ in 0..2 {
        assert_eq!(error.description(), Some("first and second"));
    }
    assert_eq!(written.load(Ordering::Relaxed), 1);
    assert_eq!(SendError::new(E::General).map_detail(|detail| format!("{detail:?}")).description(), Some("None"));
}

#[test]
fn an_error_is_one_pointer_wide() {
    assert_eq!(size_of::<Result<(), SendError>>(), size_of::<usize>());
}

#[test]
fn the_code_of_a_kind_is_its_name() {
    for (kind, code) in [
        (E::MessageLockLost, "MessageLockLost"),
        (E::SessionLockLost, "SessionLockLost"),
        (E::SessionCannotBeLocked, "SessionCannotBeLocked"),
        (E::MessageNotFound, "MessageNotFound"),
        (E::ServiceTimeout, "ServiceTimeout"),
        (E::ServiceBusy, "ServiceBusy"),
        (E::InvalidArgument, "InvalidArgument"),
        (E::EntityDisabled, "EntityDisabled"),
        (E::AlreadyExists, "AlreadyExists"),
        (E::Unauthorized, "Unauthorized"),
        (E::NoMatchingSubscription, "NoMatchingSubscription"),
        (E::CommunicationProblem, "CommunicationProblem"),
        (E::EntityNotFound, "EntityNotFound"),
        (E::InvalidOperation, "InvalidOperation"),
        (E::NotSupported, "NotSupported"),
        (E::QuotaExceeded, "QuotaExceeded"),
        (E::MessageSizeExceeded, "MessageSizeExceeded"),
        (E::Transaction, "Transaction"),
        (E::Serialization, "Serialization"),
        (E::Throttled, "Throttled"),
        (E::General, "General"),
    ] {
        assert_eq!(kind.code(), code);
    }
}
