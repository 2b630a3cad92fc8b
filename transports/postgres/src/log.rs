//! The log lines of this transport. No line has the address of the server as the user gave it: it may hold a password.

use std::time::Duration;

use consign_core::transport::{Escaped, SendError, log_limit, log_limit_info};
use tracing::field::display;

use crate::failure::Failure;

/// The target of all lines.
const TARGET: &str = "consign::postgres";

/// Without notifications receivers look for messages at intervals.
pub(crate) fn not_listening(schema: &str, failure: &Failure, pause: Duration) {
    if let Some(suppressed) = log_limit(schema, "NotListening") {
        let (error, retry_in_ms) = (failure.detail(), u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        let (schema, error) = (display(Escaped(schema)), display(Escaped(&error)));
        tracing::warn!(
            target: TARGET, schema, error, retry_in_ms, suppressed,
            "the connection for notifications was lost: the transport reconnects, and receivers poll for messages until then"
        );
    }
}

pub(crate) fn listening_again(schema: &str) {
    if let Some(suppressed) = log_limit_info(schema, "Listening") {
        tracing::info!(target: TARGET, schema = display(Escaped(schema)), suppressed, "connected again for notifications");
    }
}

/// The process is as one without a listening connection from now on.
pub(crate) fn shared(schema: &str) {
    if let Some(suppressed) = log_limit(schema, "Shared") {
        tracing::warn!(
            target: TARGET, schema = display(Escaped(schema)), suppressed,
            "the connection for notifications is shared by a pooler: receivers poll, and locks run out. \
            Set listen_on in the URL, or Options::listen_on, with the address of the server"
        );
    }
}

/// The periodic work on all entities failed, and is retried. A failure that may pass is nothing to act on, unless it lasts.
pub(crate) fn not_swept(schema: &str, failure: &Failure, is_lasting: bool) {
    if failure.is_temporary() && !is_lasting {
        tracing::debug!(target: TARGET, schema, error = failure.detail(), "the sweep is tried again");
    } else if let Some(suppressed) = log_limit(schema, "NotSwept") {
        let error = failure.detail();
        tracing::warn!(
            target: TARGET, schema = display(Escaped(schema)), error = display(Escaped(&error)), suppressed,
            "the sweep failed: locks and times to live of entities without a receiver end later; it is tried again"
        );
    }
}

/// A receive or an accept has no answer, and too many of these are given up already.
pub(crate) fn lock_left(entity: i64) {
    if let Some(suppressed) = log_limit("locks", "LockLeft") {
        tracing::warn!(
            target: TARGET, entity, suppressed,
            "too many calls have no answer: what this one may have locked becomes available when the lock ends"
        );
    }
}

/// Messages that were received and deleted have no receiver.
pub(crate) fn lost(entity: &str, messages: usize) {
    if messages > 0
        && let Some(suppressed) = log_limit(entity, "Lost")
    {
        let entity = display(Escaped(entity));
        tracing::warn!(
            target: TARGET, entity, messages, suppressed,
            "a receiver in the mode receive-and-delete was dropped: messages that had arrived are lost"
        );
    }
}

/// An unreadable row becomes a dead letter.
pub(crate) fn unreadable(entity: &str, id: i64, why: &str) {
    if let Some(suppressed) = log_limit(entity, "Unreadable") {
        let (entity, error) = (display(Escaped(entity)), display(Escaped(why)));
        tracing::warn!(target: TARGET, entity, id, error, suppressed, "a stored message cannot be read: it is dead-lettered");
    }
}

pub(crate) fn not_set_aside(entity: &str, id: i64, failure: &Failure) {
    if let Some(suppressed) = log_limit(entity, "NotSetAside") {
        let error = failure.detail();
        let (entity, error) = (display(Escaped(entity)), display(Escaped(&error)));
        tracing::warn!(
            target: TARGET, entity, id, error, suppressed,
            "a stored message that cannot be read was not dead-lettered: it is tried again when its lock ends"
        );
    }
}

/// As it was removed by its receive.
pub(crate) fn lost_unreadable(entity: &str, id: i64, failure: &Failure) {
    if let Some(suppressed) = log_limit(entity, "LostUnreadable") {
        let error = failure.detail();
        let (entity, error) = (display(Escaped(entity)), display(Escaped(&error)));
        tracing::warn!(
            target: TARGET, entity, id, error, suppressed,
            "a message that cannot be read was received and deleted, and was not dead-lettered: it is lost"
        );
    }
}

pub(crate) fn unreadable_rule(subscription: i64, rule: &str, why: &str) {
    if let Some(suppressed) = log_limit("rules", "UnreadableRule") {
        let (rule, error) = (display(Escaped(rule)), display(Escaped(why)));
        tracing::warn!(
            target: TARGET, subscription, rule, error, suppressed,
            "a rule cannot be read: its subscription gets dead letters only. Replace the rule, or update this process"
        );
    }
}

/// Messages to be forwarded stay in their entity. Failures of the connection or of a lock are transient.
pub(crate) fn not_forwarded(entity: i64, failure: &Failure) {
    if failure.is_temporary() {
        tracing::debug!(target: TARGET, entity, error = failure.detail(), "messages are not forwarded yet");
    } else if let Some(suppressed) = log_limit("forwards", "NotForwarded") {
        let error = failure.detail();
        tracing::warn!(
            target: TARGET, entity, error = display(Escaped(&error)), suppressed,
            "messages were not forwarded: it is tried again. Check the target"
        );
    }
}

/// Messages to be forwarded stay in their entity, by failures each of which is transient.
pub(crate) fn stalled(entity: i64, attempts: u32, failure: &Failure) {
    if let Some(suppressed) = log_limit("forwards", "Stalled") {
        let error = failure.detail();
        tracing::warn!(
            target: TARGET, entity, attempts, error = display(Escaped(&error)), suppressed,
            "several attempts to forward messages have failed: they stay in their entity, and it is tried again"
        );
    }
}

/// The size of an entity is unknown, or that of its last sum.
pub(crate) fn not_summed(entity: i64, failure: &Failure) {
    if let Some(suppressed) = log_limit("sums", "NotSummed") {
        let error = failure.detail();
        tracing::warn!(
            target: TARGET, entity, error = display(Escaped(&error)), suppressed,
            "an entity could not be summed up: until it is, sends are checked against its last sum, or not at all"
        );
    }
}

/// A send has waited in vain for the first sum of an entity.
pub(crate) fn not_checked(entity: i64) {
    if let Some(suppressed) = log_limit("sums", "NotChecked") {
        tracing::warn!(
            target: TARGET, entity, suppressed,
            "an entity could not be summed up in time, and there is no earlier sum: sends are not checked against its size"
        );
    }
}

pub(crate) fn copy_not_stored(subscription: i64, refused: &SendError) {
    if let Some(suppressed) = log_limit("copies", "NotStored") {
        let error = refused.to_string();
        tracing::warn!(
            target: TARGET, subscription, error = display(Escaped(&error)), suppressed,
            "a copy cannot be stored: its subscription gets the message as a dead letter"
        );
    }
}

/// The target of an entity has refused a message, or a dead letter.
pub(crate) fn target_unavailable(from: &str, target: &str, part: i16, refused: &SendError) {
    let (kind, what) = match part {
        0 => ("TargetUnavailable", "messages cannot be forwarded, and are dead-lettered"),
        _ => ("DeadTargetUnavailable", "dead letters cannot be forwarded, and stay until the target accepts them"),
    };
    if let Some(suppressed) = log_limit(from, kind) {
        let (entity, target_entity, error) = (display(Escaped(from)), display(Escaped(target)), refused.to_string());
        tracing::warn!(target: TARGET, entity, target_entity, error = display(Escaped(&error)), suppressed, "{what}");
    }
}

/// A message was forwarded as often as it may be.
pub(crate) fn too_many_hops(from: &str, target: &str) {
    if let Some(suppressed) = log_limit(from, "TooManyHops") {
        let (entity, target_entity) = (display(Escaped(from)), display(Escaped(target)));
        tracing::warn!(
            target: TARGET, entity, target_entity, suppressed,
            "messages were forwarded too often, and are dead letters that are not forwarded"
        );
    }
}

/// A message to be forwarded cannot be stored again.
pub(crate) fn not_stored(from: &str, target: &str, id: i64, refused: &SendError) {
    if let Some(suppressed) = log_limit(from, "NotStored") {
        let (entity, target_entity) = (display(Escaped(from)), display(Escaped(target)));
        let error = refused.to_string();
        tracing::warn!(
            target: TARGET, entity, target_entity, id, error = display(Escaped(&error)), suppressed,
            "a message cannot be forwarded: it is dead-lettered"
        );
    }
}
