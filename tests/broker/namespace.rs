//! A broker with as many entities as a test needs, on a clock that the test moves.

use std::{fmt::Write, sync::Arc, task::Poll, time::Duration};

use consign::{
    Message,
    administration::{EntityKind, QueueSettings, TopicSettings},
    broker::{Broker, Queue, QueueLease, QueueSender, Topic},
    message::{MessageBody, SequenceNumber},
    time::ManualClock,
    transport::{Delivery, ErrorKind, ReceiverExt, Sender},
};
use tokio_test::task;

use crate::support::{MS, START, facts, settings, text};

pub(crate) struct Namespace {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) broker: Broker,
}

impl Namespace {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::new(START));
        Self { broker: Broker::with_clock(Arc::clone(&clock)), clock }
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub(crate) fn queue(&self, path: &str) -> Queue {
        self.queue_with(path, settings())
    }

    pub(crate) fn queue_with(&self, path: &str, settings: QueueSettings) -> Queue {
        self.broker.create_queue(path, settings).unwrap()
    }

    pub(crate) fn topic(&self, path: &str) -> Topic {
        self.broker.create_topic(path, TopicSettings::default()).unwrap()
    }

    /// All that can be seen of all entities without changing any.
    pub(crate) fn snapshot(&self) -> String {
        let mut seen = String::new();
        for entity in self.broker.entities() {
            let path = entity.path.as_str();
            if entity.kind == EntityKind::Topic {
                let topic = self.broker.topic(path).unwrap();
                writeln!(seen, "{path}: {:?}", topic.counts()).unwrap();
                list(&mut seen, &topic.peek(SequenceNumber::new(0), usize::MAX));
            } else {
                let queue = self.broker.queue(path).unwrap();
                for part in [queue.clone(), queue.dead_letter(), queue.transfer_dead_letter()] {
                    writeln!(seen, "{}: {:?}", part.path(), part.counts()).unwrap();
                    list(&mut seen, &peek(&part));
                }
            }
        }
        seen
    }
}

fn list(seen: &mut String, messages: &[Message]) {
    for message in messages {
        writeln!(seen, "  {:?} {} {:?}", message.message_id(), text(message), facts(message)).unwrap();
    }
}

/// A millisecond less.
pub(crate) fn almost(duration: Duration) -> Duration {
    duration.saturating_sub(MS)
}

pub(crate) fn with_id(id: &'static str) -> Message {
    Message::builder().message_id(id).build(id).unwrap()
}

pub(crate) fn try_send(sender: &QueueSender, message: Message) -> Result<(), ErrorKind> {
    sender.send(message).wait().map_err(|error| error.kind())
}

/// Sends a message that is accepted.
pub(crate) fn send(queue: &Queue, body: impl Into<MessageBody>) {
    try_send(&queue.sender().unwrap(), Message::new(body)).unwrap();
}

pub(crate) fn publish(topic: &Topic, body: impl Into<MessageBody>) {
    try_send(&topic.sender(), Message::new(body)).unwrap();
}

pub(crate) fn peek(queue: &Queue) -> Vec<Message> {
    queue.peek(SequenceNumber::new(0), usize::MAX)
}

/// The bodies of what a peek shows.
pub(crate) fn bodies(queue: &Queue) -> Vec<String> {
    peek(queue).iter().map(|message| text(message).to_owned()).collect()
}

/// The sequence numbers of what a peek shows.
pub(crate) fn numbers(queue: &Queue) -> Vec<u64> {
    peek(queue).iter().map(|message| facts(message).sequence_number.get()).collect()
}

/// What a receive of up to `max` answers that does not wait.
pub(crate) fn try_take(queue: &Queue, max: usize) -> Result<Vec<Delivery<QueueLease>>, ErrorKind> {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    }
    RUNTIME.with(|runtime| {
        let _entered = runtime.enter();
        let mut receiver = queue.receiver();
        match task::spawn(receiver.receive_batch(max)).poll() {
            Poll::Ready(received) => received.map_err(|error| error.kind()),
            Poll::Pending => Ok(Vec::new()),
        }
    })
}

/// The next message, which has to be there.
pub(crate) fn receive(queue: &Queue) -> Delivery<QueueLease> {
    try_take(queue, 1).unwrap().pop().expect("a message is available")
}

/// Active, locked, deferred, scheduled, dead-lettered.
pub(crate) fn counts(queue: &Queue) -> [usize; 5] {
    let counts = queue.counts();
    [counts.active, counts.locked, counts.deferred, counts.scheduled, counts.dead_lettered]
}
