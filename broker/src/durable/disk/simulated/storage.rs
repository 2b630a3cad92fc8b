use std::{
    ffi::OsString,
    io,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    super::{Folder, Storage},
    BLOCK, SimulatedDisk,
    events::{Event, Synced},
};

impl Folder for SimulatedDisk {
    fn path(&self) -> &Path {
        Path::new("simulated")
    }

    fn create(&self) -> io::Result<bool> {
        let mut state = self.0.lock();
        if state.now.has_folder {
            return Ok(false);
        }
        let is_last = state.call()?;
        state.add(Event::Folder(true), is_last).map(|()| true)
    }

    fn create_with(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.now.has_folder {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let is_last = state.call()?;
        let file = state.now.files.len();
        state.add(Event::Create(name.into(), file, true), false)?;
        state.add(Event::Folder(true), is_last)
    }

    fn remove_folder(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        let is_last = state.call()?;
        if !state.now.names.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.add(Event::Folder(false), is_last)
    }

    fn entries(&self) -> io::Result<Vec<(OsString, bool)>> {
        let state = self.0.lock();
        state.check_power()?;
        if !state.now.has_folder {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(state.now.names.keys().map(|name| (name.into(), true)).collect())
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn Storage>> {
        let mut state = self.0.lock();
        let file = match state.named(name) {
            Err(error) if create && error.kind() == io::ErrorKind::NotFound && state.now.has_folder => {
                let (is_last, file) = (state.call()?, state.now.files.len());
                state.add(Event::Create(name.into(), file, false), is_last)?;
                file
            }
            named => named?,
        };
        Ok(Box::new(SimulatedFile::new(self, file)))
    }

    fn open_to_read(&self, name: &str) -> io::Result<Box<dyn Storage>> {
        Folder::open(self, name, false)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        let (file, is_last) = (state.named(from)?, state.call()?);
        if let Ok(replaced) = state.named(to) {
            state.allocated.remove(&replaced);
        }
        state.add(Event::Rename(from.into(), to.into(), file), is_last)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        let (file, is_last) = (state.named(name)?, state.call()?);
        state.allocated.remove(&file);
        state.add(Event::Remove(name.into()), is_last)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.lock().sync(Synced::Names)
    }

    fn sync_parent(&self) -> io::Result<()> {
        self.0.lock().sync(Synced::Parent)
    }

    fn free(&self) -> Option<u64> {
        let state = self.0.lock();
        Some(state.faults.capacity.saturating_sub(state.used()))
    }
}

/// A file that is open.
#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    file: usize,
    has_lock: AtomicBool,
}

impl SimulatedFile {
    fn new(disk: &SimulatedDisk, file: usize) -> Self {
        Self { disk: disk.clone(), file, has_lock: AtomicBool::new(false) }
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.unlock();
    }
}

impl Storage for SimulatedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().now.files[self.file].len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        state.check_power()?;
        state.counts.reads += 1;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let is_unreadable = state.unreadable.as_ref().is_some_and(|(file, range, from)| {
            let is_within = range.start < start.saturating_add(out.len()) && start < range.end;
            *file == self.file && is_within && state.counts.reads >= *from
        });
        if is_unreadable || state.faults.read == Some(state.counts.reads) {
            return Err(io::Error::other("the sector cannot be read"));
        }
        let read = start.checked_add(out.len()).and_then(|end| state.now.files[self.file].get(start..end));
        out.copy_from_slice(read.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let is_last = state.call()?;
        let blocks = offset / BLOCK..(offset + data.len() as u64).div_ceil(BLOCK);
        let allocated = state.blocks(self.file);
        let new = blocks.clone().filter(|block| !allocated.contains(block)).count() as u64;
        if new > 0 && state.used() + new * BLOCK > state.faults.capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.blocks(self.file).extend(blocks);
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        state.add(Event::Write(self.file, start, data.to_vec()), is_last)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let is_last = state.call()?;
        state.blocks(self.file).retain(|block| block * BLOCK < len);
        let length = usize::try_from(len).map_err(io::Error::other)?;
        state.add(Event::SetLen(self.file, length), is_last)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.0.lock().sync(Synced::File(self.file))
    }

    fn try_lock(&self) -> io::Result<bool> {
        let is_first = self.disk.0.lock().locked.insert(self.file);
        self.has_lock.fetch_or(is_first, Ordering::Relaxed);
        Ok(is_first)
    }

    fn unlock(&self) {
        if self.has_lock.swap(false, Ordering::Relaxed) {
            self.disk.0.lock().locked.remove(&self.file);
        }
    }
}
