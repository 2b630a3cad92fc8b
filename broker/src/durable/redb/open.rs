//! How the database, its transactions and its tables are opened.

use std::sync::Arc;

use redb::{Database, Durability, TableDefinition, WriteTransaction};

use super::{
    super::{StorageError, journal::Table},
    backend::{Backend, Handle},
};

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Opens the database, or creates it in an empty file.
pub(super) fn database(backend: &Arc<Backend>, cache: usize) -> Result<Database, StorageError> {
    let mut builder = Database::builder();
    builder.set_cache_size(cache);
    builder.create_with_backend(Handle(backend.clone())).map_err(|error| backend.error(error))
}

/// Returns the definition of a table of records.
pub(super) const fn definition(table: Table) -> Definition {
    TableDefinition::new(table.name())
}

/// Sets whether the commit of a transaction is synced.
pub(super) fn set_durability(transaction: &mut WriteTransaction, sync: bool) -> Result<(), redb::Error> {
    if !sync {
        transaction.set_durability(Durability::None)?;
    }
    // After a process crash the file opens in the same time, whatever its size.
    transaction.set_quick_repair(sync);
    Ok(())
}
