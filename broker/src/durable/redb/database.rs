use std::{path::Path, sync::Arc};

use parking_lot::RwLock;
use redb::{CompactionError, Database, ReadableDatabase, ReadableTable};

use super::{
    super::{
        StorageError, StorageErrorKind,
        journal::{Batch, Journal, Reader, Table, Visit},
    },
    backend::Backend,
    checksum::{corrupted, of as checksum_of, verified},
    file::RealFolder,
    format::{self, FORMAT, META, TOTALS},
    meta,
    open::{database, definition, set_durability},
    pages,
    place::Place,
    totals::{Total, Totals},
};

/// The options to open a journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedbOptions {
    /// Bytes of pages that are kept in memory.
    pub(crate) cache: usize,
    /// Bytes on the disk that are reserved for when it is full.
    pub(crate) reserve: u64,
}

impl Default for RedbOptions {
    fn default() -> Self {
        Self { cache: 64 << 20, reserve: 16 << 20 }
    }
}

/// Records in a file of redb.
#[derive(Debug)]
pub(crate) struct RedbJournal {
    store: Arc<Store>,
    totals: Totals,
    unsynced: Unsynced,
    /// In a full disk, the bytes of records below which a compaction is worthwhile.
    compact_below: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Store {
    /// `None` once it is closed.
    pub(super) database: RwLock<Option<Database>>,
    pub(super) backend: Arc<Backend>,
    cache: usize,
}

/// Commits that are not synced.
#[derive(Debug, Default)]
struct Unsynced {
    commits: usize,
    bytes: usize,
}

impl Unsynced {
    /// redb reuses no page that a synced commit has written before the next one. The file grows meanwhile, and the
    /// cache of redb holds what is not synced.
    const COMMITS: usize = 1_024;
    const BYTES: usize = 8 << 20;

    fn is_too_much(&self, batch: &Batch) -> bool {
        self.commits >= Self::COMMITS || self.bytes.saturating_add(batch.size()) >= Self::BYTES
    }
}

impl RedbJournal {
    /// Opens a store, or creates it where the folder is missing or empty.
    pub(crate) fn open(folder: &Path, options: RedbOptions) -> Result<Self, StorageError> {
        Self::at(Place::open(Box::new(RealFolder::new(folder)), options.reserve)?, options.cache)
    }

    pub(crate) fn at(place: Place, cache: usize) -> Result<Self, StorageError> {
        let backend = Arc::new(Backend::new(place));
        let (database, totals) = backend.guard(|| {
            let is_new = backend.place().is_new();
            if !is_new {
                let commit = pages::verify(backend.file())?;
                // Before redb writes to it, as a later version may open it otherwise.
                format::check(pages::value(backend.file(), &commit, META, FORMAT)?)?;
            }
            let database = database(&backend, cache)?;
            let totals = if is_new {
                meta::initialise(&backend, &database, &Totals::default())?;
                backend.place().publish().map_err(|error| backend.error(error))?;
                Totals::default()
            } else {
                meta::read_totals(&backend, &database.begin_read().map_err(|error| backend.error(error))?)?
            };
            backend.reserve();
            Ok((database, totals))
        })?;
        let store = Arc::new(Store { database: RwLock::new(Some(database)), backend, cache });
        Ok(Self { store, totals, unsynced: Unsynced::default(), compact_below: None })
    }
}

#[cfg(test)]
impl RedbJournal {
    pub(super) fn place(&self) -> &Place {
        self.store.backend.place()
    }

    pub(super) fn backup_to(&self, to: Box<dyn super::storage::Folder>) -> Result<(), StorageError> {
        self.store.backup_to(to)
    }

    /// As a later version would.
    pub(super) fn write_format(&self, version: u32) -> Result<(), StorageError> {
        self.store.with(|database| {
            let transaction = database.begin_write().unwrap();
            meta::put(&transaction, FORMAT, &version.to_le_bytes()).unwrap();
            transaction.commit().unwrap();
            Ok(())
        })
    }

    /// Changes a table without the journal.
    pub(super) fn change(&self, table: Table, change: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>)) {
        let database = self.store.database.read();
        let transaction = database.as_ref().unwrap().begin_write().unwrap();
        change(&mut transaction.open_table(definition(table)).unwrap());
        transaction.commit().unwrap();
    }
}

impl Store {
    /// Runs an operation on the database, which stays open meanwhile.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, StorageError>) -> Result<T, StorageError> {
        let database = self.database.read();
        let Some(database) = &*database else { return Err(StorageError::new(StorageErrorKind::Closed, "")) };
        self.backend.guard(|| work(database))
    }

    fn compact(&self) -> Result<(), StorageError> {
        let mut database = self.database.write();
        let Some(database) = &mut *database else { return Err(StorageError::new(StorageErrorKind::Closed, "")) };
        let compacted = self.backend.guard(|| match database.compact() {
            // A backup reads.
            Ok(_) | Err(CompactionError::TransactionInProgress) => Ok(()),
            Err(error) => Err(self.error(error)),
        });
        compacted.inspect_err(|error| self.backend.fail(error))
    }

    /// Rolls back to the last synced commit, after a write on a full disk, which redb takes as fatal.
    fn roll_back(&self) -> Result<(), StorageError> {
        let mut place = self.database.write();
        let Some(failed) = place.take() else { return Err(StorageError::new(StorageErrorKind::Closed, "")) };
        // redb has failed, and writes nothing.
        let _ = self.backend.contain(|| failed.close().map_err(|error| self.error(error)));
        if !self.backend.recover() {
            return self.backend.check();
        }
        let again = self.backend.guard(|| database(&self.backend, self.cache));
        *place = Some(again.inspect_err(|error| self.backend.fail(error))?);
        Ok(())
    }

    fn close(&self) -> Result<(), StorageError> {
        let Some(database) = self.database.write().take() else { return Ok(()) };
        let failed = self.backend.check();
        // A failed database is closed within the guard too, as redb may panic again.
        let closed = self.backend.contain(|| database.close().map_err(|error| self.backend.error(error)));
        failed.and(closed)
    }

    pub(super) fn error(&self, error: impl Into<redb::Error>) -> StorageError {
        self.backend.error(error)
    }

    /// Writes a batch, and returns the totals of the tables then.
    fn write(&self, database: &Database, batch: &Batch, sync: bool, totals: Totals) -> Result<Totals, StorageError> {
        let mut totals = totals;
        let mut transaction = database.begin_write().map_err(|error| self.error(error))?;
        set_durability(&mut transaction, sync).map_err(|error| self.error(error))?;
        {
            let mut tables = [const { None }; Table::ALL.len()];
            let mut stored = Vec::new();
            for (table, key, value) in batch.iter() {
                let total = totals.of_mut(table);
                let open = match &mut tables[table as usize] {
                    Some(open) => open,
                    closed => {
                        closed.insert(transaction.open_table(definition(table)).map_err(|error| self.error(error))?)
                    }
                };
                let before = match value {
                    Some(value) => {
                        stored.clear();
                        stored.extend_from_slice(value);
                        stored.extend_from_slice(&checksum_of(table.name(), key, value));
                        total.add(key, &stored);
                        open.insert(key, &*stored)
                    }
                    None => open.remove(key),
                };
                if let Some(before) = before.map_err(|error| self.error(error))? {
                    total.remove(key, before.value());
                }
            }
        }
        meta::put(&transaction, TOTALS, &totals.encode()).map_err(|error| self.error(error))?;
        transaction.commit().map_err(|error| self.error(error))?;
        Ok(totals)
    }
}

impl Journal for RedbJournal {
    fn load(&mut self, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        let Self { store, totals, .. } = self;
        let loaded = store.with(|database| {
            let transaction = database.begin_read().map_err(|error| store.error(error))?;
            for table in Table::ALL {
                let expected = totals.of(table);
                let open = transaction.open_table(definition(table)).map_err(|error| store.error(error))?;
                let mut found = Total::default();
                let mut last: Option<Vec<u8>> = None;
                for entry in open.iter().map_err(|error| store.error(error))? {
                    let (key, stored) = entry.map_err(|error| store.error(error))?;
                    let (key, stored) = (key.value(), stored.value());
                    let value = verified(table.name(), key, stored)?;
                    if last.as_deref().is_some_and(|last| last >= key) {
                        return Err(corrupted(table.name(), key, "it is not in order"));
                    }
                    found.add(key, stored);
                    // A damaged tree may have cycles.
                    if found.records > expected.records {
                        break;
                    }
                    visit(table, key, value)?;
                    let last = last.get_or_insert_default();
                    last.clear();
                    last.extend_from_slice(key);
                }
                if found != expected {
                    return Err(not_what_was_written(table));
                }
            }
            Ok(())
        });
        // Nothing is written over what could not be read.
        loaded.inspect_err(|error| store.backend.fail(error))
    }

    fn commit(&mut self, batch: &Batch, sync: bool) -> Result<(), StorageError> {
        if batch.is_empty() && !sync {
            return self.store.backend.check();
        }
        let Self { store, totals, unsynced, .. } = self;
        // In a full disk a commit may have to be rolled back, and no other one with it.
        let sync = sync || unsynced.is_too_much(batch) || store.backend.is_full();
        match store.with(|database| store.write(database, batch, sync, *totals)) {
            Ok(written) => *totals = written,
            Err(error) => {
                store.backend.fail(&error);
                if error.kind() == StorageErrorKind::Full && unsynced.commits == 0 {
                    store.roll_back()?;
                }
                return Err(error);
            }
        }
        if sync {
            *unsynced = Unsynced::default();
        } else {
            unsynced.commits += 1;
            unsynced.bytes = unsynced.bytes.saturating_add(batch.size());
        }
        Ok(())
    }

    /// Returns the space of removed records to the disk. It moves records, and blocks readers meanwhile. It does
    /// nothing while a backup is made.
    ///
    /// In a full disk it may fail as [`Full`](StorageErrorKind::Full), which is not final unless commits were not synced.
    fn compact(&mut self) -> Result<(), StorageError> {
        let compacted = self.store.compact();
        match &compacted {
            Ok(()) => self.unsynced = Unsynced::default(),
            Err(error) if error.kind() == StorageErrorKind::Full && self.unsynced.commits == 0 => {
                self.store.roll_back()?;
            }
            Err(_) => {}
        }
        compacted
    }

    fn has_room(&mut self) -> bool {
        if self.store.backend.check().is_err() {
            return false;
        }
        if !self.store.backend.is_full() || self.store.backend.reserve() {
            self.compact_below = None;
            return true;
        }
        let bytes = self.totals.bytes();
        let below = *self.compact_below.get_or_insert((bytes / 2).max(1));
        if bytes > below || below == 0 {
            return false;
        }
        // redb keeps the pages that became free. It moves some before it returns space, and may have none for that.
        self.compact_below = Some(bytes / 2);
        self.compact().is_ok() && self.store.backend.reserve()
    }

    fn close(self: Box<Self>) -> Result<(), StorageError> {
        let closed = self.store.close();
        // Its drop has nothing left to do.
        drop(self);
        closed
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.store.clone()
    }
}

impl Drop for RedbJournal {
    fn drop(&mut self) {
        // A caller that needs the error closes it.
        let _ = self.store.close();
    }
}

impl Reader for Store {
    fn backup(&self, to: &Path) -> Result<(), StorageError> {
        self.backup_to(Box::new(RealFolder::new(to)))
    }

    fn read(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.with(|database| {
            let transaction = database.begin_read().map_err(|error| self.error(error))?;
            let open = transaction.open_table(definition(table)).map_err(|error| self.error(error))?;
            let Some(stored) = open.get(key).map_err(|error| self.error(error))? else { return Ok(None) };
            verified(table.name(), key, stored.value()).map(|value| Some(value.to_vec()))
        })
    }
}

/// Returns the error for a table in which each record is good, but which differs from what was written.
pub(super) fn not_what_was_written(table: Table) -> StorageError {
    let detail = format!("table {}: records are missing, or old, or too many", table.name());
    StorageError::new(StorageErrorKind::Corrupted, detail)
}
