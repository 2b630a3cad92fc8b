use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::contestant::{Contestant, Entered, Place, Step, Unexpected, body};

/// A store of sorted tables behind a log: one batch a window.
struct Fjall {
    database: Database,
    messages: Keyspace,
    body: Vec<u8>,
    first: u64,
    next: u64,
}

const MODE: PersistMode = PersistMode::SyncData;
const CACHE: u64 = 64 << 20;

pub(crate) fn enter(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move {
        std::fs::create_dir_all(place.folder)?;
        let database = Database::builder(place.folder.join("fjall")).cache_size(CACHE).open()?;
        let messages = database.keyspace("messages", KeyspaceCreateOptions::default)?;
        let fjall = Fjall { database, messages, body: body(), first: 0, next: 0 };
        Ok(Entered { contestant: Box::new(fjall), settings: format!("fjall 3, {MODE:?} a batch, cache of 64 MiB") })
    })
}

impl Contestant for Fjall {
    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let mut batch = self.database.batch().durability(Some(MODE));
            for _ in 0..window {
                batch.insert(&self.messages, self.next.to_be_bytes(), &*self.body);
                self.next += 1;
            }
            Ok(batch.commit()?)
        })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let end = self.first + window as u64;
            let read: Result<Vec<_>, fjall::Error> =
                self.messages.range(self.first.to_be_bytes()..end.to_be_bytes()).map(fjall::Guard::value).collect();
            if read?.len() != window {
                return Err(Unexpected("a message is missing").into());
            }
            let mut batch = self.database.batch().durability(Some(MODE));
            for order in self.first..end {
                batch.remove(&self.messages, order.to_be_bytes());
            }
            batch.commit()?;
            self.first = end;
            Ok(())
        })
    }
}
