//! The file of jobs that have not ended.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use super::spec::Spec;

/// Reads the jobs; none if there is no file.
pub(super) fn read(file: &Path) -> io::Result<Vec<Spec>> {
    match fs::read(file) {
        Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Replaces the file: it has the jobs of before, or these. Without a job it is removed.
pub(super) fn write(file: &Path, jobs: &[Spec]) -> io::Result<()> {
    if jobs.is_empty() {
        return match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let mut name = file.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // For the owner alone.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut written = options.open(&new)?;
    written.write_all(&serde_json::to_vec_pretty(jobs)?)?;
    written.sync_all()?;
    fs::rename(&new, file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The rename is safe when the folder is.
    File::open(folder)?.sync_all()
}
