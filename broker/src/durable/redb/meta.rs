//! The table that describes a store: its format, and the totals of its other tables.

use redb::{Database, ReadTransaction, TableDefinition, WriteTransaction};

use super::{
    super::{StorageError, StorageErrorKind, journal::Table},
    backend::Backend,
    checksum::{corrupted, sealed, verified},
    database::{definition, set_durability},
    totals::Totals,
};

pub(super) const META: &str = "meta";
pub(super) const FORMAT: &str = "format";
pub(super) const TOTALS: &str = "totals";

/// The version that is written, and the latest that is read.
const VERSION: u32 = 1;

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

/// Whether this version reads the format that a store declares.
pub(super) fn check_format(stored: Option<Vec<u8>>) -> Result<(), StorageError> {
    let stored = stored.ok_or_else(|| corrupted(META, FORMAT.as_bytes(), "it is missing"))?;
    match verified(META, FORMAT.as_bytes(), &stored)?.try_into().map(u32::from_le_bytes) {
        Ok(VERSION) => Ok(()),
        Ok(version) if version > VERSION => {
            let detail = format!("format {version}, and this version reads up to {VERSION}");
            Err(StorageError::new(StorageErrorKind::NewerFormat, detail))
        }
        _ => Err(corrupted(META, FORMAT.as_bytes(), "there is no such format")),
    }
}

pub(super) fn read_totals(backend: &Backend, transaction: &ReadTransaction) -> Result<Totals, StorageError> {
    let meta = transaction.open_table(META_DEFINITION).map_err(|error| backend.error(error))?;
    let stored = meta.get(TOTALS).map_err(|error| backend.error(error))?;
    let stored = stored.ok_or_else(|| corrupted(META, TOTALS.as_bytes(), "it is missing"))?;
    let totals = Totals::decode(verified(META, TOTALS.as_bytes(), stored.value())?);
    totals.ok_or_else(|| corrupted(META, TOTALS.as_bytes(), "it has the wrong length"))
}
