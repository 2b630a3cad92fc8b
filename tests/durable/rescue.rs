//! Copies of a store, space that is returned to the disk, and what is left of one that is damaged.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use consign::{
    Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Broker, Queue, StorageErrorKind},
    message::SequenceNumber,
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{ReceiverExt, Sender},
};

use crate::support::{Disk, receive, text};

/// The segments of a store.
fn segments(disk: &Disk) -> Vec<PathBuf> {
    let paths = fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
    paths.sort();
    paths
}

/// The one segment of a small store.
fn file(disk: &Disk) -> PathBuf {
    let mut segments = segments(disk);
    let last = segments.pop().unwrap();
    assert_eq!(segments, <[PathBuf; 0]>::default());
    last
}

/// Where these bytes are in a file: once.
fn find(bytes: &[u8], wanted: &[u8]) -> usize {
    let mut found = bytes.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted);
    let (at, _) = found.next().unwrap();
    assert!(found.next().is_none(), "it is there twice");
    at
}

/// Queues with a few messages in every state, closed. Their bodies are their ids.
async fn store() -> Disk {
    let disk = Disk::new();
    let (broker, _) = disk.open();
    for path in ["orders", "bills"] {
        let queue = broker.create_queue(path, QueueSettings::default()).unwrap();
        for number in 0..10 {
            let id = format!("{path} {number}");
            let message = Message::builder().message_id(id.clone()).property("number", number).build(id);
            queue.sender().unwrap().send(message.unwrap()).await.unwrap();
        }
        let mut received = queue.receiver().receive_batch(3).await.unwrap().into_iter();
        received.next().unwrap().complete().await.unwrap();
        received.next().unwrap().defer().await.unwrap();
        let why = DeadLetter::new(DeadLetterReason::Application("Broken".into()), "it is");
        received.next().unwrap().dead_letter(why).await.unwrap();
        let later = Timestamp::from_millis(2_000_000_000_000);
        let scheduled = Message::builder().message_id(format!("{path} later")).build("later").unwrap();
        queue.schedule(vec![scheduled], later).await.unwrap();
    }
    // Else what was there before is in the file too.
    broker.compact().await.unwrap();
    broker.close().await.unwrap();
    disk
}

fn ids(lines: &[u8]) -> BTreeSet<String> {
    let lines = lines.split_inclusive(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).unwrap());
    let id = |line: serde_json::Value| {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", text("entity"), text("message_id"))
    };
    lines.map(id).collect()
}

/// Completed messages are gone.
fn expected() -> BTreeSet<String> {
    let of = |path: &'static str| {
        let rest = (1..10).map(move |number| match number {
            2 => format!("{path}/$deadletterqueue: {path} 2"),
            number => format!("{path}: {path} {number}"),
        });
        rest.chain([format!("{path}: {path} later")])
    };
    of("orders").chain(of("bills")).collect()
}

#[tokio::test]
async fn all_of_a_good_store_can_be_salvaged_and_sent_again() {
    let disk = store().await;
    let before = fs::read(file(&disk)).unwrap();
    let mut lines = Vec::new();
    let salvage = Broker::salvage(disk.path(), &mut lines).unwrap();
    assert_eq!((salvage.messages, salvage.expected), (20, Some(salvage.records)));
    assert_eq!(salvage.damages, <[&str; 0]>::default());
    assert_eq!(ids(&lines), expected());
    assert!(fs::read(file(&disk)).unwrap() == before, "it was written to");
    let other = Broker::new().create_queue("all", QueueSettings::default()).unwrap();
    assert_eq!(other.sender().unwrap().import(&lines[..]).unwrap(), 20);
    let peeked = other.peek(SequenceNumber::new(0), 100);
    let dead = peeked.iter().find(|it| it.message_id() == Some("bills 2")).unwrap();
    // The lines say why; only a broker says so of what it has.
    assert_eq!((text(dead), dead.dead_letter_reason()), ("bills 2", None));
    assert_eq!(String::from_utf8(lines).unwrap().matches("\"DeadLetterReason\":\"Broken\"").count(), 2);
    assert_eq!(other.counts().scheduled, 2);
}

/// Rules: I-08.
/// Attacks: 93.
#[tokio::test]
async fn of_a_damaged_store_everything_else_is_salvaged_and_the_damage_is_named() {
    let disk = store().await;
    let bytes = fs::read(file(&disk)).unwrap();
    // The body is the last of a record, behind its kind and its length; the id comes before it.
    let victim = find(&bytes, b"\x00\x08orders 7") + 5;
    let mut damaged = bytes.clone();
    damaged[victim] ^= 1;
    fs::write(file(&disk), &damaged).unwrap();
    let refused = Broker::open(disk.path()).unwrap_err();
    assert_eq!(refused.kind(), StorageErrorKind::Corrupted, "{refused}");
    let mut lines = Vec::new();
    let salvage = Broker::salvage(disk.path(), &mut lines).unwrap();
    let mut missing = expected();
    assert!(missing.remove("orders: orders 7"));
    assert_eq!((ids(&lines), salvage.messages), (missing, 19));
    assert_eq!(salvage.expected, Some(salvage.records + 1));
    let (record, page) = (|it: &String| it.contains("record"), |it: &String| it.contains("offset"));
    assert!(salvage.damages.iter().any(record) && salvage.damages.iter().any(page), "{:?}", salvage.damages);
}

/// Rules: I-08.
/// However much is gone.
#[tokio::test]
async fn a_store_that_is_cut_off_is_salvaged_as_far_as_it_goes() {
    let disk = store().await;
    let bytes = fs::read(file(&disk)).unwrap();
    let mut fewest = usize::MAX;
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    for kept in (0..=used).rev().step_by(97).chain([0]) {
        fs::write(file(&disk), &bytes[..kept]).unwrap();
        let mut lines = Vec::new();
        match Broker::salvage(disk.path(), &mut lines) {
            Ok(salvage) => assert!(!salvage.damages.is_empty(), "{kept} bytes"),
            Err(error) => assert_eq!(error.kind(), StorageErrorKind::Corrupted, "{kept} bytes: {error}"),
        }
        assert!(ids(&lines).is_subset(&expected()), "{kept} bytes");
        fewest = fewest.min(ids(&lines).len());
    }
    assert_eq!(fewest, 0);
}

#[tokio::test]
async fn a_salvage_without_a_store_or_of_one_that_is_open_says_so() {
    let disk = store().await;
    let (broker, _) = disk.open();
    let kind = |path: &Path| Broker::salvage(path, &mut Vec::new()).unwrap_err().kind();
    assert_eq!(kind(disk.path()), StorageErrorKind::InUse);
    let missing = disk.path().join("nothing");
    let error = Broker::salvage(&missing, &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::NotAStore);
    assert!(error.to_string().contains("nothing does not exist"), "{error}");
    for error in [Broker::open(missing.join("store")).unwrap_err(), broker.backup(missing.join("copy")).unwrap_err()] {
        assert_eq!(error.kind(), StorageErrorKind::NotAStore);
        assert!(error.to_string().contains("its parent folder does not exist"), "{error}");
    }
    broker.close().await.unwrap();
    assert!(Broker::salvage(disk.path(), &mut Vec::new()).is_ok());
}

/// A folder with another folder in it does not open as a store.
#[tokio::test]
async fn a_backup_inside_of_the_store_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let broker = Broker::open(&store).unwrap();
    broker.create_queue("orders", QueueSettings::default()).unwrap();
    // The broker itself makes files meanwhile, and no folders.
    let has_folder = || fs::read_dir(&store).unwrap().any(|entry| entry.unwrap().file_type().unwrap().is_dir());
    let mut targets = vec![store.join("x"), folder.path().join("./store/x"), store.join("../store/x")];
    if cfg!(unix) {
        let link = folder.path().join("link");
        #[cfg(unix)]
        std::os::unix::fs::symlink(&store, &link).unwrap();
        targets.push(link.join("x"));
    }
    for to in targets {
        let refused = broker.backup(&to).unwrap_err();
        assert_eq!(refused.kind(), StorageErrorKind::NotAStore);
        assert!(refused.to_string().contains("is inside of the store"), "{refused}");
        assert!(!has_folder(), "{}", to.display());
    }
    broker.flush().await.unwrap();
    broker.backup(folder.path().join("store2")).unwrap();
    broker.close().await.unwrap();
    for name in ["store", "store2"] {
        Broker::open(folder.path().join(name)).unwrap().queue("orders").unwrap();
    }
}

#[tokio::test]
async fn compaction_returns_space_and_keeps_messages() {
    const KEPT: usize = 20;
    let disk = Disk::new();
    let (broker, _) = disk.open();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let sender = queue.sender().unwrap();
    for first in (0..400).step_by(50) {
        let message = |number: u32| Message::builder().property("number", number).build(vec![7; 20_000]).unwrap();
        sender.send_batch((first..first + 50).map(message).collect()).await.unwrap();
    }
    let held = queue.receiver().receive_batch(400).await.unwrap();
    let mut settled = Vec::new();
    let mut kept = Vec::new();
    for (nth, delivery) in held.into_iter().enumerate() {
        if nth % (400 / KEPT) == 0 {
            kept.push(delivery);
        } else {
            settled.push(delivery.complete());
        }
    }
    for settled in settled {
        settled.await.unwrap();
    }
    let size = || segments(&disk).iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    let before = size();
    assert!(before > 400 * 20_000, "{before}");
    broker.compact().await.unwrap();
    let after = size();
    assert!(after < before / 4, "{before} bytes became {after}");
    // It goes on, and what was locked still is.
    kept.pop().unwrap().complete().await.unwrap();
    sender.send(Message::new("next")).await.unwrap();
    broker.close().await.unwrap();
    drop(kept);
    let (broker, _) = disk.open();
    let queue = broker.queue("orders").unwrap();
    let mut left = receive(&queue).await;
    assert_eq!(text(&left.pop().unwrap().message), "next");
    assert_eq!(left.len(), KEPT - 1);
    assert!(left.iter().all(|it| it.message.payload() == Some(&vec![7; 20_000][..])));
}

/// What a backup may hold: what was acknowledged when it began, and nothing that was not sent when it ended.
#[derive(Default)]
struct Told {
    sent: AtomicU64,
    acknowledged: AtomicU64,
    is_over: AtomicBool,
}

const TOKENS: usize = 40;
const TOGETHER: u64 = 3;

/// Hands messages from one queue to the other, each in one transaction.
async fn hand_over(broker: Broker, from: Queue, to: Queue, told: Arc<Told>) {
    let (mut receiver, sender) = (from.receiver(), to.sender().unwrap().via(&from));
    while !told.is_over.load(SeqCst) {
        let Ok(delivery) = receiver.receive_within(std::time::Duration::from_millis(20)).await else {
            continue;
        };
        let message = delivery.message.clone().without_received();
        let mut transaction = broker.transaction();
        transaction.complete(delivery).unwrap();
        transaction.send(&sender, message).unwrap();
        transaction.commit().await.unwrap();
    }
}

/// Sends batches to a topic, in order.
async fn publish(broker: Broker, told: Arc<Told>) {
    let sender = broker.topic("events").unwrap().sender();
    let mut number = 0;
    while !told.is_over.load(SeqCst) {
        let batch = (0..TOGETHER).map(|nth| Message::new((number + nth).to_string())).collect();
        number += TOGETHER;
        told.sent.store(number, SeqCst);
        sender.send_batch(batch).await.unwrap();
        told.acknowledged.store(number, SeqCst);
    }
}

fn all(queue: &Queue) -> Vec<String> {
    queue.peek(SequenceNumber::new(0), usize::MAX).iter().map(|it| text(it).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_backup_while_messages_come_and_go_is_one_moment() {
    let disk = Disk::new();
    let copies = tempfile::tempdir().unwrap();
    let (broker, _) = disk.open();
    let [here, there] = ["here", "there"].map(|path| broker.create_queue(path, QueueSettings::default()).unwrap());
    let topic = broker.create_topic("events", TopicSettings::default()).unwrap();
    for name in ["one", "two"] {
        topic.create_subscription(name, SubscriptionSettings::default()).unwrap();
    }
    for token in 0..TOKENS {
        here.sender().unwrap().send(Message::new(token.to_string())).await.unwrap();
    }
    let told = Arc::new(Told::default());
    let tasks = [
        tokio::spawn(hand_over(broker.clone(), here.clone(), there.clone(), Arc::clone(&told))),
        tokio::spawn(hand_over(broker.clone(), there.clone(), here.clone(), Arc::clone(&told))),
        tokio::spawn(publish(broker.clone(), Arc::clone(&told))),
    ];
    let mut seen = Vec::new();
    for nth in 0..6 {
        let path = copies.path().join(nth.to_string());
        let acknowledged = told.acknowledged.load(SeqCst);
        let (source, to) = (broker.clone(), path.clone());
        tokio::task::spawn_blocking(move || source.backup(to)).await.unwrap().unwrap();
        seen.push((path, acknowledged, told.sent.load(SeqCst)));
        // Something happens before the next one.
        while told.acknowledged.load(SeqCst) < seen[nth].2 + TOGETHER {
            tokio::task::yield_now().await;
        }
    }
    told.is_over.store(true, SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    for (path, acknowledged, sent) in seen {
        let copy = Broker::open(&path).unwrap();
        let mut tokens = all(&copy.queue("here").unwrap());
        tokens.extend(all(&copy.queue("there").unwrap()));
        assert_eq!(tokens.len(), TOKENS, "half of a transaction");
        assert_eq!(tokens.into_iter().collect::<BTreeSet<_>>().len(), TOKENS);
        let [one, two] = ["one", "two"].map(|name| all(&copy.queue(&format!("events/subscriptions/{name}")).unwrap()));
        assert_eq!(one, two, "a message is in one subscription only");
        let count = one.len() as u64;
        assert!(one.into_iter().eq((0..count).map(|number| number.to_string())));
        assert_eq!(count % TOGETHER, 0, "a part of a batch");
        assert!((acknowledged..=sent).contains(&count), "{count} of {acknowledged} to {sent}");
        // What was given out is not given again.
        let here = copy.queue("here").unwrap();
        let highest = |queue: &Queue| {
            let numbers = queue.peek(SequenceNumber::new(0), usize::MAX).into_iter();
            numbers.map(|it| it.received().unwrap().sequence_number).max()
        };
        let before = highest(&here);
        here.sender().unwrap().send(Message::new("new")).await.unwrap();
        assert!(highest(&here) > before);
        assert_eq!(here.peek(highest(&here).unwrap(), 2).len(), 1);
    }
    let refused = broker.backup(copies.path().join("0")).unwrap_err();
    assert_eq!(refused.kind(), StorageErrorKind::NotAStore);
    assert_eq!(Broker::new().backup(copies.path().join("new")).unwrap_err().kind(), StorageErrorKind::Closed);
}
