use std::{
    error, fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use consign::{
    middleware::dedup::{StoreError, StoreErrorKind},
    rpc::RecordedReply,
    time::Timestamp,
};
use redb::{
    Database, DatabaseError, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
};

use crate::{
    new_file,
    panics::caught,
    replies::{self, Bounds, NewReply},
};

/// Until when each id is known, in milliseconds of UTC.
const IDS: TableDefinition<u128, i64> = TableDefinition::new("ids");
/// The same in the order of time.
const ORDER: TableDefinition<(i64, u128), ()> = TableDefinition::new("order");
const META: TableDefinition<&str, u128> = TableDefinition::new("meta");

const FORMAT: u128 = 1;

/// Opens the database.
type Open = Box<dyn Fn() -> Result<Database, DatabaseError> + Send>;

/// The committed ids.
pub(crate) struct File {
    open: Open,
    path: PathBuf,
    /// `None` after a failed write.
    database: Option<Database>,
    secret: u128,
    window: Duration,
    max: u64,
    max_reply_bytes: u64,
}

/// The committed ids as they were after the latest write.
pub(crate) struct View(ReadOnlyTable<u128, i64>);

impl File {
    /// How many ids a write forgets at most for each one that it adds.
    const FORGET: usize = 4;
    /// redb's own is a gigabyte.
    const CACHE: usize = 64 << 20;

    pub(crate) fn open(path: &Path, window: Duration, max: u64, max_reply_bytes: u64) -> Result<Self, StoreError> {
        let file = path.to_owned();
        let open = move || {
            let open = |path: &Path| Database::builder().set_cache_size(Self::CACHE).create(path);
            new_file::create_whole(&file, open)?;
            open(&file)
        };
        Self::open_by(Box::new(open), path, window, max, max_reply_bytes)
    }

    pub(crate) fn open_by(
        open: Open,
        path: &Path,
        window: Duration,
        max: u64,
        max_reply_bytes: u64,
    ) -> Result<Self, StoreError> {
        let (database, secret) = opened(&open, path)?;
        let path = path.to_owned();
        Ok(Self { open, path, database: Some(database), secret, window, max, max_reply_bytes })
    }

    fn database(&self) -> Result<&Database, redb::Error> {
        self.database.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    /// Ends the use of the file. After a failed write redb refuses all later ones.
    pub(crate) fn close(&mut self) {
        self.database = None;
    }

    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        self.database.is_none()
    }

    /// Opens a file that was closed, and writes as much as a batch of so many ids. On a full disk a smaller write may
    /// succeed although no batch does.
    pub(crate) fn open_again(&mut self, batch: usize) -> Result<(), StoreError> {
        let (database, secret) = opened(&self.open, &self.path)?;
        // The digests of another file have another key.
        if secret != self.secret {
            return Err(NotOpened::error(&self.path, StoreErrorKind::Unavailable, UnknownFormat(())));
        }
        caught(|| write_and_remove(&database, batch)).map_err(unavailable)?.map_err(unavailable)?;
        self.database = Some(database);
        Ok(())
    }

    pub(crate) fn secret(&self) -> [u8; 16] {
        self.secret.to_le_bytes()
    }

    pub(crate) fn view(&self) -> Result<View, redb::Error> {
        Ok(View(self.database()?.begin_read()?.open_table(IDS)?))
    }

    /// Adds ids from these instants on, and replies, which are on the disk when this returns. `false` is for an id above the
    /// maximum.
    pub(crate) fn commit<'r>(
        &self,
        added: &[(u128, Timestamp)],
        replies: impl ExactSizeIterator<Item = &'r NewReply>,
    ) -> Result<Vec<bool>, redb::Error> {
        let mut transaction = self.database()?.begin_write()?;
        // After a kill the file opens in the same time, whatever its size.
        transaction.set_quick_repair(true);
        let mut answers = Vec::with_capacity(added.len());
        {
            let (mut ids, mut order) = (transaction.open_table(IDS)?, transaction.open_table(ORDER)?);
            for &(digest, now) in added {
                for _ in 0..Self::FORGET {
                    let oldest = order.first()?.map(|(key, _)| key.value());
                    let Some((until, over)) = oldest.filter(|(until, _)| *until <= now.as_millis()) else { break };
                    order.remove((until, over))?;
                    ids.remove(over)?;
                }
                let before = ids.get(digest)?.map(|until| until.value());
                let has_room = before.is_some() || ids.len()? < self.max;
                if has_room {
                    if let Some(before) = before {
                        order.remove((before, digest))?;
                    }
                    let until = now.saturating_add(self.window).as_millis();
                    ids.insert(digest, until)?;
                    order.insert((until, digest), ())?;
                }
                answers.push(has_room);
            }
        }
        let bounds = Bounds { window: self.window, max_bytes: self.max_reply_bytes };
        replies::write(&transaction, bounds, replies)?;
        transaction.commit()?;
        Ok(answers)
    }

    pub(crate) fn reply(&self, digest: u128, now: Timestamp) -> Result<Option<RecordedReply>, redb::Error> {
        replies::find(self.database()?, digest, now)
    }

    /// Returns whether an unknown id could not be added after `pending` others.
    pub(crate) fn is_full(&self, view: &View, now: Timestamp, pending: usize) -> Result<bool, redb::Error> {
        let ids = view.0.len()?.saturating_add(pending as u64);
        let Some(above) = ids.checked_sub(self.max) else { return Ok(false) };
        let order = self.database()?.begin_read()?.open_table(ORDER)?;
        let over = order.range(..=(now.as_millis(), u128::MAX))?;
        // So many have to be forgotten first.
        let wanted = above + 1;
        let mut found = 0;
        for key in over.take(usize::try_from(wanted).unwrap_or(usize::MAX)) {
            key?;
            found += 1;
        }
        Ok(found < wanted)
    }
}

impl View {
    pub(crate) fn is_known(&self, digest: u128, now: Timestamp) -> Result<bool, redb::Error> {
        Ok(self.0.get(digest)?.is_some_and(|until| until.value() > now.as_millis()))
    }
}

/// Opens a database, and reads its secret. redb may panic where a page is damaged.
fn opened(open: &Open, path: &Path) -> Result<(Database, u128), StoreError> {
    let opened = caught(|| {
        let database = open().map_err(|error| {
            let kind = match error {
                DatabaseError::DatabaseAlreadyOpen => StoreErrorKind::InUse,
                _ => StoreErrorKind::Unavailable,
            };
            NotOpened::error(path, kind, error)
        })?;
        let secret = match secret(&database) {
            Ok(Some(secret)) => secret,
            Ok(None) => return Err(NotOpened::error(path, StoreErrorKind::Unavailable, UnknownFormat(()))),
            Err(error) => return Err(NotOpened::error(path, StoreErrorKind::Unavailable, error)),
        };
        Ok((database, secret))
    });
    opened.unwrap_or_else(|panicked| Err(NotOpened::error(path, StoreErrorKind::Unavailable, panicked)))
}

/// Writes so many ids whose window is over, and removes them. The file keeps their pages.
fn write_and_remove(database: &Database, count: usize) -> Result<(), redb::Error> {
    let mut digests = vec![[0; 16]; count];
    getrandom::fill(digests.as_flattened_mut()).expect("the system has random numbers");
    for removes in [false, true] {
        let mut transaction = database.begin_write()?;
        transaction.set_quick_repair(true);
        {
            let (mut ids, mut order) = (transaction.open_table(IDS)?, transaction.open_table(ORDER)?);
            for digest in digests.iter().map(|digest| u128::from_le_bytes(*digest)) {
                if removes {
                    ids.remove(digest)?;
                    order.remove((i64::MIN, digest))?;
                } else {
                    ids.insert(digest, i64::MIN)?;
                    order.insert((i64::MIN, digest), ())?;
                }
            }
        }
        transaction.commit()?;
    }
    Ok(())
}

/// Reads the secret of a file, or initialises a new file. `None` for a file of another program.
fn secret(database: &Database) -> Result<Option<u128>, redb::Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("the system has random numbers");
    let transaction = database.begin_write()?;
    let is_new = transaction.list_tables()?.next().is_none();
    {
        let mut meta = transaction.open_table(META)?;
        if !is_new {
            // Nothing is written, also in a file of another program.
            let format = value(&meta, "format")?;
            return Ok(value(&meta, "secret")?.filter(|_| format == Some(FORMAT)));
        }
        meta.insert("format", FORMAT)?;
        meta.insert("secret", u128::from_le_bytes(random))?;
        transaction.open_table(IDS)?;
        transaction.open_table(ORDER)?;
    }
    transaction.commit()?;
    Ok(Some(u128::from_le_bytes(random)))
}

fn value(meta: &impl ReadableTable<&'static str, u128>, name: &str) -> Result<Option<u128>, redb::Error> {
    Ok(meta.get(name)?.map(|value| value.value()))
}

pub(crate) fn unavailable(source: impl error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable).with_source(source)
}

/// The file is a redb database, but not of this crate, or of a later version.
#[derive(Debug)]
pub struct UnknownFormat(());

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the file is not a store of handled ids that this version can read")
    }
}

impl error::Error for UnknownFormat {}

/// The file could not be opened. The source is redb's error, [`UnknownFormat`], or a panic of redb.
#[derive(Debug)]
pub struct NotOpened {
    path: PathBuf,
    source: Box<dyn error::Error + Send + Sync>,
}

impl NotOpened {
    fn error(path: &Path, kind: StoreErrorKind, source: impl error::Error + Send + Sync + 'static) -> StoreError {
        StoreError::new(kind).with_source(Self { path: path.to_owned(), source: Box::new(source) })
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file `{}`", self.path.display())
    }
}

impl error::Error for NotOpened {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&*self.source)
    }
}
