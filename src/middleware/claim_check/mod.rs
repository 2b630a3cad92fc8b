//! Layers that store large bodies in a blob store, and send a reference to them, the claim.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use consign::{
//!     Disposition, Message,
//!     middleware::claim_check::{StoreClaimLayer, ResolveClaimLayer, MemoryBlobs},
//!     transport::SendError,
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let blobs = MemoryBlobs::new(64 << 20);
//! let receiving = ServiceBuilder::new()
//!     .layer(ResolveClaimLayer::new(blobs.clone()).max_bytes(8 << 20))
//!     .service(service_fn(|message: Message| async move {
//!         assert_eq!(message.body().size(), 5 << 20);
//!         Ok::<_, Infallible>(Disposition::Complete)
//!     }));
//! let sending = ServiceBuilder::new()
//!     .layer(StoreClaimLayer::new(blobs))
//!     .service(service_fn(move |message: Message| {
//!         assert!(message.size() < 256);
//!         let handled = receiving.clone().oneshot(message);
//!         async move {
//!             assert!(matches!(handled.await, Ok(Disposition::Complete)));
//!             Ok::<_, SendError>(())
//!         }
//!     }));
//! sending.oneshot(Message::new(vec![b'x'; 5 << 20])).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`MemoryBlobs`] is for tests. The crate `consign-store-object` stores blobs in files and in a cloud's object
//! store. Implement [`BlobStore`] for your own store.
//!
//! # The claim
//!
//! A body from the threshold on, 192 KiB by default, is stored under a random id, and the message is sent without it. The
//! property [`Claim::PROPERTY`] is `1:<id>:<length>:<SHA-256>`, all in a fixed form. The id is not a path: the receiver
//! uses its own store, and the 32 hexadecimal digits cannot name another place in it. The length of the blob is compared
//! before it is read, and its digest after that.
//!
//! # Signed and encrypted messages
//!
//! `x-claim` is not authenticated, because the claim is resolved before a message is verified or decrypted. The body that
//! it names is authenticated. Without [signing](super::signing) or [encryption](super::encryption), blobs can be misused:
//! an attacker who has the id, the length and the digest of a blob can have it delivered as the body of
//! another message.
//!
//! # Lifetime of a blob
//!
//! The layers never delete a blob. A completed message may have copies in other subscriptions, its completion may fail, and
//! a dead letter needs its body. A send that fails, or that an outer retry repeats, leaves a blob without a message. So
//! delete blobs when they are older than any message can be, including dead letters. Cloud stores have rules for that, and
//! `consign-store-object` has a method. To delete a blob earlier, read the claim by [`Claim::of`], and delete the
//! blob after the settlement.
//!
//! # Failure
//!
//! Sending: a blob that cannot be stored within [`StoreClaimLayer::operation_timeout`] is a [`SendError`](crate::transport::SendError) with the [`BlobError`] as its
//! source, of the kind [`Throttled`](crate::transport::ErrorKind::Throttled), which may be sent again,
//! [`QuotaExceeded`](crate::transport::ErrorKind::QuotaExceeded) or
//! [`Unauthorized`](crate::transport::ErrorKind::Unauthorized). A message that has a claim already is
//! [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument). Nothing is sent then, of a batch neither.
//!
//! Receiving:
//!
//! | case | result |
//! |---|---|
//! | the store does not answer within [`ResolveClaimLayer::operation_timeout`], denies access, or is full | the [`BlobError`] is returned: an outer retry tries again, or the message is abandoned |
//! | no blob of that id, another length, another digest | a dead letter, `ClaimMissing`, at once |
//! | a malformed claim, or a message with a claim and a body | a dead letter, `ClaimMissing` |
//! | a length above [`ResolveClaimLayer::max_bytes`] | a dead letter, `LimitExceeded`; the blob is not read |
//!
//! A dead letter keeps its claim. A message without a claim passes.
//!
//! # Order
//!
//! Sending: after compression and encryption, so that the compressed and encrypted body is stored; before the size limit,
//! which then applies to the message without the body. Receiving: before decryption and decompression, inside of lock
//! renewal, because the lock runs meanwhile, and inside of duplicate detection. An outer retry sends the claim again, and
//! not the body.
//!
//! # Cost
//!
//! A message below the threshold or without a claim costs a comparison. For others, the body is hashed, a future is boxed,
//! and the store is called. The table *Layers* of `docs/benchmarks.md` has the figures.

mod check_in;
mod check_out;
mod claim;
mod error;
mod future;
mod memory;
mod store;

use std::{future::Future, time::Duration};

use self::future::ClaimFuture;
pub use self::{
    check_in::StoreClaimLayer,
    check_out::ResolveClaimLayer,
    claim::{BlobId, Claim},
    error::{BlobError, BlobErrorKind, ClaimError},
    memory::MemoryBlobs,
    store::BlobStore,
};
use crate::transport::deadline::Timed;

/// The answer of a store to one call, within a time.
async fn answered<T>(call: impl Future<Output = Result<T, BlobError>>, timeout: Duration) -> Result<T, BlobError> {
    let unavailable = |unanswered| Err(BlobError::new(BlobErrorKind::Unavailable).with_source(unanswered));
    Timed::new(call, timeout).await.unwrap_or_else(unavailable)
}
