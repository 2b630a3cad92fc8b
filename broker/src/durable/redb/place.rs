//! The files of a store in its folder: how they are created, found again, and protected from others.
//!
//! | name | what it is |
//! |---|---|
//! | `store.redb` | the store |
//! | `store.redb.new` | the store while it is created; nothing in it was acknowledged |
//! | `store.redb.backup` | an unfinished backup |
//! | `reserve` | space that is kept for a full disk |

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;

use super::{
    super::{StorageError, StorageErrorKind},
    file::FileStorage,
    format::{FORMAT, META},
    pages,
    storage::{Folder, Storage, is_full},
};
use crate::sabotage::Defect;

const STORE: &str = "store.redb";
const NEW: &str = "store.redb.new";
const BACKUP: &str = "store.redb.backup";
const RESERVE: &str = "reserve";

/// The files of an open store, in a folder that has nothing else in it. The lock on the store excludes other
/// openings, in this process too.
#[derive(Debug)]
pub(crate) struct Place {
    file: Box<dyn Storage>,
    folder: Box<dyn Folder>,
    /// Its name until it is published.
    unpublished: &'static str,
    is_new: AtomicBool,
    made_folder: bool,
    /// Its size, and whether it is held.
    reserve: Mutex<(u64, bool)>,
}

impl Place {
    /// Opens the store in a folder, or begins a new one where the folder is missing or empty. The reserve is in bytes.
    pub(super) fn open(folder: Box<dyn Folder>, reserve: u64) -> Result<Self, StorageError> {
        let made_folder = folder.create().map_err(|error| failed("creating", folder.path(), error))?;
        match check_entries(&*folder).and_then(|()| open_file(&*folder)) {
            Ok((file, is_new)) => Ok(Self::new(file, folder, NEW, is_new, made_folder, reserve)),
            Err(error) => {
                if made_folder {
                    // It is empty, or another process has begun to use it.
                    let _ = folder.remove_folder();
                }
                Err(error)
            }
        }
    }

    /// Begins a backup in a folder that does not exist. Until it is [published](Self::publish) it does not open as a
    /// store.
    pub(super) fn backup(folder: Box<dyn Folder>) -> Result<Self, StorageError> {
        match folder.create_with(BACKUP) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(not_a_store(folder.path(), "exists already"));
            }
            Err(error) => return Err(failed("creating", folder.path(), error)),
        }
        let path = folder.path().join(BACKUP);
        let file = folder.open(BACKUP, false).map_err(|error| failed("opening", &path, error))?;
        lock(&*file, &path)?;
        Ok(Self::new(file, folder, BACKUP, true, true, 0))
    }

    fn new(
        file: Box<dyn Storage>,
        folder: Box<dyn Folder>,
        unpublished: &'static str,
        is_new: bool,
        made_folder: bool,
        reserve: u64,
    ) -> Self {
        let reserve = Mutex::new((reserve, false));
        Self { file, folder, unpublished, is_new: AtomicBool::new(is_new), made_folder, reserve }
    }

    pub(super) fn file(&self) -> &dyn Storage {
        &*self.file
    }

    /// Whether it was begun by this opening and is not yet [published](Self::publish).
    pub(super) fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Relaxed)
    }

    /// Publishes the store: from here on it is found when the folder is opened again, also after a power loss.
    pub(super) fn publish(&self) -> io::Result<()> {
        self.file.sync()?;
        self.folder.rename(self.unpublished, STORE)?;
        self.is_new.store(false, Ordering::Relaxed);
        sync_names(&*self.folder)
    }

    /// Reserves space on the disk for when it is full. Returns whether it is held: it may be held already, and there
    /// may be no space for it.
    pub(super) fn reserve(&self) -> bool {
        let (bytes, is_held) = &mut *self.reserve.lock();
        if !*is_held {
            *is_held = fill(&*self.folder, *bytes).is_ok();
            if !*is_held {
                let _ = self.folder.remove(RESERVE);
            }
        }
        *is_held
    }

    /// Returns the space to the disk, and whether it was held.
    pub(super) fn release(&self) -> bool {
        let (_, is_held) = &mut *self.reserve.lock();
        std::mem::take(is_held) && self.folder.remove(RESERVE).is_ok()
    }
}

impl Drop for Place {
    /// Removes a store that was not published.
    fn drop(&mut self) {
        if self.is_new() {
            let _ = self.folder.remove(self.unpublished);
            if self.made_folder {
                let _ = self.folder.remove_folder();
            }
        }
    }
}

/// Opens and locks an existing store to read it.
pub(super) fn read_only(folder: &Path) -> Result<FileStorage, StorageError> {
    let path = folder.join(STORE);
    let kind = std::fs::symlink_metadata(&path).map_err(|error| failed("opening", &path, error))?;
    if !kind.is_file() {
        return Err(not_a_store(&path, "is not a file"));
    }
    let file = FileStorage::read_only(&path).map_err(|error| failed("opening", &path, error))?;
    lock(&file, &path)?;
    Ok(file)
}

/// Checks that the folder is one, and has nothing in it but a store.
fn check_entries(folder: &dyn Folder) -> Result<(), StorageError> {
    let entries = folder.entries().map_err(|error| match error.kind() {
        io::ErrorKind::NotADirectory => not_a_store(folder.path(), "is not a folder"),
        _ => failed("reading", folder.path(), error),
    })?;
    for (name, is_file) in entries {
        let path = folder.path().join(&name);
        if name == BACKUP {
            return Err(not_a_store(&path, "is an unfinished backup: delete its folder and back up again"));
        }
        if ![STORE, NEW, RESERVE].iter().any(|known| name == *known) {
            return Err(not_a_store(&path, "is not part of a store"));
        }
        if !is_file {
            return Err(not_a_store(&path, "is not a file"));
        }
    }
    Ok(())
}

/// Opens and locks the store, or the file that becomes it. The second value is whether it is new.
fn open_file(folder: &dyn Folder) -> Result<(Box<dyn Storage>, bool), StorageError> {
    let path = |name| -> PathBuf { folder.path().join(name) };
    let store = match folder.open(STORE, false) {
        Ok(store) => store,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return begin(folder),
        Err(error) => return Err(failed("opening", &path(STORE), error)),
    };
    lock(&*store, &path(STORE))?;
    // The file that another creator of the same store had begun.
    let _ = folder.remove(NEW);
    // The process that created it may have been killed before its name was on the disk.
    sync_names(folder).map_err(|error| failed("syncing", folder.path(), error))?;
    Ok((store, false))
}

/// Begins a new store, or continues one that was only to be renamed.
fn begin(folder: &dyn Folder) -> Result<(Box<dyn Storage>, bool), StorageError> {
    let path = |name| -> PathBuf { folder.path().join(name) };
    let exists = |name| match folder.open(name, false) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    let gone = || StorageError::new(StorageErrorKind::Corrupted, in_detail(&path(STORE), "is gone"));
    let has_reserve = exists(RESERVE);
    if has_reserve && !exists(NEW) {
        return Err(gone());
    }
    let file = folder.open(NEW, true).map_err(|error| failed("creating", &path(NEW), error))?;
    lock(&*file, &path(NEW))?;
    // Another process may have been faster.
    if exists(STORE) {
        return Err(StorageError::new(StorageErrorKind::InUse, in_detail(&path(STORE), "was just created")));
    }
    if is_whole(&*file) {
        let published = file.sync().and_then(|()| folder.rename(NEW, STORE)).and_then(|()| sync_names(folder));
        published.map_err(|error| failed("renaming", &path(NEW), error))?;
        return Ok((file, false));
    }
    if has_reserve {
        return Err(gone());
    }
    // It may be left from an earlier attempt.
    file.set_len(0).map_err(|error| failed("emptying", &path(NEW), error))?;
    Ok((file, true))
}

/// Whether a store was created except for its name. Its contents are not read yet: opening checks them.
fn is_whole(file: &dyn Storage) -> bool {
    let format = || pages::value(file, &pages::verify(file)?, META, FORMAT);
    file.len().is_ok_and(|length| length > 0) && format().is_ok_and(|format| format.is_some())
}

/// Makes the names of the files, and of the folder, outlive a power loss.
fn sync_names(folder: &dyn Folder) -> io::Result<()> {
    if Defect::SkipFolderSync.is_there() {
        return Ok(());
    }
    folder.sync()?;
    folder.sync_parent()
}

/// Creates a file of so many bytes that are really on the disk, unless it exists.
fn fill(folder: &dyn Folder, bytes: u64) -> io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let file = folder.open(RESERVE, true)?;
    if file.len()? == bytes {
        return Ok(());
    }
    file.set_len(0)?;
    for from in (0..bytes).step_by(ZEROS.len()) {
        let length = usize::try_from(bytes - from).unwrap_or(usize::MAX).min(ZEROS.len());
        file.write(from, &ZEROS[..length])?;
    }
    // A disk may find out only then that it has no space.
    file.sync()
}

fn lock(file: &dyn Storage, path: &Path) -> Result<(), StorageError> {
    match file.try_lock() {
        Ok(true) => Ok(()),
        Ok(false) => Err(StorageError::new(StorageErrorKind::InUse, in_detail(path, "is locked"))),
        Err(error) => Err(failed("locking", path, error)),
    }
}

fn in_detail(path: &Path, what: &str) -> String {
    format!("{} {what}", path.display())
}

fn not_a_store(path: &Path, what: &str) -> StorageError {
    StorageError::new(StorageErrorKind::NotAStore, in_detail(path, what))
}

fn failed(what: &str, path: &Path, error: io::Error) -> StorageError {
    let kind = if is_full(&error) { StorageErrorKind::Full } else { StorageErrorKind::Failed };
    StorageError::new(kind, format!("{what} {}: {error}", path.display())).with_source(error)
}
