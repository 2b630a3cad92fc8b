//! A file that a command writes.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::PathBuf,
};

use super::failure::Failure;

/// A new file. One that is dropped before anything was written to it is removed: the next try may create it.
pub(crate) struct NewFile {
    path: PathBuf,
    file: BufWriter<File>,
    is_empty: bool,
}

impl NewFile {
    pub(crate) fn create(path: &std::path::Path) -> Result<Self, Failure> {
        let created = File::options().write(true).create_new(true).open(path);
        let file = BufWriter::new(created.map_err(|error| Failure::file(path, &error))?);
        Ok(Self { path: path.into(), file, is_empty: true })
    }

    /// Writes the file to the disk.
    pub(crate) fn keep(mut self) -> Result<(), Failure> {
        // A result without an entry is a file too.
        self.is_empty = false;
        self.file.flush()?;
        Ok(self.file.get_ref().sync_all()?)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_empty = false;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.is_empty {
            // The failure of the command is reported, and this one changes nothing.
            let _ = fs::remove_file(&self.path);
        }
    }
}
