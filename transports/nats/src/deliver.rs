//! A message of JetStream as a delivery.

use std::sync::Arc;

use async_nats::Subject;
use consign_core::{
    message::{Received, SequenceNumber},
    settlement::DeadLetter,
    transport::SettleError,
};
use tokio::time::Instant;

use crate::{
    error::Fault,
    held::{Held, Lock},
    log,
    message_notes::Note,
    read::{self, Facts},
    session_lock::Kept,
    settle,
    source::{Place, Source},
    wire::{Malformed, name},
};

/// The result of a message that arrived.
pub(crate) enum Arrival {
    Held(Box<Held>),
    /// It was dead-lettered, because it cannot be delivered.
    Buried,
}

/// Returns whether a message can be delivered without a further request to the server.
pub(crate) fn is_simple(source: &Source, reply: Option<&Subject>) -> bool {
    match source.place {
        Place::Main => reply.is_some_and(|reply| is_first(reply)),
        Place::Session(_) => true,
        Place::DeadLetter | Place::Deferred(_) => false,
    }
}

/// Returns whether this is the first delivery of a message.
fn is_first(reply: &str) -> bool {
    let mut tokens = reply.split('.').skip(2);
    // Without a domain the fourth token is a consumer, and the fifth the deliveries.
    let count = tokens.clone().count();
    let deliveries = if count == 7 { tokens.nth(2) } else { tokens.nth(4) };
    deliveries == Some("1")
}

/// Returns a message as a delivery, if no further request is needed. An error names a header that cannot be read.
pub(crate) fn simple(
    source: &Arc<Source>,
    message: async_nats::Message,
    until: Instant,
) -> Result<(Box<Held>, Option<Malformed>), Fault> {
    let (facts, reply) = read::facts(&message)?;
    let note = source.session_lock().and_then(|session_lock| session_lock.note(facts.number));
    Ok(held(source, message, facts, reply, note, until))
}

/// Returns whether a message is the next one of its session, if it has one.
pub(crate) fn is_in_order(source: &Source, message: &async_nats::Message) -> Result<bool, Fault> {
    let Some(session_lock) = source.session_lock() else { return Ok(true) };
    let (facts, _) = read::facts(message)?;
    Ok(session_lock.arrived(facts.delivered))
}

/// Dead-letters a message with a header that cannot be read.
pub(crate) async fn bury_malformed(held: Box<Held>, malformed: Malformed) -> Result<Arrival, Fault> {
    let why = malformed.why();
    log::dead_lettered(&held.source.settings.path, &why);
    let buried = settle::bury(&held, why).await;
    is_buried(&held, buried).await
}

/// Returns a message as a delivery, with its records beside the entity.
pub(crate) async fn arrive(
    source: &Arc<Source>,
    message: async_nats::Message,
    until: Instant,
) -> Result<Arrival, Fault> {
    let (facts, reply) = read::facts(&message)?;
    let number = match source.place {
        Place::Deferred(number) => number,
        Place::DeadLetter => number_of(&message).unwrap_or(facts.number),
        Place::Main | Place::Session(_) => facts.number,
    };
    let note = if facts.deliveries > 1 { source.note(number).await? } else { None };
    let (held, malformed) = held(source, message, facts, reply, note, until);
    if let Some(malformed) = malformed.filter(|_| !source.is_dead_letter()) {
        return bury_malformed(held, malformed).await;
    }
    if source.is_dead_letter() { Ok(Arrival::Held(held)) } else { bury_exhausted(held).await }
}

/// Dead-letters a message that has reached its delivery count.
pub(crate) async fn bury_exhausted(held: Box<Held>) -> Result<Arrival, Fault> {
    if held.count <= held.source.settings.max_delivery_count {
        return Ok(Arrival::Held(held));
    }
    let buried = settle::buried_by_count(&held, consign_core::message::ApplicationProperties::new()).await;
    is_buried(&held, buried).await
}

/// Gives a message back that could not be dead-lettered, because no receiver is delivered it and can do so.
async fn is_buried(held: &Held, buried: Result<(), SettleError>) -> Result<Arrival, Fault> {
    let Err(error) = buried else { return Ok(Arrival::Buried) };
    if !error.is_lock_lost() {
        log::failed(&held.source.settings.path, "a message was not dead-lettered: it is tried again", &error);
        settle::not_buried(held).await;
    }
    Err(Fault::new(error.kind(), error.to_string()))
}

fn number_of(message: &async_nats::Message) -> Option<u64> {
    message.headers.as_ref()?.get(name::SEQUENCE_NUMBER)?.as_str().parse().ok()
}

fn held(
    source: &Arc<Source>,
    message: async_nats::Message,
    facts: Facts,
    reply: Subject,
    note: Option<Note>,
    until: Instant,
) -> (Box<Held>, Option<Malformed>) {
    let headers = message.headers.as_ref();
    let origin = source.origin(&message.subject);
    let mut read = read::read(origin, headers, message.payload, facts.number, facts.stored, &source.stream);
    if let Some(session_lock) = source.session_lock() {
        read.in_session(session_lock.id());
    }
    source.inner.returned.remove(source.names(), read.number);
    // The server counts each delivery toward the maximum of a consumer that is wrapped, a released one too.
    let counts_all = source.is_wrapped && source.settings.max_delivery_count < u32::MAX;
    let uncounted = note.as_ref().filter(|_| !counts_all).map_or(0, |note| note.uncounted);
    let counted = u32::try_from(facts.deliveries.saturating_sub(uncounted).max(1)).unwrap_or(u32::MAX);
    let count = match source.place {
        Place::Main => counted,
        Place::DeadLetter => read.count.max(1),
        Place::Deferred(_) => read.count.saturating_add(counted),
        Place::Session(_) => note.as_ref().map_or(0, |note| note.failed).saturating_add(1),
    };
    let mut message = read.message;
    if !source.is_dead_letter() {
        // Another client may have set them.
        DeadLetter::remove_reason(&mut message);
    }
    if let Some(note) = note.as_ref().filter(|note| !note.changes.is_empty()) {
        message.properties_mut().application_properties_mut().merge(note.changes.clone());
    }
    let left = match source.session_lock() {
        Some(session_lock) => session_lock.until(),
        None => until,
    };
    let mut received = Received::new(SequenceNumber::new(read.number), read.enqueued, count);
    let left = left.saturating_duration_since(Instant::now());
    received.locked_until = Some(source.inner.now().saturating_add(left));
    received.dead_lettered = source.is_dead_letter();
    let held = Held {
        source: Arc::clone(source),
        message: message.with_received(received),
        reply,
        number: read.number,
        count,
        note,
        foreign: read.foreign,
        lock: Lock::new(until),
        watched: None,
    };
    (Box::new(held), read.malformed)
}

/// Returns a returned message of a session for its next delivery.
pub(crate) fn anew(source: &Arc<Source>, kept: Kept) -> Box<Held> {
    let Kept { mut message, reply, number, foreign } = kept;
    let note = source.session_lock().and_then(|session_lock| session_lock.note(number));
    let count = note.as_ref().map_or(0, |note| note.failed).saturating_add(1);
    if let Some(note) = note.as_ref().filter(|note| !note.changes.is_empty()) {
        message.properties_mut().application_properties_mut().merge(note.changes.clone());
    }
    if let Some(mut received) = message.received().copied() {
        let left = source.session_lock().map_or_else(Instant::now, |session_lock| session_lock.until());
        let left = left.saturating_duration_since(Instant::now());
        received.locked_until = Some(source.inner.now().saturating_add(left));
        received.delivery_count = count;
        message = message.with_received(received);
    }
    let lock = Lock::new(Instant::now() + source.settings.lock());
    let source = Arc::clone(source);
    Box::new(Held { message, note, count, lock, source, reply, number, foreign, watched: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_delivery_is_known_by_both_forms_of_an_acknowledgement() {
        for (form, first) in [
            ("$JS.ACK.stream.consumer.3.7.9.1700000000123456789.0", false),
            ("$JS.ACK._.account.stream.consumer.3.7.9.1700000000123456789.0.token", false),
            ("$JS.ACK.stream.consumer.1.7.9.1700000000123456789.0", true),
            ("$JS.ACK._.account.stream.consumer.1.7.9.1700000000123456789.0", true),
        ] {
            assert_eq!(is_first(form), first, "{form}");
        }
    }
}
