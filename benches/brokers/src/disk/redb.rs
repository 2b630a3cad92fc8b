use redb::{Database, ReadableDatabase, TableDefinition};

use crate::contestant::{Contestant, Entered, Error, Place, Step, Unexpected, body};

/// The store under the broker of this library, alone: one commit a window.
struct Redb {
    database: Database,
    /// Whether a commit writes which pages are free, and is written in two steps, so that after a crash nothing is read.
    quick_repair: bool,
    body: Vec<u8>,
    first: u128,
    next: u128,
}

const MESSAGES: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("messages");
const CACHE: usize = 64 << 20;

pub(crate) fn enter(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move { entered(place, false) })
}

pub(crate) fn enter_quick_repair(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move { entered(place, true) })
}

fn entered(place: Place<'_>, quick_repair: bool) -> Result<Entered, Error> {
    std::fs::create_dir_all(place.folder)?;
    let database = Database::builder().set_cache_size(CACHE).create(place.folder.join("redb"))?;
    let redb = Redb { database, quick_repair, body: body(), first: 0, next: 0 };
    let how = if quick_repair { "quick_repair, which syncs twice" } else { "one sync a commit" };
    Ok(Entered { contestant: Box::new(redb), settings: format!("{how}, cache of 64 MiB") })
}

impl Contestant for Redb {
    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let mut transaction = self.database.begin_write()?;
            transaction.set_quick_repair(self.quick_repair);
            let mut table = transaction.open_table(MESSAGES)?;
            for _ in 0..window {
                table.insert(&self.next.to_be_bytes()[..], &*self.body)?;
                self.next += 1;
            }
            drop(table);
            Ok(transaction.commit()?)
        })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let end = self.first + window as u128;
            let table = self.database.begin_read()?.open_table(MESSAGES)?;
            let read: Result<Vec<Vec<u8>>, redb::StorageError> = table
                .range(&self.first.to_be_bytes()[..]..&end.to_be_bytes()[..])?
                .map(|entry| entry.map(|(_, body)| body.value().to_vec()))
                .collect();
            if read?.len() != window {
                return Err(Unexpected("a message is missing").into());
            }
            let mut transaction = self.database.begin_write()?;
            transaction.set_quick_repair(self.quick_repair);
            let mut table = transaction.open_table(MESSAGES)?;
            for order in self.first..end {
                table.remove(&order.to_be_bytes()[..])?;
            }
            drop(table);
            transaction.commit()?;
            self.first = end;
            Ok(())
        })
    }
}
