//! Files and folders of the operating system.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

#[cfg(not(unix))]
use parking_lot::Mutex;

use super::{Folder, Storage};

/// A file of a store.
#[derive(Debug)]
struct FileStorage {
    file: File,
    /// Held while the file is read or written where that takes two calls.
    #[cfg(not(unix))]
    position: Mutex<()>,
}

impl FileStorage {
    fn new(file: File) -> Self {
        Self {
            file,
            #[cfg(not(unix))]
            position: Mutex::new(()),
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

    fn sync(&self) -> io::Result<()> {
        // With the length, and without the times.
        self.file.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn unlock(&self) {
        // The end of the process does it too.
        let _ = self.file.unlock();
    }
}

/// A folder of the operating system.
#[derive(Debug)]
pub(crate) struct RealFolder(PathBuf);

impl RealFolder {
    pub(crate) fn new(path: &Path) -> Self {
        // Without a slash at the end, which would follow a link.
        Self(path.components().collect())
    }

    pub(crate) fn parent(&self) -> &Path {
        self.0.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }
}

impl Folder for RealFolder {
    fn path(&self) -> &Path {
        &self.0
    }

    fn create(&self) -> io::Result<bool> {
        match create(&self.0) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn create_with(&self, name: &str) -> io::Result<()> {
        let mut unfinished = self.0.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
        unfinished.push(".unfinished");
        let unfinished = Self(self.0.with_file_name(unfinished));
        // The file of an earlier attempt.
        let _ = unfinished.remove(name);
        let _ = unfinished.remove_folder();
        create(&unfinished.0)?;
        let created = unfinished.open(name, true).and_then(|_| unfinished.sync()).and_then(|()| {
            // A rename would replace an empty folder.
            if fs::symlink_metadata(&self.0).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(&unfinished.0, &self.0)
        });
        if created.is_err() {
            let _ = unfinished.remove(name);
            let _ = unfinished.remove_folder();
        }
        created
    }

    fn remove_folder(&self) -> io::Result<()> {
        fs::remove_dir(&self.0)
    }

    fn entries(&self) -> io::Result<Vec<(OsString, bool)>> {
        if !fs::symlink_metadata(&self.0)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let entry = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            Ok((entry.file_name(), entry.file_type()?.is_file()))
        };
        fs::read_dir(&self.0)?.map(entry).collect()
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn Storage>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create);
        // For the owner alone.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Box::new(FileStorage::new(options.open(self.0.join(name))?)))
    }

    fn open_to_read(&self, name: &str) -> io::Result<Box<dyn Storage>> {
        let path = self.0.join(name);
        if !fs::symlink_metadata(&path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        Ok(Box::new(FileStorage::new(File::open(path)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        sync_folder(&self.0)
    }

    fn sync_parent(&self) -> io::Result<()> {
        match sync_folder(self.parent()) {
            // The parent may be a folder that this user cannot read.
            #[cfg(target_os = "linux")]
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Ok(rustix::fs::syncfs(File::open(&self.0)?)?)
            }
            synced => synced,
        }
    }

    fn free(&self) -> Option<u64> {
        #[cfg(unix)]
        let free = rustix::fs::statvfs(&self.0).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        #[cfg(not(unix))]
        let free = None;
        free
    }
}

/// Creates a folder for the owner alone.
fn create(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    // Elsewhere a folder cannot be opened, and need not be.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
