//! Locks that outlive the process.

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, OpenOptions},
    transport::{Lease, ReceiverExt, Sender},
};

use crate::support::{Disk, receive, texts};

const SECOND: Duration = Duration::from_secs(1);

fn holding() -> OpenOptions {
    Broker::options().hold_locks(true)
}

/// Rules: D-03.
#[tokio::test]
async fn a_lock_holds_until_its_time_is_over() {
    let mut disk = Disk::new();
    let (broker, clock) = disk.open_with(holding());
    let settings = QueueSettings::default().lock_duration(10 * SECOND);
    let queue = broker.create_queue("orders", settings).unwrap();
    for body in ["lost", "renewed", "released", "abandoned", "deferred"] {
        queue.sender().unwrap().send(Message::new(body)).await.unwrap();
    }
    broker.flush().await.unwrap();
    let mut held = receive(&queue).await;
    broker.flush().await.unwrap();
    clock.advance(5 * SECOND);
    held.pop().unwrap().defer().await.unwrap();
    held.pop().unwrap().abandon().await.unwrap();
    held.pop().unwrap().lease.release().await.unwrap();
    held[1].lease.renew().await.unwrap();
    broker.close().await.unwrap();
    drop(held);

    disk.advance(8 * SECOND);
    let (broker, clock) = disk.open_with(holding());
    let queue = broker.queue("orders").unwrap();
    let counts = queue.counts();
    assert_eq!((counts.active, counts.locked, counts.deferred), (2, 2, 1));
    let free = receive(&queue).await;
    assert_eq!(texts(&free), ["released", "abandoned"]);
    clock.advance(2 * SECOND);
    let lost = receive(&queue).await;
    assert_eq!(texts(&lost), ["lost"]);
    assert_eq!(lost[0].message.received().unwrap().delivery_count, 2, "its delivery has failed");
    clock.advance(4 * SECOND);
    assert_eq!(queue.counts().active, 0);
    clock.advance(SECOND);
    assert_eq!(texts(&receive(&queue).await), ["renewed"]);
}

/// Rules: D-03.
/// It ran out while no broker was open.
#[tokio::test]
async fn a_lock_that_ran_out_meanwhile_has_counted() {
    let mut disk = Disk::new();
    let (broker, _) = disk.open_with(holding());
    let settings = QueueSettings::default().lock_duration(10 * SECOND).max_delivery_count(1);
    let queue = broker.create_queue("orders", settings).unwrap();
    queue.sender().unwrap().send(Message::new("")).await.unwrap();
    let held = receive(&queue).await;
    broker.close().await.unwrap();
    drop(held);
    disk.advance(10 * SECOND);
    let (broker, _) = disk.open_with(holding());
    assert_eq!(broker.queue("orders").unwrap().counts().dead_lettered, 1);
}

/// Rules: D-03.
/// A broker that holds no locks has freed it, also for one that does.
#[tokio::test]
async fn a_lock_that_was_released_stays_so() {
    let disk = Disk::new();
    let (broker, _) = disk.open_with(holding());
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    queue.sender().unwrap().send(Message::new("")).await.unwrap();
    let held = receive(&queue).await;
    broker.close().await.unwrap();
    drop(held);
    for options in [Broker::options(), holding()] {
        let (broker, _) = disk.open_with(options);
        assert_eq!(broker.queue("orders").unwrap().counts().active, 1);
        broker.close().await.unwrap();
    }
}

/// Rules: D-03.
/// The next process may hold locks, and finds none that this one had.
#[tokio::test]
async fn a_lock_is_not_written_where_its_end_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Broker::options().group_delay(Duration::from_millis(100));
    let broker = options().open(folder.path()).unwrap();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let sent = queue.sender().unwrap().send(Message::new("one order"));
    let held = queue.receiver().receive().await.unwrap();
    sent.await.unwrap();
    held.lease.release().await.unwrap();
    broker.close().await.unwrap();
    let counts = options().hold_locks(true).open(folder.path()).unwrap().queue("orders").unwrap().counts();
    assert_eq!((counts.active, counts.locked), (1, 0));
}
