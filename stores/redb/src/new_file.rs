//! A new file has its name only when it is whole.
//!
//! redb cannot open a file whose creation was interrupted.

use std::{ffi::OsString, fs, io, path::Path};

use redb::{Database, DatabaseError, StorageError};

/// Creates an empty database if there is no file. What `create` has written when it is interrupted stays beside it.
pub(crate) fn create_whole(
    path: &Path,
    create: impl FnOnce(&Path) -> Result<Database, DatabaseError>,
) -> Result<(), DatabaseError> {
    if path.try_exists().map_err(failed)? {
        return Ok(());
    }
    let mut random = [0; 8];
    getrandom::fill(&mut random).expect("the system has random numbers");
    let mut part = OsString::from(path);
    part.push(format!(".{:016x}.part", u64::from_le_bytes(random)));
    let part = Path::new(&part);
    let created = create(part).and_then(Database::close).and_then(|()| name(part, path).map_err(failed));
    // It has the other name now, or it is of no use.
    drop(fs::remove_file(part));
    created
}

/// Gives a file its name, unless another process has created it in the meantime.
fn name(part: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(part, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        // Some file systems have one name for a file.
        Err(_) if !path.try_exists()? => fs::rename(part, path)?,
        linked => linked?,
    }
    sync_folder(path)
}

/// Without this a power loss may take the name.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on other systems")]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

fn failed(error: io::Error) -> DatabaseError {
    DatabaseError::Storage(StorageError::Io(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder).expect("a folder").count()
    }

    #[test]
    fn a_creation_that_fails_leaves_no_file_and_the_next_one_succeeds() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ids.redb");
        let fails = |part: &Path| {
            // As far as redb may have come.
            fs::write(part, vec![0; 4_096]).expect("a file");
            assert!(Database::create(part).is_err(), "it is not whole");
            Err(failed(io::ErrorKind::StorageFull.into()))
        };
        assert!(create_whole(&path, fails).is_err());
        assert_eq!(files(folder.path()), 0);

        create_whole(&path, |part| Database::create(part)).expect("a file");
        assert_eq!(files(folder.path()), 1);
        drop(Database::open(&path).expect("a database"));
        create_whole(&path, |_| panic!("it is there")).expect("a file");
    }

    #[test]
    fn a_file_that_another_process_creates_meanwhile_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ids.redb");
        let raced = |part: &Path| {
            fs::write(&path, "theirs").expect("a file");
            Database::create(part)
        };
        create_whole(&path, raced).expect("a file");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "theirs");
        assert_eq!(files(folder.path()), 1);
    }
}
