use std::{ffi::OsString, fmt::Debug, io, path::Path};

/// The bytes of a file on a disk.
pub(crate) trait Storage: Debug + Send + Sync + 'static {
    fn len(&self) -> io::Result<u64>;

    /// Fails where it goes beyond the end.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Bytes that come anew are 0.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Has the disk set aside what is from this offset on, so that writing to it takes no more space. Without space for
    /// that it does nothing.
    fn allocate(&self, from: u64);

    /// What was written outlives a power loss when this returns. The name of the file does not.
    fn sync(&self) -> io::Result<()>;

    /// Locks the file against every other opening, until it is closed. `false` if another one has locked it.
    fn try_lock(&self) -> io::Result<bool>;

    /// Others may lock it from here on, although this is still open.
    fn unlock(&self);
}

/// The folder of a store, in its parent folder.
///
/// What is created, renamed or removed in a folder outlives a power loss only after a sync of that folder.
pub(crate) trait Folder: Debug + Send + Sync + 'static {
    /// The name of the folder in errors.
    fn path(&self) -> &Path;

    /// Creates the folder. `false` if something of its name exists.
    fn create(&self) -> io::Result<bool>;

    /// Creates the folder with an empty file in it: both or neither, also after a crash. Fails if it exists.
    fn create_with(&self, name: &str) -> io::Result<()>;

    /// Removes the folder if it is empty.
    fn remove_folder(&self) -> io::Result<()>;

    /// What is in the folder, and whether each is a file. Fails with `NotADirectory` if it is not a folder.
    fn entries(&self) -> io::Result<Vec<(OsString, bool)>>;

    /// Opens a file to read and to write it. `create` creates it if it is missing.
    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn Storage>>;

    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names in the folder outlive a power loss when this returns.
    fn sync(&self) -> io::Result<()>;

    /// The name of the folder outlives a power loss when this returns.
    fn sync_parent(&self) -> io::Result<()>;
}
