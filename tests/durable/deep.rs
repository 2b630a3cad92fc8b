//! Queues that are deeper than the memory that they may take.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::support::{Disk, START, text};
use consign::{
    Message,
    administration::{QueueSettings, Status},
    broker::{Acknowledged, Broker, Queue},
    message::SequenceNumber,
    settlement::DeadLetter,
    time::ManualClock,
    transport::{Batch, ReceiverExt, Sender, SettleError},
};

const COUNT: usize = 2_000;

/// A broker with memory for a few of the messages that it gets.
fn open(disk: &Disk) -> (Broker, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(START));
    let options = Broker::options().clock(Arc::clone(&clock)).memory_budget(64 << 10);
    (options.open(disk.path()).unwrap(), clock)
}

fn body(number: usize) -> String {
    format!("{number:01000}")
}

async fn fill(queue: &Queue, ttl: Option<Duration>) {
    let sender = queue.sender().unwrap();
    for first in (0..COUNT).step_by(100) {
        let message = |number| {
            let message = Message::builder().property("number", number as u64);
            match ttl {
                Some(ttl) => message.time_to_live(ttl).build(body(number)),
                None => message.build(body(number)),
            }
        };
        let batch: Vec<Message> = (first..first + 100).map(|number| message(number).unwrap()).collect();
        sender.send_batch(Batch::from(batch)).await.unwrap();
    }
}

/// What has happened together is written together.
async fn all(settled: Vec<Acknowledged<(), SettleError>>) {
    for settled in settled {
        settled.await.unwrap();
    }
}

/// Everything comes, in order and as it was sent.
async fn drain(queue: &Queue) {
    let mut receiver = queue.receiver();
    let mut expected = 0;
    while expected < COUNT {
        let mut settled = Vec::new();
        for delivery in receiver.receive_batch(70).await.unwrap() {
            assert_eq!(text(&delivery.message), body(expected));
            assert_eq!(delivery.message.received().unwrap().sequence_number.get(), expected as u64 + 1);
            settled.push(delivery.complete());
            expected += 1;
        }
        all(settled).await;
    }
    assert_eq!((queue.counts().active, queue.counts().size), (0, 0));
}

/// Rules: D-05.
#[tokio::test]
async fn messages_beyond_the_budget_are_read_from_the_disk() {
    let disk = Disk::new();
    let (broker, _) = open(&disk);
    let queue = broker.create_queue("deep", QueueSettings::default()).unwrap();
    fill(&queue, None).await;
    broker.flush().await.unwrap();
    // What is looked at is what was sent, wherever it is.
    for from in [1, 50, 1_000, 1_990] {
        let peeked = queue.peek(SequenceNumber::new(from), 10);
        let expected = (from - 1..from + 9).map(|number| body(usize::try_from(number).unwrap()));
        assert!(peeked.iter().map(|message| text(message).to_owned()).eq(expected), "{from}");
    }
    drain(&queue).await;
}

/// Rules: D-05.
#[tokio::test]
async fn messages_beyond_the_budget_are_not_read_when_a_broker_is_opened() {
    let disk = Disk::new();
    let (broker, _) = open(&disk);
    fill(&broker.create_queue("deep", QueueSettings::default()).unwrap(), None).await;
    broker.close().await.unwrap();
    let (broker, _) = open(&disk);
    assert_eq!(broker.recovery().unwrap().messages, COUNT as u64);
    drain(&broker.queue("deep").unwrap()).await;
}

/// Rules: D-05.
#[tokio::test]
async fn messages_expire_on_the_disk_as_they_do_in_memory() {
    let disk = Disk::new();
    let (broker, clock) = open(&disk);
    let settings = QueueSettings::default().dead_letter_on_expiration(true);
    let queue = broker.create_queue("deep", settings).unwrap();
    fill(&queue, Some(Duration::from_secs(60))).await;
    broker.flush().await.unwrap();
    clock.advance(Duration::from_secs(60));
    let dead = queue.dead_letter();
    assert_eq!((queue.counts().active, dead.counts().active), (0, COUNT));
    let size = queue.counts().size;
    let peeked = dead.peek(SequenceNumber::new(1_500), 1).pop().unwrap();
    let reason = |message: &Message| {
        message.application_properties().get(DeadLetter::REASON).map(|it| it.as_str().unwrap().to_owned())
    };
    assert_eq!(reason(&peeked).as_deref(), Some("TTLExpiredException"));
    let mut receiver = dead.receiver();
    let mut held = Vec::new();
    while held.len() < COUNT {
        held.extend(receiver.receive_batch(100).await.unwrap());
    }
    assert_eq!(queue.counts().size, size, "it was counted when they expired");
    let mut settled = Vec::new();
    for (number, delivery) in held.into_iter().enumerate() {
        assert_eq!(text(&delivery.message), body(number));
        assert_eq!(reason(&delivery.message), reason(&peeked));
        settled.push(delivery.complete());
    }
    all(settled).await;
    assert_eq!(queue.counts().size, 0);
}

/// Rules: D-05.
#[tokio::test]
async fn a_deep_queue_can_be_purged() {
    let disk = Disk::new();
    let (broker, _) = open(&disk);
    let purged = broker.create_queue("purged", QueueSettings::default()).unwrap();
    fill(&purged, None).await;
    broker.flush().await.unwrap();
    assert_eq!(purged.delete_messages(4_000, None).await.unwrap(), COUNT);
    assert_eq!((purged.counts().active, purged.counts().size), (0, 0));
}

/// Rules: D-05, Q-09.
/// What is in memory waits for what was accepted before it and is on the disk only, and so does what comes meanwhile. In the
/// middle of it the broker is opened again.
#[tokio::test]
async fn a_deep_queue_is_forwarded_in_order() {
    let disk = Disk::new();
    let (broker, _) = open(&disk);
    let settings = QueueSettings::default;
    let deep = broker.declare_queue("deep", settings()).unwrap();
    fill(&deep, None).await;
    // Some of the first batch and of the last are in memory, and the rest is not.
    broker.flush().await.unwrap();
    broker.declare_queue("target", settings()).unwrap();
    broker.update_queue("deep", settings().forward_to("target")).unwrap();
    let mut sent = COUNT;
    let mut next = 0;
    let mut broker = Some(broker);
    while next < sent {
        let this = broker.take().unwrap_or_else(|| open(&disk).0);
        let (deep, target) = (this.queue("deep").unwrap(), this.queue("target").unwrap());
        let mut receiver = target.receiver();
        for round in 0..5 {
            if sent < COUNT + 200 {
                deep.sender().unwrap().send(Message::new(body(sent))).await.unwrap();
                sent += 1;
            }
            let mut settled = Vec::new();
            if next == sent {
                break;
            }
            let received = tokio::time::timeout(Duration::from_secs(30), receiver.receive_batch(60)).await;
            for delivery in received.unwrap().unwrap() {
                assert!(text(&delivery.message) == body(next), "round {round}: {next} is not next");
                settled.push(delivery.complete());
                next += 1;
            }
            all(settled).await;
        }
        this.close().await.unwrap();
    }
    let (broker, _) = open(&disk);
    let left = ["deep", "target"].map(|path| broker.queue(path).unwrap().counts().active);
    assert_eq!(left, [0, 0]);
}

/// Rules: D-05, Q-09.
/// It does not need a send, or to be opened again, to go on.
#[tokio::test]
async fn a_deep_queue_is_forwarded_to_its_end() {
    let disk = Disk::new();
    let (broker, _) = open(&disk);
    let settings = QueueSettings::default;
    let deep = broker.create_queue("deep", settings()).unwrap();
    fill(&deep, None).await;
    broker.flush().await.unwrap();
    let target = broker.create_queue("target", settings()).unwrap();
    broker.update_queue("deep", settings().forward_to("target")).unwrap();
    tokio::time::timeout(Duration::from_secs(30), drain(&target)).await.unwrap();
    assert_eq!(deep.counts().active, 0);
}

/// Rules: D-05.
/// Those of the disk too, when their target takes them again.
#[tokio::test]
async fn deep_dead_letters_leave_when_their_target_takes_them() {
    let disk = Disk::new();
    let (broker, clock) = open(&disk);
    let closed = QueueSettings::default().status(Status::SendDisabled);
    let target = broker.create_queue("target", closed).unwrap();
    let settings = QueueSettings::default().dead_letter_on_expiration(true).forward_dead_letters_to("target");
    let queue = broker.create_queue("deep", settings).unwrap();
    fill(&queue, Some(Duration::from_secs(60))).await;
    broker.flush().await.unwrap();
    clock.advance(Duration::from_secs(60));
    assert_eq!(queue.counts().dead_lettered, COUNT);
    for _ in 0..3 {
        clock.advance(Duration::from_secs(10));
        assert_eq!(target.counts().active, 0);
        broker.flush().await.unwrap();
    }
    broker.update_queue("target", QueueSettings::default()).unwrap();
    clock.advance(Duration::from_secs(10));
    let mut receiver = target.receiver();
    let mut seen = BTreeSet::new();
    while seen.len() < COUNT {
        let mut settled = Vec::new();
        let received = tokio::time::timeout(Duration::from_secs(30), receiver.receive_batch(100)).await;
        for delivery in received.unwrap().unwrap() {
            assert_eq!(delivery.message.dead_letter_reason(), Some("TTLExpiredException"));
            assert!(seen.insert(text(&delivery.message).to_owned()));
            settled.push(delivery.complete());
        }
        all(settled).await;
    }
    assert_eq!((queue.counts().dead_lettered, target.counts().active), (0, 0));
}

/// Rules: D-02.
/// What has expired on the disk is a dead letter, whatever is to become of what expires later.
#[tokio::test]
async fn dead_letters_stay_dead_letters_when_the_settings_change() {
    let mut disk = Disk::new();
    let (broker, clock) = open(&disk);
    let settings = QueueSettings::default().dead_letter_on_expiration(true);
    let queue = broker.create_queue("deep", settings).unwrap();
    fill(&queue, Some(Duration::from_secs(60))).await;
    broker.flush().await.unwrap();
    clock.advance(Duration::from_secs(60));
    assert_eq!(queue.counts().dead_lettered, COUNT);
    broker.update_queue("deep", QueueSettings::default()).unwrap();
    broker.close().await.unwrap();
    disk.advance(Duration::from_secs(60));
    let (broker, _) = disk.open();
    let queue = broker.queue("deep").unwrap();
    assert_eq!((queue.counts().active, queue.counts().dead_lettered), (0, COUNT));
    let peeked = queue.dead_letter().peek(SequenceNumber::new(1), COUNT);
    assert!(peeked.iter().all(|it| it.dead_letter_reason() == Some("TTLExpiredException")));
}
