//! A disk: files of bytes in a folder. `real` is that of the operating system, `simulated` one in memory that fails.

mod real;
#[cfg(test)]
mod simulated;

use std::{ffi::OsString, fmt::Debug, io, path::Path};

pub(crate) use self::real::RealFolder;
#[cfg(test)]
pub(crate) use self::simulated::{Faults, SimulatedDisk};

/// The bytes of a file on a disk.
pub(crate) trait Storage: Debug + Send + Sync + 'static {
    fn len(&self) -> io::Result<u64>;

    /// Fails where it goes beyond the end.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Sets the length. New bytes are 0.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes written data survive a power loss. The name of the file may not survive.
    fn sync(&self) -> io::Result<()>;

    /// Locks the file against every other opening, until it is closed. `false` if another one has locked it.
    fn try_lock(&self) -> io::Result<bool>;

    /// Releases the lock, although this file is still open.
    fn unlock(&self);
}

/// The folder of a store, in its parent folder.
///
/// A file that is created, renamed or removed in a folder stays so after a power loss only after a sync of that
/// folder.
pub(crate) trait Folder: Debug + Send + Sync + 'static {
    /// The name of the folder in errors.
    fn path(&self) -> &Path;

    /// Creates the folder. `false` if something of its name exists.
    fn create(&self) -> io::Result<bool>;

    /// Creates the folder with an empty file in it: both or neither, also after a crash. Fails if it exists.
    fn create_with(&self, name: &str) -> io::Result<()>;

    /// Removes the folder if it is empty.
    fn remove_folder(&self) -> io::Result<()>;

    /// Returns the entries of the folder, and whether each is a file. Fails with `NotADirectory` if it is not a
    /// folder.
    fn entries(&self) -> io::Result<Vec<(OsString, bool)>>;

    /// Opens a file to read and to write it. `create` creates it if it is missing.
    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn Storage>>;

    /// Opens a file only to read and to lock it.
    fn open_to_read(&self, name: &str) -> io::Result<Box<dyn Storage>>;

    /// Renames a file. One of the new name is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names in the folder survive a power loss.
    fn sync(&self) -> io::Result<()>;

    /// Makes the name of the folder survive a power loss.
    fn sync_parent(&self) -> io::Result<()>;

    /// Bytes that files of the folder can still take up. `None` if that is unknown.
    fn free(&self) -> Option<u64>;
}

/// Whether an error means that the disk is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
