//! A delivery that is not settled, and the end of its lock.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{HeaderMap, Subject};
use bytes::Bytes;
use consign_core::{
    Message,
    transport::{ErrorKind, SettleError},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{message_notes::Note, session_lock::Kept, source::Source};

/// An unsettled delivery.
pub(crate) struct Held {
    pub(crate) source: Arc<Source>,
    pub(crate) message: Message,
    pub(crate) reply: Subject,
    /// The number of the message in the entity.
    pub(crate) number: u64,
    /// How often it was delivered, this time included.
    pub(crate) count: u32,
    pub(crate) note: Option<Note>,
    /// Headers of other clients.
    pub(crate) foreign: HeaderMap,
    pub(crate) lock: Arc<Lock>,
    /// The same delivery, if the end of its lock is watched. It is dropped with this one.
    pub(crate) watched: Option<Watched>,
}

/// A delivery whose lock is the last one of its message.
pub(crate) type Watched = Arc<Box<Held>>;

/// How soon a settlement that no server took is retried.
const AGAIN: Duration = Duration::from_millis(100);

/// The end of a message's lock, as this process computes it.
pub(crate) struct Lock {
    until: Mutex<Instant>,
    over: AtomicBool,
}

impl Lock {
    pub(crate) fn new(until: Instant) -> Arc<Self> {
        Arc::new(Self { until: Mutex::new(until), over: AtomicBool::new(false) })
    }

    pub(crate) fn until(&self) -> Instant {
        *self.until.lock()
    }

    pub(crate) fn extend(&self, until: Instant) {
        *self.until.lock() = until;
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.until() <= Instant::now()
    }

    /// Ends the lock, for one caller. Returns `false` to all others.
    pub(crate) fn end(&self) -> bool {
        !self.over.swap(true, Ordering::AcqRel)
    }
}

impl From<Held> for Kept {
    fn from(Held { message, reply, number, foreign, .. }: Held) -> Self {
        Self { message, reply, number, foreign }
    }
}

impl Held {
    /// Takes the lock for a settlement, or reports that it is lost.
    pub(crate) fn take(&self) -> Result<(), SettleError> {
        self.check()?;
        if self.lock.end() { Ok(()) } else { Err(self.lost()) }
    }

    /// Returns the same delivery, for the task that watches the end of its lock.
    pub(crate) fn watch(&mut self) -> Weak<Box<Self>> {
        let watched = Arc::new(Box::new(Self {
            source: Arc::clone(&self.source),
            message: self.message.clone(),
            reply: self.reply.clone(),
            number: self.number,
            count: self.count,
            note: self.note.clone(),
            foreign: self.foreign.clone(),
            lock: Arc::clone(&self.lock),
            watched: None,
        }));
        let weak = Arc::downgrade(&watched);
        self.watched = Some(watched);
        weak
    }

    pub(crate) fn check(&self) -> Result<(), SettleError> {
        let is_lost = match self.source.session_lock() {
            Some(session_lock) => session_lock.is_lost(),
            None => self.lock.is_lost(),
        };
        if is_lost { Err(self.lost()) } else { Ok(()) }
    }

    fn lost(&self) -> SettleError {
        SettleError::new(match self.source.session_lock() {
            Some(_) => ErrorKind::SessionLockLost,
            None => ErrorKind::MessageLockLost,
        })
    }

    /// Sends an acknowledgement, and waits until the server has taken it.
    pub(crate) async fn tell(&self, how: &'static [u8]) -> Result<(), SettleError> {
        self.tell_with(Bytes::from_static(how)).await
    }

    pub(crate) async fn tell_with(&self, how: Bytes) -> Result<(), SettleError> {
        let started = Instant::now();
        loop {
            match self.source.inner.acknowledge(&self.reply, how.clone()).await {
                Err(fault) if fault.is_no_responders() => {}
                told => return Ok(told?),
            }
            let why = self.source.why_no_answer().await;
            // The consumer is deleted, and the delivery with it.
            if why.kind != ErrorKind::ServiceBusy {
                return Err(self.lost());
            }
            // No server leads it for a moment, and this was the only attempt that the application has.
            if self.lock.until().min(started + self.source.inner.timeout) <= Instant::now() + AGAIN {
                return Err(why.into());
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
