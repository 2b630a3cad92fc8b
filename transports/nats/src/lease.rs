use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{HeaderMap, Subject};
use bytes::Bytes;
use consign_core::{
    Disposition, Message,
    settlement::Changes,
    time::Timestamp,
    transport::{BoxFuture, ErrorKind, Lease, SettleError},
};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc::OwnedPermit, oneshot},
    time::Instant,
};

use crate::{Nats, error::Fault, keeper::Work, marks::Mark, settle, source::Source};

/// The right to settle one delivery.
///
/// A settlement waits until the server has confirmed it. The server has no lock tokens, and honours a late acknowledgement. So
/// when the lock has run out by this process's monotonic clock nothing is sent, and the settlement fails as
/// [`MessageLockLost`](ErrorKind::MessageLockLost). The server waits a quarter of a second longer than the lock before it
/// redelivers.
pub struct NatsLease {
    state: State,
}

enum State {
    Held {
        held: Box<Held>,
        place: OwnedPermit<Work>,
        seen: bool,
    },
    /// The message was removed when it was received.
    Removed,
    Used,
}

/// An unsettled delivery.
pub(crate) struct Held {
    pub(crate) source: Arc<Source>,
    pub(crate) message: Message,
    pub(crate) reply: Subject,
    /// The number of the message in the entity.
    pub(crate) number: u64,
    /// How often it was delivered, this time included.
    pub(crate) count: u32,
    pub(crate) mark: Option<Mark>,
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

    pub(crate) fn is_lost(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.until() <= Instant::now()
    }

    /// Ends the lock, for one caller. Returns `false` to all others.
    pub(crate) fn end(&self) -> bool {
        !self.over.swap(true, Ordering::AcqRel)
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
            mark: self.mark.clone(),
            foreign: self.foreign.clone(),
            lock: Arc::clone(&self.lock),
            watched: None,
        }));
        let weak = Arc::downgrade(&watched);
        self.watched = Some(watched);
        weak
    }

    fn check(&self) -> Result<(), SettleError> {
        let is_lost = match self.source.hold() {
            Some(hold) => hold.is_lost(),
            None => self.lock.is_lost(),
        };
        if is_lost { Err(self.lost()) } else { Ok(()) }
    }

    fn lost(&self) -> SettleError {
        SettleError::new(match self.source.hold() {
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
            let why = self.source.why_nobody_answers().await;
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

impl NatsLease {
    pub(crate) fn new(held: Box<Held>, place: OwnedPermit<Work>) -> Self {
        Self { state: State::Held { held, place, seen: false } }
    }

    pub(crate) const fn removed() -> Self {
        Self { state: State::Removed }
    }

    /// Marks the delivery as dispatched: dropping it counts from now on.
    pub(crate) fn handed_out(mut self) -> Self {
        if let State::Held { seen, .. } = &mut self.state {
            *seen = true;
        }
        self
    }

    pub(crate) fn into_held(mut self) -> Result<Box<Held>, SettleError> {
        match std::mem::replace(&mut self.state, State::Used) {
            State::Held { held, .. } => Ok(held),
            State::Removed | State::Used => Err(removed()),
        }
    }

    /// Returns the same lease over another connection: that of the delivery may be closed.
    #[must_use]
    pub fn over(mut self, nats: &Nats) -> Self {
        if let State::Held { held, .. } = &mut self.state {
            let source = &held.source;
            held.source = Arc::new(Source {
                inner: Arc::clone(&nats.inner),
                settings: source.settings.clone(),
                stream: source.stream.clone(),
                consumer: source.consumer.clone(),
                subjects: source.subjects.clone(),
                beside: source.beside.clone(),
                place: source.place.clone(),
                feed: source.feed.clone(),
            });
        }
        self
    }

    /// Returns the delivery, if it can be released with a delay. A delivery of a session cannot: later messages would pass it.
    fn into_delayed(mut self) -> Result<Box<Held>, Self> {
        match std::mem::replace(&mut self.state, State::Used) {
            State::Held { held, .. } if held.source.hold().is_none() => Ok(held),
            state => {
                self.state = state;
                Err(self)
            }
        }
    }
}

fn removed() -> SettleError {
    SettleError::new(ErrorKind::InvalidOperation).with_detail("the message was removed when it was received")
}

impl Lease for NatsLease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        match self.into_held() {
            Ok(held) => Box::pin(settle::settle(held, disposition)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn release(mut self) -> Self::Settle {
        match std::mem::replace(&mut self.state, State::Used) {
            State::Held { held, place, .. } => {
                let (done, answer) = oneshot::channel();
                place.send(Work::Release(held, Some(done)));
                Box::pin(async move { answer.await.unwrap_or_else(|_| Err(Fault::closed().into())) })
            }
            State::Removed | State::Used => Box::pin(std::future::ready(Err(removed()))),
        }
    }

    fn abandon_after(self, changes: Changes, delay: Duration) -> Result<Self::Settle, Self> {
        let held = self.into_delayed()?;
        Ok(Box::pin(settle::abandon(held, changes, Some(delay))))
    }

    fn release_after(self, delay: Duration) -> Result<Self::Settle, Self> {
        let held = self.into_delayed()?;
        Ok(Box::pin(settle::release(held, Some(delay))))
    }

    fn renew(&self) -> Self::Renew {
        let State::Held { held, .. } = &self.state else { return Box::pin(std::future::ready(Err(removed()))) };
        if held.source.hold().is_some() {
            let why = "a message of a session is locked as long as its session";
            let error = SettleError::new(ErrorKind::InvalidOperation).with_detail(why);
            return Box::pin(std::future::ready(Err(error)));
        }
        let checked = held.check();
        let (source, reply, lock) = (Arc::clone(&held.source), held.reply.clone(), Arc::clone(&held.lock));
        Box::pin(async move {
            checked?;
            let (at, utc) = (Instant::now(), source.inner.now());
            match source.inner.acknowledge(&reply, Bytes::from_static(b"+WPI")).await {
                Err(fault) if fault.is_no_responders() => {
                    let why = source.why_nobody_answers().await;
                    let is_gone = why.kind != ErrorKind::ServiceBusy;
                    return Err(if is_gone { SettleError::new(ErrorKind::MessageLockLost) } else { why.into() });
                }
                told => told?,
            }
            // The answer may have arrived after the end of the lock, with the message at another receiver.
            if lock.is_lost() {
                return Err(SettleError::new(ErrorKind::MessageLockLost));
            }
            let duration = source.settings.lock();
            *lock.until.lock() = at + duration;
            Ok(utc.saturating_add(duration))
        })
    }

    fn lock_duration(&self) -> Option<Duration> {
        match &self.state {
            State::Held { held, .. } => Some(held.source.settings.lock()),
            State::Removed | State::Used => None,
        }
    }
}

/// Abandons the message, or releases it uncounted if it was not dispatched. It does not wait.
impl Drop for NatsLease {
    fn drop(&mut self) {
        if let State::Held { held, place, seen } = std::mem::replace(&mut self.state, State::Used) {
            place.send(if seen { Work::Abandon(held) } else { Work::Release(held, None) });
        }
    }
}

impl fmt::Debug for NatsLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = match &self.state {
            State::Held { held, .. } => Some(held.number),
            State::Removed | State::Used => None,
        };
        f.debug_struct("NatsLease").field("number", &number).finish_non_exhaustive()
    }
}
