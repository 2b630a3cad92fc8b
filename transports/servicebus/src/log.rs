//! The log lines of this transport. None has a key, a token or a part of a message.

use std::{fmt, time::Duration};

use consign_core::{
    message::EntityPath,
    transport::{Escaped, log_limit, log_limit_info},
};

/// The target of all lines.
const TARGET: &str = "consign::servicebus";

pub(crate) fn not_connected(server: &str, error: &impl fmt::Display, pause: Duration) {
    if let Some(suppressed) = log_limit(server, "NotConnected") {
        let (error, retry_in_ms) = (error.to_string(), u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        let error = tracing::field::display(Escaped(&error));
        tracing::warn!(target: TARGET, server, error, retry_in_ms, suppressed, "connecting failed: it is tried again after a pause");
    }
}

pub(crate) fn connected(server: &str, failures: u32) {
    if let Some(suppressed) = log_limit_info(server, "Connected") {
        tracing::info!(target: TARGET, server, failures, suppressed, "connected again");
    }
}

/// A token could not be renewed. Links are detached when the one before expires.
pub(crate) fn not_authorized(audience: &str, error: &impl fmt::Display) {
    if let Some(suppressed) = log_limit(audience, "NotAuthorized") {
        let error = error.to_string();
        let error = tracing::field::display(Escaped(&error));
        tracing::warn!(target: TARGET, audience, error, suppressed, "a token was not renewed: it is tried again after a pause");
    }
}

/// A token has expired. Links are detached.
pub(crate) fn expired(audience: &str) {
    if let Some(suppressed) = log_limit(audience, "TokenExpired") {
        tracing::warn!(target: TARGET, audience, suppressed, "a token has expired, and the credential had no later one");
    }
}

/// An operation on an entity failed and continues by itself, or an operator has to act. `what` is from a closed list.
pub(crate) fn failed(path: &EntityPath, what: &'static str, error: &impl fmt::Display) {
    if let Some(suppressed) = log_limit(path.as_str(), what) {
        let error = error.to_string();
        let (entity, error) =
            (tracing::field::display(Escaped(path.as_str())), tracing::field::display(Escaped(&error)));
        tracing::warn!(target: TARGET, entity, error, suppressed, "{what}");
    }
}

/// An operator should know about an entity. `what` is from a closed list.
pub(crate) fn warn(path: &EntityPath, what: &'static str) {
    if let Some(suppressed) = log_limit(path.as_str(), what) {
        let entity = tracing::field::display(Escaped(path.as_str()));
        tracing::warn!(target: TARGET, entity, suppressed, "{what}");
    }
}

/// Messages that were removed from the broker, and that no caller has got.
pub(crate) fn lost(path: &EntityPath, messages: usize) {
    if let Some(suppressed) = log_limit(path.as_str(), "Lost") {
        let entity = tracing::field::display(Escaped(path.as_str()));
        tracing::warn!(target: TARGET, entity, messages, suppressed, "a receiver in the mode receive-and-delete was dropped: messages that had arrived are lost");
    }
}
