use std::{ops::Range, path::Path, sync::Arc};

use super::StorageError;

/// The kind of a record. Records are loaded in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    /// The broker: one record with an empty key.
    Broker,
    /// An entity, its settings, its rules: by its serial.
    Entities,
    /// The numbers that an entity has assigned, such as sequence numbers: by the entity's serial.
    Counters,
    /// The state of a session: by the entity's serial and the id of the session.
    Sessions,
    /// An id in the window of duplicate detection: by the entity's serial and a number.
    Ids,
    /// A message: by the entity's serial and its order there.
    Messages,
}

impl Table {
    /// All tables, in the order in which they are loaded.
    pub(crate) const ALL: [Self; 6] =
        [Self::Broker, Self::Entities, Self::Counters, Self::Sessions, Self::Ids, Self::Messages];

    /// Part of the format, as is the place in [`ALL`](Self::ALL).
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Entities => "entities",
            Self::Counters => "counters",
            Self::Sessions => "sessions",
            Self::Ids => "ids",
            Self::Messages => "messages",
        }
    }
}

/// The storage for the records of a broker. A commit that it reports survives a process crash and power loss.
pub(crate) trait Journal: Send {
    /// Passes every record to `visit`, table after table and by ascending key in each. An error of `visit` ends it.
    fn load(&mut self, visit: &mut Visit<'_>) -> Result<(), StorageError>;

    /// Writes a batch: all of it or nothing. With `sync` it is on the disk when this returns, with all earlier
    /// commits. An error is final: every later call fails too. Only after [`Full`](super::StorageErrorKind::Full) the
    /// journal may continue, without the batch, which may be committed again; the next call shows this.
    fn commit(&mut self, batch: &Batch, sync: bool) -> Result<(), StorageError>;

    /// Whether the disk has space. When it is full, a commit still succeeds, from a reserve for changes that free
    /// space. When the reserve is gone this tries to take it again, which writes all of it. It also returns space to
    /// the disk when half of the records are gone. Do not call it for each batch.
    fn has_space(&mut self) -> bool;

    /// Returns how many bytes of changes it has space for until the next call, while it [has space](Self::has_space).
    fn space(&self) -> u64;

    /// Makes all commits survive a power loss, and closes the file.
    fn close(self: Box<Self>) -> Result<(), StorageError>;

    /// Does a part of a compaction, which returns unused space to the disk. `true` at its end. Between the parts the
    /// journal is used as always. After an error the next call begins again.
    fn compact(&mut self) -> Result<bool, StorageError>;

    /// Returns a reader of the committed records, for use while other threads commit.
    fn reader(&self) -> Arc<dyn Reader>;
}

pub(crate) type Visit<'v> = dyn FnMut(Table, &[u8], &[u8]) -> Result<(), StorageError> + 'v;

/// Reads the committed records of a journal.
pub(crate) trait Reader: Send + Sync {
    /// Returns the record of each key as the last commit left it. Records that are near each other on the disk are
    /// read together.
    fn read(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, StorageError>;

    /// Writes all records, as one commit left them, to a new store in a folder that does not exist.
    fn backup(&self, to: &Path) -> Result<(), StorageError>;
}

/// Records that are written and removed together. Each key has at most one change.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The keys and the values, one after the other.
    bytes: Vec<u8>,
    changes: Vec<(Table, Range<usize>, Option<Range<usize>>)>,
}

impl Batch {
    /// Writes a record. `encode` appends its value.
    pub(crate) fn put(&mut self, table: Table, key: &[u8], encode: impl FnOnce(&mut Vec<u8>)) {
        let key = self.push(key);
        let start = self.bytes.len();
        encode(&mut self.bytes);
        self.changes.push((table, key, Some(start..self.bytes.len())));
    }

    /// Removes a record, whether it exists or not.
    pub(crate) fn remove(&mut self, table: Table, key: &[u8]) {
        let key = self.push(key);
        self.changes.push((table, key, None));
    }

    fn push(&mut self, key: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        start..self.bytes.len()
    }

    /// Iterates over the table, the key, and the value; a removed record has no value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        let slice = |range: &Range<usize>| &self.bytes[range.clone()];
        self.changes.iter().map(move |(table, key, value)| (*table, slice(key), value.as_ref().map(slice)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes of all keys and values.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Empties it, and keeps its memory up to `keep` bytes.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(keep);
        self.changes.clear();
    }
}

/// The key of a record of one entity and of one of its numbers, in the order of both.
pub(crate) fn key(serial: u64, number: u64) -> [u8; 16] {
    (u128::from(serial) << 64 | u128::from(number)).to_be_bytes()
}
