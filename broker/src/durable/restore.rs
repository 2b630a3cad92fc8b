use super::{Table, corrupted, error::StorageError};
use crate::engine::record::{CounterRecord, EntityRecord, IdRecord, MessageRecord, Restoring, SessionRecord};

/// Decodes a record, and restores it. The record of the broker came first, and is read already.
pub(super) fn restore(engine: &mut Restoring, table: Table, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
    let restored = match table {
        Table::Broker => Ok(()),
        Table::Entities => engine.entity(serial(table, key)?, EntityRecord::decode(value)?),
        Table::Counters => engine.counter(serial(table, key)?, &CounterRecord::decode(value)?),
        Table::Sessions => {
            let (of, id) = key.split_at_checked(8).ok_or_else(|| corrupted(table, key, "its key is too short"))?;
            let record = SessionRecord::decode(value)?;
            if record.id.as_bytes() != id {
                return Err(corrupted(table, key, "it is of another session"));
            }
            engine.session(serial(table, of)?, record)
        }
        Table::Ids => {
            let (of, number) = pair(table, key)?;
            engine.id(of, number, IdRecord::decode(value)?)
        }
        Table::Messages => {
            let (of, order) = pair(table, key)?;
            engine.message(of, order, MessageRecord::decode(value)?)
        }
    };
    restored.map_err(|inconsistent| corrupted(table, key, inconsistent.0))
}

fn serial(table: Table, key: &[u8]) -> Result<u64, StorageError> {
    let bytes = key.try_into().map_err(|_| corrupted(table, key, "its key has another length"))?;
    Ok(u64::from_be_bytes(bytes))
}

fn pair(table: Table, key: &[u8]) -> Result<(u64, u64), StorageError> {
    let (of, number) = key.split_at_checked(8).ok_or_else(|| corrupted(table, key, "its key is too short"))?;
    Ok((serial(table, of)?, serial(table, number)?))
}
