use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use consign_core::{
    Disposition,
    settlement::Changes,
    time::Timestamp,
    transport::{BoxFuture, ErrorKind, Lease, SettleError},
};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    Nats,
    error::Fault,
    held::Held,
    jobs::{Job, JobPlace},
    settle,
    source::Source,
};

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
        place: JobPlace,
        seen: bool,
    },
    /// The message was removed when it was received.
    Removed,
    Used,
}

impl NatsLease {
    pub(crate) fn new(held: Box<Held>, place: JobPlace) -> Self {
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
                fan_out: source.fan_out.clone(),
                is_wrapped: source.is_wrapped,
                request_limits: source.request_limits,
            });
        }
        self
    }

    /// Returns the delivery, if it can be released with a delay. A delivery of a session cannot: later messages would pass it.
    fn into_delayed(mut self) -> Result<Box<Held>, Self> {
        match std::mem::replace(&mut self.state, State::Used) {
            State::Held { held, .. } if held.source.session_lock().is_none() => Ok(held),
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
                place.send(Job::Settle(Box::pin(async move {
                    // The caller may be gone.
                    let _ = done.send(settle::release(held, None).await);
                })));
                Box::pin(async move { answer.await.unwrap_or_else(|_| Err(Fault::closed().into())) })
            }
            State::Removed | State::Used => Box::pin(std::future::ready(Err(removed()))),
        }
    }

    /// The acknowledgements are written one after the other and sent together, and their confirmations wait for each other.
    fn completes_in_batches(&self) -> bool {
        matches!(&self.state, State::Held { held, .. } if held.source.session_lock().is_none())
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
        if held.source.session_lock().is_some() {
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
                    let why = source.why_no_answer().await;
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
            lock.extend(at + duration);
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
            let source = Arc::clone(&held.source);
            place.send(if seen {
                let what = "a dropped message was not abandoned: it is redelivered when its lock ends";
                Job::dropped(source, what, settle::abandon(held, Changes::NONE, None))
            } else {
                let what = "a message was not released: it is redelivered when its lock ends";
                Job::dropped(source, what, settle::release(held, None))
            });
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
