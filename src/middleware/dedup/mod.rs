//! A layer that handles each message once, although it may be delivered more than once.
//!
//! A broker delivers at least once: a settlement is lost, a lock runs out, a sender sends again. This layer stores the ids
//! of handled messages, and completes a redelivered message without running the handler again. The id of a message is
//! *reserved* before the handler runs, for the time of a lease. It is *committed* when the handler has returned
//! [`Complete`](crate::Disposition::Complete), before the message is settled. After any other result it is *forgotten*, so
//! that the message is handled when it is redelivered.
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
//! A message whose key is known, in the scope of the layer. The key is
//! [`Properties::original_message_id`](crate::message::Properties::original_message_id), so that a retry and a
//! resubmission, which have new ids, are recognised by their first one. [`DedupLayer::key`] takes [`BodyBytes`] or a
//! closure instead. A message without a key is passed on, and counted. An id is known from its commit until the window of
//! the store has passed (exclusive). Duplicates do not extend the window.
//!
//! | the id is | result |
//! |---|---|
//! | unknown, or its window or lease has ended | it is reserved, and the message is passed on |
//! | committed | [`Complete`](crate::Disposition::Complete) at once, or the result of [`DedupLayer::on_duplicate`]; counted |
//! | reserved: the message is being handled elsewhere | the message waits, see below |
//!
//! | the inner service | the id |
//! |---|---|
//! | returns `Complete` | is committed, then the call returns |
//! | returns `Abandon` | is forgotten, then the call returns |
//! | returns `Defer` | is forgotten: the message will be received by its number, and handled then |
//! | returns `DeadLetter` | is forgotten: the message may be resubmitted, and is handled then |
//! | fails, panics, or is dropped with the call | is forgotten |
//!
//! # Messages that are being handled elsewhere
//!
//! Such a message waits until the other handler has ended. If that completed its message, the message is completed,
//! otherwise it is handled. Waiting does not count as a delivery.
//!
//! | receive loop | behaviour |
//! |---|---|
//! | a [`Consumer`](crate::consumer::Consumer) | It holds the message without a slot, renews its lock, and calls the stack again after 0.1 to 2 seconds, or when the lease ends. There is no time limit. It holds at most 256 messages: see [`Consumer::max_held`](crate::consumer::Consumer::max_held), also for further ones. |
//! | a [`SessionConsumer`](crate::consumer::SessionConsumer), or `max_held(0)` | The call waits in its slot for at most [`DedupLayer::WAIT`]; then the message is abandoned. Later messages of the session wait behind it. |
//! | a [`Consumer`](crate::consumer::Consumer), inside of [`PartitionLayer`](super::partition::PartitionLayer) | The same for a message with a key: later messages of its key wait behind it. |
//! | your own | The same: the future of the call waits. The inner service is not kept ready meanwhile. |
//!
//! A consumer recognises that this layer has abandoned the message. Outer layers return the abandon unchanged: retries and
//! the circuit breaker do not treat it as a failure. If your own layer replaces it by another result, a delivery is
//! counted. An outer timeout applies to each call, and not to the time that the consumer holds the message.
//!
//! # After a crash
//!
//! | time | default | |
//! |---|---|---|
//! | lease | 30 s ([`DedupLayer::lease`]) | After its last renewal, the ids of a process that was killed stay reserved for this time. With the store in a file they are free as soon as the file is opened again. |
//! | renewal | 15 s: half of the lease | While a handler runs. A failed renewal is tried again after an eighth of the lease. |
//! | next check of an id | at most 2 s | Also at the end of the lease. |
//!
//! So after a `kill -9` the messages that the process held are handled 15 to 30 seconds later. If the store does not report
//! how long a lease lasts, add at most 2 seconds. The broker has to redeliver them first, at once or when their locks end.
//! All other messages are handled at once. The example `kill` of `consign-store-postgres` prints both times: `cargo run -p
//! consign-store-postgres --example kill`.
//!
//! If the id is reserved elsewhere when a lease is renewed, the handler continues, because its effects cannot be undone.
//!
//! # Signed and encrypted messages
//!
//! [Signing](super::signing) and [encryption](super::encryption) authenticate the first MessageId, so a copy of a message
//! cannot get another key. However, this layer is outside of them, and uses ids before they are verified. A forged message
//! is dead-lettered, which forgets its id. A closure of [`DedupLayer::key`] that reads other properties may read forged
//! ones, unless the sender binds these.
//!
//! # Failure
//!
//! A message is never handled without a reservation. If the store cannot reserve, the layer tries again, in the slot of the
//! message, for [`DedupLayer::wait`]. Each failure is counted, and is a WARN line, at most 10 in a second for a scope. Then
//! the call fails with the [`StoreError`], and the message is abandoned. A store that is full fails too: it forgets no id
//! early.
//!
//! If the commit fails after the handler returned `Complete`, the call still returns `Complete`, because an abandoned
//! message would be handled again. The failure is counted and logged. The id is lost: a redelivered message is handled
//! again after the lease.
//!
//! A call that is dropped, or panics, forgets its id. If the store needs time for that and there is no tokio runtime, the
//! id is free at the end of the lease. If a call is dropped during its commit, the commit is completed in the same way.
//!
//! The effect of a handler happens once as long as the process lives, polls the call, and reaches the store. If a process
//! dies between an effect of the handler and the commit, the effect happens again when the message is redelivered after the
//! lease. An effect in the transaction of the commit does not. That takes a store in the database that the handler writes
//! to, such as the crate `consign-store-postgres`.
//!
//! # Order
//!
//! Inside of lock renewal and expiry, outside of layers that read the body. Inside of every layer that returns `Complete`
//! for a message that was not handled, such as a retry that sends a copy for later. If the layer were outside of retry, the
//! first attempt would be committed, and the copy dropped as a duplicate.
//!
//! The inner service is made ready when the id is reserved, not before: a message that waits takes no permit of an inner
//! concurrency limit. So a limit, a buffer or a circuit breaker inside does not stop the consumer from receiving; put these
//! outside. If the inner service fails to become ready, the call fails with that error. The next `poll_ready` of this layer
//! is that of the inner service, by which a consumer ends.
//!
//! # Cost
//!
//! This layer hashes the key and calls the store twice. With a store that [answers at once](DedupStore::IS_IMMEDIATE), as
//! [`MemoryStore`] does, `call` reserves the id of a new message and calls the inner service: nothing is allocated, and the
//! inner service is not cloned. With any other store, and for a duplicate, the future of the call is boxed and has a clone of
//! the inner service. With a store in memory a duplicate costs less than a new message, and the number of known ids makes no
//! difference. With a store in a file each message waits for the disk; concurrent messages wait together. The table
//! *Layers* of `docs/benchmarks.md` has the figures.

mod error;
#[cfg(all(test, shuttle))]
mod explored;
mod future;
mod handle;
mod ids;
mod key;
mod known;
mod layer;
mod memory;
mod reservation;
mod service;
mod sip;
mod slots;
mod stats;
mod store;
mod unhandled;

pub(crate) use self::unhandled::Unhandled;
pub use self::{
    error::{StoreError, StoreErrorKind},
    key::{BodyBytes, DedupKey, MakeKey, OriginalMessageId},
    layer::DedupLayer,
    memory::MemoryStore,
    stats::DedupStats,
    store::{Begin, DedupStore},
};
