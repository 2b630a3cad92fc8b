//! Requests for messages without a waiting receive.
//!
//! A request cannot be withdrawn. nats-server 2.9 keeps a request whose inbox has no subscriber, and takes a message that is to
//! be redelivered off its list before it detects that (observed with 2.9.10: the message is redelivered when its lock would
//! have ended, or counts as new). So the inbox stays, and messages that arrive there are released.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_nats::Subscriber;
use futures_util::Stream;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{
    deliver::{self, Arrival},
    request_times::GRACE,
    settle,
    source::Source,
};

/// How long a message waits for a receiver that has just stopped waiting for it.
const MOMENT: Duration = Duration::from_millis(100);

/// A request, and the inbox of its messages.
pub(crate) struct Asked {
    pub(crate) subscriber: Subscriber,
    pub(crate) inbox: String,
    /// How many messages have not arrived.
    pub(crate) outstanding: usize,
    /// Messages that arrived without a waiting receive.
    pub(crate) arrived: Vec<async_nats::Message>,
    pub(crate) at: Instant,
    /// How long the server keeps it.
    pub(crate) lasts: Duration,
    /// All messages here have arrived after this.
    pub(crate) empty_at: Instant,
    pub(crate) is_over: bool,
}

/// A request without a waiting receive. The receiver may take it back.
#[derive(Clone)]
pub(crate) struct PendingRequest {
    slot: Arc<Mutex<Slot>>,
    source: Arc<Source>,
}

struct Slot {
    asked: Option<Asked>,
    keeper: Option<Waker>,
}

impl PendingRequest {
    pub(crate) fn new(asked: Asked, source: Arc<Source>) -> Self {
        Self { slot: Arc::new(Mutex::new(Slot { asked: Some(asked), keeper: None })), source }
    }

    /// Takes the request back, if it is still open and is for no more than `max` messages.
    pub(crate) fn take(&self, max: usize) -> Option<Asked> {
        let mut slot = self.slot.lock();
        if slot.asked.as_ref()?.outstanding + slot.asked.as_ref()?.arrived.len() > max {
            return None;
        }
        if let Some(keeper) = slot.keeper.take() {
            keeper.wake();
        }
        slot.asked.take()
    }

    fn end(&self) -> Option<Asked> {
        self.slot.lock().asked.take()
    }

    /// Polls for the next message; `None` when there will be none, or when the request was taken back.
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<async_nats::Message>> {
        let mut slot = self.slot.lock();
        let Some(asked) = &mut slot.asked else { return Poll::Ready(None) };
        if asked.outstanding == 0 || asked.is_over {
            return Poll::Ready(None);
        }
        match Pin::new(&mut asked.subscriber).poll_next(cx) {
            Poll::Ready(Some(message)) => {
                asked.outstanding -= 1;
                if message.status.is_none() {
                    return Poll::Ready(Some(message));
                }
                // That was the end of the request.
                asked.is_over = true;
                Poll::Ready(None)
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                asked.empty_at = Instant::now();
                slot.keeper = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Offers a message to a receiver that may return in a moment. `None` if it has taken it.
    async fn offer(&self, message: async_nats::Message) -> Option<async_nats::Message> {
        if Arc::strong_count(&self.slot) == 1 {
            return Some(message);
        }
        self.slot.lock().asked.as_mut()?.arrived.push(message);
        sleep(MOMENT).await;
        self.slot.lock().asked.as_mut()?.arrived.pop()
    }

    /// Returns messages from before the receiver stopped, unless it returns in a moment.
    async fn unclaimed(&self) -> Vec<async_nats::Message> {
        let arrived = |slot: &Slot| slot.asked.as_ref().is_some_and(|asked| !asked.arrived.is_empty());
        if arrived(&self.slot.lock()) && Arc::strong_count(&self.slot) > 1 {
            sleep(MOMENT).await;
        }
        self.slot.lock().asked.as_mut().map(|asked| std::mem::take(&mut asked.arrived)).unwrap_or_default()
    }

    async fn give_back(&self, message: async_nats::Message) {
        let locked = Instant::now() + self.source.settings.lock();
        let releasing = async {
            match deliver::arrive(&self.source, message, locked).await {
                Ok(Arrival::Held(held)) => drop(settle::release(held, None).await),
                Ok(Arrival::Buried) | Err(_) => {}
            }
        };
        // A client without a connection may not take it. Then the lock ends.
        let _ = timeout(self.source.inner.timeout, releasing).await;
    }

    /// Releases messages that arrive, until the request is over or taken back.
    pub(crate) async fn keep(self) {
        let end = self.slot.lock().asked.as_ref().map(|asked| asked.at + asked.lasts + GRACE);
        let Some(end) = end else { return };
        for message in self.unclaimed().await {
            self.give_back(message).await;
        }
        // A message that has arrived is taken also after the end: the receiver may not have been polled for longer.
        while let Ok(Some(message)) = timeout_at(end, std::future::poll_fn(|cx| self.poll_next(cx))).await {
            let Some(message) = self.offer(message).await else { break };
            self.give_back(message).await;
        }
        drop(self.end());
    }
}
