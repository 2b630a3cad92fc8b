//! Random batches, and a map that has to be equal to the journal.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::durable::{
    StorageError,
    journal::{Batch, Journal, Table, key},
};

/// What is in a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model(pub(super) BTreeMap<(Table, Vec<u8>), Vec<u8>>);

impl Model {
    pub(super) fn apply(&mut self, batch: &Batch) {
        for (table, key, value) in batch.iter() {
            match value {
                Some(value) => self.0.insert((table, key.to_vec()), value.to_vec()),
                None => self.0.remove(&(table, key.to_vec())),
            };
        }
    }

    pub(super) fn of(journal: &mut impl Journal) -> Result<Self, StorageError> {
        let mut model = Self::default();
        journal.load(&mut |table, key, value| {
            let before = model.0.insert((table, key.to_vec()), value.to_vec());
            assert_eq!(before, None, "a record came twice");
            Ok(())
        })?;
        Ok(model)
    }
}

/// Up to `most` changes of keys that also earlier batches have changed. Values are up to `value` bytes.
pub(super) fn random_batch(rng: &mut Rng, most: usize, value: usize) -> Batch {
    let mut batch = Batch::default();
    let mut changed = std::collections::BTreeSet::new();
    for _ in 0..rng.usize(1..=most) {
        let table = Table::ALL[rng.usize(..Table::ALL.len())];
        let key = match table {
            Table::Broker => Vec::new(),
            Table::Sessions => rng.u64(..20).to_string().repeat(rng.usize(1..4)).into_bytes(),
            _ => key(rng.u64(..3), rng.u64(..40)).to_vec(),
        };
        if !changed.insert((table, key.clone())) {
            continue;
        }
        if rng.u8(..3) == 0 {
            batch.remove(table, &key);
        } else {
            let (length, byte) = (rng.usize(..=value), rng.u8(..));
            batch.put(table, &key, |bytes| bytes.resize(bytes.len() + length, byte));
        }
    }
    batch
}
