//! Puts large bodies into a store of blobs, and lets the message carry a claim to them.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use consign::{
//!     Disposition, Message,
//!     middleware::claim_check::{CheckInLayer, CheckOutLayer, MemoryBlobs},
//!     transport::SendError,
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let blobs = MemoryBlobs::new(64 << 20);
//! let receiving = ServiceBuilder::new()
//!     .layer(CheckOutLayer::new(blobs.clone()).max_bytes(8 << 20))
//!     .service(service_fn(|message: Message| async move {
//!         assert_eq!(message.body().size(), 5 << 20);
//!         Ok::<_, Infallible>(Disposition::Complete)
//!     }));
//! let sending = ServiceBuilder::new()
//!     .layer(CheckInLayer::new(blobs))
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
//! [`MemoryBlobs`] is for tests; the crate `consign-claims-object-store` keeps blobs in files and in the stores of clouds,
//! and [`BlobStore`] is for yours.
//!
//! # The claim
//!
//! A body from the threshold on, 192 KiB by default, is stored under a random id, and the message is sent without it.
//! The property [`Claim::PROPERTY`] has what the receiving side needs: `1:<id>:<length>:<SHA-256>`, all of a fixed
//! form. That is no address: the store is the receiver's own, and 32 hexadecimal digits name no path in it. A blob must
//! have the length, which is checked before it is read, and the digest.
//!
//! # Signed and encrypted messages
//!
//! `x-claim` is not authenticated, for it is resolved before a message is verified or decrypted. The body that it leads
//! to is. Without [signing](super::signing) or [encryption](super::encryption), blobs are open to misuse. Someone who
//! can send messages and knows the id, the length and the digest of a blob can have it delivered as the body of another
//! message.
//!
//! # Lifetime of a blob
//!
//! Until you delete it. This layer never does. A message that was completed here may have copies in other
//! subscriptions, and its completion may fail. A dead letter is useless without its body. A send that fails, or is
//! repeated by a retry outside, leaves a blob that no message names. So delete blobs by age, once they are older than
//! any message can be, in dead-letter queues too. Cloud stores have rules for that, and `consign-claims-object-store` a
//! call. To delete a blob earlier, read the claim with [`Claim::of`] and delete after the settlement.
//!
//! # Failure
//!
//! Sending: a blob that cannot be stored is a [`SendError`](crate::transport::SendError) with the [`BlobError`] as its
//! source, of the kind [`ServiceBusy`](crate::transport::ErrorKind::ServiceBusy),
//! [`QuotaExceeded`](crate::transport::ErrorKind::QuotaExceeded) or
//! [`Unauthorized`](crate::transport::ErrorKind::Unauthorized). A message that has a claim already is
//! [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument). Nothing is sent then, of a batch neither.
//!
//! Receiving:
//!
//! | what | what becomes of the message |
//! |---|---|
//! | the store does not answer | the [`BlobError`] goes on as an error: a retry outside tries again, or it is abandoned |
//! | no blob of that id, another length, another digest | a dead letter, `ClaimMissing`, at once |
//! | a claim that is malformed, or a body beside it | a dead letter, `ClaimMissing` |
//! | a length over [`CheckOutLayer::max_bytes`] | a dead letter, `LimitExceeded`; nothing is read |
//!
//! A dead letter keeps its claim. A message without a claim passes.
//!
//! # Order
//!
//! Sending: after compression and encryption, so that the store has what they make; before the size limit, with a limit of
//! its own on the message without the body. Receiving: before decryption and decompression, inside of lock renewal, for
//! the lock ticks meanwhile, and inside of duplicate detection. A retry outside of it sends the claim on, not the body.
//!
//! # Cost
//!
//! A message below the threshold or without a claim costs a comparison. For others the body is digested, a future is
//! boxed, and the store takes its time. Counted in the table *Layers* of `docs/benchmarks.md`.

mod check_in;
mod check_out;
mod claim;
mod error;
mod future;
mod memory;
mod store;

pub use self::{
    check_in::{CheckIn, CheckInLayer},
    check_out::{CheckOut, CheckOutLayer},
    claim::{BlobId, Claim, InvalidClaim},
    error::{BlobError, BlobErrorKind, ClaimError},
    future::ClaimFuture,
    memory::MemoryBlobs,
    store::BlobStore,
};
