//! The log lines of this transport. No line has the address of the server as the user gave it: it may hold a password.

use std::{fmt, time::Duration};

use consign_core::{
    message::EntityPath,
    settlement::DeadLetter,
    transport::{Escaped, log_limit, log_limit_info},
};
use lapin::uri::AMQPUri;

use crate::wire::Malformed;

/// The target of all lines.
const TARGET: &str = "consign::rabbitmq";

/// Host and port.
pub(crate) fn server(uri: &AMQPUri) -> String {
    Escaped(&format!("{}:{}", uri.authority.host, uri.authority.port)).to_string()
}

pub(crate) fn lost(uri: &AMQPUri) {
    let server = server(uri);
    if let Some(suppressed) = log_limit(&server, "ConnectionLost") {
        tracing::warn!(target: TARGET, server, suppressed, "the connection was lost: the client reconnects");
    }
}

/// `reason` is in the words of the server.
pub(crate) fn blocked(server: &str, reason: &str) {
    if let Some(suppressed) = log_limit(server, "Blocked") {
        let reason = tracing::field::display(Escaped(reason));
        tracing::warn!(target: TARGET, server, reason, suppressed, "RabbitMQ has blocked the connection: it reads nothing of it until its alarm ends");
    }
}

pub(crate) fn unblocked(server: &str) {
    if let Some(suppressed) = log_limit_info(server, "Unblocked") {
        tracing::info!(target: TARGET, server, suppressed, "RabbitMQ reads the connection again");
    }
}

pub(crate) fn unusable(uri: &AMQPUri) {
    let server = server(uri);
    if let Some(suppressed) = log_limit(&server, "Unusable") {
        tracing::warn!(target: TARGET, server, suppressed, "the server opens no channel in time: the client connects anew");
    }
}

pub(crate) fn not_connected(uri: &AMQPUri, error: &impl fmt::Display, pause: Duration) {
    let server = server(uri);
    if let Some(suppressed) = log_limit(&server, "NotConnected") {
        let (error, retry_in_ms) = (error.to_string(), u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        let error = tracing::field::display(Escaped(&error));
        tracing::warn!(target: TARGET, server, error, retry_in_ms, suppressed, "connecting failed: it is tried again after a pause");
    }
}

pub(crate) fn next_server(uri: &AMQPUri, error: &impl fmt::Display) {
    let server = server(uri);
    if let Some(suppressed) = log_limit(&server, "NextServer") {
        let error = error.to_string();
        let error = tracing::field::display(Escaped(&error));
        tracing::warn!(target: TARGET, server, error, suppressed, "connecting failed: the next server is tried");
    }
}

pub(crate) fn connected(uri: &AMQPUri, failures: u32) {
    let server = server(uri);
    if let Some(suppressed) = log_limit_info(&server, "Connected") {
        tracing::info!(target: TARGET, server, failures, suppressed, "connected again");
    }
}

/// An operation on a channel of the user has no answer. `what` is from a closed list.
pub(crate) fn unanswered(what: &'static str, deadline: Duration) {
    if let Some(suppressed) = log_limit(what, "Unanswered") {
        let after_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(
            target: TARGET,
            what,
            after_ms,
            suppressed,
            "the broker did not answer: messages may stay locked until the wrapped channel is closed"
        );
    }
}

/// An operation on an entity failed and continues by itself. `what` is from a closed list.
pub(crate) fn failed(path: &EntityPath, what: &'static str, error: &impl fmt::Display) {
    if let Some(suppressed) = log_limit(path.as_str(), what) {
        let error = error.to_string();
        let (entity, error) =
            (tracing::field::display(Escaped(path.as_str())), tracing::field::display(Escaped(&error)));
        tracing::warn!(target: TARGET, entity, error, suppressed, "{what}");
    }
}

/// No receiver is delivered a message that this transport dead-letters, so no other line names it.
pub(crate) fn dead_lettered(path: &EntityPath, why: &DeadLetter) {
    if let Some(suppressed) = log_limit(path.as_str(), "DeadLettered") {
        let (entity, reason) =
            (tracing::field::display(Escaped(path.as_str())), tracing::field::display(why.reason.as_str()));
        tracing::warn!(target: TARGET, entity, reason, suppressed, "a message cannot be delivered: it is dead-lettered");
    }
}

pub(crate) fn wrong_slot(path: &EntityPath, queue: &str) {
    if let Some(suppressed) = log_limit(path.as_str(), "WrongSlot") {
        let (entity, queue) =
            (tracing::field::display(Escaped(path.as_str())), tracing::field::display(Escaped(queue)));
        tracing::warn!(
            target: TARGET, entity, queue, suppressed,
            "another client publishes messages of sessions to a wrong slot: they are moved. Correct its slot, see the README"
        );
    }
}

/// A message is delivered without a part, or with its payload as bytes.
pub(crate) fn malformed(entity: &str, malformed: &Malformed) {
    let Malformed { part, cause } = malformed;
    if let Some(suppressed) = log_limit(entity, part) {
        let (entity, error) = (tracing::field::display(Escaped(entity)), tracing::field::display(cause));
        tracing::warn!(target: TARGET, entity, header = part, error, suppressed, "a part of a message cannot be decoded: the message is delivered without it");
    }
}

/// A redelivery that neither the queue nor a property counts. A correct program has some after a shutdown.
pub(crate) fn uncounted(queue: Option<&str>) {
    if let Some(suppressed) = log_limit_info(queue.unwrap_or(""), "Uncounted") {
        let entity = queue.map(|queue| tracing::field::display(Escaped(queue)));
        tracing::info!(target: TARGET, entity, suppressed, "a message was redelivered, and not counted by its queue");
    }
}

/// The headers of a copy would exceed one frame with the history of the message.
pub(crate) fn history_left_out(queue: &str, error: &impl std::fmt::Display) {
    if let Some(suppressed) = log_limit_info(queue, "HistoryLeftOut") {
        let error = error.to_string();
        let (entity, error) = (tracing::field::display(Escaped(queue)), tracing::field::display(Escaped(&error)));
        tracing::info!(target: TARGET, entity, error, suppressed, "the history of a message does not fit into its copy, which begins without x-death");
    }
}

/// An entity of another program, for which the defaults are used.
pub(crate) fn no_settings(path: &EntityPath) {
    if let Some(suppressed) = log_limit(path.as_str(), "NoSettings") {
        let entity = tracing::field::display(Escaped(path.as_str()));
        tracing::warn!(target: TARGET, entity, suppressed, "the entity has no settings on the server: the defaults apply. Declare it, or set them by RabbitMq::register_queue");
    }
}

/// Dead letters go to the dead-letter exchange of a queue that another program created.
pub(crate) fn dead_letter_exchange(path: &EntityPath, exchange: &str) {
    if let Some(suppressed) = log_limit_info(path.as_str(), "DeadLetterExchange") {
        let (entity, exchange) =
            (tracing::field::display(Escaped(path.as_str())), tracing::field::display(Escaped(exchange)));
        tracing::info!(target: TARGET, entity, exchange, suppressed, "the queue is of another program: its dead letters go to its own dead-letter exchange");
    }
}
