use std::{path::Path, sync::Arc, thread};

use consign_core::{
    message::random_id::random_uuid,
    time::{Clock, Timestamp},
};
use tokio::sync::watch;

use super::{
    Commits, Durability, Journal, OpenOptions, Recorder, Recovery, StorageError, StorageErrorKind, Table,
    later::Later,
    log::{LogJournal, LogOptions},
    restore,
    writer::Writer,
};
use crate::{
    Broker,
    engine::record::{BrokerRecord, Identity, Restoring},
    shared::Shared,
};

impl OpenOptions {
    /// Opens the store in the folder at `path`, or creates it: a folder for this broker alone. Blocks until every
    /// stored message is indexed, and starts the thread that writes.
    ///
    /// Errors, by [`StorageErrorKind`](super::StorageErrorKind): `InUse`, `NewerFormat`, `NotAStore`, `Corrupted`, `Full`
    /// and `Failed`.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Broker, StorageError> {
        let path = path.as_ref();
        open(&self, path).map_err(|error| error.in_folder(path))
    }
}

fn open(options: &OpenOptions, path: &Path) -> Result<Broker, StorageError> {
    let journal = LogJournal::open(path, LogOptions::default())?;
    let (broker, writer) = restore(options, Box::new(journal))?;
    let spawned = spawn("consign-writer", move || writer.run())?;
    if let Some(recorder) = broker.shared.recorder() {
        recorder.set_writer(spawned);
        let (fetcher, shared) = (recorder.fetcher().clone(), Arc::downgrade(&broker.shared));
        spawn("consign-fetcher", move || fetcher.run(&shared))?;
    }
    if let Durability::Relaxed { max_delay } = options.durability {
        tracing::warn!(
            ?path,
            ?max_delay,
            "relaxed durability: a crash may lose messages that were acknowledged in the last max_delay"
        );
    }
    Ok(broker)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>, StorageError> {
    let failed =
        |error| StorageError::new(StorageErrorKind::Failed, "a thread could not be started").with_source(error);
    thread::Builder::new().name(name.into()).spawn(work).map_err(failed)
}

/// Restores the broker from a journal, and the writer of its changes.
pub(super) fn restore(options: &OpenOptions, mut journal: Box<dyn Journal>) -> Result<(Broker, Writer), StorageError> {
    let started = options.clock.now().elapsed;
    let mut recovery = Recovery::default();
    let budget = options.memory_budget as u64;
    let holds = options.hold_locks || options.keep_locks;
    let (mut restoring, mut identity, mut clock) = (None, None, None);
    let begin = |latest| {
        let clock = Later::new(Arc::clone(&options.clock), latest);
        (clock.now(), clock)
    };
    journal.load(&mut |table, key, value| {
        recovery.records += 1;
        recovery.bytes += (key.len() + value.len()) as u64;
        if table == Table::Broker {
            let record = BrokerRecord::decode(value)?;
            let (now, later) = begin(record.latest);
            identity = Some(Identity { store: record.store, created: record.created });
            restoring = Some(Restoring::new(options.quirks, now.into(), record.last_serial, holds, budget));
            clock = Some(later);
            return Ok(());
        }
        let missing = || super::corrupted(Table::Broker, &[], "it is not there");
        restore::restore(restoring.as_mut().ok_or_else(missing)?, table, key, value)
    })?;
    let (clock, restoring, identity) =
        if let (Some(clock), Some(restoring), Some(identity)) = (clock, restoring, identity) {
            (clock, restoring, identity)
        } else {
            let (now, clock) = begin(Timestamp::EPOCH);
            let identity = Identity { store: random_uuid(), created: now.utc };
            (clock, Restoring::new(options.quirks, now.into(), 0, holds, budget), identity)
        };
    let (mut engine, messages) = restoring.finish(journal.space(), options.hold_locks);
    engine.set_ahead(Arc::clone(&clock.ahead));
    engine.set_space(clock.now().into(), journal.space());
    recovery.messages = messages;
    recovery.took = options.clock.now().elapsed.saturating_sub(started);
    let (commits, compactions) = (Arc::new(Commits::default()), Arc::new(Commits::default()));
    let delay = match options.durability {
        Durability::Durable => options.group_delay,
        Durability::Relaxed { max_delay } => max_delay,
    };
    let (open, is_open) = watch::channel(());
    let reader = journal.reader();
    let recorder = Recorder::new(
        Arc::clone(&commits),
        Arc::clone(&compactions),
        options.durability,
        identity,
        recovery,
        reader,
        is_open,
    );
    let shared = Arc::new(Shared::on_disk(Arc::new(clock), Arc::clone(&options.clock), engine, recorder));
    let writer = Writer::new(journal, commits, compactions, Arc::downgrade(&shared), open, delay);
    Ok((Broker { shared }, writer))
}
