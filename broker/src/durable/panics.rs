//! Panics on the threads of a broker, and under its lock.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;
use consign_core::{
    Message,
    administration::QueueSettings,
    transport::{ErrorKind, ReceiverExt, Sender},
};
use futures_util::FutureExt;

use super::{
    Batch, OpenOptions, StorageError, StorageErrorKind, Table, Taken,
    disk::SimulatedDisk,
    journal::{Journal, Reader, Visit},
    log::{LogJournal, LogOptions},
    open::restore,
};
use crate::{Broker, Queue, shared::Stamp};

/// A journal that panics at a commit, or where it is read.
struct Panicking {
    journal: LogJournal,
    /// Commits before the one that panics.
    left: usize,
    reads_panic: bool,
}

impl Journal for Panicking {
    fn load(&mut self, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        self.journal.load(visit)
    }

    fn commit(&mut self, batch: &Batch, sync: bool) -> Result<(), StorageError> {
        assert!(self.left > 0, "a defect");
        self.left -= 1;
        self.journal.commit(batch, sync)
    }

    fn has_space(&mut self) -> bool {
        self.journal.has_space()
    }

    fn space(&self) -> u64 {
        self.journal.space()
    }

    fn close(self: Box<Self>) -> Result<(), StorageError> {
        Box::new(self.journal).close()
    }

    fn compact(&mut self) -> Result<bool, StorageError> {
        self.journal.compact()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        if self.reads_panic { Arc::new(Unreadable) } else { self.journal.reader() }
    }
}

struct Unreadable;

impl Reader for Unreadable {
    fn read(&self, _: Table, _: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, StorageError> {
        panic!("a defect")
    }

    fn backup(&self, _: &Path) -> Result<(), StorageError> {
        panic!("a defect")
    }
}

/// A broker with its threads on a disk.
fn open(disk: &SimulatedDisk, budget: usize, left: usize, reads_panic: bool) -> (Broker, Queue) {
    let journal = LogJournal::at(Box::new(disk.clone()), LogOptions::small(disk.reserve())).unwrap();
    let journal = Panicking { journal, left, reads_panic };
    let (broker, writer) = restore(&OpenOptions::new().memory_budget(budget), Box::new(journal)).unwrap();
    let writer = std::thread::spawn(move || writer.run());
    let recorder = broker.shared.recorder().unwrap();
    recorder.set_writer(writer);
    let (fetcher, shared) = (recorder.fetcher().clone(), Arc::downgrade(&broker.shared));
    std::thread::spawn(move || fetcher.run(&shared));
    let queue = broker.queue("orders").or_else(|_| broker.create_queue("orders", QueueSettings::default())).unwrap();
    (broker, queue)
}

fn has_failed(kind: ErrorKind, text: &str, why: &str) {
    assert_eq!(kind, ErrorKind::General, "{text}");
    assert!(text.contains(why), "{text}");
}

/// Rules: D-242.
#[tokio::test]
async fn a_panic_of_the_writer_fails_every_call() {
    let disk = SimulatedDisk::new();
    let (broker, queue) = open(&disk, 1 << 20, 1, false);
    let sender = queue.sender().unwrap();
    broker.flush().await.unwrap();
    let waits = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.dead_letter().receiver().receive().await.map(drop) })
    };
    tokio::task::yield_now().await;
    for _ in 0..2 {
        let refused = sender.send(Message::new("unknown")).await.unwrap_err();
        has_failed(refused.kind(), &refused.to_string(), "the writer panicked: a defect");
    }
    let refused = waits.await.unwrap().unwrap_err();
    has_failed(refused.kind(), &refused.to_string(), "the writer panicked");
    assert_eq!(broker.close().await.unwrap_err().kind(), StorageErrorKind::Failed);
    let (_broker, queue) = open(&disk, 1 << 20, usize::MAX, false);
    assert_eq!(queue.counts().active, 0, "its commit has panicked");
}

/// Rules: D-242.
#[tokio::test]
async fn a_panic_of_the_fetcher_fails_every_call() {
    let disk = SimulatedDisk::new();
    let (_broker, queue) = open(&disk, 0, usize::MAX, true);
    let sender = queue.sender().unwrap();
    // The first batch has left memory when the second one is written.
    for _ in 0..2 {
        for _ in 0..250 {
            drop(sender.send(Message::new(vec![7; 1_000])));
        }
        sender.send(Message::new("last")).await.unwrap();
    }
    let failed = async {
        loop {
            match queue.receiver().receive().await {
                Ok(delivery) => std::mem::forget(delivery),
                Err(failed) => return failed,
            }
        }
    };
    let failed = failed.await;
    has_failed(failed.kind(), &failed.to_string(), "the fetcher panicked: a defect");
    let refused = sender.send(Message::new("later")).await.unwrap_err();
    has_failed(refused.kind(), &refused.to_string(), "the fetcher panicked");
}

/// Counts its wake-ups, and panics at each.
struct Panics(AtomicUsize);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("a waker of the user")
    }
}

/// The bytes of a body whose owner panics when it is dropped.
struct Owner;

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        b"body"
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        panic!("an owner of the user")
    }
}

/// Rules: D-242.
#[tokio::test]
async fn a_waker_or_a_body_that_panics_costs_nothing() {
    let disk = SimulatedDisk::new();
    // What is written leaves memory on the thread of the writer.
    let (broker, queue) = open(&disk, 0, usize::MAX, false);
    let sender = queue.sender().unwrap();
    let panics = Arc::new(Panics(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&panics));
    for _ in 0..3 {
        let mut sends: Vec<_> = (0..3).map(|_| sender.send(Message::new(Bytes::from_owner(Owner)))).collect();
        sends.retain_mut(|send| match send.poll_unpin(&mut Context::from_waker(&waker)) {
            Poll::Ready(sent) => {
                sent.unwrap();
                false
            }
            Poll::Pending => true,
        });
        sender.send(Message::new("plain")).await.unwrap();
        for send in sends {
            send.await.unwrap();
        }
    }
    let mut receiver = broker.create_queue("empty", QueueSettings::default()).unwrap().receiver();
    // It ends after the wakers of every earlier batch were called.
    broker.flush().await.unwrap();
    // And under the hand of a receiver that sends wake.
    let mut waits = Box::pin(receiver.receive());
    assert!(waits.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    let before = panics.0.load(Ordering::SeqCst);
    broker.queue("empty").unwrap().sender().unwrap().send(Message::new("first")).await.unwrap();
    assert_eq!(panics.0.load(Ordering::SeqCst), before + 1);
    assert!(waits.await.is_ok());
}

/// Changes half of the engine and panics.
fn panic_half_way(broker: &Broker, queue: &Queue) {
    let half = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        broker.shared.with(|state| {
            let arrival = crate::engine::arrival(Message::new("half"), None);
            let now = broker.shared.now();
            drop(state.engine.send(now, queue.store, arrival));
            panic!("a defect");
        })
    }));
    assert!(half.is_err());
}

/// What a panic within the engine is reported as.
const PANICKED: &str = "a call panicked within it";

/// Panics half-way while one message is locked and a receiver waits, and has a send, the settlement and the receive fail.
async fn panic_fails_calls(broker: &Broker, queue: &Queue) {
    let sender = queue.sender().unwrap();
    let delivery = queue.receiver().receive().await.unwrap();
    let waits = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.receiver().receive().await.map(drop) })
    };
    tokio::task::yield_now().await;
    panic_half_way(broker, queue);
    let refused = sender.send(Message::new("later")).await.unwrap_err();
    has_failed(refused.kind(), &refused.to_string(), PANICKED);
    let refused = delivery.complete().await.unwrap_err();
    has_failed(refused.kind(), &refused.to_string(), PANICKED);
    let refused = waits.await.unwrap().unwrap_err();
    has_failed(refused.kind(), &refused.to_string(), PANICKED);
}

/// Rules: D-243.
#[tokio::test]
async fn a_panic_under_the_lock_stores_nothing_of_its_call() {
    let disk = SimulatedDisk::new();
    let (broker, queue) = open(&disk, 1 << 20, usize::MAX, false);
    let sender = queue.sender().unwrap();
    sender.send(Message::new("acknowledged")).await.unwrap();
    panic_fails_calls(&broker, &queue).await;
    let refused = broker.create_queue("others", QueueSettings::default()).unwrap_err();
    has_failed(refused.kind(), &refused.to_string(), PANICKED);
    assert_eq!(broker.flush().await.unwrap_err().kind(), StorageErrorKind::Failed);
    assert_eq!(broker.close().await.unwrap_err().kind(), StorageErrorKind::Failed);
    let (_broker, queue) = open(&disk, 1 << 20, usize::MAX, false);
    assert_eq!(queue.counts().active, 1, "the message that was acknowledged");
}

/// Rules: D-243.
/// What they have changed is lost with what the panic left.
#[tokio::test]
async fn a_panic_under_the_lock_fails_calls_that_are_not_on_the_disk() {
    let disk = SimulatedDisk::new();
    let (broker, queue) = open(&disk, 1 << 20, usize::MAX, false);
    let sender = queue.sender().unwrap();
    broker.flush().await.unwrap();
    let sent = sender.send(Message::new("pending"));
    panic_half_way(&broker, &queue);
    broker.shared.recorder().unwrap().released().await;
    let refused = sent.await.unwrap_err();
    has_failed(refused.kind(), &refused.to_string(), PANICKED);
    let (_broker, queue) = open(&disk, 1 << 20, usize::MAX, false);
    assert_eq!(queue.counts().active, 0);
}

/// The writer takes the changes where the engine is locked, before the call that panicked has failed the broker.
#[tokio::test]
async fn the_changes_that_a_panic_has_lost_are_not_taken() {
    let (broker, queue) = open(&SimulatedDisk::new(), 1 << 20, usize::MAX, false);
    panic_half_way(&broker, &queue);
    let refused = broker.shared.take_changes(&mut Taken::default(), Stamp::IfDue, u64::MAX).unwrap_err();
    assert_eq!(refused.kind(), StorageErrorKind::Failed);
}

/// Rules: S-240.
#[tokio::test]
async fn a_panic_under_the_lock_fails_every_later_call() {
    let broker = Broker::new();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let sender = queue.sender().unwrap();
    sender.send(Message::new("first")).await.unwrap();
    panic_fails_calls(&broker, &queue).await;
    let mut transaction = broker.transaction();
    let refused = transaction.send(&sender, Message::new("later")).is_err() || transaction.commit().await.is_err();
    assert!(refused);
    let refused = broker.queue("orders").unwrap_err();
    has_failed(refused.kind(), &refused.to_string(), PANICKED);
}
