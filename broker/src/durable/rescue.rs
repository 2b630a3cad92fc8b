//! Operations on a store besides its use: copies, compaction, and salvage of a damaged store.

use std::{collections::BTreeMap, io::Write, path::Path};

use consign_core::{
    message::{EntityPath, MessageState, Received},
    time::Timestamp,
};

use super::{Line, StorageError, StorageErrorKind, Table, corrupted, log, write_message};
use crate::{
    Acknowledged, Broker,
    engine::{
        Part,
        record::{EntityRecord, MessageRecord, Place},
        show,
    },
};

/// The result of reading a damaged store: [`Broker::salvage`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvage {
    /// Messages that were written out.
    pub messages: u64,
    /// Records of all kinds that are good.
    pub records: u64,
    /// How many records there should be, if that can still be read.
    pub expected: Option<u64>,
    /// The damages, and where they are: the first 10,000.
    pub damages: Vec<String>,
}

impl Broker {
    /// Writes a consistent copy of everything on the disk to a new store at `to`, while this broker continues. Blocks
    /// this thread.
    ///
    /// Errors: [`NotAStore`](StorageErrorKind::NotAStore) if something is at `to`, its parent folder does not exist, or it is
    /// inside of the store's folder; a disk fails; [`Closed`](StorageErrorKind::Closed) if the broker was closed or is in
    /// memory.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<(), StorageError> {
        match self.shared.recorder() {
            Some(recorder) => recorder.fetcher().backup(to.as_ref()),
            None => Err(StorageError::new(StorageErrorKind::Closed, "it is in memory")),
        }
    }

    /// Returns the space of removed messages to the disk. It takes as long as writing the contents that have to move.
    /// Other calls continue meanwhile: it writes a MiB at a time, with commits in between. A full disk may not have
    /// enough space for it; then it stops, and logs that. It also ends when the broker is closed, with an error.
    pub fn compact(&self) -> Acknowledged<(), StorageError> {
        self.shared.compact()
    }

    /// Reads the good records in the store at `path`, which must not be open, and writes nothing there. Pages of 4 KiB
    /// that the disk cannot read are damages. It writes
    /// each message as a line of JSON, as [`Queue::export`](crate::Queue::export) does, with the path of its
    /// entity. Where a record is damaged, an earlier state of its message may appear, also if the message was completed
    /// since. Blocks this thread.
    ///
    /// Entities, their settings and rules, and the states of sessions are not written.
    ///
    /// Errors: [`NotAStore`](StorageErrorKind::NotAStore) if the folder does not exist or has no store,
    /// [`InUse`](StorageErrorKind::InUse), and [`Failed`](StorageErrorKind::Failed) if `out` fails.
    pub fn salvage(path: impl AsRef<Path>, out: &mut impl Write) -> Result<Salvage, StorageError> {
        let (mut paths, mut messages, mut unreadable) = (BTreeMap::new(), 0, Vec::new());
        let most = log::Salvaged::MOST;
        let salvaged = log::salvage(path.as_ref(), &mut |table, key, value| {
            let serial = key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            let read = match table {
                Table::Entities => EntityRecord::decode(value).map(|record| {
                    paths.insert(serial, record.path);
                    None
                }),
                Table::Messages => MessageRecord::decode(value).map(Some),
                _ => Ok(None),
            };
            match read {
                Ok(Some(record)) => {
                    write_message(out, &line(record, paths.get(&serial))).map_err(|error| {
                        StorageError::new(StorageErrorKind::Failed, "writing a line").with_source(error)
                    })?;
                    messages += 1;
                }
                Err(malformed) if unreadable.len() < most => {
                    unreadable.push(corrupted(table, key, &malformed.to_string()).detail().to_owned());
                }
                Ok(None) | Err(_) => {}
            }
            Ok(())
        })?;
        let log::Salvaged { records, expected, mut damages } = salvaged;
        unreadable.truncate(most.saturating_sub(damages.len()));
        damages.append(&mut unreadable);
        Ok(Salvage { messages, records, expected, damages })
    }
}

fn line(record: MessageRecord, path: Option<&EntityPath>) -> Line {
    let MessageRecord { state, message } = record;
    let path = path.map(|path| match state.part {
        Part::Main => path.clone(),
        Part::DeadLetter => path.dead_letter(),
        Part::TransferDeadLetter => path.transfer_dead_letter(),
    });
    let mut received = Received::new(state.sequence, state.enqueued, state.failures);
    received.dead_lettered = state.part != Part::Main;
    received.expires_at = state.expires_at.unwrap_or(Timestamp::MAX);
    if state.hops > 0 {
        received.enqueued_sequence_number = state.origin;
    }
    received.state = match state.place {
        Place::Ready => MessageState::Active,
        Place::Deferred => MessageState::Deferred,
        Place::Scheduled => MessageState::Scheduled,
    };
    Line { entity: path.map(|path| path.to_string()), message: show(&message, received) }
}
