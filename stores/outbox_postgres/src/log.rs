//! The log lines of a relay. No line has a body or the URL of the database.

use std::{fmt, time::Duration};

use consign_core::transport::{Escaped, log_limit};

use crate::relay::Delayed;

/// The target of all lines.
const TARGET: &str = "consign::outbox";

/// A message was refused for good, and stays in the table.
pub(crate) fn refused(destination: &str, message_id: &str, row: i64, error: &str) {
    if let Some(suppressed) = log_limit(destination, "OutboxRefused") {
        let (destination, message_id) =
            (tracing::field::display(Escaped(destination)), tracing::field::display(Escaped(message_id)));
        let error = tracing::field::display(Escaped(error));
        tracing::warn!(target: TARGET, destination, message_id, row, error, suppressed, "a message of the outbox was refused: it stays in the table. See Outbox::refused");
    }
}

/// A destination does not take messages, or the row of a message is locked. Its messages wait.
pub(crate) fn delayed(delayed: &Delayed) {
    let Delayed { destination, session, failure, pause } = delayed;
    if let Some(suppressed) = log_limit(destination, "OutboxDelayed") {
        let retry_in_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let shown = |text| tracing::field::display(Escaped(text));
        let (destination, session) = (shown(destination), session.as_deref().map(shown));
        let (message_id, error) = (shown(&failure.message_id), shown(&failure.error));
        let (row, attempts) = (failure.row, failure.attempts);
        tracing::warn!(target: TARGET, destination, session, message_id, row, attempts, error, retry_in_ms, suppressed, "a message of the outbox was not sent, or its row is locked: it is tried again after a pause. See Outbox::failing");
    }
}

/// Messages were sent, and their rows could not be deleted.
pub(crate) fn not_recorded(error: &impl fmt::Display) {
    if let Some(suppressed) = log_limit("outbox", "OutboxNotRecorded") {
        let error = error.to_string();
        let error = tracing::field::display(Escaped(&error));
        tracing::warn!(target: TARGET, error, suppressed, "the results of sends could not be recorded in the table of the outbox: these messages are sent again after a pause");
    }
}

/// The database failed, or there is no connection to it.
pub(crate) fn disconnected(error: &impl fmt::Display, pause: Duration) {
    if let Some(suppressed) = log_limit("outbox", "OutboxDisconnected") {
        let (error, retry_in_ms) = (error.to_string(), u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        let error = tracing::field::display(Escaped(&error));
        tracing::warn!(target: TARGET, error, retry_in_ms, suppressed, "the database of the outbox failed: the relay connects again after a pause");
    }
}

/// Another connection has the lock of the table, and does nothing.
pub(crate) fn locked(holder: i32, idle: Duration) {
    if let Some(suppressed) = log_limit("outbox", "OutboxLocked") {
        let idle_for_s = idle.as_secs();
        tracing::warn!(target: TARGET, holder, idle_for_s, suppressed, "messages of the outbox wait, and the connection that has its lock does nothing: end that process of the server if its relay is gone");
    }
}
