//! Locking a session.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use async_nats::jetstream::{ErrorCode, message::StreamMessage};
use consign_core::{
    message::limits,
    time::Timestamp,
    transport::{ErrorKind, ReceiveError},
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::NatsSession;
use crate::{
    entities::consumer_config,
    error::Fault,
    fetch::subjects,
    log,
    message_notes::Note,
    read::{self, Read, stored_at},
    session_lock::{self, Entity, Locked, Record, SessionLock},
    settle,
    source::{Place, Source},
    wire,
};

/// A work queue has one consumer at most for each subject.
const NOT_UNIQUE: u64 = 10100;

#[derive(Deserialize)]
struct ConsumerInfo {
    delivered: Delivered,
}

#[derive(Deserialize)]
struct Delivered {
    stream_seq: u64,
}

/// Locks the session of this id.
pub(crate) async fn accept(entity: &Arc<Source>, id: &str) -> Result<NatsSession, Fault> {
    if id.encode_utf16().count() > limits::ID {
        return Err(Fault::new(ErrorKind::InvalidArgument, "a session id has at most 128 UTF-16 code units"));
    }
    if !entity.settings.requires_session || entity.is_dead_letter() {
        return Err(Fault::new(ErrorKind::InvalidOperation, "the entity has no sessions"));
    }
    let inner = &entity.inner;
    let place =
        inner.place().ok_or_else(|| Fault::new(ErrorKind::Throttled, "there are too many unsettled deliveries"))?;
    let now = inner.server_now(&entity.beside).await?;
    let mut record = Record::read(inner, &entity.beside, id).await?;
    if record.owner.is_some() && record.until > now {
        return Err(held_elsewhere());
    }
    let before = record.owner.take();
    // A name that no other hold has: acknowledgements of the previous one are ignored.
    let name = format!("s{}", uuid::Uuid::new_v4().simple());
    let (at, lock) = (Instant::now(), entity.settings.lock());
    record.owner = Some(name.clone());
    let server = inner.server_now(&entity.beside).await?;
    record.until = server.saturating_add(session_lock::lease(lock));
    if !record.write(inner, &entity.beside, id).await? {
        return Err(held_elsewhere());
    }
    match take_over(entity, id, &name, before).await {
        Ok(notes) => {
            let (stream, beside) = (entity.stream.clone(), entity.beside.clone());
            let of = Entity { inner: Arc::clone(inner), stream, beside };
            let session_lock = SessionLock::new(id, of, record, Locked { at, lock, server }, notes);
            let source = entity.at(entity.stream.clone(), name, Place::Session(Arc::clone(&session_lock)));
            Ok(NatsSession::new(session_lock, source, place))
        }
        Err(fault) => {
            // It has no holder, so no caller has to wait for the end of its lock.
            (record.owner, record.until) = (None, Timestamp::EPOCH);
            let _ = record.write(inner, &entity.beside, id).await;
            Err(fault)
        }
    }
}

fn held_elsewhere() -> Fault {
    Fault::new(ErrorKind::SessionCannotBeLocked, "another receiver has the session")
}

/// Accepts a session in a task of its own: dropped half-way it would leave a lock. If the caller is gone, the session is given
/// up there.
pub(crate) async fn accept_in_task(entity: Arc<Source>, id: String) -> Result<NatsSession, ReceiveError> {
    let accepting = tokio::spawn(async move { accept(&entity, &id).await });
    let accepted = accepting.await.unwrap_or_else(|error| Err(Fault::new(ErrorKind::General, error.to_string())));
    Ok(accepted?)
}

/// Creates the consumer of a new holder, and removes that of the previous one.
async fn take_over(
    entity: &Arc<Source>,
    id: &str,
    name: &str,
    before: Option<String>,
) -> Result<BTreeMap<u64, Note>, Fault> {
    if let Some(before) = before {
        inherit(entity, id, &before).await?;
    }
    let inner = &entity.inner;
    let subject = entity.session_subject(id);
    let mut config = consumer_config(name, &subject, &entity.settings);
    // The session's lock limits the time, and returned messages stay with the holder.
    config["ack_wait"] = json!(365_u64 * 24 * 3_600 * 1_000_000_000);
    match inner.create_consumer(&entity.stream, name, &config).await {
        // A process that died between locking and cleaning up has left an older one, which no record names.
        Err(fault) if fault.code == Some(ErrorCode(NOT_UNIQUE)) => {
            for left in consumers_at(entity, &subject).await? {
                inherit(entity, id, &left).await?;
            }
            inner.create_consumer(&entity.stream, name, &config).await.map_err(not_yet)?;
        }
        created => created?,
    }
    notes(entity, id).await
}

/// A consumer that the server does not list may go later.
fn not_yet(mut fault: Fault) -> Fault {
    if fault.code == Some(ErrorCode(NOT_UNIQUE)) {
        fault.kind = ErrorKind::ServiceBusy;
    }
    fault
}

/// Returns the consumers of a subject.
async fn consumers_at(entity: &Source, subject: &str) -> Result<Vec<String>, Fault> {
    #[derive(Deserialize)]
    struct Page {
        total: usize,
        #[serde(default)]
        consumers: Vec<Consumer>,
    }
    #[derive(Deserialize)]
    struct Consumer {
        name: String,
        config: Config,
    }
    #[derive(Deserialize)]
    struct Config {
        #[serde(default)]
        filter_subject: String,
    }
    let (mut offset, mut names) = (0, Vec::new());
    loop {
        let at = format!("CONSUMER.LIST.{}", entity.stream);
        let page = entity.inner.request::<Page>(&at, &json!({ "offset": offset })).await?;
        let read = page.consumers.len();
        offset += read;
        let of_subject = page.consumers.into_iter().filter(|consumer| consumer.config.filter_subject == subject);
        names.extend(of_subject.map(|consumer| consumer.name));
        if read == 0 || offset >= page.total {
            return Ok(names);
        }
    }
}

/// Returns the notes of the messages of a session.
async fn notes(entity: &Source, id: &str) -> Result<BTreeMap<u64, Note>, Fault> {
    let mut notes = BTreeMap::new();
    for subject in subjects(entity, &entity.beside.mark_of_session(id, '*')).await? {
        let number = subject.rsplit('.').next().and_then(|number| number.parse().ok());
        let found = entity.inner.last_at(&entity.beside.stream, &subject).await?;
        if let (Some(number), Some(found)) = (number, found) {
            notes.insert(number, Note::read(&found.headers, &found.payload, found.sequence));
        }
    }
    Ok(notes)
}

/// Counts the deliveries of the previous holder, whose lock has run out: an unsettled one counts, and may have been the last
/// delivery.
async fn inherit(entity: &Arc<Source>, id: &str, consumer: &str) -> Result<(), Fault> {
    let inner = &entity.inner;
    let info = inner.request::<ConsumerInfo>(&format!("CONSUMER.INFO.{}.{consumer}", entity.stream), &json!({})).await;
    let delivered = match info {
        Ok(info) => info.delivered.stream_seq,
        Err(fault) if fault.kind == ErrorKind::EntityNotFound => return Ok(()),
        Err(fault) => return Err(fault),
    };
    let subject = entity.session_subject(id);
    let mut next = 1;
    while let Some(message) = inner.next_at(&entity.stream, &subject, next).await? {
        if message.sequence > delivered {
            break;
        }
        next = message.sequence + 1;
        let at = entity.beside.mark_of_session(id, message.sequence);
        let found = inner.last_at(&entity.beside.stream, &at).await?;
        let mut note =
            found.map(|found| Note::read(&found.headers, &found.payload, found.sequence)).unwrap_or_default();
        // Either the holder has recorded it itself, or its successor has died half-way through this.
        if note.counted_for.as_deref() == Some(consumer) {
            continue;
        }
        note.failed = note.failed.saturating_add(1);
        note.counted_for = Some(consumer.to_owned());
        if note.failed < entity.settings.max_delivery_count {
            note.store(inner, &at).await?;
            continue;
        }
        let mut read = read_stored(entity, &message);
        read.in_session(id);
        settle::bury_lost(entity, read, &note).await?;
    }
    match inner.delete_consumer(&entity.stream, consumer).await {
        Err(fault) if fault.kind == ErrorKind::EntityNotFound => Ok(()),
        deleted => deleted,
    }
}

fn read_stored(entity: &Source, message: &StreamMessage) -> Read {
    let (headers, payload, stored) = (Some(&message.headers), message.payload.clone(), stored_at(message));
    read::read(entity.origin(&message.subject), headers, payload, message.sequence, stored, &entity.stream)
}

/// Returns the session of a subject, if a consumer of that session receives the messages at it.
pub(crate) fn session_of(subject: &str) -> Option<String> {
    let token = subject.rsplit('.').next()?;
    wire::untoken(token).filter(|id| wire::token(id) == token && id.encode_utf16().count() <= limits::ID)
}

/// Dead-letters a message at the subject of no session. Until that succeeds it stays, and does not stop the search.
async fn bury_without_session(entity: &Source, message: &StreamMessage) {
    let why = format!("the subject {:.256} is that of no session", message.subject.as_str());
    let buried = settle::bury_stored(entity, read_stored(entity, message), wire::wrong_session_subject(why), 0).await;
    if let Err(fault) = buried {
        let what = "a message at the subject of no session was not dead-lettered";
        log::failed(&entity.settings.path, what, &fault);
    }
}

/// Locks the session with the oldest message, of those without a holder. A session that the server refuses does not keep the
/// others from being accepted.
pub(crate) async fn accept_oldest(entity: &Arc<Source>) -> Result<Option<NatsSession>, Fault> {
    let (mut next, mut seen) = (1, HashSet::new());
    let mut refused = None;
    while let Some(message) = entity.inner.next_at(&entity.stream, &entity.subjects, next).await? {
        next = message.sequence + 1;
        let Some(id) = session_of(&message.subject) else {
            bury_without_session(entity, &message).await;
            continue;
        };
        if seen.contains(&id) {
            continue;
        }
        match accept(entity, &id).await {
            Ok(session) => return Ok(Some(session)),
            Err(fault) if fault.kind == ErrorKind::SessionCannotBeLocked => {}
            Err(fault) if fault.code.is_some() => drop(refused.get_or_insert(fault)),
            Err(fault) => return Err(fault),
        }
        seen.insert(id);
    }
    refused.map_or(Ok(None), Err)
}
