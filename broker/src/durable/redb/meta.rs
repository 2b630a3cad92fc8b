//! The table that describes a store: its format, and the totals of its other tables.

use redb::{Database, ReadTransaction, TableDefinition, WriteTransaction};

use super::{
    super::{StorageError, journal::Table},
    backend::Backend,
    checksum::{corrupted, sealed, verified},
    format::{FORMAT, META, TOTALS, VERSION},
    open::{definition, set_durability},
    totals::Totals,
};

const META_DEFINITION: TableDefinition<'static, &'static str, &'static [u8]> = TableDefinition::new(META);

pub(super) fn put(transaction: &WriteTransaction, name: &str, value: &[u8]) -> Result<(), redb::Error> {
    transaction.open_table(META_DEFINITION)?.insert(name, &*sealed(META, name.as_bytes(), value))?;
    Ok(())
}

/// Initialises a new store with these totals.
pub(super) fn initialise(backend: &Backend, database: &Database, totals: &Totals) -> Result<(), StorageError> {
    let write = || -> Result<(), redb::Error> {
        let mut transaction = database.begin_write()?;
        set_durability(&mut transaction, true)?;
        for table in Table::ALL {
            transaction.open_table(definition(table))?;
        }
        put(&transaction, FORMAT, &VERSION.to_le_bytes())?;
        put(&transaction, TOTALS, &totals.encode())?;
        transaction.commit()?;
        Ok(())
    };
    write().map_err(|error| backend.error(error))
}

pub(super) fn read_totals(backend: &Backend, transaction: &ReadTransaction) -> Result<Totals, StorageError> {
    let meta = transaction.open_table(META_DEFINITION).map_err(|error| backend.error(error))?;
    let stored = meta.get(TOTALS).map_err(|error| backend.error(error))?;
    let stored = stored.ok_or_else(|| corrupted(META, TOTALS.as_bytes(), "it is missing"))?;
    let totals = Totals::decode(verified(META, TOTALS.as_bytes(), stored.value())?);
    totals.ok_or_else(|| corrupted(META, TOTALS.as_bytes(), "it has the wrong length"))
}
