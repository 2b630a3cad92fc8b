//! Locking a session.

use std::{collections::HashSet, sync::Arc};

use async_nats::jetstream::message::StreamMessage;
use consign_core::{
    message::limits,
    time::Timestamp,
    transport::{ErrorKind, ReceiveError},
};
use tokio::time::Instant;

use super::{NatsSession, take_over::TakeOver};
use crate::{
    error::Fault,
    log,
    read::{self, Read, stored_at},
    session_lock::{self, Entity, Locked, Record, SessionLock},
    settle,
    source::{Place, Source},
    wire,
};

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
    let lease = session_lock::lease(lock);
    record.owner = Some(name.clone());
    let server = inner.server_now(&entity.beside).await?;
    record.until = server.saturating_add(lease);
    if !record.write(inner, &entity.beside, id).await? {
        return Err(held_elsewhere());
    }
    let take_over = TakeOver { entity, id, name: &name, until: at + lease, lease };
    match take_over.run(before.as_deref()).await {
        Ok(notes) => {
            let (stream, beside) = (entity.stream.clone(), entity.beside.clone());
            let of = Entity { inner: Arc::clone(inner), stream, beside };
            let session_lock = SessionLock::new(id, of, record, Locked { at, lock, server }, notes);
            let source = entity.at(entity.stream.clone(), name, Place::Session(Arc::clone(&session_lock)));
            Ok(NatsSession::new(session_lock, source, place))
        }
        Err(fault) => {
            // No caller has to wait for the end of its lock. The next holder removes the consumer that the record names: the
            // cluster lists its own one, and may have forgotten the previous one.
            (record.owner, record.until) = (Some(before.unwrap_or_else(|| name.clone())), Timestamp::EPOCH);
            let _ = record.write(inner, &entity.beside, id).await;
            let _ = inner.delete_consumer(&entity.stream, &name).await;
            Err(fault)
        }
    }
}

pub(super) fn held_elsewhere() -> Fault {
    Fault::new(ErrorKind::SessionCannotBeLocked, "another receiver has the session")
}

/// Accepts a session in a task of its own: dropped half-way it would leave a lock. If the caller is gone, the session is given
/// up there.
pub(crate) async fn accept_in_task(entity: Arc<Source>, id: String) -> Result<NatsSession, ReceiveError> {
    let accepting = tokio::spawn(async move { accept(&entity, &id).await });
    let accepted = accepting.await.unwrap_or_else(|error| Err(Fault::new(ErrorKind::General, error.to_string())));
    Ok(accepted?)
}

pub(super) fn read_stored(entity: &Source, message: &StreamMessage) -> Read {
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
