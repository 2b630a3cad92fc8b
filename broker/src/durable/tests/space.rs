//! What waits for a disk, and how much of it.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use consign_core::{
    Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    time::{ManualClock, Timestamp},
    transport::{ErrorKind, ReceiverExt, Sender},
};
use futures_util::FutureExt;

use super::{open, open_with_writer};
use crate::{
    Broker, Topic,
    durable::{
        Durability, OpenOptions, StorageError, StorageErrorKind, Taken,
        disk::{Faults, SimulatedDisk},
        log::{LogJournal, LogOptions},
        open::restore,
    },
    shared::Stamp,
};

/// Rules: D-07.
#[tokio::test]
async fn a_send_that_does_not_fit_on_the_disk_does_not_stop_settlements() {
    const MIB: usize = 1 << 20;
    let disk = SimulatedDisk::new();
    disk.set_reserve(16 << 20);
    disk.forget_history();
    let (broker, mut writer) = open(&disk, &Arc::new(ManualClock::new(Timestamp::EPOCH))).unwrap();
    let mut step = || writer.step(Arc::clone(&broker.shared)).unwrap();
    let queue = broker.create_queue("orders", QueueSettings::default().max_message_size(100 * MIB)).unwrap();
    let sender = queue.sender().unwrap();
    // There are 4 MiB, and the reserve.
    disk.set_faults(Faults { capacity: 20 << 20, ..Faults::NONE });
    let small = sender.send(Message::new("small"));
    step();
    small.now_or_never().unwrap().unwrap();
    let delivery = queue.receiver().receive().now_or_never().unwrap().unwrap();

    let large = bytes::Bytes::from(vec![7; 20 * MIB]);
    let refused = sender.send(Message::new(large.clone())).now_or_never().expect("it is refused at once").unwrap_err();
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::QuotaExceeded, false));
    let first = sender.send(Message::new(large.slice(..7 * MIB)));
    let refused = sender.send(Message::new(large.slice(..2 * MIB))).now_or_never().unwrap().unwrap_err();
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::ServiceBusy, true));
    let completed = delivery.complete();
    step();
    first.now_or_never().unwrap().unwrap();
    completed.now_or_never().unwrap().unwrap();
    // The reserve is used by now.
    let refused = sender.send(Message::new("small")).now_or_never().unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
    let completed = queue.receiver().receive().now_or_never().unwrap().unwrap().complete();
    step();
    completed.now_or_never().unwrap().unwrap();
}

/// Rules: D-09.
#[tokio::test]
async fn a_relaxed_send_that_misses_the_last_batch_is_not_acknowledged() {
    let relaxed = OpenOptions::new().durability(Durability::Relaxed { max_delay: Duration::ZERO });
    let journal = LogJournal::at(Box::new(SimulatedDisk::new()), LogOptions::small(0)).unwrap();
    let (broker, _writer) = restore(&relaxed, Box::new(journal)).unwrap();
    let sender = broker.create_queue("orders", QueueSettings::default()).unwrap().sender().unwrap();
    sender.send(Message::new("in the last batch")).now_or_never().unwrap().unwrap();
    let (number, _) = broker.shared.take_changes(&mut Taken::default(), Stamp::Yes, u64::MAX).unwrap();
    let mut late = sender.send(Message::new("late"));
    assert!((&mut late).now_or_never().is_none());
    let commits = &broker.shared.recorder().unwrap().commits;
    commits.finish(number);
    assert!((&mut late).now_or_never().is_none());
    commits.fail(StorageError::new(StorageErrorKind::Closed, ""));
    assert!(late.now_or_never().unwrap().is_err());
}

/// Rules: D-09.
#[test]
fn relaxed_sends_while_a_broker_is_closed_are_stored_or_fail() {
    for _ in 0..20 {
        let disk = SimulatedDisk::new();
        let journal = LogJournal::at(Box::new(disk.clone()), LogOptions::small(0)).unwrap();
        let relaxed = OpenOptions::new().durability(Durability::Relaxed { max_delay: Duration::ZERO });
        let (broker, writer) = restore(&relaxed, Box::new(journal)).unwrap();
        thread::spawn(move || writer.run());
        let sender = broker.create_queue("orders", QueueSettings::default()).unwrap().sender().unwrap();
        let (begin, begun) = mpsc::channel();
        let sends = thread::spawn(move || {
            let mut sent = 0;
            while sender.send(Message::new("")).wait().is_ok() {
                sent += 1;
                if sent == 10 {
                    begin.send(()).unwrap();
                }
            }
            sent
        });
        begun.recv().unwrap();
        block_on(broker.close()).unwrap();
        let sent = sends.join().unwrap();
        let (broker, _writer) = open(&disk, &Arc::new(ManualClock::new(Timestamp::EPOCH))).unwrap();
        assert_eq!(broker.queue("orders").unwrap().counts().active, sent);
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Rules: D-07.
///
/// What waits for the disk has no other limit than its space.
#[test]
fn an_import_does_not_wait_for_more_than_the_disk_has_space_for() {
    const COUNT: u64 = 12;
    let settings = || QueueSettings::default().max_message_size(100 << 20);
    let (mut lines, source) = (Vec::new(), Broker::new());
    let queue = source.create_queue("orders", settings()).unwrap();
    for _ in 0..COUNT {
        queue.sender().unwrap().send(Message::new(vec![7; 1 << 20])).now_or_never().unwrap().unwrap();
    }
    assert_eq!(queue.export(&mut lines).unwrap(), COUNT);

    let disk = SimulatedDisk::new();
    disk.set_reserve(16 << 20);
    disk.forget_history();
    disk.set_faults(Faults { capacity: 34 << 20, ..Faults::NONE });
    let broker = open_with_writer(&disk);
    let queue = broker.create_queue("orders", settings()).unwrap();
    assert_eq!(queue.sender().unwrap().import(&lines[..]).unwrap(), COUNT);
}

/// A message may have 100 MB.
#[test]
fn an_export_reads_a_few_mebibytes_at_once() {
    struct Refusing;

    impl io::Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("refused"))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let disk = SimulatedDisk::new();
    let broker = open_with_writer(&disk);
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let body = bytes::Bytes::from(vec![7; 200_000]);
    for _ in 0..100 {
        queue.sender().unwrap().send(Message::new(body.clone())).wait().unwrap();
    }
    block_on(broker.close()).unwrap();
    let disk = disk.copy();
    let journal = LogJournal::at(Box::new(disk.clone()), LogOptions::small(0)).unwrap();
    let (broker, _writer) = restore(&OpenOptions::new().memory_budget(64 << 10), Box::new(journal)).unwrap();
    disk.set_faults(Faults::NONE);
    assert!(broker.queue("orders").unwrap().export(&mut Refusing).is_err());
    let reads = disk.counts().reads;
    assert!((1..50).contains(&reads), "{reads} reads before the first line");
}

/// Rules: D-07.
///
/// What is due at one instant may be more than one batch may have.
#[test]
fn automatic_changes_wait_for_space_on_the_disk() {
    const COUNT: usize = 12;
    let disk = SimulatedDisk::new();
    disk.forget_history();
    let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
    let due = Timestamp::EPOCH.saturating_add(Duration::from_secs(60));
    for ends in [false, true] {
        let (broker, mut writer) = open(&disk, &clock).unwrap();
        let settings = QueueSettings::default().max_message_size(100 << 20);
        let queue = broker.declare_queue("orders", settings).unwrap();
        if !ends {
            let body = bytes::Bytes::from(vec![7; 1 << 20]);
            let messages = (0..COUNT).map(|_| Message::new(body.clone())).collect();
            let scheduled = queue.sender().unwrap().schedule(messages, due);
            writer.step(Arc::clone(&broker.shared)).unwrap();
            scheduled.now_or_never().unwrap().unwrap();
            continue;
        }
        assert_eq!(queue.counts().active, 0);
        disk.set_faults(Faults { capacity: 26 << 20, ..Faults::NONE });
        writer.step(Arc::clone(&broker.shared)).unwrap();
        clock.advance(Duration::from_secs(60));
        let (mut before, mut batches) = (0, 0);
        while before < COUNT {
            let active = queue.counts().active;
            assert!(active > before && active - before < COUNT, "{active} of {COUNT} after {before}");
            before = active;
            batches += 1;
            writer.step(Arc::clone(&broker.shared)).unwrap();
        }
        assert!(batches > 1);
        drop((queue, broker, writer));
        let (broker, _writer) = open(&disk, &clock).unwrap();
        assert_eq!(broker.queue("orders").unwrap().counts().active, COUNT);
    }
}

/// Rules: D-07.
/// Nothing is written here: a clone of a body is no copy.
#[test]
fn the_copies_of_a_topic_are_what_waits_for_the_disk() {
    let disk = SimulatedDisk::new();
    let (broker, _writer) = open(&disk, &Arc::new(ManualClock::new(Timestamp::EPOCH))).unwrap();
    let settings = TopicSettings::default().max_message_size(100 << 20).max_size(8 << 30);
    let topics = ["many", "few", "fewer"].map(|name| broker.create_topic(name, settings.clone()).unwrap());
    for (topic, count) in topics.iter().zip([11, 6, 5]) {
        for nth in 0..count {
            topic.create_subscription(&format!("s{nth}"), SubscriptionSettings::default()).unwrap();
        }
    }
    let senders = topics.each_ref().map(Topic::sender);
    let body = bytes::Bytes::from(vec![0; 100 << 20]);
    let large = || Message::new(body.clone());
    let refused = senders[0].send(large()).now_or_never().expect("it is refused at once").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MessageSizeExceeded);
    let mut transaction = broker.transaction();
    transaction.send(&senders[1], large()).unwrap();
    transaction.send(&senders[2].via_topic(&topics[1]), large()).unwrap();
    let refused = transaction.commit().now_or_never().expect("it is refused at once").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MessageSizeExceeded);
    assert!(senders[1].send(large()).now_or_never().is_none(), "it fits");
    let refused = senders[2].send(large()).now_or_never().expect("it is refused at once").unwrap_err();
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::ServiceBusy, true));
}
