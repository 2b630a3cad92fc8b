use std::{fmt::Debug, io};

/// The bytes of a store on a disk.
pub(crate) trait Storage: Debug + Send + Sync + 'static {
    fn len(&self) -> io::Result<u64>;

    /// Fails where it goes beyond the end.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Bytes that come anew are 0.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Has the disk set aside what is from this offset on, so that writing to it takes no more room. Without room for that
    /// it does nothing.
    fn allocate(&self, from: u64);

    /// What was written outlives a loss of power when this returns.
    fn sync(&self) -> io::Result<()>;

    /// Whether it was made by this opening and not yet [published](Self::publish).
    fn is_new(&self) -> bool;

    /// From here on it is found when it is opened again, after a loss of power too. Until then it is made anew.
    fn publish(&self) -> io::Result<()>;

    /// Takes room on the disk that nobody else gets, for when it is full. Whether it is held: it may be held already, and
    /// there may be no room for it.
    fn reserve(&self) -> bool;

    /// Gives the room back to the disk. Whether it was held.
    fn release(&self) -> bool;

    /// Others may open it from here on, although this is still there. Nothing is read or written any more.
    fn close(&self) {}
}
