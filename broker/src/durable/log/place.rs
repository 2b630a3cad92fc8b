//! The files of a store in its folder: how they are created, found again, and protected from others.

use std::{
    ffi::OsString,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use consign_core::message::random_id::random_uuid;
use parking_lot::Mutex;
use uuid::Uuid;

use super::{
    super::{
        StorageError, StorageErrorKind,
        disk::{Folder, Storage},
    },
    damage::{damaged, failed, unknown},
    files::{self, BACKUP, HEAD, LOCK, NEW, RESERVE},
    head::Head,
};
use crate::sabotage::Defect;

/// The files of an open store, in a folder that has nothing else in it. A lock excludes other openings, in this process
/// too.
#[derive(Debug)]
pub(crate) struct Place {
    folder: Box<dyn Folder>,
    lock: Option<Box<dyn Storage>>,
    /// Whether the store has a head that is found when the folder is opened again.
    is_published: AtomicBool,
    made_folder: bool,
    /// Its size, and whether it is held.
    reserve: Mutex<(u64, bool)>,
}

impl Place {
    /// Opens the store in a folder, or creates one where the folder is missing or empty. The reserve is in bytes.
    pub(super) fn open(folder: Box<dyn Folder>, reserve: u64) -> Result<(Self, Head), StorageError> {
        let made_folder = folder.create().map_err(|error| not_created(&*folder, error))?;
        let (is_published, reserve) = (AtomicBool::new(!made_folder), Mutex::new((reserve, false)));
        let mut place = Self { folder, lock: None, is_published, made_folder, reserve };
        check_entries(&*place.folder)?;
        let file = place.folder.open(LOCK, true).map_err(|error| failed("creating", LOCK, error))?;
        lock(&*file).inspect_err(|_| {
            // Another process has created the store.
            place.is_published.store(true, Ordering::Relaxed);
        })?;
        place.lock = Some(file);
        let head = place.head()?;
        Ok((place, head))
    }

    /// Reads the head, or creates the store.
    fn head(&self) -> Result<Head, StorageError> {
        let names = names(&*self.folder)?;
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        if has(HEAD) {
            self.is_published.store(true, Ordering::Relaxed);
            let head = Head::read(&*self.folder, HEAD)?;
            // The process that wrote it may have been killed before its name was on the disk.
            self.sync_names()?;
            return Ok(head);
        }
        // Only its name may be missing.
        if let Some(head) = has(NEW).then(|| Head::read(&*self.folder, NEW).ok()).flatten() {
            self.is_published.store(true, Ordering::Relaxed);
            let file = self.folder.open(NEW, false).map_err(|error| failed("opening", NEW, error))?;
            file.sync().map_err(|error| unknown("syncing", NEW, error))?;
            self.publish_head(NEW)?;
            return Ok(head);
        }
        if has(RESERVE) || names.iter().any(|name| files::number(name).is_some()) {
            self.is_published.store(true, Ordering::Relaxed);
            return Err(damaged("head, offset 0: it is gone"));
        }
        self.is_published.store(false, Ordering::Relaxed);
        let head = Head { store: random_number(), epoch: 0, records: Some(0), segments: Vec::new() };
        self.write_head(&head)?;
        Ok(head)
    }

    /// Begins a backup in a folder that does not exist. Until it is [published](Self::publish_backup) it does not open
    /// as a store.
    pub(super) fn backup(folder: Box<dyn Folder>) -> Result<Self, StorageError> {
        folder.create_with(BACKUP).map_err(|error| not_created(&*folder, error))?;
        let (is_published, reserve) = (AtomicBool::new(false), Mutex::new((0, false)));
        Ok(Self { folder, lock: None, is_published, made_folder: true, reserve })
    }

    /// Completes a backup: from here on it opens as a store, also after a power loss.
    pub(super) fn publish_backup(&self, head: &Head) -> Result<(), StorageError> {
        self.write(BACKUP, head)?;
        self.folder.sync().map_err(|error| unknown("syncing", "the folder", error))?;
        self.publish_head(BACKUP)
    }

    /// Replaces the head. After a crash there is the one or the other.
    pub(super) fn write_head(&self, head: &Head) -> Result<(), StorageError> {
        self.write(NEW, head)?;
        self.publish_head(NEW)
    }

    fn write(&self, name: &str, head: &Head) -> Result<(), StorageError> {
        let file = self.folder.open(name, true).map_err(|error| failed("creating", name, error))?;
        let written = file.set_len(0).and_then(|()| file.write(0, &head.encode()));
        written.map_err(|error| failed("writing", name, error))?;
        if Defect::SkipHeadSync.is_there() {
            return Ok(());
        }
        file.sync().map_err(|error| unknown("syncing", name, error))
    }

    fn publish_head(&self, name: &str) -> Result<(), StorageError> {
        self.folder.rename(name, HEAD).map_err(|error| failed("renaming", name, error))?;
        self.is_published.store(true, Ordering::Relaxed);
        self.sync_names()
    }

    /// Makes the names of the files, and of the folder, survive a power loss.
    fn sync_names(&self) -> Result<(), StorageError> {
        if Defect::SkipFolderSync.is_there() {
            return Ok(());
        }
        let synced = self.folder.sync().and_then(|()| self.folder.sync_parent());
        synced.map_err(|error| unknown("syncing", "the folder", error))
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn segment(&self, number: u32) -> Result<Arc<dyn Storage>, StorageError> {
        open_segment(&*self.folder, number, |folder, name| folder.open(name, false))
    }

    /// Creates the file of a segment with so many zeros, under a name that survives a power loss.
    pub(super) fn create_segment(&self, number: u32, size: u32) -> Result<Arc<dyn Storage>, StorageError> {
        let name = files::segment(number);
        let file = self.folder.open(&name, true).map_err(|error| failed("creating", &name, error))?;
        // A file of this name may be left of an attempt that was interrupted.
        let filled = file.set_len(0).and_then(|()| fill(&*file, size.into()));
        filled.map_err(|error| failed("writing", &name, error))?;
        if !Defect::SkipSegmentSync.is_there() {
            // A disk may detect only then that it has no space; nothing depends on the file yet.
            file.sync().map_err(|error| failed("syncing", &name, error))?;
        }
        self.sync_segment_names()?;
        Ok(Arc::from(file))
    }

    /// Makes the file of one segment that of another one. The new name survives a power loss.
    pub(super) fn rename_segment(&self, from: u32, to: u32) -> Result<(), StorageError> {
        let (from, to) = (files::segment(from), files::segment(to));
        self.folder.rename(&from, &to).map_err(|error| failed("renaming", &from, error))?;
        self.sync_segment_names()
    }

    fn sync_segment_names(&self) -> Result<(), StorageError> {
        if Defect::SkipSegmentNameSync.is_there() {
            return Ok(());
        }
        self.folder.sync().map_err(|error| unknown("syncing", "the folder", error))
    }

    /// Removes the file of a segment that is not needed. If that fails, the next opening does it.
    pub(super) fn remove_segment(&self, number: u32) {
        let _ = self.folder.remove(&files::segment(number));
    }

    /// Returns the numbers of all files of segments.
    pub(super) fn segments(&self) -> Result<Vec<u32>, StorageError> {
        Ok(names(&*self.folder)?.iter().filter_map(|name| files::number(name)).collect())
    }

    /// Creates the file of a segment that is written once.
    pub(super) fn create_file(&self, number: u32) -> Result<Box<dyn Storage>, StorageError> {
        let name = files::segment(number);
        self.folder.open(&name, true).map_err(|error| failed("creating", &name, error))
    }

    /// Reserves space on the disk for when it is full. Returns whether it is held: it may be held already, and there
    /// may be no space for it.
    pub(super) fn reserve(&self) -> bool {
        let (bytes, is_held) = &mut *self.reserve.lock();
        if !*is_held {
            *is_held = fill_reserve(&*self.folder, *bytes).is_ok();
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

    /// Returns the free bytes of the disk, beside the reserve. `None` if that is unknown.
    pub(super) fn free(&self) -> Option<u64> {
        self.folder.free()
    }

    /// Releases the lock.
    pub(super) fn unlock(&self) {
        if let Some(lock) = &self.lock {
            lock.unlock();
        }
    }
}

impl Drop for Place {
    /// Removes a store that was not published.
    fn drop(&mut self) {
        if self.is_published.load(Ordering::Relaxed) {
            return;
        }
        // A drop has no error to return. What it leaves is no store: without a head, a folder with segments is refused.
        for number in self.segments().into_iter().flatten() {
            self.remove_segment(number);
        }
        for name in [NEW, BACKUP, LOCK] {
            let _ = self.folder.remove(name);
        }
        if self.made_folder {
            // It is empty, or another process has begun to use it.
            let _ = self.folder.remove_folder();
        }
    }
}

/// A store that is only read, in which nothing is created.
#[derive(Debug)]
pub(super) struct ReadOnly<'f> {
    folder: &'f dyn Folder,
    _lock: Option<Box<dyn Storage>>,
}

impl<'f> ReadOnly<'f> {
    pub(super) fn open(folder: &'f dyn Folder) -> Result<Self, StorageError> {
        let shown = folder.path().display().to_string();
        let names = names(folder)?;
        let is_store = |name: &String| name == HEAD || files::number(name).is_some();
        if !names.iter().any(is_store) {
            return Err(not_a_store(&shown, "has no store"));
        }
        let lock = match folder.open_to_read(LOCK) {
            Ok(file) => {
                lock(&*file)?;
                Some(file)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("opening", LOCK, error)),
        };
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn head(&self) -> Result<Head, StorageError> {
        Head::read(self.folder, HEAD)
    }

    pub(super) fn segment(&self, number: u32) -> Result<Arc<dyn Storage>, StorageError> {
        open_segment(self.folder, number, <dyn Folder>::open_to_read)
    }

    pub(super) fn segments(&self) -> Result<Vec<u32>, StorageError> {
        let mut numbers: Vec<u32> = names(self.folder)?.iter().filter_map(|name| files::number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn open_segment(
    folder: &dyn Folder,
    number: u32,
    open: impl FnOnce(&dyn Folder, &str) -> io::Result<Box<dyn Storage>>,
) -> Result<Arc<dyn Storage>, StorageError> {
    let name = files::segment(number);
    match open(folder, &name) {
        Ok(file) => Ok(Arc::from(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(damaged(format!("{name}, offset 0: it is gone"))),
        Err(error) => Err(failed("opening", &name, error)),
    }
}

fn random_number() -> u64 {
    Uuid::from_bytes(random_uuid()).as_u64_pair().0
}

fn entries(folder: &dyn Folder) -> Result<Vec<(OsString, bool)>, StorageError> {
    let shown = folder.path().display().to_string();
    folder.entries().map_err(|error| match error.kind() {
        io::ErrorKind::NotADirectory => not_a_store(&shown, "is not a folder"),
        io::ErrorKind::NotFound => not_a_store(&shown, "does not exist"),
        _ => failed("reading", &shown, error),
    })
}

fn names(folder: &dyn Folder) -> Result<Vec<String>, StorageError> {
    Ok(entries(folder)?.into_iter().filter_map(|(name, _)| name.into_string().ok()).collect())
}

/// Checks that the folder is one, and has nothing in it but a store.
fn check_entries(folder: &dyn Folder) -> Result<(), StorageError> {
    for (name, is_file) in entries(folder)? {
        let path = folder.path().join(&name).display().to_string();
        match name.to_str() {
            Some(BACKUP) => {
                return Err(not_a_store(&path, "is an unfinished backup: delete its folder and back up again"));
            }
            Some(HEAD | NEW | LOCK | RESERVE) => {}
            Some(name) if files::number(name).is_some() => {}
            // Also a name that is not UTF-8.
            _ => return Err(not_a_store(&path, "is not part of a store")),
        }
        if !is_file {
            return Err(not_a_store(&path, "is not a file"));
        }
    }
    Ok(())
}

/// Creates a file of so many bytes that are really on the disk, unless it exists.
fn fill_reserve(folder: &dyn Folder, bytes: u64) -> io::Result<()> {
    let file = folder.open(RESERVE, true)?;
    if file.len()? == bytes {
        return Ok(());
    }
    file.set_len(0)?;
    fill(&*file, bytes)?;
    // A disk may detect only then that it has no space.
    file.sync()
}

/// Appends zeros to an empty file.
fn fill(file: &dyn Storage, bytes: u64) -> io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    for from in (0..bytes).step_by(ZEROS.len()) {
        let length = usize::try_from(bytes - from).unwrap_or(usize::MAX).min(ZEROS.len());
        file.write(from, &ZEROS[..length])?;
    }
    Ok(())
}

fn lock(file: &dyn Storage) -> Result<(), StorageError> {
    match file.try_lock() {
        Ok(true) => Ok(()),
        Ok(false) => Err(StorageError::new(StorageErrorKind::InUse, "the file lock is locked")),
        Err(error) => Err(failed("locking", LOCK, error)),
    }
}

fn not_created(folder: &dyn Folder, error: io::Error) -> StorageError {
    let shown = folder.path().display().to_string();
    match error.kind() {
        io::ErrorKind::AlreadyExists => not_a_store(&shown, "exists already"),
        io::ErrorKind::NotFound => not_a_store(&shown, "cannot be created: its parent folder does not exist"),
        _ => failed("creating", &shown, error),
    }
}

pub(super) fn not_a_store(path: &str, what: &str) -> StorageError {
    StorageError::new(StorageErrorKind::NotAStore, format!("{path} {what}"))
}
