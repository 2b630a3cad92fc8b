//! A broker on a disk that loses power. An acknowledged change is there again; any other is there completely or not
//! at all. The test calls the writer, so that a seed determines everything.

mod batches;
mod refused;
mod space;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::Path,
    sync::{Arc, mpsc},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use consign_core::{
    Message,
    administration::{Administration, QueueSettings, Status},
    message::SequenceNumber,
    settlement::{DeadLetter, DeadLetterReason},
    time::{Clock, ManualClock, Timestamp},
    transport::{Batch, Delivery, ErrorKind, Lease, PeekMessages, ReceiverExt, SendError, Sender},
};
use fastrand::Rng;
use futures_util::FutureExt;

use super::{
    OpenOptions, StorageError,
    disk::{Faults, SimulatedDisk},
    log::{LogJournal, LogOptions},
    open::restore,
    writer::Writer,
};
use crate::{Acknowledged, Broker, Queue, QueueLease};

type Id = u64;

/// The state of a message as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It is to be there; `true` when that is acknowledged.
    There(bool),
    /// It is to be gone; `true` when that is acknowledged. Until then either.
    Gone(bool),
}

/// Messages that are there together or not at all, until one of them is settled.
type Group = BTreeSet<Id>;

#[derive(Default)]
struct Client {
    known: BTreeMap<Id, Known>,
    groups: Vec<Group>,
    /// A message that is gone when another is there, and the other way round if it was acknowledged before, as the last
    /// says.
    swaps: Vec<(Id, Id, bool)>,
    next: Id,
}

/// What is not acknowledged yet, and what it says of which messages.
type Pending = Vec<(Box<dyn FnMut() -> Poll<bool>>, Vec<(Id, Known)>)>;

fn pending<T: 'static, E: 'static>(mut answer: Acknowledged<T, E>) -> Box<dyn FnMut() -> Poll<bool>> {
    Box::new(move || answer.poll_unpin(&mut Context::from_waker(Waker::noop())).map(|answer| answer.is_ok()))
}

impl Client {
    fn message(&mut self) -> (Id, Message) {
        self.next += 1;
        let id = self.next;
        let body = vec![u8::try_from(id % 251).unwrap(); usize::try_from(id * 37 % 3_000).unwrap()];
        self.known.insert(id, Known::There(false));
        (id, Message::builder().message_id(id.to_string()).build(body).unwrap())
    }

    /// Does one thing at random.
    fn act(&mut self, rng: &mut Rng, broker: &Broker, queue: &Queue, held: &mut Vec<Delivery<QueueLease>>) -> Pending {
        let sender = queue.sender().unwrap();
        let mut take = |rng: &mut Rng| (!held.is_empty()).then(|| held.swap_remove(rng.usize(..held.len())));
        match rng.u8(..12) {
            0..=3 => {
                let (id, message) = self.message();
                vec![(pending(sender.send(message)), vec![(id, Known::There(true))])]
            }
            4 => {
                let (ids, messages): (Vec<_>, Vec<_>) = (0..rng.usize(2..6)).map(|_| self.message()).unzip();
                self.groups.push(ids.iter().copied().collect());
                let then = ids.into_iter().map(|id| (id, Known::There(true))).collect();
                vec![(pending(sender.send_batch(Batch::from(messages))), then)]
            }
            5 => {
                let (id, message) = self.message();
                let at = Timestamp::EPOCH.saturating_add(Duration::from_secs(3_600));
                vec![(pending(sender.schedule(vec![message], at)), vec![(id, Known::There(true))])]
            }
            6 => {
                let Some(delivery) = take(rng) else { return Vec::new() };
                let gone = id(&delivery.message);
                let (id, message) = self.message();
                let mut transaction = broker.transaction();
                transaction.complete(delivery).unwrap();
                transaction.send(&sender, message).unwrap();
                let before = self.known.insert(gone, Known::Gone(false));
                self.swaps.push((gone, id, before == Some(Known::There(true))));
                vec![(pending(transaction.commit()), vec![(gone, Known::Gone(true)), (id, Known::There(true))])]
            }
            7..=8 => {
                let Some(delivery) = take(rng) else { return Vec::new() };
                let id = id(&delivery.message);
                self.known.insert(id, Known::Gone(false));
                vec![(pending(delivery.complete()), vec![(id, Known::Gone(true))])]
            }
            9 => {
                let Some(delivery) = take(rng) else { return Vec::new() };
                let settled = match rng.u8(..3) {
                    0 => delivery.abandon(),
                    1 => delivery.defer(),
                    _ => delivery.dead_letter(DeadLetter::new(DeadLetterReason::Application("x".into()), "y")),
                };
                vec![(pending(settled), Vec::new())]
            }
            _ => {
                let received = queue.receiver().receive_batch(rng.usize(1..8)).now_or_never();
                held.extend(received.and_then(Result::ok).unwrap_or_default());
                Vec::new()
            }
        }
    }

    /// Compares with what a new process finds, and goes on from there.
    fn check(&mut self, found: &[Id]) -> Result<(), String> {
        let there: BTreeSet<Id> = found.iter().copied().collect();
        if there.len() != found.len() {
            return Err(format!("a message is there twice: {found:?}"));
        }
        for id in &there {
            match self.known.get(id) {
                None => return Err(format!("{id} was never sent")),
                Some(Known::Gone(true)) => return Err(format!("{id} is there after its completion was acknowledged")),
                Some(_) => {}
            }
        }
        for (id, known) in &self.known {
            if *known == Known::There(true) && !there.contains(id) {
                return Err(format!("{id} is lost"));
            }
        }
        for group in &self.groups {
            let is_untouched = group.iter().all(|id| matches!(self.known.get(id), Some(Known::There(_))));
            let count = group.intersection(&there).count();
            if is_untouched && count != 0 && count != group.len() {
                return Err(format!("of a batch there are {count} of {}", group.len()));
            }
        }
        for (gone, sent, was_there) in &self.swaps {
            let (both, neither) =
                (there.contains(gone) && there.contains(sent), !there.contains(gone) && !there.contains(sent));
            // The second may be completed since.
            let is_untouched = matches!(self.known.get(sent), Some(Known::There(_)));
            if both || neither && is_untouched && *was_there {
                return Err(format!("half of a transaction: {gone} and {sent}"));
            }
        }
        let known = |id: &Id| (*id, Known::There(true));
        (self.known, self.groups, self.swaps) = (there.iter().map(known).collect(), Vec::new(), Vec::new());
        Ok(())
    }
}

fn id(message: &Message) -> Id {
    message.message_id().unwrap().parse().unwrap()
}

fn open(disk: &SimulatedDisk, clock: &Arc<ManualClock>) -> Result<(Broker, Writer), StorageError> {
    let journal = LogJournal::at(Box::new(disk.clone()), LogOptions::small(disk.reserve()))?;
    restore(&OpenOptions::new().clock(Arc::clone(clock)), Box::new(journal))
}

/// Every message that is there, in whatever state.
fn found(queue: &Queue) -> Vec<Id> {
    let all = |queue: &Queue| queue.peek(SequenceNumber::new(0), usize::MAX);
    all(queue).iter().chain(&all(&queue.dead_letter())).map(id).collect()
}

/// What the client did until the power went, or until it has done enough.
fn live(
    client: &mut Client,
    disk: &SimulatedDisk,
    clock: &Arc<ManualClock>,
    rng: &mut Rng,
) -> Result<(), StorageError> {
    let (broker, mut writer) = open(disk, clock)?;
    let queue = broker.queue("orders").or_else(|_| broker.create_queue("orders", QueueSettings::default())).unwrap();
    let (mut held, mut waiting) = (Vec::new(), Pending::new());
    let outcome = (0..rng.usize(10..150)).try_for_each(|_| {
        waiting.extend(client.act(rng, &broker, &queue, &mut held));
        if rng.u8(..4) > 0 {
            return Ok(());
        }
        let written = writer.step(Arc::clone(&broker.shared));
        waiting.retain_mut(|(poll, then)| match poll() {
            Poll::Pending => true,
            Poll::Ready(is_done) => {
                client.known.extend(then.drain(..).filter(|_| is_done));
                false
            }
        });
        written
    });
    // What a lease does when it is dropped does not reach the disk.
    drop((held, waiting));
    outcome
}

fn lose_power(seed: u64) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _entered = runtime.enter();
    let (mut rng, clock) = (Rng::with_seed(seed), Arc::new(ManualClock::new(Timestamp::EPOCH)));
    let (mut disk, mut client) = (SimulatedDisk::new(), Client::default());
    for _ in 0..5 {
        let power_loss = (rng.u8(..4) > 0).then(|| rng.u64(1..400));
        disk.set_faults(Faults { power_loss, ..Faults::NONE });
        // The power is gone in any case.
        let _ = live(&mut client, &disk, &clock, &mut rng);
        disk = disk.power_loss(&mut rng);
        disk.set_faults(Faults::NONE);
        let (broker, writer) = open(&disk, &clock).map_err(|error| format!("it does not open: {error}"))?;
        let found = broker.queue("orders").map(|queue| found(&queue)).unwrap_or_default();
        drop((broker, writer));
        disk = disk.power_loss(&mut rng);
        client.check(&found)?;
        assert!(clock.now().utc >= Timestamp::EPOCH);
    }
    Ok(())
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|number| number.parse().unwrap())
}

/// Rules: D-01, I-02, I-03, I-04, I-26.
#[test]
fn a_loss_of_power_undoes_nothing_that_was_acknowledged() {
    let test = "a_loss_of_power_undoes_nothing_that_was_acknowledged";
    let count = 2_000 / number("CONSIGN_EVERY").unwrap_or(50).clamp(1, 2_000);
    let first = number("SEED").unwrap_or_default();
    for seed in (0..count).map(|seed| first.wrapping_add(seed)) {
        let replay =
            format!("SEED={seed} CONSIGN_EVERY=2000 cargo test -p consign-broker --features durable --lib {test}");
        lose_power(seed).unwrap_or_else(|what| panic!("{what}; {replay}"));
    }
    println!("power-loss: {} losses of power under a broker", 5 * count);
}

/// A broker whose writer has a thread, as it is where a disk is real.
fn open_with_writer(disk: &SimulatedDisk) -> Broker {
    let (broker, writer) = open(disk, &Arc::new(ManualClock::new(Timestamp::EPOCH))).unwrap();
    std::thread::spawn(move || writer.run());
    broker
}

/// Rules: D-06.
#[tokio::test]
async fn after_a_failure_nothing_is_acknowledged() {
    let disk = SimulatedDisk::new();
    let broker = open_with_writer(&disk);
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let sender = queue.sender().unwrap();
    sender.send(Message::new("stored")).await.unwrap();
    let delivery = queue.receiver().receive().await.unwrap();
    let empty = broker.create_queue("empty", QueueSettings::default()).unwrap();
    broker.flush().await.unwrap();
    let waits = tokio::spawn(async move { empty.receiver().receive().await.map(drop) });
    tokio::task::yield_now().await;
    disk.set_faults(Faults { sync: Some(1), ..Faults::NONE });
    let failed = sender.send(Message::new("unknown")).await.unwrap_err();
    assert_eq!((failed.kind(), failed.is_retryable()), (ErrorKind::General, false));
    assert!(failed.to_string().contains("the disk failed"), "{failed}");
    disk.set_faults(Faults::NONE);
    assert_eq!(sender.send(Message::new("later")).await.unwrap_err().kind(), ErrorKind::General);
    assert_eq!(delivery.complete().await.unwrap_err().kind(), ErrorKind::General);
    assert_eq!(waits.await.unwrap().unwrap_err().kind(), ErrorKind::General);
}

const CAPACITY: u64 = 48 << 20;

/// A disk of so many bytes with a broker on it that has a queue.
fn small_disk() -> (SimulatedDisk, Broker, Queue) {
    let disk = SimulatedDisk::new();
    disk.forget_history();
    disk.set_reserve(16 << 20);
    disk.set_faults(Faults { capacity: CAPACITY, ..Faults::NONE });
    let broker = open_with_writer(&disk);
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    (disk, broker, queue)
}

/// Sends until it is refused: how many messages there are then, and why there are no more.
async fn fill(queue: &Queue) -> (u64, SendError) {
    let sender = queue.sender().unwrap();
    let mut sent = 0;
    loop {
        match sender.send(Message::new(vec![7; 100_000])).await {
            Ok(()) => sent += 1,
            Err(refused) => return (sent, refused),
        }
        assert!(sent * 100_000 < CAPACITY, "it holds more than it can");
    }
}

/// Bytes of the segments.
fn segments(disk: &SimulatedDisk) -> usize {
    let names = disk
        .names()
        .unwrap()
        .into_iter()
        .filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "log"));
    names.map(|name| disk.bytes(&name).len()).sum()
}

/// Rules: D-07.
#[tokio::test]
async fn a_full_disk_refuses_sends_and_takes_settlements() {
    let (_disk, _broker, queue) = small_disk();
    let (sent, refused) = fill(&queue).await;
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
    assert!(refused.to_string().contains("the disk is full"), "{refused}");
    let mut receiver = queue.receiver();
    for _ in 0..sent {
        receiver.receive().await.unwrap().complete().await.unwrap();
    }
    assert_eq!(queue.counts().active, 0);
}

/// Rules: D-07.
#[tokio::test]
async fn a_full_disk_is_compacted_as_far_as_its_space_allows() {
    let (disk, broker, queue) = small_disk();
    let (sent, _) = fill(&queue).await;
    // Nothing was removed. Whether the disk has space to detect that or not, the broker continues.
    broker.compact().await.unwrap();
    let full = segments(&disk);
    let mut receiver = queue.receiver();
    for nth in 0..sent {
        let delivery = receiver.receive().await.unwrap();
        if nth % 10 > 0 {
            delivery.complete().await.unwrap();
        } else {
            delivery.defer().await.unwrap();
        }
    }
    broker.compact().await.unwrap();
    let kept = queue.counts().deferred;
    assert_eq!(kept as u64, sent.div_ceil(10));
    let left = segments(&disk);
    assert!(left < full / 2, "{full} bytes became {left}");
    // The disk is not looked at before each batch.
    let mut again = 0;
    while let Err(refused) = queue.sender().unwrap().send(Message::new("next")).await {
        assert_eq!((refused.kind(), again < 1_000), (ErrorKind::QuotaExceeded, true));
        broker.compact().await.unwrap();
        again += 1;
    }
    broker.close().await.unwrap();
    drop((receiver, queue, broker));
    let broker = open_with_writer(&disk);
    let queue = broker.queue("orders").unwrap();
    assert_eq!((queue.counts().deferred, queue.counts().active), (kept, 1));
}

/// Rules: D-283.
#[tokio::test]
async fn calls_continue_while_the_store_is_compacted() {
    let disk = SimulatedDisk::new();
    let journal = LogJournal::at(Box::new(disk.clone()), LogOptions::default()).unwrap();
    let (broker, mut writer) = restore(&OpenOptions::new(), Box::new(journal)).unwrap();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let mut step = || writer.step(Arc::clone(&broker.shared)).unwrap();
    let mut kept = Vec::new();
    for nth in 0..200 {
        drop(queue.sender().unwrap().send(Message::new(vec![7; 100_000])));
        step();
        let delivery = queue.receiver().receive().await.unwrap();
        if nth % 4 > 0 {
            drop(delivery.complete());
        } else {
            kept.push(delivery);
        }
        step();
    }
    let full = segments(&disk);
    let (mut compacts, mut sent) = (std::pin::pin!(broker.compact()), 0);
    while compacts.as_mut().now_or_never().is_none() {
        let mut send = std::pin::pin!(queue.sender().unwrap().send(Message::new("meanwhile")));
        assert!(send.as_mut().now_or_never().is_none());
        step();
        assert!(send.now_or_never().is_some_and(|sent| sent.is_ok()), "it waits for one commit");
        sent += 1;
    }
    assert!(sent > 4, "{sent} parts");
    assert!(segments(&disk) < full / 2, "{full} bytes became {}", segments(&disk));
    let broker = open_with_writer(&disk.power_loss(&mut Rng::with_seed(1)));
    assert_eq!(broker.queue("orders").unwrap().counts().active, kept.len() + sent);
}

#[tokio::test]
async fn opening_stays_within_the_memory_budget() {
    const BUDGET: usize = 64 << 10;
    let disk = SimulatedDisk::new();
    let broker = open_with_writer(&disk);
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let batch = (0..500).map(|_| Message::new(vec![7; 1_000])).collect();
    queue.sender().unwrap().send_batch(batch).await.unwrap();
    broker.close().await.unwrap();
    let journal = LogJournal::at(Box::new(disk.copy()), LogOptions::small(0)).unwrap();
    let (broker, _writer) = restore(&OpenOptions::new().memory_budget(BUDGET), Box::new(journal)).unwrap();
    assert_eq!(broker.recovery().unwrap().messages, 500);
    let (bytes, dropped) = broker.shared.with(|state| state.engine.in_memory());
    assert!(bytes > BUDGET as u64 / 2 && bytes <= BUDGET as u64, "{bytes} bytes");
    assert_eq!(dropped, 0);
}

/// Rules: D-05.
#[tokio::test]
async fn released_messages_leave_memory_again() {
    const BUDGET: usize = 64 << 10;
    let journal = LogJournal::at(Box::new(SimulatedDisk::new()), LogOptions::small(0)).unwrap();
    let (broker, writer) = restore(&OpenOptions::new().memory_budget(BUDGET), Box::new(journal)).unwrap();
    std::thread::spawn(move || writer.run());
    let (fetcher, shared) = (broker.shared.recorder().unwrap().fetcher().clone(), Arc::downgrade(&broker.shared));
    std::thread::spawn(move || fetcher.run(&shared));
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let batch = (0..500).map(|_| Message::new(vec![7; 1_000])).collect();
    queue.sender().unwrap().send_batch(batch).await.unwrap();
    let mut receiver = queue.receiver();
    let mut locked = Vec::new();
    while locked.len() < 500 {
        locked.extend(receiver.receive_batch(500).await.unwrap());
    }
    let resident = || broker.shared.with(|state| state.engine.in_memory().0);
    assert!(resident() > 500_000, "they are locked, and in memory");
    drop(receiver);
    for delivery in locked {
        delivery.lease.release().await.unwrap();
    }
    assert!(resident() <= BUDGET as u64, "{} bytes", resident());
    assert_eq!(queue.receiver().receive_batch(1).await.unwrap()[0].message.received().unwrap().delivery_count, 1);
}

/// Rules: D-07.
/// Nothing is written here: a clone of a body is no copy.
#[test]
fn a_send_is_refused_while_a_gibibyte_waits_for_the_disk() {
    let disk = SimulatedDisk::new();
    let (broker, _writer) = open(&disk, &Arc::new(ManualClock::new(Timestamp::EPOCH))).unwrap();
    let settings = QueueSettings::default().max_message_size(100 << 20).max_size(8 << 30);
    let queue = broker.create_queue("orders", settings).unwrap();
    let sender = queue.sender().unwrap();
    let large = bytes::Bytes::from(vec![7; 100 << 20]);
    let mut transaction = broker.transaction();
    for _ in 0..11 {
        transaction.send(&sender, Message::new(large.clone())).unwrap();
    }
    let mut committed = Box::pin(transaction.commit());
    let Poll::Ready(Err(refused)) = committed.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the transaction is refused at once");
    };
    assert_eq!(refused.kind(), ErrorKind::MessageSizeExceeded);
    let waiting: Vec<_> = (0..10).map(|_| sender.send(Message::new(large.clone()))).collect();
    let refused = sender.send(Message::new(large)).now_or_never().unwrap().unwrap_err();
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::ServiceBusy, true));
    assert_eq!(queue.counts().active, waiting.len());
    std::mem::forget(waiting);
}

/// Rules: D-06.
#[tokio::test]
async fn a_damaged_record_that_is_peeked_ends_receives_that_wait_and_an_export() {
    let disk = SimulatedDisk::new();
    let broker = open_with_writer(&disk);
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let batch = (0..500).map(|_| Message::new(vec![7; 1_000])).collect();
    queue.sender().unwrap().send_batch(batch).await.unwrap();
    broker.create_queue("empty", QueueSettings::default()).unwrap();
    broker.close().await.unwrap();

    let disk = disk.copy();
    let journal = LogJournal::at(Box::new(disk.clone()), LogOptions::small(0)).unwrap();
    let (broker, writer) = restore(&OpenOptions::new().memory_budget(64 << 10), Box::new(journal)).unwrap();
    std::thread::spawn(move || writer.run());
    let empty = broker.queue("empty").unwrap();
    let waits = tokio::spawn(async move { empty.receiver().receive().await.map(drop) });
    tokio::task::yield_now().await;
    for (name, _) in disk.lengths() {
        let damage = |bytes: &mut Vec<u8>| bytes.iter_mut().filter(|byte| **byte == 7).for_each(|byte| *byte = 8);
        disk.change(&name, damage);
    }
    let queue = broker.queue("orders").unwrap();
    let error = queue.export(&mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    assert_eq!(waits.await.unwrap().unwrap_err().kind(), ErrorKind::General);
    assert!(queue.export(&mut Vec::new()).is_err());
    let path = queue.path();
    assert!(PeekMessages::peek(&broker, &path, SequenceNumber::new(0), 10).await.is_err());
    assert!(Administration::list(&broker).await.is_err());
}

/// Rules: D-05.
/// However many there are and however often they are tried.
#[tokio::test]
async fn unreceived_dead_letters_do_not_fill_the_memory() {
    const COUNT: usize = 2_000;
    const BUDGET: usize = 64 << 10;
    // What is fetched at once, beside what is in memory anyway.
    const MOST: u64 = BUDGET as u64 + 256 * 1_600;
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
    let open = || OpenOptions::new().memory_budget(BUDGET).clock(Arc::clone(&clock)).open(folder.path()).unwrap();
    let resident = |broker: &Broker| broker.shared.with(|state| state.engine.in_memory().0);
    let broker = open();
    let closed = QueueSettings::default().status(Status::SendDisabled);
    broker.create_queue("closed", closed).unwrap();
    let settings = QueueSettings::default().forward_dead_letters_to("closed");
    let queue = broker.create_queue("orders", settings).unwrap();
    for _ in 0..COUNT / 100 {
        let batch = (0..100).map(|_| Message::new(vec![7; 1_000])).collect();
        queue.sender().unwrap().send_batch(batch).await.unwrap();
        while queue.counts().active > 0 {
            for delivery in queue.receiver().receive_batch(100).await.unwrap() {
                let why = DeadLetter::new(DeadLetterReason::Application("x".into()), "y");
                drop(delivery.dead_letter(why));
            }
        }
        broker.flush().await.unwrap();
        let resident = resident(&broker);
        assert!(resident <= MOST, "{resident} bytes");
    }
    assert_eq!(queue.counts().dead_lettered, COUNT);
    broker.close().await.unwrap();
    drop((queue, broker));

    let broker = open();
    for round in 0..10 {
        let resident = resident(&broker);
        assert!(resident <= MOST, "{resident} bytes in round {round}");
        clock.advance(Duration::from_secs(10));
        assert_eq!(broker.queue("orders").unwrap().counts().dead_lettered, COUNT);
        broker.flush().await.unwrap();
    }
    assert!(COUNT as u64 * 1_000 > 4 * MOST, "they would not fit");
}

/// Rules: D-230.
/// The writer may have much to write, and a thread of a runtime has other tasks.
#[test]
fn the_last_handle_is_dropped_without_a_wait_in_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for in_runtime in [true, false] {
        let journal = LogJournal::at(Box::new(SimulatedDisk::new()), LogOptions::small(0)).unwrap();
        let (broker, _writer) = restore(&OpenOptions::new(), Box::new(journal)).unwrap();
        let (release, released) = mpsc::channel();
        let writer = thread::spawn(move || released.recv_timeout(Duration::from_secs(10)).unwrap());
        let (end, ended) = mpsc::channel();
        let writer = thread::spawn(move || end.send(writer.join().is_ok()).unwrap());
        broker.shared.recorder().unwrap().set_writer(writer);
        if in_runtime {
            runtime.block_on(async { drop(broker) });
            release.send(()).expect("the drop waited for the writer");
            assert!(ended.recv().unwrap());
        } else {
            release.send(()).unwrap();
            drop(broker);
            assert!(ended.try_recv().expect("the drop waits"));
        }
    }
}
