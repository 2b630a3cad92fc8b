//! A file that a command writes.

use std::{
    error::Error,
    fmt,
    fs::{self, File},
    io::{self, BufWriter, Write},
    iter::successors,
    path::{Path, PathBuf},
};

use super::failure::{Exit, Failure};

/// A new file. One that is dropped before anything was written to it is removed: the next try may create it.
pub(crate) struct NewFile {
    path: PathBuf,
    file: BufWriter<File>,
    is_empty: bool,
}

impl NewFile {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let created = File::options().write(true).create_new(true).open(path);
        Ok(Self::new(path, created.map_err(|error| Failure::file(path, &error))?))
    }

    fn new(path: &Path, file: File) -> Self {
        Self { path: path.into(), file: BufWriter::new(file), is_empty: true }
    }

    /// The failure of a new file among the causes of an error.
    pub(crate) fn failure_in(error: &(dyn Error + 'static)) -> Option<Failure> {
        let causes = successors(Some(error), |&error| error.source());
        let mut of_files = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
        let of_file = of_files
            .find(|error| error.get_ref().is_some_and(<dyn Error + Send + Sync + 'static>::is::<NotWritten>))?;
        Some(Failure::new(Exit::Failure, "Io", of_file.to_string()))
    }

    /// Writes the file to the disk.
    pub(crate) fn keep(mut self) -> Result<(), Failure> {
        // A result without an entry is a file too.
        self.is_empty = false;
        self.flush()?;
        Ok(self.file.get_ref().sync_all().map_err(|error| self.named(error))?)
    }

    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), NotWritten { path: self.path.clone(), error })
    }
}

/// The error of a new file, with its path.
#[derive(Debug)]
struct NotWritten {
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl Error for NotWritten {}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_empty = false;
        let written = self.file.write(bytes);
        written.map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        flushed.map_err(|error| self.named(error))
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use consign::{
        Message,
        administration::QueueSettings,
        broker::{
            Broker,
            json_lines::{Line, write_message},
        },
        transport::Sender,
    };

    use super::*;

    /// A file on a full disk.
    fn full(folder: &Path) -> NewFile {
        NewFile::new(&folder.join("out.jsonl"), File::options().write(true).open("/dev/full").expect("a device"))
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_is_named_with_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        let broker = Broker::open(&store).unwrap();
        let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
        // More than is buffered.
        queue.sender().unwrap().send(Message::new("x".repeat(100_000))).await.unwrap();
        broker.close().await.unwrap();
        let expected = format!("{}: No space left on device (os error 28)", folder.path().join("out.jsonl").display());

        let salvaged = Broker::salvage(&store, &mut full(folder.path())).unwrap_err();
        assert_eq!(NewFile::failure_in(&salvaged).unwrap().to_string(), expected);
        // The end of a file.
        let mut file = full(folder.path());
        write_message(&mut file, &Line { entity: None, message: Message::new("x") }).unwrap();
        assert_eq!(file.keep().unwrap_err().to_string(), expected);
        let mut file = full(folder.path());
        let written = write_message(&mut file, &Line { entity: None, message: Message::new("x".repeat(100_000)) });
        assert_eq!(Failure::from(written.unwrap_err()).to_string(), expected);
        // A failure of the store is not one of the file.
        let missing = Broker::salvage(folder.path().join("nothing"), &mut io::sink()).unwrap_err();
        assert!(NewFile::failure_in(&missing).is_none());
    }
}
