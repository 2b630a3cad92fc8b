use std::{future::Future, sync::Arc};

use bytes::Bytes;

use super::{BlobError, BlobId};

/// A store of bodies that are too large for a message, each under an id. Methods are called at once and from many tasks.
///
/// A call of a layer ends after its operation timeout, 60 seconds by default: [`StoreClaimLayer`](super::StoreClaimLayer),
/// [`ResolveClaimLayer`](super::ResolveClaimLayer).
///
/// # Cancel safety
///
/// A future that is dropped may have had its effect or not.
///
/// # Examples
///
/// Bodies in memory:
///
/// ```
/// use std::{collections::HashMap, sync::Mutex};
///
/// use bytes::Bytes;
/// use consign::middleware::claim_check::{BlobError, BlobErrorKind, BlobId, BlobStore};
///
/// #[derive(Default)]
/// struct Blobs(Mutex<HashMap<BlobId, Bytes>>);
///
/// impl BlobStore for Blobs {
///     async fn put(&self, id: &BlobId, body: Bytes) -> Result<(), BlobError> {
///         self.0.lock().unwrap().insert(*id, body);
///         Ok(())
///     }
///
///     async fn get(&self, id: &BlobId, length: u64) -> Result<Bytes, BlobError> {
///         match self.0.lock().unwrap().get(id) {
///             None => Err(BlobError::new(BlobErrorKind::Missing)),
///             Some(body) if body.len() as u64 != length => Err(BlobError::new(BlobErrorKind::Length)),
///             Some(body) => Ok(body.clone()),
///         }
///     }
///
///     async fn delete(&self, id: &BlobId) -> Result<(), BlobError> {
///         self.0.lock().unwrap().remove(id);
///         Ok(())
///     }
/// }
///
/// # tokio_test::block_on(async {
/// let (blobs, id) = (Blobs::default(), BlobId::random());
/// blobs.put(&id, Bytes::from_static(b"a large body")).await?;
/// assert_eq!(blobs.get(&id, 12).await?, "a large body");
/// # Ok::<(), BlobError>(())
/// # }).unwrap();
/// ```
pub trait BlobStore: Send + Sync + 'static {
    /// Stores `body`, all of it or nothing. A blob whose call returned `Ok` is not lost, as far as the store
    /// guarantees it.
    fn put(&self, id: &BlobId, body: Bytes) -> impl Future<Output = Result<(), BlobError>> + Send;

    /// Returns the blob with this id, which has to have this length: the store reads its length first, and takes no more
    /// memory than that.
    ///
    /// # Errors
    ///
    /// [`Missing`](super::BlobErrorKind::Missing) and [`Length`](super::BlobErrorKind::Length).
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
