//! Handles each message once, though it is delivered more than once.
//!
//! A broker delivers at least once: a settlement is lost, a lock runs out, a sender sends again. This layer keeps the
//! ids of handled messages, and completes a redelivered one without a second run of the handler. An id goes through two
//! phases. It is *reserved* before the handler sees the message, for the time of a lease, and *committed* when the
//! handler has answered [`Complete`](crate::Disposition::Complete), before the message is settled. Any other end
//! *forgets* it, so that a failed message is handled when it is redelivered.
//!
//! ```
//! use std::time::Duration;
//! use consign::{Disposition, Message, middleware::dedup::{DedupLayer, MemoryStore}};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! // Ids are known for ten minutes after their message was handled, and by the consumers of this subscription alone.
//! let dedup = DedupLayer::new(MemoryStore::new(Duration::from_secs(600)), "orders/subscriptions/billing");
//! let stats = dedup.stats();
//! let stack = ServiceBuilder::new().layer(dedup).service(service_fn(|_: Message| async {
//!     // The handler, which sees this order once.
//!     Ok::<_, BoxError>(Disposition::Complete)
//! }));
//! let order = Message::builder().message_id("order-17").build("one order")?;
//! for _delivery in 0..2 {
//!     assert_eq!(stack.clone().oneshot(order.clone()).await?, Disposition::Complete);
//! }
//! assert_eq!((stats.handled(), stats.duplicates()), (1, 1));
//! # Ok(())
//! # }
//! ```
//!
//! # What is a duplicate
//!
//! A message whose key is known, in the scope that the layer was given. The key is
//! [`Properties::original_message_id`](crate::message::Properties::original_message_id), so that a retry and a
//! resubmission, which have new ids, are known by their first one; [`DedupLayer::key`] takes [`BodyBytes`] or a closure
//! instead. A message without a key is passed on, and counted. How long an id is known is the window of the store: from
//! its commit until the window has passed, that instant excluded, and duplicates do not extend it.
//!
//! | the id is | answer |
//! |---|---|
//! | unknown, or its window or lease is over | it is reserved, and the message is passed on |
//! | committed | [`Complete`](crate::Disposition::Complete) at once, or what [`DedupLayer::on_duplicate`] says; counted |
//! | reserved: the message is being handled elsewhere | the message waits, see below |
//!
//! | the service inside | the id |
//! |---|---|
//! | answers `Complete` | is committed, then the call answers |
//! | answers `Abandon` | is forgotten, then the call answers |
//! | answers `Defer` | is forgotten: the message will be received by its number, and handled then |
//! | answers `DeadLetter` | is forgotten: the message may be resubmitted, and is handled then |
//! | fails, panics, or is dropped with the call | is forgotten |
//!
//! # Messages that are being handled elsewhere
//!
//! Such a message waits until the other handler has ended: if that ended well the message is completed, else it is handled.
//! Waiting does not count as a delivery.
//!
//! | the driver | what waits |
//! |---|---|
//! | a [`Consumer`](crate::consumer::Consumer) | It holds the message outside of its slots, renews its lock, and calls the stack again after 0.1 to 2 seconds, or when the lease ends. There is no limit of time. It holds 256 messages at most: see [`Consumer::max_held`](crate::consumer::Consumer::max_held), which also says what becomes of one more. |
//! | a [`SessionConsumer`](crate::consumer::SessionConsumer), or one with `max_held(0)` | The call waits in its slot, for [`DedupLayer::WAIT`] at most; then the message is abandoned. The messages of a session behind it do not pass it. |
//! | one of yours | As before: the future of the call waits. The service inside is not kept ready meanwhile. |
//!
//! A consumer recognises the answer of this layer, an abandon. Layers outside of it pass it on: retries and the circuit breaker
//! do not take it for a failure. A layer of yours that replaces an abandon by another answer costs a delivery. A timeout
//! outside bounds each call, and not the time that the consumer holds the message.
//!
//! # After a crash
//!
//! | time | default | |
//! |---|---|---|
//! | lease | 30 s ([`DedupLayer::lease`]) | The ids of a process that was killed stay reserved for so long after their last renewal. With the store in a file they are free as soon as the file is opened again. |
//! | renewal | 15 s: half of the lease | While a handler runs. One that fails is tried again after an eighth of the lease. |
//! | next look at an id | at most 2 s | Also at the end of the lease. |
//!
//! So after a `kill -9` the messages that the process held are handled 15 to 30 seconds later. If the store does not
//! say how long a lease lasts, add 2 seconds at most. The broker has to redeliver them first, at once or when their
//! locks end. All other messages go on at once. The example `kill` of `consign-dedup-postgres` prints both times:
//! `cargo run -p consign-dedup-postgres --example kill`.
//!
//! If the id is reserved elsewhere when a lease is to be renewed, the handler runs on: what it has done cannot be undone.
//!
//! # Signed and encrypted messages
//!
//! [Signing](super::signing) and [encryption](super::encryption) authenticate the first MessageId, so a copy of a message
//! cannot get another key. This layer stands outside of them, though, and sees ids that are not verified yet: a forged
//! message is a dead letter, which forgets its id. A closure of [`DedupLayer::key`] that reads other properties relies on
//! what may have been changed, unless the sender binds these.
//!
//! # Failure
//!
//! A message is never handled without a reservation. A store that cannot reserve is asked again, in the slot of the
//! message, for [`DedupLayer::wait`], and then the call fails with the [`StoreError`], by which the message is
//! abandoned. That includes a store that is full: it forgets nothing early.
//!
//! When the handler has answered `Complete` and the commit fails, the answer stays `Complete`, for an abandoned message
//! would be handled again. It is counted and logged. The id is lost: a redelivered message is handled again after the
//! lease.
//!
//! A call that is dropped, or panics, forgets on the way out. If the store takes time for that and there is no tokio
//! runtime at hand, the end of the lease does it. A call that is dropped during its commit has it finished in the same way.
//!
//! What a handler does happens once as long as the process lives, polls it, and reaches the store. If a process dies
//! between an effect of the handler and the commit, that effect happens again when the message is redelivered after the
//! lease. An effect in the same transaction as the commit does not. That takes a store in the database that the handler
//! writes to, such as the crate `consign-dedup-postgres`.
//!
//! # Order
//!
//! Inside of lock renewal and expiry, outside of whatever reads the body. Inside of every layer that answers `Complete`
//! for a message that was not handled, as a retry does which sends it again for later: outside of it the first attempt
//! would be committed, and the next one dropped as its duplicate.
//!
//! The service inside is made ready when the id is reserved, not before: a message that waits takes no permit of a
//! concurrency limit inside. So a limit, a buffer or a circuit breaker inside does not hold the consumer back before it
//! receives; put these outside. If the service inside fails to become ready, the call fails with that error. The next
//! readiness of this layer is that of the service inside, by which a consumer ends.
//!
//! # Cost
//!
//! A message costs more here than in any other layer: its key is hashed, the store is called twice, and the future of
//! the call is boxed, one allocation. With a store in memory a duplicate costs less than a new message, and how many
//! ids are known makes no difference. With a store in a file each message waits for the disk; those in hand at once
//! wait together. Counted in the table *Layers* of `docs/benchmarks.md`.

mod error;
mod key;
mod memory;
mod reservation;
mod service;
mod stats;
mod store;

pub use self::{
    error::{StoreError, StoreErrorKind},
    key::{BodyBytes, Key, MakeKey, OriginalMessageId},
    memory::{MemoryStore, MemoryToken},
    service::{CompleteDuplicates, Dedup, DedupLayer, ResponseFuture},
    stats::DedupStats,
    store::{Begin, DedupStore},
};
