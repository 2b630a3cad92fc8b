//! Calls that are made together are one commit.

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    transport::{CompleteAll, Delivery, Lease, PresettledSender, ReceiverExt, Sender},
};
use futures_util::{FutureExt, future::try_join_all};

use crate::support::{Disk, receive, texts};

const MESSAGES: usize = 64;

fn commits(broker: &Broker) -> u64 {
    broker.store_statistics().unwrap().commits
}

/// A broker with two queues, and nothing left to write.
async fn opened(disk: &Disk) -> (Broker, [Queue; 2]) {
    let (broker, _) = disk.open();
    let queues = ["orders", "events"].map(|name| broker.create_queue(name, QueueSettings::default()).unwrap());
    broker.flush().await.unwrap();
    (broker, queues)
}

async fn send(queues: &[Queue]) {
    let senders: Vec<_> = queues.iter().map(|queue| queue.sender().unwrap()).collect();
    let sends = senders.iter().cycle().take(MESSAGES).map(|sender| sender.send(Message::new("a")));
    try_join_all(sends.collect::<Vec<_>>()).await.unwrap();
}

/// Rules: D-290.
#[tokio::test]
async fn sends_that_are_made_together_are_one_commit() {
    let disk = Disk::quick();
    let (broker, queues) = opened(&disk).await;
    let before = commits(&broker);
    send(&queues).await;
    assert_eq!(commits(&broker), before + 1);
}

/// Rules: D-290.
#[tokio::test]
async fn completions_that_are_made_together_are_one_commit() {
    let disk = Disk::quick();
    let (broker, queues) = opened(&disk).await;
    send(&queues).await;
    let mut deliveries = receive(&queues[0]).await;
    deliveries.extend(receive(&queues[1]).await);
    assert_eq!(deliveries.len(), MESSAGES);
    let others = deliveries.split_off(MESSAGES / 4);
    let before = commits(&broker);
    try_join_all(deliveries.into_iter().map(Delivery::complete)).await.unwrap();
    assert_eq!(commits(&broker), before + 1);
    // Of two queues in turn.
    let mut leases: Vec<_> = others.into_iter().map(|delivery| delivery.lease).collect();
    let middle = leases.len() / 2;
    let (first, second) = leases.split_at_mut(middle);
    first.iter_mut().step_by(2).zip(second.iter_mut().step_by(2)).for_each(|(one, other)| std::mem::swap(one, other));
    let all: CompleteAll<_> = Lease::complete_all(&mut leases);
    all.await.unwrap();
    assert_eq!(commits(&broker), before + 2);
    assert!(queues.iter().all(|queue| queue.counts().locked == 0));
}

/// Rules: D-290.
#[tokio::test]
async fn a_call_that_is_not_awaited_is_written() {
    let disk = Disk::quick();
    let (broker, [queue, _]) = opened(&disk).await;
    let sender = queue.sender().unwrap();
    let before = commits(&broker);
    drop(sender.send(Message::new("dropped")));
    // No call of a user asks for it.
    while commits(&broker) == before {
        std::thread::yield_now();
    }
    sender.send_presettled(Message::new("presettled")).await;
    while commits(&broker) == before + 1 {
        std::thread::yield_now();
    }
    assert_eq!(queue.counts().active, 2);
}

/// Rules: D-290.
#[tokio::test]
async fn a_call_that_is_kept_is_written_with_the_next_one() {
    let disk = Disk::quick();
    let (broker, [queue, other]) = opened(&disk).await;
    let before = commits(&broker);
    let kept = queue.sender().unwrap().send(Message::new("kept"));
    other.sender().unwrap().send(Message::new("waited for")).await.unwrap();
    assert_eq!(commits(&broker), before + 1);
    kept.await.unwrap();
    assert_eq!(commits(&broker), before + 1);
}

/// Rules: D-290.
#[tokio::test]
async fn messages_of_a_cancelled_receive_are_received_in_order_by_later_ones() {
    let disk = Disk::new();
    let (broker, _) = disk.open();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let sender = queue.sender().unwrap();
    for number in 0..10 {
        sender.send(Message::new(number.to_string())).await.unwrap();
    }
    let mut receiver = queue.receive_and_delete();
    // They are removed, and the removal is not on the disk yet.
    assert!(receiver.receive_batch(10).now_or_never().is_none());
    assert!(receiver.is_removing());
    let mut received = vec![receiver.receive().await.unwrap()];
    received.extend(receiver.receive_batch(3).await.unwrap());
    received.extend(receiver.receive_batch(100).await.unwrap());
    assert_eq!(texts(&received), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    assert!(!receiver.is_removing());
}
