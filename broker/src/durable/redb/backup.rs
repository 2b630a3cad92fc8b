use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable};

use super::{
    super::{StorageError, journal::Table},
    backend::Backend,
    checksum::verified,
    database::{Store, not_what_was_written},
    meta::{initialise, read_totals},
    open::{database, definition},
    place::Place,
    storage::Folder,
    totals::Total,
};

/// Bytes of records that are written at once.
const CHUNK: usize = 8 << 20;

impl Store {
    /// Writes the commits before its start to a new store, beside further commits. On an error it leaves nothing. A
    /// folder of a process that was killed does not open.
    pub(super) fn backup_to(&self, to: Box<dyn Folder>) -> Result<(), StorageError> {
        self.with(|_| Ok(()))?;
        let target = Arc::new(Backend::new(Place::backup(to)?));
        let copy = target.guard(|| {
            let copy = database(&target, CHUNK)?;
            self.copy_to(&target, &copy)?;
            Ok(copy)
        })?;
        // A store of this name is complete.
        target.guard(|| copy.close().map_err(|error| target.error(error)))?;
        target.place().publish().map_err(|error| target.error(error))
    }

    fn copy_to(&self, target: &Backend, copy: &Database) -> Result<(), StorageError> {
        // Without the lock, as a caller that waits to close the database would block every commit.
        let source = self.with(|database| database.begin_read().map_err(|error| self.error(error)))?;
        let totals = self.backend.guard(|| read_totals(&self.backend, &source))?;
        initialise(target, copy, &totals)?;
        for table in Table::ALL {
            let open = source.open_table(definition(table)).map_err(|error| self.error(error))?;
            let mut records = open.iter().map_err(|error| self.error(error))?;
            let (mut found, mut is_done) = (Total::default(), false);
            while !is_done {
                let transaction = copy.begin_write().map_err(|error| target.error(error))?;
                {
                    let mut written = transaction.open_table(definition(table)).map_err(|error| target.error(error))?;
                    let mut bytes = 0;
                    while bytes < CHUNK && !is_done {
                        let Some(record) = records.next() else {
                            is_done = true;
                            break;
                        };
                        let (key, stored) = record.map_err(|error| self.error(error))?;
                        let (key, stored) = (key.value(), stored.value());
                        verified(table.name(), key, stored)?;
                        found.add(key, stored);
                        bytes += key.len() + stored.len();
                        written.insert(key, stored).map_err(|error| target.error(error))?;
                    }
                }
                transaction.commit().map_err(|error| target.error(error))?;
            }
            if found != totals.of(table) {
                return Err(not_what_was_written(table));
            }
        }
        Ok(())
    }
}
