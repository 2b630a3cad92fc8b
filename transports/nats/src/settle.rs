//! Settlements on JetStream.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use consign_core::{
    Disposition, Message,
    message::{ApplicationProperties, limits},
    settlement::{Changes, DeadLetter},
    transport::{ErrorKind, SettleError},
};

use crate::{
    dead_letter,
    error::Fault,
    held::Held,
    message_notes::Note,
    read::Read,
    source::{Place, Source},
    wire::{self, name, nanos},
};

const ACK: &[u8] = b"+ACK";
const NAK: &[u8] = b"-NAK";
const TERM: &[u8] = b"+TERM";

pub(crate) async fn settle(held: Box<Held>, disposition: Disposition) -> Result<(), SettleError> {
    let settled = match disposition {
        Disposition::Complete => complete(&held).await,
        Disposition::Abandon(changes) => return abandon(held, changes, None).await,
        Disposition::DeadLetter(dead_letter) => bury(&held, *dead_letter).await,
        Disposition::Defer(changes) => defer(&held, changes).await,
    };
    if settled.is_err() {
        not_settled(*held);
    }
    settled
}

/// The server does not redeliver a message of a session while the session is held, and later messages would pass it.
fn not_settled(held: Held) {
    if let Some(session_lock) = held.source.session_lock().filter(|session_lock| !session_lock.is_lost()).cloned() {
        let mut note = held.note.clone().unwrap_or_default();
        note.failed = held.count;
        session_lock.returned(held.into(), note);
    }
}

/// How long a message that could not be dead-lettered waits for the next attempt.
const AGAIN: Duration = Duration::from_secs(1);

/// Gives back a message that could not be dead-lettered on its arrival. In a session later messages would pass it, so that is
/// given up.
pub(crate) async fn not_buried(held: &Held) {
    // If this fails too, its lock ends.
    let _ = match held.source.session_lock() {
        Some(session_lock) => session_lock.close().await,
        None => give_back(held, Some(AGAIN)).await,
    };
}

async fn complete(held: &Held) -> Result<(), SettleError> {
    held.take()?;
    held.tell(ACK).await?;
    forget(held).await;
    Ok(())
}

/// Abandons the message, and counts the delivery. After the last one it is dead-lettered.
pub(crate) async fn abandon(held: Box<Held>, changes: Changes, delay: Option<Duration>) -> Result<(), SettleError> {
    held.take()?;
    let mut changes = changes.into_permitted();
    let is_last = held.count >= held.source.settings.max_delivery_count;
    if is_last && !held.source.is_dead_letter() {
        let buried = buried_by_count(&held, changes).await;
        if buried.is_err() {
            not_settled(*held);
        }
        return buried;
    }
    if outgrows(&held, &changes) {
        if !held.source.is_dead_letter() {
            let buried = move_to_dead(&held, &DeadLetter::header_size_exceeded()).await;
            if buried.is_err() {
                not_settled(*held);
            }
            return buried;
        }
        changes = ApplicationProperties::new();
    }
    if held.source.is_dead_letter() && changes.is_empty() {
        return give_back(&held, delay).await;
    }
    let mut note = held.note.clone().unwrap_or_default();
    note.failed = held.count;
    let changed = !changes.is_empty();
    note.changes.merge(changes);
    if let Some(session_lock) = held.source.session_lock().cloned() {
        note.counted_for = Some(session_lock.consumer().to_owned());
        let stored = held.source.store_note(&mut note, held.number).await;
        session_lock.returned((*held).into(), note);
        return Ok(stored?);
    }
    if changed {
        held.source.store_note(&mut note, held.number).await?;
        return give_back(&held, delay).await;
    }
    // The note is for peeks. Without it the server's own count continues.
    let (_, given) = tokio::join!(held.source.store_note(&mut note, held.number), give_back(&held, delay));
    given
}

/// Returns whether the changes would make the properties of the message too large.
fn outgrows(held: &Held, changes: &ApplicationProperties) -> bool {
    if changes.is_empty() {
        return false;
    }
    let mut message = held.message.clone();
    message.properties_mut().application_properties_mut().merge(changes.clone());
    message.properties().check().is_err()
}

async fn give_back(held: &Held, delay: Option<Duration>) -> Result<(), SettleError> {
    let Some(delay) = delay else {
        held.source.inner.returned.insert(held.source.names(), held.number);
        return held.tell(NAK).await;
    };
    let nanos = nanos(delay);
    held.tell_with(Bytes::from(format!("-NAK {{\"delay\": {nanos}}}"))).await
}

/// Releases the message, and does not count the delivery.
pub(crate) async fn release(held: Box<Held>, delay: Option<Duration>) -> Result<(), SettleError> {
    held.take()?;
    let mut note = held.note.clone().unwrap_or_default();
    if let Some(session_lock) = held.source.session_lock().cloned() {
        session_lock.returned((*held).into(), note);
        return Ok(());
    }
    if !held.source.is_dead_letter() {
        note.uncounted += 1;
        note.failed = held.count.saturating_sub(1);
        held.source.store_note(&mut note, held.number).await?;
    }
    give_back(&held, delay).await
}

pub(crate) async fn bury(held: &Held, dead_letter: DeadLetter) -> Result<(), SettleError> {
    if held.source.is_dead_letter() {
        let why = "a dead letter does not die again";
        return Err(SettleError::new(ErrorKind::InvalidOperation).with_detail(why));
    }
    for text in [dead_letter.reason.as_str(), &dead_letter.description] {
        if text.encode_utf16().count() > limits::DEAD_LETTER_TEXT {
            let why = "a reason or a description is longer than 4,096 UTF-16 code units";
            return Err(SettleError::new(ErrorKind::InvalidArgument).with_detail(why));
        }
    }
    held.take()?;
    move_to_dead(held, &dead_letter).await
}

/// Dead-letters the message after its last delivery.
pub(crate) async fn buried_by_count(held: &Held, changes: ApplicationProperties) -> Result<(), SettleError> {
    let mut dead_letter = DeadLetter::max_delivery_count_exceeded(held.count, None);
    dead_letter.changes = changes.into();
    dead_letter.fit(held.message.properties());
    move_to_dead(held, &dead_letter).await
}

/// Stores a copy, waits for the confirmation, and terminates the message: a failure in between leaves two messages, never none.
/// The second copy of a repetition replaces the first.
async fn move_to_dead(held: &Held, dead_letter: &DeadLetter) -> Result<(), SettleError> {
    let source = &held.source;
    let max_payload = source.inner.client.max_payload();
    let (mut headers, payload) = dead_letter::encode(&held.message, dead_letter, &held.foreign, max_payload)?;
    stamp(held, held.count, &mut headers);
    headers.insert(async_nats::header::NATS_MESSAGE_ID, source.beside.dead_id(held.number));
    source.inner.publish(&source.beside.dead(held.number), headers, payload).await?;
    held.tell(TERM).await?;
    forget(held).await;
    Ok(())
}

/// Dead-letters an undelivered message, because the holder of its session has lost it once too often.
pub(crate) async fn bury_lost(source: &Source, read: Read, note: &Note) -> Result<(), Fault> {
    let mut dead_letter = DeadLetter::max_delivery_count_exceeded(note.failed, None);
    dead_letter.changes = note.changes.clone().into();
    bury_stored(source, read, dead_letter, note.failed).await?;
    note.remove(&source.inner, &source.beside).await;
    Ok(())
}

/// Dead-letters a message that no consumer has.
pub(crate) async fn bury_stored(
    source: &Source,
    read: Read,
    mut dead_letter: DeadLetter,
    count: u32,
) -> Result<(), Fault> {
    let refused = |error: SettleError| Fault::new(error.kind(), error.to_string());
    dead_letter.fit(read.message.properties());
    let encoded = dead_letter::encode(&read.message, &dead_letter, &read.foreign, source.inner.client.max_payload());
    let (mut headers, payload) = encoded.map_err(refused)?;
    headers.insert(name::SEQUENCE_NUMBER, read.number.to_string());
    headers.insert(name::ENQUEUED_TIME, read.enqueued.as_millis().to_string());
    headers.insert(name::DELIVERY_COUNT, count.to_string());
    headers.insert(async_nats::header::NATS_MESSAGE_ID, source.beside.dead_id(read.number));
    source.inner.publish(&source.beside.dead(read.number), headers, payload).await?;
    source.inner.remove(&source.stream, read.number).await
}

/// Defers as a dead letter is made: stores a copy under its number, and terminates the message. One that was deferred already
/// returns to its place.
async fn defer(held: &Held, changes: Changes) -> Result<(), SettleError> {
    if held.source.is_dead_letter() {
        let why = "a dead letter is not deferred";
        return Err(SettleError::new(ErrorKind::NotSupported).with_detail(why));
    }
    let changes = changes.into_permitted();
    if outgrows(held, &changes) {
        held.take()?;
        return move_to_dead(held, &DeadLetter::header_size_exceeded()).await;
    }
    let mut message = held.message.clone();
    message.properties_mut().application_properties_mut().merge(changes.clone());
    message.check()?;
    held.take()?;
    if let Place::Deferred(_) = held.source.place {
        let mut note = held.note.clone().unwrap_or_default();
        note.uncounted += 1;
        note.failed = held.count.saturating_sub(1);
        note.changes.merge(changes);
        held.source.store_note(&mut note, held.number).await?;
        return give_back(held, None).await;
    }
    let (headers, payload) = copy(held, &message, held.count.saturating_sub(1))?;
    let subject = held.source.beside.deferred(held.number);
    held.source.inner.publish(&subject, headers, payload).await?;
    held.tell(ACK).await?;
    forget(held).await;
    Ok(())
}

/// Encodes the message with the facts of its first storage.
fn copy(held: &Held, message: &Message, count: u32) -> Result<(HeaderMap, Bytes), SettleError> {
    let encoded = wire::encode_copy(message, &held.foreign);
    let (mut headers, payload) = encoded.map_err(|error| Fault::new(error.kind(), error.to_string()))?;
    stamp(held, count, &mut headers);
    Ok((headers, payload))
}

fn stamp(held: &Held, count: u32, headers: &mut HeaderMap) {
    let enqueued = held.message.received().map(|received| received.enqueued_time.as_millis()).unwrap_or_default();
    headers.insert(name::SEQUENCE_NUMBER, held.number.to_string());
    headers.insert(name::ENQUEUED_TIME, enqueued.to_string());
    headers.insert(name::DELIVERY_COUNT, count.to_string());
}

/// Removes the records of a removed message.
pub(crate) async fn forget(held: &Held) {
    if let Some(session_lock) = held.source.session_lock() {
        session_lock.gone(held.number);
    }
    if let Some(note) = &held.note {
        note.remove(&held.source.inner, &held.source.beside).await;
    }
    if let Place::Deferred(_) = held.source.place {
        let _ = held.source.inner.delete_consumer(&held.source.stream, &held.source.consumer).await;
    }
}
