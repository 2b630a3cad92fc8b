//! Requests for messages that nobody waits for.
//!
//! A request cannot be withdrawn: nats-server 2.9 keeps one whose inbox has no subscriber, and when a message is to be
//! delivered again it takes it off its list before it sees that there is nobody (observed with 2.9.10: the message comes
//! when its lock would have ended, or counts as new). So the inbox stays, and what arrives there is given back.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_nats::Subscriber;
use futures_util::Stream;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    deliver::{self, Arrival},
    settle,
    source::Source,
};

/// How long the server keeps a request. A message that is to be delivered again as one ends is forgotten until its lock would
/// have ended (observed with nats-server 2.9.10). Requests are often made when a message was just given back with a delay, so
/// they last no round time.
pub(crate) const EXPIRES: Duration = Duration::from_millis(4_650);

/// How long a message waits for a receiver that has just stopped waiting for it.
const MOMENT: Duration = Duration::from_millis(100);

/// A request, and where its messages arrive.
pub(crate) struct Asked {
    pub(crate) subscriber: Subscriber,
    pub(crate) inbox: String,
    /// What has not come of it.
    pub(crate) outstanding: usize,
    /// What came while nobody waited.
    pub(crate) arrived: Vec<async_nats::Message>,
    pub(crate) at: Instant,
    /// All that came has come after this.
    pub(crate) empty_at: Instant,
    pub(crate) is_over: bool,
}

/// A request that nobody waits for. The receiver may take it back.
#[derive(Clone)]
pub(crate) struct Parked {
    slot: Arc<Mutex<Slot>>,
    source: Arc<Source>,
}

struct Slot {
    asked: Option<Asked>,
    keeper: Option<Waker>,
}

impl Parked {
    pub(crate) fn new(asked: Asked, source: Arc<Source>) -> Self {
        Self { slot: Arc::new(Mutex::new(Slot { asked: Some(asked), keeper: None })), source }
    }

    /// Takes it back, if it is still there and is for no more than `max` messages.
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

    /// The next message; `None` when there will be none, or when it was taken back.
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

    /// Leaves a message to a receiver that may be back in a moment. `None` if it has taken it.
    async fn offer(&self, message: async_nats::Message) -> Option<async_nats::Message> {
        if Arc::strong_count(&self.slot) == 1 {
            return Some(message);
        }
        self.slot.lock().asked.as_mut()?.arrived.push(message);
        sleep(MOMENT).await;
        self.slot.lock().asked.as_mut()?.arrived.pop()
    }

    /// What had come before the receiver stopped, unless it is back in a moment.
    async fn unclaimed(&self) -> Vec<async_nats::Message> {
        let arrived = |slot: &Slot| slot.asked.as_ref().is_some_and(|asked| !asked.arrived.is_empty());
        if arrived(&self.slot.lock()) && Arc::strong_count(&self.slot) > 1 {
            sleep(MOMENT).await;
        }
        self.slot.lock().asked.as_mut().map(|asked| std::mem::take(&mut asked.arrived)).unwrap_or_default()
    }

    async fn give_back(&self, message: async_nats::Message) {
        let locked = Instant::now() + self.source.settings.lock();
        match deliver::arrive(&self.source, message, locked).await {
            Ok(Arrival::Held(held)) => drop(settle::release(held, None).await),
            Ok(Arrival::Buried) | Err(_) => {}
        }
    }

    /// Gives back what arrives, until the request is over or taken back.
    pub(crate) async fn keep(self) {
        let Some(end) = self.slot.lock().asked.as_ref().map(|asked| asked.at + EXPIRES * 2) else { return };
        let all = async {
            for message in self.unclaimed().await {
                self.give_back(message).await;
            }
            while let Some(message) = std::future::poll_fn(|cx| self.poll_next(cx)).await {
                let Some(message) = self.offer(message).await else { break };
                self.give_back(message).await;
            }
        };
        let _ = timeout_at(end, all).await;
        drop(self.end());
    }
}
