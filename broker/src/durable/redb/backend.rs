use std::{
    io,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use redb::StorageBackend;

use super::{
    super::{StorageError, StorageErrorKind},
    head,
    place::Place,
    storage::{Storage, is_full},
};
use crate::{panics, sabotage::Defect};

/// The store as redb uses it, and its state. After the first failure nothing is written.
#[derive(Debug)]
pub(super) struct Backend {
    place: Place,
    /// The first failure.
    failure: Mutex<Option<(StorageErrorKind, String)>>,
    /// Whether the reserve was given up.
    is_full: AtomicBool,
}

/// What redb owns.
#[derive(Debug)]
pub(super) struct Handle(pub(super) Arc<Backend>);

impl Backend {
    pub(super) fn new(place: Place) -> Self {
        Self { place, failure: Mutex::default(), is_full: AtomicBool::new(false) }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn file(&self) -> &dyn Storage {
        self.place.file()
    }

    /// Whether everything has worked so far.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        match &*self.failure.lock() {
            None => Ok(()),
            Some((_, detail)) => Err(StorageError::new(StorageErrorKind::Failed, format!("earlier: {detail}"))),
        }
    }

    /// Runs an operation of redb. A panic in it ends here, and is final.
    pub(super) fn guard<T>(&self, work: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
        self.check()?;
        self.contain(work)
    }

    /// Does the same, whether it has failed or not.
    pub(super) fn contain<T>(&self, work: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
        panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let message = panics::text(&*panic);
            // redb panics where it has read what it never writes.
            let error = StorageError::new(StorageErrorKind::Corrupted, format!("redb panicked: {message}"));
            self.fail(&error);
            Err(error)
        })
    }

    /// Makes an error final.
    pub(super) fn fail(&self, error: &StorageError) {
        self.failure.lock().get_or_insert_with(|| (error.kind(), error.detail().to_owned()));
    }

    /// Forgets a write that failed on a full disk. Returns whether that was the only failure.
    pub(super) fn recover(&self) -> bool {
        self.failure.lock().take_if(|(kind, _)| *kind == StorageErrorKind::Full).is_some()
    }

    /// Converts an error of redb.
    pub(super) fn error(&self, error: impl Into<redb::Error>) -> StorageError {
        use StorageErrorKind::{Closed, Corrupted, Failed, InUse};
        let error = error.into();
        if let Some((kind, detail)) = &*self.failure.lock() {
            return StorageError::new(*kind, detail.clone()).with_source(error);
        }
        let kind = match &error {
            redb::Error::DatabaseAlreadyOpen => InUse,
            redb::Error::DatabaseClosed => Closed,
            redb::Error::Io(source) if !is_damage(source) => Failed,
            redb::Error::ValueTooLarge(_) => Failed,
            // All others mean that a table or a page differs from what was written.
            _ => Corrupted,
        };
        StorageError::new(kind, error.to_string()).with_source(error)
    }

    /// Makes a failure of the storage final.
    fn checked<T>(&self, result: io::Result<T>, what: impl FnOnce() -> String) -> io::Result<T> {
        if let Err(error) = &result {
            let kind = match error {
                _ if is_full(error) => StorageErrorKind::Full,
                _ if is_damage(error) => StorageErrorKind::Corrupted,
                _ => StorageErrorKind::Failed,
            };
            self.fail(&StorageError::new(kind, format!("{}: {error}", what())));
        }
        result
    }

    /// Writes, using the reserve where the disk is full.
    fn write(&self, write: impl Fn(&dyn Storage) -> io::Result<()>) -> io::Result<()> {
        self.writable()?;
        let result = write(self.file());
        if result.as_ref().is_err_and(is_full) && self.place.release() {
            self.is_full.store(true, Ordering::Relaxed);
            return write(self.file());
        }
        result
    }

    fn writable(&self) -> io::Result<()> {
        if self.failure.lock().is_some() { Err(io::Error::other("the store has failed")) } else { Ok(()) }
    }

    /// Whether the reserve was given up since it was last taken.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Takes the reserve, if there is space for it.
    pub(super) fn reserve(&self) -> bool {
        let is_held = self.place.reserve();
        self.is_full.store(!is_held, Ordering::Relaxed);
        is_held
    }
}

/// Whether an error means that the data differs from what was stored.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        self.0.checked(self.0.file().len(), || "reading the length".into())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let result = self.0.file().read(offset, out);
        self.0.checked(result, || format!("reading {} bytes at offset {offset}", out.len()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let before = self.len()?;
        let result = self.0.write(|storage| storage.set_len(len));
        if result.is_ok() && len > before {
            // So that pages that become free keep their space, and changes that free space in a full disk can use
            // them.
            self.0.file().allocate(before);
        }
        self.0.checked(result, || format!("changing the length to {len}"))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.writable()?;
        if Defect::SkipSync.is_there() {
            return Ok(());
        }
        // A second attempt would succeed, without what the first has lost.
        let result = self.0.file().sync();
        if Defect::IgnoreSyncError.is_there() {
            return Ok(());
        }
        // What is on the disk then is unknown, also when the error is that it is full.
        let result = result.map_err(io::Error::other);
        self.0.checked(result, || "syncing".into())
    }

    fn close(&self) -> io::Result<()> {
        self.0.file().unlock();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let sealed = head::seal(offset, data);
        let written = sealed.as_ref().map_or(data, |sealed| &sealed[..]);
        let result = self.0.write(|storage| storage.write(offset, written));
        self.0.checked(result, || format!("writing {} bytes at offset {offset}", data.len()))
    }
}
