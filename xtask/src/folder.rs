//! Folders in `target` for what a program keeps on a disk while it is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::workspace::{output, root};

/// An empty folder, which is removed with all that is in it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Result<Self, Error> {
        let folder = root().join("target").join(name);
        remove(&folder)?;
        Ok(Self(folder))
    }

    /// What a program prints that is called with a word, this folder and more arguments.
    pub(crate) fn printed(&self, program: &Path, word: &str, arguments: &[String]) -> Result<String, Error> {
        output(Command::new(program).arg(word).arg(&self.0).args(arguments))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            eprintln!("{error}");
        }
    }
}

/// Removes a folder, if there is one.
pub(crate) fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Write { path: folder.into(), source })
        }
        _ => Ok(()),
    }
}
