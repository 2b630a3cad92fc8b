use std::{
    borrow::Cow,
    error, fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use consign_core::transport::{ErrorKind, ManageError, ReceiveError, SendError, SettleError};
use tower::BoxError;

/// The error when the store of a broker could not be opened, or no longer works.
#[derive(Clone)]
pub struct StorageError(Arc<Failure>);

#[derive(Debug)]
struct Failure {
    kind: StorageErrorKind,
    detail: Cow<'static, str>,
    folder: Option<PathBuf>,
    source: Option<BoxError>,
}

/// The kinds of a [`StorageError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StorageErrorKind {
    /// Another broker, in this process or another one, has the store open.
    InUse,
    /// The store was written by a later version of this library.
    NewerFormat,
    /// The folder holds something other than a store, such as a file, a symbolic link or a folder with other files. Or it
    /// does not exist, or cannot be created because its parent folder does not exist. Or a backup is to be inside of its store.
    NotAStore,
    /// The stored data is damaged; the detail names the damage and its place. Nothing was changed. A salvage reads the
    /// rest.
    Corrupted,
    /// The disk is full.
    Full,
    /// The disk failed. Whether the last batch is on it is unknown, so no call is acknowledged until the store is
    /// opened again.
    Failed,
    /// The broker was closed.
    Closed,
}

impl StorageError {
    pub(crate) fn new(kind: StorageErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Failure { kind, detail: detail.into(), folder: None, source: None }))
    }

    pub(crate) fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        // It has just been made.
        if let Some(failure) = Arc::get_mut(&mut self.0) {
            failure.source = Some(source.into());
        }
        self
    }

    pub(crate) fn in_folder(mut self, folder: &Path) -> Self {
        if let Some(failure) = Arc::get_mut(&mut self.0) {
            failure.folder = Some(folder.to_owned());
        }
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> StorageErrorKind {
        self.0.kind
    }

    /// Returns what happened, and where.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Returns the folder of the store, if it could not be opened.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.0.folder.as_deref()
    }
}

impl StorageErrorKind {
    fn describe(self) -> &'static str {
        match self {
            Self::InUse => "another broker has the store open",
            Self::NewerFormat => "the store was written by a later version",
            Self::NotAStore => "the folder cannot be used",
            Self::Corrupted => "the store is damaged",
            Self::Full => "the disk is full",
            Self::Failed => "the disk failed",
            Self::Closed => "the broker was closed",
        }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.kind.describe())?;
        if let Some(folder) = &self.0.folder {
            write!(f, ": {}", folder.display())?;
        }
        if self.0.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.0.detail) }
    }
}

impl fmt::Debug for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageError")
            .field("kind", &self.0.kind)
            .field("detail", &self.0.detail)
            .field("folder", &self.0.folder)
            .field("source", &self.0.source)
            .finish()
    }
}

impl error::Error for StorageError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

/// An operation that the disk failed, so that its outcome is unknown.
macro_rules! operations {
    ($($name:ident),*) => {$(
        impl From<StorageError> for $name {
            #[cold]
            fn from(failure: StorageError) -> Self {
                Self::new(ErrorKind::General).with_detail(failure.to_string()).with_retryable(false).with_source(failure)
            }
        }
    )*};
}

operations!(ManageError, ReceiveError, SendError, SettleError);
