//! The requests of a receiver, and those without a waiting receive.

use std::sync::Arc;

use async_nats::{Request, StatusCode};
use bytes::Bytes;
use consign_core::transport::{ErrorKind, ReceiveError};
use tokio::time::Instant;

use super::NatsReceiver;
use crate::{
    error::Fault,
    jobs::Job,
    pending_requests::{Asked, PendingRequest},
    request_times::{GRACE, LONGEST},
};

impl NatsReceiver {
    /// Requests up to `max` messages: the available ones, or the next one. The request ends when one has arrived and there are
    /// no more.
    pub(super) fn ask(&mut self, max: usize) {
        let limits = self.source.request_limits;
        let max = max.min(limits.messages);
        self.lasts = self.next_lasts.min(limits.lasts);
        let expires = u64::try_from(self.lasts.as_nanos()).unwrap_or(u64::MAX);
        let payload = format!(r#"{{"batch":{max},"expires":{expires},"no_wait":true}}"#);
        let request = Request::new().payload(Bytes::from(payload)).inbox(self.inbox.clone());
        let (inner, next) = (Arc::clone(&self.source.inner), self.source.next());
        let inbox = self.subscriber.is_none().then(|| self.inbox.clone());
        let awaits = self.older.is_awaited();
        (self.outstanding, self.has_begun) = (max, false);
        (self.asked_at, self.empty_at) = (Instant::now(), Instant::now());
        self.await_end();
        self.asking = Some(Box::pin(async move {
            let asked = async {
                let subscriber = match inbox {
                    Some(inbox) => Some(inner.client.subscribe(inbox).await.map_err(|error| Fault::broken(&error))?),
                    None => None,
                };
                inner.context.send_request(next, request).await.map_err(|error| Fault::broken(&error))?;
                if awaits {
                    // The patience for an older message begins when this has left.
                    inner.client.flush().await.map_err(|error| Fault::broken(&error))?;
                }
                Ok(subscriber)
            };
            let in_time = tokio::time::timeout(inner.timeout, asked).await;
            in_time.unwrap_or_else(|_| Err(Fault::timed_out("a request for messages")))
        }));
    }

    /// Waits for the end of the request until it counts as lost.
    pub(super) fn await_end(&mut self) {
        let lost_at = self.is_lost_at();
        self.tick.as_mut().reset(lost_at);
    }

    /// Returns when a request without an end counts as lost.
    pub(super) fn is_lost_at(&self) -> Instant {
        self.asked_at + self.lasts + GRACE
    }

    /// Gives up a request that may be lost. A session keeps the same inbox: if the request still exists, its messages precede
    /// those of the next one.
    pub(super) fn give_up(&mut self) {
        if self.source.session_lock().is_none() {
            self.park();
        } else {
            (self.asking, self.outstanding, self.has_begun) = (None, 0, false);
        }
    }

    /// Gives up a request without an end, which the server has lost, and maybe its messages. It is asked why before the next one.
    pub(super) fn lose_request(&mut self) {
        self.doubt();
        self.give_up();
        self.pending = None;
        let is_repeated = self.lost > 0;
        self.lost = self.lost.saturating_add(1);
        let (source, asked_at) = (Arc::clone(&self.source), self.asked_at);
        self.looking = Some(Box::pin(async move { source.why_request_is_lost(asked_at, is_repeated).await }));
    }

    /// Gives the request to the connection's task, which releases messages in transit.
    pub(super) fn park(&mut self) {
        self.asking = None;
        let outstanding = std::mem::take(&mut self.outstanding);
        let Some(subscriber) = self.subscriber.take() else { return };
        let inbox = std::mem::replace(&mut self.inbox, self.source.inner.client.new_inbox());
        if outstanding == 0 && self.unplaced.is_empty() {
            return;
        }
        // Without a place in the queue the messages are redelivered when their locks end.
        if let Some(place) = self.cleanup.take() {
            let (at, lasts, empty_at) = (self.asked_at, self.lasts, self.empty_at);
            let arrived = self.unplaced.drain(..).map(|(message, _)| message).collect();
            let is_over = outstanding == 0;
            let asked = Asked { subscriber, inbox, outstanding, arrived, at, lasts, empty_at, is_over };
            let pending = PendingRequest::new(asked, Arc::clone(&self.source));
            place.send(Job::Keep(Box::pin(pending.clone().keep())));
            self.pending = Some(pending);
        }
        self.cleanup = self.source.inner.place();
    }

    /// Waits for a parked request again.
    pub(super) fn unpark(&mut self, max: usize) -> Result<(), ReceiveError> {
        let Some(asked) = self.pending.take().and_then(|pending| pending.take(max)) else { return Ok(()) };
        (self.subscriber, self.inbox) = (Some(asked.subscriber), asked.inbox);
        (self.outstanding, self.has_begun) = (asked.outstanding, false);
        (self.asked_at, self.lasts) = (asked.at, asked.lasts);
        self.await_end();
        // The locks of messages that arrived meanwhile have begun then.
        self.empty_at = asked.empty_at;
        if asked.is_over {
            self.outstanding = 0;
        }
        let until = self.locked_until();
        self.unplaced.extend(asked.arrived.into_iter().map(|message| (message, until)));
        self.place_all()
    }

    /// Handles the end of the request, or the heartbeat of the server.
    pub(super) fn ended(&mut self, status: StatusCode, description: Option<&str>) -> Result<(), ReceiveError> {
        if status == StatusCode::IDLE_HEARTBEAT {
            return Ok(());
        }
        (self.outstanding, self.lost) = (0, 0);
        if status == StatusCode::NOT_FOUND || status == StatusCode::TIMEOUT {
            if !self.has_begun {
                self.next_lasts = (self.lasts * 2).min(LONGEST);
            }
            return Ok(());
        }
        self.doubt();
        let description = description.unwrap_or_default();
        // A server that loses the consumer to another one may say so too.
        let is_deleted = description.eq_ignore_ascii_case("Consumer Deleted");
        if status == StatusCode::NO_RESPONDERS || is_deleted {
            let source = Arc::clone(&self.source);
            self.looking = Some(Box::pin(async move { Err(source.why_no_answer().await) }));
            return Ok(());
        }
        let why = format!("the server ended the request: {status} {description}");
        Err(ReceiveError::new(ErrorKind::ServiceBusy).with_detail(why))
    }
}
