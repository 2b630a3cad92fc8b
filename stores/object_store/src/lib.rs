//! A blob store for the claim check: a [`BlobStore`] over any [`ObjectStore`] of the crate [`object_store`], such as files or
//! a cloud's object store. You create the `ObjectStore`, with its credentials and time-outs.
//!
//! ```
//! use consign::{
//!     Disposition, Message,
//!     middleware::claim_check::{StoreClaimLayer, ResolveClaimLayer},
//! };
//! use consign_store_object::ObjectBlobs;
//! use object_store::local::LocalFileSystem;
//! use tower::{BoxError, ServiceBuilder};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! # let folder = tempfile::tempdir()?;
//! let blobs = ObjectBlobs::new(LocalFileSystem::new_with_prefix(folder.path())?, "claims/orders")?;
//! let sending = ServiceBuilder::new().layer(StoreClaimLayer::new(blobs.clone()));
//! let receiving = ServiceBuilder::new().layer(ResolveClaimLayer::new(blobs));
//! # drop((sending, receiving));
//! # Ok(())
//! # }
//! ```
//!
//! # Names of blobs
//!
//! A blob has the path `<prefix>/<id>`, where the id is 32 hexadecimal digits. You choose the prefix, and only ids of this
//! form are accepted. So a message cannot name an object outside the prefix. Do not store other objects under the prefix:
//! [`ObjectBlobs::delete_older_than`] deletes all objects in it with a name of that form.
//!
//! # Guarantees
//!
//! A blob exists as a whole or not at all, and is as durable as its store. Files of `LocalFileSystem` are not synced to the
//! disk before `put` returns, so a power loss may lose a blob that a durable queue still names. Object stores of clouds have
//! the durability that their providers document. A lost blob makes a dead letter with the reason `ClaimMissing`.
//!
//! # Errors
//!
//! Not found is [`Missing`](BlobErrorKind::Missing), unless the store reports that the bucket or container is missing; a missing
//! permission is [`Denied`](BlobErrorKind::Denied); a full disk of `LocalFileSystem` is [`Full`](BlobErrorKind::Full); everything else
//! is [`Unavailable`](BlobErrorKind::Unavailable), which is retryable. The store's own error is the source.
#![forbid(unsafe_code)]

use std::{fmt, io, iter::successors, sync::Arc};

use bytes::{Bytes, BytesMut};
use consign::{
    middleware::claim_check::{BlobError, BlobErrorKind, BlobId, BlobStore},
    time::Timestamp,
};
use futures_util::{StreamExt, TryStreamExt};
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload, path::Path};

/// Blobs in an object store, under a prefix. Clones share it.
#[derive(Clone)]
pub struct ObjectBlobs {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

/// The result of [`ObjectBlobs::delete_older_than`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// How many blobs.
    pub blobs: u64,
    /// How many bytes they had.
    pub bytes: u64,
}

impl ObjectBlobs {
    /// Creates a store of blobs in `store` under `prefix`: a path of segments between slashes, or an empty one. It makes no
    /// request to the store.
    ///
    /// # Errors
    ///
    /// A segment that is empty, `.` or `..`, or with a character that a path cannot have.
    pub fn new(store: impl ObjectStore, prefix: &str) -> Result<Self, InvalidPrefix> {
        Self::shared(Arc::new(store), prefix)
    }

    /// Creates a blob store, like [`new`](Self::new), over a shared object store.
    pub fn shared(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self, InvalidPrefix> {
        let prefix = Path::parse(prefix).map_err(|error| InvalidPrefix(Box::new(error)))?;
        Ok(Self { store, prefix })
    }

    fn path(&self, id: &BlobId) -> Path {
        self.prefix.clone().join(id.to_string())
    }

    /// Deletes the blobs that were stored before an instant, by the store's clock, and returns their number and size. Other
    /// objects stay. An error ends it; earlier deletions remain, and the next call continues.
    ///
    /// The instant must be before now by more than the lifetime of a message: the time to live of the entities where messages
    /// wait, and the time to examine a dead letter.
    pub async fn delete_older_than(&self, instant: Timestamp) -> Result<Deleted, BlobError> {
        let mut deleted = Deleted::default();
        let mut listed = self.store.list(Some(&self.prefix));
        while let Some(object) = listed.next().await {
            let object = object.map_err(error)?;
            if !self.is_blob(&object) || !is_before(&object, instant) {
                continue;
            }
            match self.store.delete(&object.location).await {
                Ok(()) => {
                    deleted.blobs += 1;
                    deleted.bytes += object.size;
                }
                // Another process has deleted it.
                Err(Error::NotFound { .. }) => {}
                Err(other) => return Err(error(other)),
            }
        }
        Ok(deleted)
    }

    /// Returns whether the object has the name of a blob, right under the prefix.
    fn is_blob(&self, object: &ObjectMeta) -> bool {
        let Some(mut parts) = object.location.prefix_match(&self.prefix) else { return false };
        let (Some(name), None) = (parts.next(), parts.next()) else { return false };
        let name = name.as_ref();
        name.len() == 32 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }
}

fn is_before(object: &ObjectMeta, instant: Timestamp) -> bool {
    object.last_modified.timestamp_millis() < instant.as_millis()
}

impl fmt::Debug for ObjectBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectBlobs").field("prefix", &self.prefix.as_ref()).finish_non_exhaustive()
    }
}

impl BlobStore for ObjectBlobs {
    async fn put(&self, id: &BlobId, body: Bytes) -> Result<(), BlobError> {
        self.store.put(&self.path(id), PutPayload::from(body)).await.map(drop).map_err(error)
    }

    async fn get(&self, id: &BlobId, length: u64) -> Result<Bytes, BlobError> {
        let found = self.store.get(&self.path(id)).await.map_err(error)?;
        if found.meta.size != length {
            return Err(BlobError::new(BlobErrorKind::Length));
        }
        // No more than that is read. The object has this size.
        let mut body =
            BytesMut::with_capacity(usize::try_from(length).map_err(|_| BlobError::new(BlobErrorKind::Length))?);
        let mut chunks = found.into_stream();
        while let Some(chunk) = chunks.try_next().await.map_err(error)? {
            if body.len() as u64 + chunk.len() as u64 > length {
                return Err(BlobError::new(BlobErrorKind::Length));
            }
            body.extend_from_slice(&chunk);
        }
        if body.len() as u64 == length { Ok(body.freeze()) } else { Err(BlobError::new(BlobErrorKind::Unavailable)) }
    }

    async fn delete(&self, id: &BlobId) -> Result<(), BlobError> {
        match self.store.delete(&self.path(id)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(other) => Err(error(other)),
        }
    }
}

fn error(error: Error) -> BlobError {
    let kind = match error {
        _ if is_full(&error) => BlobErrorKind::Full,
        Error::NotFound { ref source, .. } if is_of_bucket(&**source) => BlobErrorKind::Unavailable,
        Error::NotFound { .. } => BlobErrorKind::Missing,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => BlobErrorKind::Denied,
        _ => BlobErrorKind::Unavailable,
    };
    BlobError::new(kind).with_source(error)
}

/// Whether the disk of a store, or the quota of its user, is full.
fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

/// Whether a store has reported that the bucket or container is missing. `object_store` has one error for each status 404, and the
/// body of the response is in the text of its source.
fn is_of_bucket(source: &(dyn std::error::Error + 'static)) -> bool {
    successors(Some(source), |error| error.source()).any(|error| {
        let text = error.to_string();
        ["<Code>NoSuchBucket</Code>", "<Code>ContainerNotFound</Code>"].iter().any(|code| text.contains(code))
    })
}

/// A prefix that is not a path.
#[derive(Debug)]
pub struct InvalidPrefix(Box<object_store::path::Error>);

impl fmt::Display for InvalidPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the prefix is no path of an object store")
    }
}

impl std::error::Error for InvalidPrefix {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_full() {
        for (kind, expected) in [
            (io::ErrorKind::StorageFull, BlobErrorKind::Full),
            (io::ErrorKind::QuotaExceeded, BlobErrorKind::Full),
            (io::ErrorKind::NotADirectory, BlobErrorKind::Unavailable),
        ] {
            // `LocalFileSystem` wraps it in an error of its own.
            let source = Box::new(Error::Generic { store: "inner", source: Box::new(io::Error::from(kind)) });
            assert_eq!(error(Error::Generic { store: "LocalFileSystem", source }).kind(), expected);
        }
    }

    #[test]
    fn a_missing_bucket_is_not_a_missing_blob() {
        let xml = |code: &str| {
            let body = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>gone</Message></Error>"
            );
            format!("Server returned non-2xx status code: 404 Not Found: {body}")
        };
        for (text, kind) in [
            (xml("NoSuchBucket"), BlobErrorKind::Unavailable),
            (xml("ContainerNotFound"), BlobErrorKind::Unavailable),
            (xml("NoSuchKey"), BlobErrorKind::Missing),
            (xml("BlobNotFound"), BlobErrorKind::Missing),
            ("Server returned non-2xx status code: 404 Not Found: ".into(), BlobErrorKind::Missing),
        ] {
            let source = text.clone().into();
            assert_eq!(error(Error::NotFound { path: "claims/a".into(), source }).kind(), kind, "{text}");
        }
    }
}
