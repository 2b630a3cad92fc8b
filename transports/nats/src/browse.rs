//! Reading and removing messages without a receiver.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use async_nats::jetstream::message::StreamMessage;
use consign_core::{
    Message,
    message::{MessageState, PropertyValue, Received, SequenceNumber},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{Lease, ManageError, SettleError},
};

use crate::{
    error::Fault,
    fetch::{fetch, subjects},
    message_notes::Note,
    read::{self, Origin, stored_at},
    session::session_of,
    source::{Place, Source},
};

/// Messages that a purge locks at once.
const BATCH: usize = 256;

/// Locks and completes up to `max` messages of an entity, and returns how many.
pub(crate) async fn purge(
    source: &Arc<Source>,
    max: usize,
    accepted_before: Option<Timestamp>,
) -> Result<usize, ManageError> {
    let managed = |error: SettleError| ManageError::new(error.kind()).with_source(error);
    let mut removed = 0;
    while removed < max {
        let batch = if accepted_before.is_some() { 1 } else { (max - removed).min(BATCH) };
        let there = fetch(source, batch).await?;
        if there.is_empty() {
            break;
        }
        for delivery in there {
            let stored = delivery.message.received().map(|received| received.enqueued_time);
            if accepted_before.is_some_and(|before| stored.is_some_and(|stored| stored >= before)) {
                Lease::release(delivery.lease).await.map_err(managed)?;
                return Ok(removed);
            }
            delivery.complete().await.map_err(managed)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Peeks the messages at some subjects of an entity.
pub(crate) async fn peek(source: &Source, at: &str, from: u64, max: usize) -> Result<Vec<Message>, Fault> {
    let beside = &source.beside;
    let mut found = Found { by_number: BTreeMap::new(), from, max };
    if source.is_dead_letter() {
        let dead = Look { state: MessageState::Active, notes: HashSet::new(), source };
        found.read_all(&beside.stream, &beside.any_dead(), &dead).await?;
    } else {
        let notes = subjects(source, &format!("{}.mark.>", beside.root())).await?.into_iter().collect::<HashSet<_>>();
        let active = Look { state: MessageState::Active, notes: notes.clone(), source };
        let mut next = from;
        while found.by_number.len() < max
            && let Some(message) = source.inner.next_at(&source.stream, at, next).await?
        {
            next = message.sequence + 1;
            found.insert(&message, &source.stream, &active).await?;
        }
        let deferred = Look { state: MessageState::Deferred, notes, source };
        found.read_all(&beside.stream, &beside.deferred('*'), &deferred).await?;
    }
    Ok(found.by_number.into_values().collect())
}

/// How messages are shown to a peek.
struct Look<'s> {
    state: MessageState,
    notes: HashSet<String>,
    source: &'s Source,
}

/// The first messages by number.
struct Found {
    by_number: BTreeMap<u64, Message>,
    from: u64,
    max: usize,
}

impl Found {
    async fn read_all(&mut self, stream: &str, subject: &str, look: &Look<'_>) -> Result<(), Fault> {
        let mut next = 1;
        while let Some(message) = look.source.inner.next_at(stream, subject, next).await? {
            next = message.sequence + 1;
            self.insert(&message, stream, look).await?;
        }
        Ok(())
    }

    async fn insert(&mut self, message: &StreamMessage, stream: &str, look: &Look<'_>) -> Result<(), Fault> {
        let (source, headers, payload) = (look.source, Some(&message.headers), message.payload.clone());
        let is_deferred = look.state == MessageState::Deferred;
        let origin = if is_deferred { Origin::Beside } else { source.origin(&message.subject) };
        let mut read = read::read(origin, headers, payload, message.sequence, stored_at(message), stream);
        if source.settings.requires_session
            && origin != Origin::Beside
            && let Some(id) = session_of(&message.subject)
        {
            read.in_session(&id);
        }
        let is_of_another =
            source.session_lock().is_some_and(|session_lock| read.message.session_id() != Some(session_lock.id()));
        if read.number < self.from || is_of_another {
            return Ok(());
        }
        let mut shown = read.message;
        if !source.is_dead_letter() {
            DeadLetter::remove_reason(&mut shown);
        }
        let mut failed = if source.is_dead_letter() { failures(&shown, read.count) } else { read.count };
        let place = match (look.state, &source.place) {
            (MessageState::Deferred, _) => Place::Deferred(read.number),
            (_, place) => place.clone(),
        };
        let subject = match shown.session_id() {
            Some(id) if source.settings.requires_session && look.state == MessageState::Active => {
                source.beside.mark_of_session(id, read.number)
            }
            _ => place.note(&source.beside, read.number),
        };
        if look.notes.contains(&subject)
            && let Some(found) = source.inner.peek_at(&source.beside.stream, &subject).await?
        {
            let note = Note::read(&found.headers, &found.payload, found.sequence);
            failed = failed.max(note.failed);
            shown.properties_mut().application_properties_mut().merge(note.changes);
        }
        let mut received = Received::new(SequenceNumber::new(read.number), read.enqueued, failed);
        received.state = look.state;
        received.dead_lettered = source.is_dead_letter();
        self.by_number.insert(read.number, shown.with_received(received));
        if self.by_number.len() > self.max {
            self.by_number.pop_last();
        }
        Ok(())
    }
}

/// The failed deliveries of a dead letter. The delivery that dead-lettered it is stored too, and has failed only if it was the
/// last one.
fn failures(dead: &Message, deliveries: u32) -> u32 {
    let reason = dead.application_properties().get(DeadLetter::REASON).and_then(PropertyValue::as_str);
    match reason {
        Some(reason) if reason == DeadLetterReason::MaxDeliveryCountExceeded.as_str() => deliveries,
        _ => deliveries.saturating_sub(1),
    }
}
