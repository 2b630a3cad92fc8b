//! What the processes do whose system calls are recorded, by the public API.

use std::{ops::RangeInclusive, path::Path};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    transport::{Delivery, ReceiverExt, Sender},
};
use fastrand::Rng;

use super::told::Told;

pub(super) const STORE: &str = "store";
pub(super) const COPY: &str = "copy";
pub(super) const QUEUE: &str = "orders";

/// What has the store large enough for pages to be freed and moved.
pub(super) const FILLED: RangeInclusive<u64> = 1_000..=1_039;

/// The bytes of a message follow from its id.
fn body(id: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(id);
    let length = if id.is_multiple_of(4) { rng.usize(..30_000) } else { rng.usize(..500) };
    std::iter::repeat_with(|| rng.u8(..)).take(length).collect()
}

pub(super) fn message(id: u64) -> Message {
    Message::builder().message_id(id.to_string()).build(body(id)).unwrap()
}

/// The id of a message, if it has the bytes that were sent.
pub(super) fn id(message: &Message) -> Option<u64> {
    let id = message.message_id()?.parse().ok()?;
    (message.payload()?[..] == body(id)[..]).then_some(id)
}

pub(super) fn queue(broker: &Broker) -> Queue {
    broker.queue(QUEUE).unwrap_or_else(|_| broker.create_queue(QUEUE, QueueSettings::default()).unwrap())
}

/// So many at once, one group after the other.
async fn send(queue: &Queue, ids: RangeInclusive<u64>, at_once: usize) {
    let sender = queue.sender().unwrap();
    for group in ids.collect::<Vec<_>>().chunks(at_once) {
        let mut answers = Vec::new();
        for &id in group {
            Told::Sends(id).say();
            answers.push((id, sender.send(message(id))));
        }
        for (id, answer) in answers {
            answer.await.unwrap();
            Told::Sent(id).say();
        }
    }
}

/// A store with messages in it, of a process that is not recorded.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn fill(root: &Path) {
    let broker = Broker::open(root.join(STORE)).unwrap();
    let sender = queue(&broker).sender().unwrap();
    for id in FILLED {
        sender.send(message(id)).await.unwrap();
    }
    broker.close().await.unwrap();
}

/// Opens the store, or creates it, and sends messages from this id on.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn create(root: &Path, first: u64) {
    let broker = Broker::open(root.join(STORE)).unwrap();
    let queue = queue(&broker);
    send(&queue, first..=first + 2, 1).await;
    send(&queue, first + 3..=first + 8, 3).await;
    broker.close().await.unwrap();
}

#[tokio::main(flavor = "current_thread")]
pub(super) async fn back_up(root: &Path) {
    let broker = Broker::open(root.join(STORE)).unwrap();
    let queue = queue(&broker);
    send(&queue, 1..=2, 1).await;
    Told::BacksUp.say();
    broker.backup(root.join(COPY)).unwrap();
    Told::BackedUp.say();
    send(&queue, 3..=4, 1).await;
    broker.close().await.unwrap();
}

#[tokio::main(flavor = "current_thread")]
pub(super) async fn compact(root: &Path) {
    let broker = Broker::open(root.join(STORE)).unwrap();
    let queue = queue(&broker);
    let held = queue.receiver().receive_batch(30).await.unwrap();
    for delivery in held {
        complete(delivery).await;
    }
    send(&queue, 1..=3, 3).await;
    broker.compact().await.unwrap();
    send(&queue, 4..=6, 1).await;
    broker.close().await.unwrap();
}

async fn complete<L: consign::transport::Lease>(delivery: Delivery<L>) {
    let id = id(&delivery.message).unwrap();
    Told::Completes(id).say();
    delivery.complete().await.unwrap();
    Told::Completed(id).say();
}
