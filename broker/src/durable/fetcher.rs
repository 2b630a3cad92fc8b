use std::{
    path::Path,
    sync::{Arc, Weak},
};

use consign_core::message::Stored;
use parking_lot::{Condvar, Mutex};

use super::{Commits, StorageError, StorageErrorKind, Table, corrupted, journal::Reader, key};
use crate::{
    engine::{Wanted, record::MessageRecord},
    panics::caught,
    shared::Shared,
};

/// Reads messages that are on the disk only. A thread of its own reads those that receivers come near; a peek reads
/// its own.
#[derive(Clone)]
pub(crate) struct Fetcher {
    reader: Arc<dyn Reader>,
    commits: Arc<Commits>,
    orders: Arc<Orders>,
}

#[derive(Default)]
struct Orders {
    state: Mutex<State>,
    has_some: Condvar,
}

#[derive(Default)]
struct State {
    /// Each message is requested once until it is fetched.
    wanted: Vec<Wanted>,
    is_over: bool,
}

impl Fetcher {
    /// How many are read together, and then moved to the engine. Those that are neighbours on the disk take one read.
    const TOGETHER: usize = 64;

    pub(super) fn new(reader: Arc<dyn Reader>, commits: Arc<Commits>) -> Self {
        Self { reader, commits, orders: Arc::default() }
    }

    pub(super) fn fetch(&self, wanted: Vec<Wanted>) {
        self.orders.state.lock().wanted.extend(wanted);
        self.orders.has_some.notify_one();
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        self.orders.state.lock().is_over = true;
        self.orders.has_some.notify_one();
    }

    fn next(&self) -> Option<Vec<Wanted>> {
        let mut state = self.orders.state.lock();
        loop {
            if state.is_over {
                return None;
            }
            if !state.wanted.is_empty() {
                return Some(std::mem::take(&mut state.wanted));
            }
            self.orders.has_some.wait(&mut state);
        }
    }

    /// Fetches requested messages until the broker is gone, or the disk fails.
    pub(super) fn run(self, shared: &Weak<Shared>) {
        while let Some(wanted) = self.next() {
            for some in wanted.chunks(Self::TOGETHER) {
                if let Err(failure) = caught("fetcher", || self.fetch_some(some, shared)) {
                    self.fail(failure);
                    if let Some(shared) = shared.upgrade() {
                        shared.wake_all();
                    }
                    return;
                }
            }
        }
    }

    fn fetch_some(&self, some: &[Wanted], shared: &Weak<Shared>) -> Result<(), StorageError> {
        let fetched = self.read_all(some)?;
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        let now = shared.now();
        match shared.with(|state| state.engine.page_in(now, fetched)) {
            None => Ok(()),
            Some(Wanted { store, order, .. }) => {
                Err(corrupted(Table::Messages, &key(store.serial, order), "it is missing"))
            }
        }
    }

    /// Reads messages; `None` for one that is gone.
    pub(crate) fn read_all(&self, wanted: &[Wanted]) -> Result<Vec<(Wanted, Option<Stored>)>, StorageError> {
        let keys: Vec<[u8; 16]> = wanted.iter().map(|it| key(it.store.serial, it.order)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 16]>::as_slice).collect();
        let records = self.reader.read(Table::Messages, &keys)?;
        wanted.iter().zip(records).map(|(wanted, record)| Ok((*wanted, decoded(record)?))).collect()
    }

    /// Reads a message; `None` if it is gone.
    pub(crate) fn read(&self, serial: u64, order: u64) -> Result<Option<Stored>, StorageError> {
        decoded(self.reader.read(Table::Messages, &[&key(serial, order)])?.pop().flatten())
    }

    /// Copies all that is committed.
    pub(super) fn backup(&self, to: &Path) -> Result<(), StorageError> {
        self.reader.backup(to)
    }

    /// Ends the broker, because an unreadable message would never be delivered. If the broker is being closed the
    /// writer reports it, and not before others can open the store.
    pub(crate) fn fail(&self, failure: StorageError) {
        if failure.kind() == StorageErrorKind::Closed {
            return;
        }
        tracing::error!(error = %failure, "a stored message cannot be read: all calls fail until the store is opened again");
        self.commits.fail(failure);
    }
}

#[cfg(test)]
impl Fetcher {
    /// Fetches what is requested, and returns how many that were.
    pub(super) fn fetch_requested(&self, shared: &Weak<Shared>) -> Result<usize, StorageError> {
        let wanted = std::mem::take(&mut self.orders.state.lock().wanted);
        self.fetch_some(&wanted, shared).map(|()| wanted.len())
    }
}

fn decoded(record: Option<Vec<u8>>) -> Result<Option<Stored>, StorageError> {
    record.map(|record| Ok(MessageRecord::decode(&record)?.message)).transpose()
}

#[cfg(test)]
mod tests {
    use consign_core::{
        Message,
        administration::QueueSettings,
        transport::{Batch, ReceiverExt, Sender},
    };
    use futures_util::FutureExt;

    use super::*;
    use crate::durable::{
        OpenOptions,
        disk::SimulatedDisk,
        journal::Journal,
        log::{LogJournal, LogOptions},
        open::restore,
    };

    /// Otherwise a receiver would wait for each group of messages, and nothing would be read while it takes one.
    #[tokio::test]
    async fn messages_are_requested_before_a_receiver_waits_for_them() {
        const COUNT: usize = 1_000;
        let disk = SimulatedDisk::new();
        let journal = LogJournal::at(Box::new(disk.clone()), LogOptions::small(0)).unwrap();
        let (broker, mut writer) = restore(&OpenOptions::new(), Box::new(journal)).unwrap();
        let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
        let batch: Batch = (0..COUNT).map(|_| Message::new("a")).collect();
        drop(queue.sender().unwrap().send_batch(batch));
        writer.step(Arc::clone(&broker.shared)).unwrap();

        let journal = LogJournal::at(Box::new(disk.copy()), LogOptions::small(0)).unwrap();
        let (broker, _writer) = restore(&OpenOptions::new().memory_budget(1), Box::new(journal)).unwrap();
        let (fetcher, shared) = (broker.shared.recorder().unwrap().fetcher(), Arc::downgrade(&broker.shared));
        let queue = broker.queue("orders").unwrap();
        let mut receiver = queue.receiver();
        let requested = || std::mem::take(&mut fetcher.orders.state.lock().wanted);
        assert!(receiver.receive().now_or_never().is_none(), "all of them are on the disk only");
        let (mut here, mut waits, mut held) = (0, 0, Vec::new());
        let mut wanted = requested();
        while held.len() < COUNT {
            here += wanted.len();
            fetcher.fetch_some(&wanted, &shared).unwrap();
            wanted.clear();
            while wanted.is_empty() && held.len() < COUNT {
                match receiver.receive().now_or_never() {
                    Some(delivery) => held.push(delivery.unwrap()),
                    None => waits += 1,
                }
                wanted = requested();
            }
            assert!(wanted.is_empty() || here - held.len() >= 100, "{} of {here} were left", here - held.len());
        }
        assert_eq!((waits, here), (0, COUNT));
    }

    /// Rules: D-08.
    /// Otherwise a broker would report that it is closed while its folder is still locked.
    #[test]
    fn a_fetch_while_a_journal_is_closed_does_not_end_the_broker() {
        let journal = LogJournal::at(Box::new(SimulatedDisk::new()), LogOptions::small(0)).unwrap();
        let fetcher = Fetcher::new(journal.reader(), Arc::default());
        Box::new(journal).close().unwrap();
        fetcher.fail(fetcher.read(1, 1).unwrap_err());
        assert!(fetcher.commits.failure().is_none());
        fetcher.fail(StorageError::new(StorageErrorKind::Corrupted, ""));
        assert!(fetcher.commits.failure().is_some());
    }
}
