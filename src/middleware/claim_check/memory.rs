use std::{
    collections::HashMap,
    future::{Future, ready},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;

use super::{BlobError, BlobErrorKind, BlobId, BlobStore};

/// Blobs in memory, for tests: they end with the process. Clones share them.
#[derive(Clone, Debug)]
pub struct MemoryBlobs {
    blobs: Arc<Mutex<Blobs>>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Blobs {
    by_id: HashMap<BlobId, Bytes>,
    bytes: usize,
}

impl MemoryBlobs {
    /// An empty store that holds at most this many bytes.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { blobs: Arc::default(), max_bytes }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.with(|blobs| blobs.by_id.len())
    }

    /// Returns whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn with<T>(&self, f: impl FnOnce(&mut Blobs) -> T) -> T {
        f(&mut self.blobs.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl BlobStore for MemoryBlobs {
    fn put(&self, id: &BlobId, body: Bytes) -> impl Future<Output = Result<(), BlobError>> + Send {
        ready(self.with(|blobs| {
            let before = blobs.by_id.get(id).map_or(0, Bytes::len);
            let bytes = blobs.bytes - before + body.len();
            if bytes > self.max_bytes {
                return Err(BlobError::new(BlobErrorKind::Full));
            }
            blobs.bytes = bytes;
            blobs.by_id.insert(*id, body);
            Ok(())
        }))
    }

    fn get(&self, id: &BlobId, length: u64) -> impl Future<Output = Result<Bytes, BlobError>> + Send {
        ready(self.with(|blobs| {
            let blob = blobs.by_id.get(id).ok_or(BlobError::new(BlobErrorKind::Missing))?;
            if blob.len() as u64 == length { Ok(blob.clone()) } else { Err(BlobError::new(BlobErrorKind::Length)) }
        }))
    }

    fn delete(&self, id: &BlobId) -> impl Future<Output = Result<(), BlobError>> + Send {
        self.with(|blobs| {
            if let Some(blob) = blobs.by_id.remove(id) {
                blobs.bytes -= blob.len();
            }
        });
        ready(Ok(()))
    }
}
