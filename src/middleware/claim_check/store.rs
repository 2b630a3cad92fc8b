use std::{future::Future, sync::Arc};

use bytes::Bytes;

use super::{BlobError, BlobId};

/// Keeps bodies that are too large for a message, each under an id. Methods are called at once and from many tasks. A
/// future that is dropped may have had its effect or not.
pub trait BlobStore: Send + Sync + 'static {
    /// Stores `body`, all of it or nothing. A blob whose call returned `Ok` is not lost, as far as the store
    /// guarantees it.
    fn put(&self, id: &BlobId, body: Bytes) -> impl Future<Output = Result<(), BlobError>> + Send;

    /// The blob with this id, which has to have this length: the store asks for its length before it reads, and takes no
    /// more memory than that. Fails as [`Missing`](super::BlobErrorKind::Missing) and as
    /// [`Length`](super::BlobErrorKind::Length).
    fn get(&self, id: &BlobId, length: u64) -> impl Future<Output = Result<Bytes, BlobError>> + Send;

    /// Deletes a blob. One that is not there is deleted.
    fn delete(&self, id: &BlobId) -> impl Future<Output = Result<(), BlobError>> + Send;
}

impl<B: BlobStore> BlobStore for Arc<B> {
    fn put(&self, id: &BlobId, body: Bytes) -> impl Future<Output = Result<(), BlobError>> + Send {
        B::put(self, id, body)
    }

    fn get(&self, id: &BlobId, length: u64) -> impl Future<Output = Result<Bytes, BlobError>> + Send {
        B::get(self, id, length)
    }

    fn delete(&self, id: &BlobId) -> impl Future<Output = Result<(), BlobError>> + Send {
        B::delete(self, id)
    }
}
