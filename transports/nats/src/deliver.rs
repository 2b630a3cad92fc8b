//! A message of JetStream as a delivery.

use std::sync::Arc;

use async_nats::{HeaderMap, Subject};
use bytes::Bytes;
use consign_core::{
    Message,
    message::{Received, SequenceNumber},
    settlement::DeadLetter,
    time::Timestamp,
    transport::ErrorKind,
};
use tokio::time::Instant;

use crate::{
    copies,
    error::Fault,
    held::{Held, Lock},
    message_notes::Note,
    settle,
    source::{Place, Source},
    wire::{self, Malformed, name},
};

/// The result of a message that arrived.
pub(crate) enum Arrival {
    Held(Box<Held>),
    /// It was dead-lettered, because it cannot be delivered.
    Buried,
}

/// The server's facts of a delivery, in the subject at which it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) deliveries: u64,
    pub(crate) number: u64,
    /// How many the consumer has delivered by then.
    pub(crate) delivered: u64,
    pub(crate) stored: Timestamp,
}

impl Facts {
    /// `$JS.ACK.stream.consumer.deliveries.number.of-consumer.nanoseconds.pending`, or with domain and account behind `ACK`.
    pub(crate) fn read(reply: &str) -> Option<Self> {
        let tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let tokens = match tokens.len() {
            7 => &tokens[2..],
            9.. => &tokens[4..],
            _ => return None,
        };
        let nanos: i64 = tokens[3].parse().ok()?;
        Some(Self {
            deliveries: tokens[0].parse().ok()?,
            number: tokens[1].parse().ok()?,
            delivered: tokens[2].parse().ok()?,
            stored: Timestamp::from_millis(nanos / 1_000_000),
        })
    }
}

/// A message that was read from a stream, and what copies have in their headers.
pub(crate) struct Read {
    pub(crate) message: Message,
    pub(crate) number: u64,
    pub(crate) enqueued: Timestamp,
    /// Deliveries when the copy was made.
    pub(crate) count: u32,
    pub(crate) malformed: Option<Malformed>,
    /// Headers of other clients, which are written to copies of the message.
    pub(crate) foreign: HeaderMap,
}

pub(crate) fn read(headers: Option<&HeaderMap>, payload: Bytes, number: u64, stored: Timestamp, stream: &str) -> Read {
    let said = |name| headers.and_then(|headers| headers.get(name)?.as_str().parse::<i64>().ok());
    let number = said(name::SEQUENCE_NUMBER).and_then(|number| u64::try_from(number).ok()).unwrap_or(number);
    let enqueued = said(name::ENQUEUED_TIME).map_or(stored, Timestamp::from_millis);
    let count = said(name::DELIVERY_COUNT).and_then(|count| u32::try_from(count).ok()).unwrap_or_default();
    let (mut message, mut malformed) = match wire::decode(headers, payload.clone()) {
        Ok(message) => (message, None),
        Err(malformed) => (wire::bare(headers, payload), Some(malformed)),
    };
    if message.properties_mut().fit() {
        malformed.get_or_insert(Malformed::TooLarge);
    }
    if message.message_id().is_none() {
        let id = format!("{stream}-{number}");
        // A name that is too long for an id has an end that is not.
        let start = id.len().saturating_sub(128);
        let _ = message.properties_mut().stamp_message_id(id.get(start..).unwrap_or_default().to_owned());
    }
    let mut foreign = HeaderMap::new();
    copies::foreign(headers, &mut foreign);
    Read { message, number, enqueued, count, malformed, foreign }
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
    let (facts, reply) = facts(&message)?;
    let note = source.session_lock().and_then(|session_lock| {
        session_lock.arrived();
        session_lock.note(facts.number)
    });
    Ok(held(source, message, facts, reply, note, until))
}

/// Dead-letters a message with a header that cannot be read.
pub(crate) async fn bury_malformed(held: Box<Held>, malformed: Malformed) -> Result<Arrival, Fault> {
    settle::bury(&held, malformed.why()).await.map_err(|error| again(&error))?;
    Ok(Arrival::Buried)
}

/// Returns a message as a delivery, with its records beside the entity.
pub(crate) async fn arrive(
    source: &Arc<Source>,
    message: async_nats::Message,
    until: Instant,
) -> Result<Arrival, Fault> {
    let (facts, reply) = facts(&message)?;
    let number = match source.place {
        Place::Deferred(number) => number,
        Place::DeadLetter => number_of(&message).unwrap_or(facts.number),
        Place::Main | Place::Session(_) => facts.number,
    };
    let note = match source.session_lock() {
        Some(session_lock) => {
            session_lock.arrived();
            session_lock.note(number)
        }
        None if facts.deliveries > 1 => Note::of(source, number).await?,
        None => None,
    };
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
    settle::buried_by_count(&held, consign_core::message::ApplicationProperties::new())
        .await
        .map_err(|error| again(&error))?;
    Ok(Arrival::Buried)
}

fn again(error: &consign_core::transport::SettleError) -> Fault {
    Fault::new(error.kind(), error.to_string())
}

fn number_of(message: &async_nats::Message) -> Option<u64> {
    message.headers.as_ref()?.get(name::SEQUENCE_NUMBER)?.as_str().parse().ok()
}

pub(crate) fn facts(message: &async_nats::Message) -> Result<(Facts, Subject), Fault> {
    let reply = message.reply.clone();
    let facts = reply.as_ref().and_then(|reply| Facts::read(reply));
    match (facts, reply) {
        (Some(facts), Some(reply)) => Ok((facts, reply)),
        _ => Err(Fault::new(ErrorKind::General, "the server delivered something that cannot be acknowledged")),
    }
}

fn held(
    source: &Arc<Source>,
    message: async_nats::Message,
    facts: Facts,
    reply: Subject,
    note: Option<Note>,
    until: Instant,
) -> (Box<Held>, Option<Malformed>) {
    let read = read(message.headers.as_ref(), message.payload, facts.number, facts.stored, &source.stream);
    source.inner.returned.remove(source, read.number);
    let uncounted = note.as_ref().map_or(0, |note| note.uncounted);
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
pub(crate) fn anew(held: Held) -> Box<Held> {
    let source = held.source;
    let note = source.session_lock().and_then(|session_lock| session_lock.note(held.number));
    let count = note.as_ref().map_or(0, |note| note.failed).saturating_add(1);
    let mut message = held.message;
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
    let (reply, number, foreign) = (held.reply, held.number, held.foreign);
    Box::new(Held { message, note, count, lock, source, reply, number, foreign, watched: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_an_acknowledgement_are_read() {
        let facts = Facts { deliveries: 3, number: 7, delivered: 9, stored: Timestamp::from_millis(1_700_000_000_123) };
        let (old, new) = (
            "$JS.ACK.stream.consumer.3.7.9.1700000000123456789.0",
            "$JS.ACK._.account.stream.consumer.3.7.9.1700000000123456789.0.token",
        );
        assert_eq!((Facts::read(old), Facts::read(new)), (Some(facts), Some(facts)));
        assert!(!is_first(old) && !is_first(new));
        assert!(is_first("$JS.ACK.stream.consumer.1.7.9.1700000000123456789.0"));
        assert!(is_first("$JS.ACK._.account.stream.consumer.1.7.9.1700000000123456789.0"));
        for bad in ["", "$JS.ACK.a.b.c", "$JS.ACK.stream.consumer.x.7.9.1.0", "other.stream.consumer.3.7.9.1.0"] {
            assert_eq!(Facts::read(bad), None, "{bad}");
        }
    }
}
