use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;

use super::{
    super::{StorageError, StorageErrorKind},
    backend::is_full,
    storage::Storage,
};

/// The store.
const STORE: &str = "store.redb";
/// The same while it is being made.
const NEW: &str = "store.redb.new";
/// Room that is kept for when the disk is full.
const RESERVE: &str = "reserve";

/// A file in a folder that has nothing else in it. The lock on it keeps others out, in this process too.
#[derive(Debug)]
pub(super) struct FileStorage {
    file: File,
    folder: PathBuf,
    made_folder: bool,
    is_new: AtomicBool,
    /// Its size, and whether it is held.
    reserve: Mutex<(u64, bool)>,
    /// Held while the file is read or written where that takes two calls.
    #[cfg(not(unix))]
    position: Mutex<()>,
}

impl FileStorage {
    /// Opens the store in a folder, or begins a new one where the folder is missing or empty. The reserve is in bytes.
    pub(super) fn open(folder: &Path, reserve: u64) -> Result<Self, StorageError> {
        // Without a slash at the end, which would have a link followed.
        let folder: PathBuf = folder.components().collect();
        let made_folder = make_folder(&folder)?;
        let opened = look_around(&folder).and_then(|()| open_file(&folder));
        match opened {
            Ok((file, is_new)) => Ok(Self::new(file, folder, made_folder, is_new, reserve)),
            Err(error) => {
                if made_folder {
                    // It is empty, or somebody else has begun to use it.
                    let _ = fs::remove_dir(&folder);
                }
                Err(error)
            }
        }
    }
}

impl FileStorage {
    /// Opens a store that is there, to read it.
    pub(super) fn read_only(folder: &Path) -> Result<Self, StorageError> {
        let path = folder.join(STORE);
        let kind = fs::symlink_metadata(&path).map_err(|error| failed("opening", &path, error))?;
        if !kind.is_file() {
            return Err(not_a_store(&path, "is no file"));
        }
        let file = File::open(&path).map_err(|error| failed("opening", &path, error))?;
        lock(&file, &path)?;
        Ok(Self::new(file, folder.to_path_buf(), false, false, 0))
    }

    fn new(file: File, folder: PathBuf, made_folder: bool, is_new: bool, reserve: u64) -> Self {
        Self {
            file,
            folder,
            made_folder,
            is_new: AtomicBool::new(is_new),
            reserve: Mutex::new((reserve, false)),
            #[cfg(not(unix))]
            position: Mutex::new(()),
        }
    }
}

impl Drop for FileStorage {
    /// Takes back a store that nobody got.
    fn drop(&mut self) {
        if self.is_new() {
            let _ = fs::remove_file(self.folder.join(NEW));
            if self.made_folder {
                let _ = fs::remove_dir(&self.folder);
            }
        }
    }
}

impl Storage for FileStorage {
    fn len(&self) -> io::Result<u64> {
        self.file.metadata().map(|metadata| metadata.len())
    }

    #[cfg(unix)]
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, out, offset)
    }

    #[cfg(not(unix))]
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let _position = self.position.lock();
        io::Seek::seek(&mut &self.file, io::SeekFrom::Start(offset))?;
        io::Read::read_exact(&mut &self.file, out)
    }

    #[cfg(unix)]
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.file, data, offset)
    }

    #[cfg(not(unix))]
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _position = self.position.lock();
        io::Seek::seek(&mut &self.file, io::SeekFrom::Start(offset))?;
        io::Write::write_all(&mut &self.file, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, from: u64) {
        let length = self.len().unwrap_or_default().saturating_sub(from);
        if length > 0 {
            let _ = rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), from, length);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, _: u64) {}

    fn sync(&self) -> io::Result<()> {
        // With the length, and without the times.
        self.file.sync_data()
    }

    fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Relaxed)
    }

    fn publish(&self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(self.folder.join(NEW), self.folder.join(STORE))?;
        self.is_new.store(false, Ordering::Relaxed);
        sync_folder(&self.folder)?;
        if self.made_folder { sync_folder(parent(&self.folder)) } else { Ok(()) }
    }

    fn reserve(&self) -> bool {
        let (bytes, is_held) = &mut *self.reserve.lock();
        if !*is_held {
            let path = self.folder.join(RESERVE);
            *is_held = fill(&path, *bytes).is_ok();
            if !*is_held {
                let _ = fs::remove_file(path);
            }
        }
        *is_held
    }

    fn release(&self) -> bool {
        let (_, is_held) = &mut *self.reserve.lock();
        *is_held && {
            *is_held = false;
            fs::remove_file(self.folder.join(RESERVE)).is_ok()
        }
    }

    fn close(&self) {
        // The end of the process does it too.
        let _ = self.file.unlock();
    }
}

/// Whether there was no folder. Others than the owner may not look into it.
fn make_folder(folder: &Path) -> Result<bool, StorageError> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed("making", folder, error)),
    }
}

/// Whether the folder is one, and nothing is in it but a store.
fn look_around(folder: &Path) -> Result<(), StorageError> {
    let is_folder = fs::symlink_metadata(folder).map_err(|error| failed("reading", folder, error))?.is_dir();
    if !is_folder {
        return Err(not_a_store(folder, "is no folder"));
    }
    for entry in fs::read_dir(folder).map_err(|error| failed("reading", folder, error))? {
        let entry = entry.map_err(|error| failed("reading", folder, error))?;
        let kind = entry.file_type().map_err(|error| failed("reading", &entry.path(), error))?;
        if ![STORE, NEW, RESERVE].iter().any(|name| entry.file_name() == *name) {
            return Err(not_a_store(&entry.path(), "is not part of a store"));
        }
        if !kind.is_file() {
            return Err(not_a_store(&entry.path(), "is no file"));
        }
    }
    Ok(())
}

/// Opens and locks the store, or what is to become it. The second is whether it is new.
fn open_file(folder: &Path) -> Result<(File, bool), StorageError> {
    let (store, new) = (folder.join(STORE), folder.join(NEW));
    let mut options = writable();
    match options.open(&store) {
        Ok(file) => {
            lock(&file, &store)?;
            // What somebody who made the same store was about to make.
            let _ = fs::remove_file(new);
            Ok((file, false))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if folder.join(RESERVE).exists() {
                return Err(StorageError::new(StorageErrorKind::Corrupted, in_detail(&store, "is gone")));
            }
            let file = options.create(true).open(&new).map_err(|error| failed("making", &new, error))?;
            lock(&file, &new)?;
            // Somebody else may have been faster.
            if store.exists() {
                return Err(StorageError::new(StorageErrorKind::InUse, in_detail(&store, "was just made")));
            }
            // It may be what is left of an attempt.
            file.set_len(0).map_err(|error| failed("emptying", &new, error))?;
            Ok((file, true))
        }
        Err(error) => Err(failed("opening", &store, error)),
    }
}

/// For the owner alone.
fn writable() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a file of so many bytes that are really on the disk, unless it is there.
fn fill(path: &Path, bytes: u64) -> io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let mut file = writable().create(true).truncate(false).open(path)?;
    if file.metadata()?.len() == bytes {
        return Ok(());
    }
    file.set_len(0)?;
    let mut left = bytes;
    while left > 0 {
        let next = &ZEROS[..ZEROS.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        io::Write::write_all(&mut file, next)?;
        left -= next.len() as u64;
    }
    // A disk may find out only then that it has no room.
    file.sync_all()
}

fn lock(file: &File, path: &Path) -> Result<(), StorageError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => StorageError::new(StorageErrorKind::InUse, in_detail(path, "is locked")),
        TryLockError::Error(error) => failed("locking", path, error),
    })
}

/// Makes what was made or renamed in a folder outlive a loss of power.
fn sync_folder(folder: &Path) -> io::Result<()> {
    // Elsewhere a folder cannot be opened, and need not be.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn parent(folder: &Path) -> &Path {
    folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
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
