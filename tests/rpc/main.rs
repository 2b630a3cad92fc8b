//! Requests and replies over the embedded broker.

#![cfg(feature = "full")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod calls;
mod direct;
mod failing;
mod faults;
mod formats;
mod gather;
mod log;
mod poison;
mod replay;
mod responder;
mod restarted;
mod shuffled;
mod styles;
mod supervisor;
mod unanswered;

use std::{future::Future, sync::Arc, time::Duration};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueLease, QueueReceiver, QueueSender},
    message::EntityPath,
    rpc::{ReplyQueue, ReplySenders, Requester, RequesterBuilder},
    time::SystemClock,
    transport::{Delivery, ReceiverExt, ReplySource, SendService, Sender},
};
use tokio::time::timeout;

type QueueRequester = Requester<SendService<QueueSender>>;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A broker with a queue for requests and one for replies.
struct Bench {
    clock: Arc<SystemClock>,
    broker: Broker,
    requests: Queue,
    replies: Queue,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(SystemClock::new());
        let broker = Broker::with_clock(Arc::clone(&clock));
        let requests = broker.create_queue("requests", QueueSettings::default()).unwrap();
        let replies = broker.create_queue("replies", QueueSettings::default()).unwrap();
        Self { clock, broker, requests, replies }
    }

    /// A requester whose replies are received by a task.
    fn requester(&self) -> QueueRequester {
        self.requester_with(self.reply_queue())
    }

    fn requester_with(&self, source: impl ReplySource) -> QueueRequester {
        let sender = SendService::new(self.requests.sender().unwrap());
        let (requester, replies) = Requester::builder(sender).build(source).unwrap();
        tokio::spawn(replies.run());
        requester
    }

    fn reply_queue(&self) -> ReplyQueue<QueueReceiver> {
        ReplyQueue::new("replies", self.replies.receiver())
    }

    fn senders(&self) -> impl ReplySenders {
        let broker = self.broker.clone();
        move |address: &EntityPath| Ok(SendService::new(broker.sender(address)?))
    }

    /// The next request, as a responder that is no `Responder` sees it.
    async fn request(&self) -> Delivery<QueueLease> {
        within(self.requests.receiver().receive()).await.unwrap()
    }

    async fn reply(&self, message: Message) {
        self.replies.sender().unwrap().send(message).await.unwrap();
    }

    fn is_idle(&self) -> bool {
        let is_empty = |queue: &Queue| {
            let counts = queue.counts();
            (counts.active, counts.locked, counts.dead_lettered) == (0, 0, 0)
        };
        is_empty(&self.requests) && is_empty(&self.replies)
    }
}

/// A requester with a long timeout, which has no source of replies yet.
fn request_builder(bench: &Bench) -> RequesterBuilder<SendService<QueueSender>> {
    Requester::builder(SendService::new(bench.requests.sender().unwrap())).timeout(seconds(3_600))
}

/// A reply to `request` with this body, as the rows want it.
fn answer(request: &Message, body: impl Into<Vec<u8>>) -> Message {
    Message::builder().correlation_id(request.message_id().unwrap().to_owned()).build(body.into()).unwrap()
}

fn text(message: &Message) -> &str {
    std::str::from_utf8(message.payload().unwrap()).unwrap()
}

/// Fails instead of hanging: an hour of virtual time is long for any of these.
async fn within<F: Future>(future: F) -> F::Output {
    timeout(seconds(3_600), future).await.expect("it ends within an hour of virtual time")
}

/// Lets every task run that can.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
