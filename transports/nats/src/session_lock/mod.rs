//! The lock of a session: a record beside the entity, and a consumer for as long as it is held.

mod record;

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    task::Waker,
    time::Duration,
};

use async_nats::{HeaderMap, Subject};
use bytes::Bytes;
use consign_core::{
    Message,
    time::Timestamp,
    transport::{ErrorKind, SettleError},
};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

pub(crate) use self::record::{Record, is_free};
use crate::{beside::Beside, connection::Inner, error::Fault, message_notes::Note};

/// How long deliveries from before a broken connection may take to arrive, by an inbox without a waiting receive.
const ON_ITS_WAY: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
struct ConsumerInfo {
    delivered: Delivered,
}

#[derive(Deserialize)]
struct Delivered {
    consumer_seq: u64,
}

/// For how long the record of a session locks it at most. The holder writes it again meanwhile, so that the session of a
/// process that has died is free well before its lock ends.
const LEASE: Duration = Duration::from_secs(10);
/// How often the holder writes it.
const BEAT: Duration = Duration::from_secs(3);

/// A session that this process holds.
pub(crate) struct SessionLock {
    id: String,
    entity: Entity,
    /// For how long it is locked at once.
    lock: Duration,
    consumer: String,
    state: Mutex<State>,
    /// The record as it was written last. One writer at a time.
    record: tokio::sync::Mutex<Record>,
}

/// The entity of a session, as far as its lock needs it.
pub(crate) struct Entity {
    pub(crate) inner: Arc<Inner>,
    pub(crate) stream: String,
    pub(crate) beside: Beside,
}

/// A returned message, which stays with the holder. It has no source: that holds this lock.
pub(crate) struct Kept {
    pub(crate) message: Message,
    pub(crate) reply: Subject,
    /// The number of the message in the entity.
    pub(crate) number: u64,
    /// Headers of other clients.
    pub(crate) foreign: HeaderMap,
}

struct State {
    /// When the lock ends.
    until: Instant,
    /// When the last written record ends. Others may have the session from then on.
    leased_until: Instant,
    /// When the lock ends by the server's clock.
    server_until: Timestamp,
    until_utc: Timestamp,
    is_over: bool,
    notes: BTreeMap<u64, Note>,
    /// How many messages have arrived.
    arrived: u64,
    /// Whether more may have been delivered than has arrived.
    is_in_doubt: bool,
    /// Whether a delivery is missing, or came again.
    is_out_of_order: bool,
    /// Returned messages, which precede all that were not delivered so far.
    returned: BTreeMap<u64, Kept>,
    waker: Option<Waker>,
}

/// When a lock was taken, and for how long.
pub(crate) struct Locked {
    pub(crate) at: Instant,
    pub(crate) lock: Duration,
    /// The same instant by the server's clock, or a later one.
    pub(crate) server: Timestamp,
}

/// Returns for how long a record locks.
pub(crate) fn lease(lock: Duration) -> Duration {
    lock.min(LEASE)
}

impl State {
    fn is_lost(&self) -> bool {
        self.is_over || self.until.min(self.leased_until) <= Instant::now()
    }

    /// Messages of a session are delivered once each. A server that takes the consumer over may skip or repeat one.
    fn arrived(&mut self, delivered: u64) -> bool {
        if self.is_out_of_order || delivered != self.arrived + 1 {
            (self.is_out_of_order, self.is_in_doubt) = (true, true);
            return false;
        }
        self.arrived = delivered;
        true
    }
}

impl SessionLock {
    pub(crate) fn new(
        id: &str,
        entity: Entity,
        record: Record,
        Locked { at, lock, server }: Locked,
        notes: BTreeMap<u64, Note>,
    ) -> Arc<Self> {
        let until = at + lock;
        let until_utc = entity.inner.now().saturating_add(until.saturating_duration_since(Instant::now()));
        let state = State {
            until,
            leased_until: at + lease(lock),
            server_until: server.saturating_add(lock),
            until_utc,
            is_over: false,
            notes,
            arrived: 0,
            is_in_doubt: false,
            is_out_of_order: false,
            returned: BTreeMap::new(),
            waker: None,
        };
        let session_lock = Arc::new(Self {
            id: id.into(),
            entity,
            lock,
            consumer: record.owner.clone().unwrap_or_default(),
            state: Mutex::new(state),
            record: tokio::sync::Mutex::new(record),
        });
        if lock > LEASE {
            tokio::spawn(Self::beat(Arc::downgrade(&session_lock)));
        }
        session_lock
    }

    /// Writes the record again, as long as the session is held here.
    async fn beat(session_lock: Weak<Self>) {
        loop {
            tokio::time::sleep(BEAT).await;
            let Some(session_lock) = session_lock.upgrade() else { return };
            if session_lock.is_lost() {
                return;
            }
            // The next one may succeed. If none does, the session is lost when the record ends.
            let _ = session_lock.extend().await;
        }
    }

    async fn extend(&self) -> Result<(), SettleError> {
        let mut record = self.record.lock().await;
        self.check()?;
        let at = Instant::now();
        let now = self.entity.inner.server_now(&self.entity.beside).await?;
        let server_until = self.state.lock().server_until;
        record.until = now.saturating_add(LEASE).min(server_until);
        self.write(&mut record).await?;
        self.state.lock().leased_until = at + LEASE;
        Ok(())
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the consumer of this hold, and of no other.
    pub(crate) fn consumer(&self) -> &str {
        &self.consumer
    }

    pub(crate) fn until(&self) -> Instant {
        self.state.lock().until
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.state.lock().is_lost()
    }

    pub(crate) fn check(&self) -> Result<(), SettleError> {
        if self.is_lost() { Err(SettleError::new(ErrorKind::SessionLockLost)) } else { Ok(()) }
    }

    pub(crate) fn note(&self, number: u64) -> Option<Note> {
        self.state.lock().notes.get(&number).cloned()
    }

    /// Adds a returned message. It stays with the holder, and is the next one.
    pub(crate) fn returned(&self, kept: Kept, note: Note) {
        let mut state = self.state.lock();
        if note.is_stored() || note.failed > 0 {
            state.notes.insert(kept.number, note);
        }
        state.returned.insert(kept.number, kept);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Puts a message back: it stays the next one.
    pub(crate) fn put_back(&self, kept: Kept) {
        self.state.lock().returned.insert(kept.number, kept);
    }

    /// Returns the oldest returned message. Without one `waker` is woken when there is.
    pub(crate) fn next_returned(&self, waker: &Waker) -> Option<Kept> {
        let mut state = self.state.lock();
        if state.returned.is_empty() {
            state.waker = Some(waker.clone());
        }
        state.returned.pop_first().map(|(_, kept)| kept)
    }

    /// Counts an arrived message, by its number among the deliveries of the consumer. `false` if it is not the next one: it
    /// must not be delivered, and the session is given up.
    pub(crate) fn arrived(&self, delivered: u64) -> bool {
        self.state.lock().arrived(delivered)
    }

    /// Records that a message that was delivered may not arrive: the receiver must check that before it continues.
    pub(crate) fn doubt(&self) {
        self.state.lock().is_in_doubt = true;
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.state.lock().is_in_doubt
    }

    /// Checks whether all deliveries of the server have arrived. A message that was lost in transit would not be redelivered as
    /// long as the session is held, and later ones would come first. So the session is given up then.
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<(), Fault> {
        let inner = &self.entity.inner;
        let subject = format!("CONSUMER.INFO.{}.{}", self.entity.stream, self.consumer);
        let since = Instant::now();
        while !self.state.lock().is_out_of_order {
            let info = inner.request::<ConsumerInfo>(&subject, &serde_json::json!({})).await;
            let info = info.map_err(|fault| match fault.kind {
                ErrorKind::EntityNotFound => Fault::new(ErrorKind::SessionLockLost, "another receiver has the session"),
                _ => fault,
            })?;
            {
                let mut state = self.state.lock();
                if info.delivered.consumer_seq == state.arrived && !state.is_out_of_order {
                    state.is_in_doubt = false;
                    return Ok(());
                }
            }
            if since.elapsed() > ON_ITS_WAY {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // In a task: a poll of this sees at once that the session is lost, and there is no further poll.
        let session_lock = Arc::clone(self);
        tokio::spawn(async move { session_lock.close().await });
        Err(Fault::new(ErrorKind::SessionLockLost, "a message of the session was lost on its way"))
    }

    pub(crate) fn gone(&self, number: u64) {
        self.state.lock().notes.remove(&number);
    }

    /// Extends the lock.
    pub(crate) async fn renew(&self) -> Result<Timestamp, SettleError> {
        let mut record = self.record.lock().await;
        self.check()?;
        let (at, lock) = (Instant::now(), self.lock);
        let server = self.entity.inner.server_now(&self.entity.beside).await?;
        record.until = server.saturating_add(lease(lock));
        self.write(&mut record).await?;
        let mut state = self.state.lock();
        (state.until, state.leased_until) = (at + lock, at + lease(lock));
        state.server_until = server.saturating_add(lock);
        state.until_utc = self.entity.inner.now().saturating_add(lock);
        Ok(state.until_utc)
    }

    pub(crate) async fn state(&self) -> Result<Option<Bytes>, SettleError> {
        let record = self.record.lock().await;
        self.check()?;
        Ok(record.state.clone())
    }

    pub(crate) async fn set_state(&self, to: Option<Bytes>) -> Result<(), SettleError> {
        let mut record = self.record.lock().await;
        self.check()?;
        let before = std::mem::replace(&mut record.state, to);
        let written = self.write(&mut record).await;
        if written.is_err() {
            record.state = before;
        }
        written
    }

    async fn write(&self, record: &mut Record) -> Result<(), SettleError> {
        if record.write(&self.entity.inner, &self.entity.beside, &self.id).await? {
            return Ok(());
        }
        // It may have been an own write whose answer was lost.
        let now = Record::read(&self.entity.inner, &self.entity.beside, &self.id).await?;
        if now.owner.as_deref() == Some(&*self.consumer) {
            record.stored = now.stored;
            if record.write(&self.entity.inner, &self.entity.beside, &self.id).await? {
                return Ok(());
            }
        }
        self.state.lock().is_over = true;
        Err(SettleError::new(ErrorKind::SessionLockLost))
    }

    /// Gives the session up. Deliveries do not count, and the acknowledgements of this holder are ignored from then on.
    pub(crate) async fn close(&self) -> Result<(), SettleError> {
        let mut record = self.record.lock().await;
        {
            let mut state = self.state.lock();
            let is_lost = state.is_lost();
            if std::mem::replace(&mut state.is_over, true) || is_lost {
                // The next holder cleans up after a lock that has run out, and counts.
                return Err(SettleError::new(ErrorKind::SessionLockLost));
            }
            state.returned.clear();
        }
        let inner = &self.entity.inner;
        inner.delete_consumer(&self.entity.stream, &self.consumer).await?;
        (record.owner, record.until) = (None, Timestamp::EPOCH);
        self.write(&mut record).await?;
        if record.state.is_none() {
            // There is nothing left to store, and the session is free already. If another has taken it by now, this number does
            // not exist any more.
            let _ = inner.remove(&self.entity.beside.stream, record.stored).await;
        }
        Ok(())
    }
}
