use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use super::{
    Batch, StorageError, StorageErrorKind, Table,
    journal::{Journal, Reader, Visit},
};

type Records = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// A journal that outlives its broker, and nothing else.
#[derive(Clone, Default)]
pub(super) struct MemoryJournal {
    records: Arc<Mutex<Records>>,
    /// After so many commits none succeeds.
    pub(super) fails_after: Option<usize>,
    commits: usize,
}

impl Journal for MemoryJournal {
    fn load(&mut self, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        self.records.lock().iter().try_for_each(|((table, key), value)| visit(*table, key, value))
    }

    fn commit(&mut self, batch: &Batch, _sync: bool) -> Result<(), StorageError> {
        self.commits += 1;
        if self.fails_after.is_some_and(|last| self.commits > last) {
            return Err(StorageError::new(StorageErrorKind::Failed, "as was asked for"));
        }
        let mut records = self.records.lock();
        for (table, key, value) in batch.iter() {
            match value {
                Some(value) => drop(records.insert((table, key.to_vec()), value.to_vec())),
                None => drop(records.remove(&(table, key.to_vec()))),
            }
        }
        Ok(())
    }

    fn has_room(&mut self) -> bool {
        true
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(self.clone())
    }
}

impl Reader for MemoryJournal {
    fn read(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.records.lock().get(&(table, key.to_vec())).cloned())
    }
}
