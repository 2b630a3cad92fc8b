use super::{Batch, StorageError, Table};
use crate::engine::{Part, record::MessageRecord};

/// The batch as it would be if dead letters were removed from where they were before they are put anywhere.
pub(super) fn without_dead_letters(batch: &Batch) -> Result<Batch, StorageError> {
    let mut first = Batch::default();
    for (table, key, value) in batch.iter() {
        let Some(value) = value else {
            first.remove(table, key);
            continue;
        };
        if table == Table::Messages && MessageRecord::decode(value)?.state.part == Part::DeadLetter {
            first.remove(table, key);
        } else {
            first.put(table, key, |out| out.extend_from_slice(value));
        }
    }
    Ok(first)
}
