//! The log lines of a relay. No line has a body or the address of the database.

use std::{fmt, time::Duration};

use consign_core::transport::{Escaped, log_limit};

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

/// A destination does not take messages. Its messages wait.
pub(crate) fn delayed(destination: &str, error: &str, pause: Duration) {
    if let Some(suppressed) = log_limit(destination, "OutboxDelayed") {
        let retry_in_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let (destination, error) =
            (tracing::field::display(Escaped(destination)), tracing::field::display(Escaped(error)));
        tracing::warn!(target: TARGET, destination, error, retry_in_ms, suppressed, "a message of the outbox was not sent: it is sent again after a pause");
    }
}

/// The relay has no connection to the database.
pub(crate) fn disconnected(error: &impl fmt::Display, pause: Duration) {
    if let Some(suppressed) = log_limit("outbox", "OutboxDisconnected") {
        let (error, retry_in_ms) = (error.to_string(), u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        let error = tracing::field::display(Escaped(&error));
        tracing::warn!(target: TARGET, error, retry_in_ms, suppressed, "the relay of the outbox has lost its database: it connects again after a pause");
    }
}
