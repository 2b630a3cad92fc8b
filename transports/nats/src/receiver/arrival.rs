//! The steps from an arrived message to a delivery.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use consign_core::transport::{BoxFuture, Delivery, ErrorKind, Lease, ReceiveError};
use futures_util::{Stream, StreamExt};
use tokio::time::Instant;

use super::{NatsReceiver, Older, removed::Removed};
use crate::{
    deliver::{self, Arrival},
    error::Fault,
    held::Held,
    jobs::{Job, JobPlace, LastLock},
    lease::NatsLease,
    request_times::EXPIRES,
    source::Place,
};

impl NatsReceiver {
    /// Polls for messages of the server. `true` if `poll_receive` should look at the result.
    pub(super) fn poll_messages(&mut self, cx: &mut Context<'_>, max: usize) -> Result<bool, ReceiveError> {
        let mut has_taken = false;
        let max = max + usize::from(self.older.is_awaited());
        while self.ready.len() + self.preparing.len() < max && self.unplaced.is_empty() {
            let Some(subscriber) = &mut self.subscriber else { return Ok(has_taken) };
            match Pin::new(subscriber).poll_next(cx) {
                Poll::Pending => {
                    self.empty_at = Instant::now();
                    return Ok(has_taken);
                }
                Poll::Ready(None) => {
                    (self.subscriber, self.outstanding) = (None, 0);
                    self.inbox = self.source.inner.client.new_inbox();
                    return Ok(true);
                }
                Poll::Ready(Some(message)) => {
                    has_taken = true;
                    match message.status {
                        None => self.arrived(message)?,
                        Some(status) => self.ended(status, message.description.as_deref())?,
                    }
                }
            }
        }
        Ok(has_taken)
    }

    fn arrived(&mut self, message: async_nats::Message) -> Result<(), ReceiveError> {
        self.outstanding = self.outstanding.saturating_sub(1);
        (self.has_begun, self.lost) = (true, 0);
        self.next_lasts = EXPIRES;
        if !deliver::is_in_order(&self.source, &message)? {
            // The next look at the connection gives the session up.
            return Ok(());
        }
        let until = self.locked_until();
        self.unplaced.push_back((message, until));
        self.place_all()
    }

    pub(super) fn locked_until(&self) -> Instant {
        self.empty_at.max(self.asked_at) + self.source.settings.lock()
    }

    /// Assigns places to arrived messages. A message without one stays here, in its order, and gets one later.
    pub(super) fn place_all(&mut self) -> Result<(), ReceiveError> {
        while !self.unplaced.is_empty() {
            let Some(place) = self.source.inner.place() else {
                let why = "there are too many unsettled deliveries";
                return Err(ReceiveError::new(ErrorKind::Throttled).with_detail(why));
            };
            if let Some((message, until)) = self.unplaced.pop_front() {
                self.place(message, until, place)?;
            }
        }
        Ok(())
    }

    fn place(&mut self, message: async_nats::Message, until: Instant, place: JobPlace) -> Result<(), ReceiveError> {
        let source = Arc::clone(&self.source);
        let removed = self.deletes.then(|| self.removed.clone());
        if deliver::is_simple(&source, message.reply.as_ref()) {
            let (held, malformed) = deliver::simple(&source, message, until)?;
            let max = source.settings.max_delivery_count;
            if malformed.is_none() && removed.is_none() && held.count <= max && self.preparing.is_empty() {
                self.is_ready(delivery(held, place));
                return Ok(());
            }
            let arriving = async move {
                match malformed {
                    Some(malformed) => deliver::bury_malformed(held, malformed).await,
                    None => deliver::bury_exhausted(held).await,
                }
            };
            self.preparing.push_back(prepare(arriving, place, removed));
            return Ok(());
        }
        let arriving = async move { deliver::arrive(&source, message, until).await };
        self.preparing.push_back(prepare(arriving, place, removed));
        Ok(())
    }

    /// Returns whether a message that this connection has returned should precede the ready ones.
    pub(super) fn awaits_older(&mut self, cx: &mut Context<'_>) -> bool {
        let first = self.ready.front().and_then(number);
        let Some(older) = first.and_then(|first| self.source.inner.returned.before(self.source.names(), first)) else {
            self.older = Older::NotAwaited;
            return false;
        };
        let since = match self.older {
            Older::Requested(since) => since,
            _ if self.asking.is_none() && self.outstanding > 0 => Instant::now(),
            // Until the server has a request, nothing can be in transit.
            _ => {
                self.older = Older::Awaited;
                return true;
            }
        };
        self.older = Older::Requested(since);
        self.tick.as_mut().reset(since + self.source.inner.patience);
        if self.tick.as_mut().poll(cx).is_pending() {
            return true;
        }
        // Another process has it.
        self.source.inner.returned.remove(self.source.names(), older);
        self.older = Older::NotAwaited;
        self.await_end();
        false
    }

    /// Inserts a delivery at its place: the oldest message is the first.
    fn is_ready(&mut self, delivery: Delivery<NatsLease>) {
        let place = self.ready.iter().rposition(|earlier| number(earlier) < number(&delivery));
        self.ready.insert(place.map_or(0, |place| place + 1), delivery);
    }

    pub(super) fn poll_preparing(&mut self, cx: &mut Context<'_>) -> Result<(), ReceiveError> {
        while let Poll::Ready(Some(prepared)) = self.preparing.poll_next_unpin(cx) {
            // A message that could not be prepared is redelivered when its lock ends.
            if let Some(delivery) = prepared? {
                self.is_ready(delivery);
            }
        }
        Ok(())
    }
}

pub(super) type Preparing = BoxFuture<Result<Option<Delivery<NatsLease>>, Fault>>;

/// Prepares a delivery in a task of its own: without a waiting receive it is dropped there, and so released.
fn prepare(
    arriving: impl Future<Output = Result<Arrival, Fault>> + Send + 'static,
    place: JobPlace,
    removed: Option<Removed>,
) -> Preparing {
    let prepared = tokio::spawn(async move {
        Ok::<_, Fault>(match arriving.await? {
            Arrival::Held(held) => Some(delivery(held, place)),
            Arrival::Buried => None,
        })
    });
    Box::pin(async move {
        let prepared = prepared.await.map_err(|error| Fault::new(ErrorKind::General, error.to_string()))?;
        match (prepared?, removed) {
            (Some(prepared), Some(removed)) => remove(prepared, &removed).await.map(Some),
            (prepared, _) => Ok(prepared),
        }
    })
}

/// Removes a message before it is dispatched.
async fn remove(delivery: Delivery<NatsLease>, removed: &Removed) -> Result<Delivery<NatsLease>, Fault> {
    let Delivery { mut message, lease } = delivery;
    if let Some(mut received) = message.received().copied() {
        received.locked_until = None;
        message = message.with_received(received);
    }
    removed.add();
    if let Err(error) = lease.settle(consign_core::Disposition::Complete).await {
        removed.subtract(1);
        return Err(Fault::new(error.kind(), error.to_string()));
    }
    Ok(Delivery { message, lease: NatsLease::removed() })
}

fn number(delivery: &Delivery<NatsLease>) -> Option<u64> {
    delivery.message.received().map(|received| received.sequence_number.get())
}

/// Returns a delivery. If it is the last one of its message, the end of its lock is watched.
pub(crate) fn delivery(mut held: Box<Held>, place: JobPlace) -> Delivery<NatsLease> {
    let source = Arc::clone(&held.source);
    if held.count >= source.settings.max_delivery_count
        && matches!(source.place, Place::Main | Place::Deferred(_))
        && let Some(place) = source.inner.place()
    {
        let watched: Weak<dyn LastLock> = held.watch();
        place.send(Job::Last(held.lock.until(), watched));
    }
    Delivery { message: held.message.clone(), lease: NatsLease::new(held, place) }
}
