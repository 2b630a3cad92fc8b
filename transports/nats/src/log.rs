//! The log lines of this transport. No line has the address of the server as the user gave it: it may hold a password.

use std::fmt;

use consign_core::{
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Escaped, log_limit, log_limit_info},
};

/// The target of all lines.
const TARGET: &str = "consign::nats";

pub(crate) fn lost(entity: &str) {
    if let Some(suppressed) = log_limit(entity, "ConnectionLost") {
        let entity = tracing::field::display(Escaped(entity));
        tracing::warn!(target: TARGET, entity, suppressed, "the connection was lost: the client reconnects");
    }
}

pub(crate) fn connected(entity: &str) {
    if let Some(suppressed) = log_limit_info(entity, "Connected") {
        let entity = tracing::field::display(Escaped(entity));
        tracing::info!(target: TARGET, entity, suppressed, "connected again");
    }
}

/// The server may acknowledge a message that is not on its disk.
pub(crate) fn unsynced(server: &str, version: &str, remedy: &'static str) {
    if let Some(suppressed) = log_limit(server, "Unsynced") {
        let (server, version) = (tracing::field::display(Escaped(server)), tracing::field::display(Escaped(version)));
        tracing::warn!(
            target: TARGET,
            server,
            version,
            suppressed,
            "the server may acknowledge a message before it is on the disk: a power loss may lose messages of the last two \
             minutes. Configure {remedy}, and then set Options::server_syncs, because no client can read the setting"
        );
    }
}

/// The server refuses a publish or a subscription of this user. `entity` is the beginning of the subject.
pub(crate) fn refused(entity: &str, why: &str) {
    if let Some(suppressed) = log_limit(entity, "Refused") {
        let (entity, why) = (tracing::field::display(Escaped(entity)), tracing::field::display(Escaped(why)));
        tracing::warn!(target: TARGET, entity, why, suppressed, "the server does not permit a subject: the call gets no answer");
    }
}

/// An operation on an entity failed and continues by itself. `what` is from a closed list.
pub(crate) fn failed(entity: &str, what: &'static str, error: &impl fmt::Display) {
    if let Some(suppressed) = log_limit(entity, what) {
        let error = error.to_string();
        let (entity, error) = (tracing::field::display(Escaped(entity)), tracing::field::display(Escaped(&error)));
        tracing::warn!(target: TARGET, entity, error, suppressed, "{what}");
    }
}

/// Messages that were acknowledged, and that no receive has returned.
pub(crate) fn removed(entity: &str, messages: usize) {
    if let Some(suppressed) = log_limit(entity, "Removed") {
        let entity = tracing::field::display(Escaped(entity));
        tracing::warn!(target: TARGET, entity, messages, suppressed, "a receiver in the mode receive-and-delete was dropped: messages that it had acknowledged may be lost");
    }
}

/// No receiver is delivered a message that this transport dead-letters, so no other line names it.
pub(crate) fn dead_lettered(entity: &str, why: &DeadLetter) {
    if let Some(suppressed) = log_limit(entity, "DeadLettered") {
        let (entity, reason) = (tracing::field::display(Escaped(entity)), tracing::field::display(why.reason.as_str()));
        let description = tracing::field::display(Escaped(&why.description));
        tracing::warn!(target: TARGET, entity, reason, description, suppressed, "a message cannot be delivered: it is dead-lettered");
    }
}

/// A message of core NATS whose headers cannot be read. `why` is the reason and the description of a dead letter, which core
/// NATS does not have.
pub(crate) fn malformed(subject: &str, why: &DeadLetter, is_refused: bool) {
    if let Some(suppressed) = log_limit(subject, "Malformed") {
        let (entity, reason) =
            (tracing::field::display(Escaped(subject)), tracing::field::display(why.reason.as_str()));
        let description = tracing::field::display(Escaped(&why.description));
        let is_too_large = why.reason == DeadLetterReason::HeaderSizeExceeded;
        let problem = if is_too_large { "exceed the limits" } else { "cannot be read" };
        let result = match (is_refused, is_too_large) {
            (true, _) => "the request is refused",
            (false, true) => "it is delivered without the largest ones",
            (false, false) => "it is delivered with its headers as properties",
        };
        tracing::warn!(
            target: TARGET,
            entity,
            reason,
            description,
            suppressed,
            "the headers of a message of core NATS {problem}: {result}"
        );
    }
}
