//! A layer that handles messages of one key one at a time and in their order, and messages of different keys at once.
//!
//! ```
//! use consign::{
//!     Disposition, Message,
//!     administration::QueueSettings,
//!     broker::Broker,
//!     consumer::Consumer,
//!     middleware::partition::PartitionLayer,
//! };
//! use tower::{BoxError, ServiceBuilder, service_fn};
//!
//! # fn run() -> Result<(), BoxError> {
//! let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
//! let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
//!
//! // 16 handlers run at once. 48 further messages may wait for the handler of their key.
//! let stack = ServiceBuilder::new().layer(PartitionLayer::by_partition_key().concurrency(16)).service(handler);
//! let consumer = Consumer::new(queue.receiver(), stack).concurrency(64);
//! # drop(consumer);
//! # Ok(())
//! # }
//! # run().unwrap();
//! ```
//!
//! The [concurrency of the consumer](crate::consumer::Consumer::concurrency) is the buffer: so many messages are locked at
//! once, and those that wait for their key take a slot. The locks of waiting messages are renewed: set
//! [`renew_for`](crate::consumer::Consumer::renew_for) to more than the longest wait and the handler take together. A slow key does not delay
//! others until its messages fill all slots; then the consumer receives when one of them has ended. So memory is bounded,
//! and no message overtakes another one of its key.
//!
//! # Keys
//!
//! [`by_partition_key`](PartitionLayer::by_partition_key), [`by_session_id`](PartitionLayer::by_session_id), or
//! [`by`](PartitionLayer::by) a closure. A message without a key waits for no other. The layer keeps a hash of 64 bits, with
//! a random seed. Two keys with the same hash, which are as rare as one pair in 2^64, are handled as one key.
//!
//! # Failure
//!
//! The layer has no failure of its own. A call that is dropped while it waits, or while its handler runs, lets the next
//! message of its key start. Around [`SpawnLayer`](crate::middleware::spawn), the handler of such a call runs in its task until its
//! next `await`, so the next one may begin before it has ended. If the inner service fails to become ready, the call returns that error, and not `poll_ready`.
//!
//! A message that fails is redelivered after the messages of its key that are here already. Where the order has to survive
//! failures, retry [at once](crate::middleware::retry) inside of this layer, with a circuit breaker outside of both, or use
//! [sessions](crate::consumer::SessionConsumer). The order is that of one consumer: several consumers of one queue each
//! have keys of their own.
//!
//! # Order
//!
//! Outside of the layers that should run one at a time, and inside of those whose time includes the wait. A timeout outside
//! of it includes the wait, one inside does not. Inside of duplicate detection, a duplicate does not wait, but a message whose id is being
//! handled elsewhere is handled after later ones of its key. Inside of
//! [`ExpiryLayer`](crate::middleware::expiry), which knows the lock of the delivery and not its renewals, and of
//! [`LockRenewalLayer`](crate::middleware::lock_renewal).
//!
//! A message with a key whose id is being [handled elsewhere](crate::middleware::dedup) waits in its slot for at most
//! [`DedupLayer::WAIT`](crate::middleware::dedup::DedupLayer::WAIT), and the messages of its key wait behind it. The consumer does not
//! [hold](crate::consumer::Consumer::max_held) it outside of the slots.
//!
//! The layer is always ready, and makes the inner service ready in the call. So a
//! [circuit breaker](crate::middleware::circuit_breaker) inside does not stop the consumer from receiving: messages fill the slots
//! until they lose their locks, which counts deliveries. Put a circuit breaker outside.
//!
//! # Cost
//!
//! A mutex is taken twice for each message, one small allocation is made, and the inner service is cloned.

mod place;
mod service;
mod turns;

use std::{
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    sync::Arc,
};

use tower_layer::Layer;

use self::{service::Partition, turns::Turns};
use crate::{
    Message,
    pipeline::{Describe, LayerInfo, Side},
};

/// The hash of the key of a message.
type KeyHash = dyn Fn(&Message) -> Option<u64> + Send + Sync;

/// A layer that handles messages of one key one at a time; see the [module](self). All services and clones of one layer
/// share the keys.
#[derive(Clone)]
pub struct PartitionLayer {
    name: &'static str,
    key: Arc<KeyHash>,
    concurrency: Option<usize>,
    turns: Arc<Turns>,
}

impl PartitionLayer {
    /// One at a time for each [`PartitionKey`](crate::message::Properties::partition_key).
    #[must_use]
    pub fn by_partition_key() -> Self {
        let state = RandomState::new();
        Self::new("PartitionKey", move |message| message.partition_key().map(|key| state.hash_one(key)))
    }

    /// One at a time for each [`SessionId`](crate::message::Properties::session_id). For an entity that requires sessions
    /// use a [`SessionConsumer`](crate::consumer::SessionConsumer).
    #[must_use]
    pub fn by_session_id() -> Self {
        let state = RandomState::new();
        Self::new("SessionId", move |message| message.session_id().map(|key| state.hash_one(key)))
    }

    /// One at a time for each key that `key` returns. A message for which it returns `None` waits for no other.
    ///
    /// ```
    /// use consign::{Message, middleware::partition::PartitionLayer};
    ///
    /// let by_subject = PartitionLayer::by(|message: &Message| message.subject().map(str::to_owned));
    /// # drop(by_subject);
    /// ```
    #[must_use]
    pub fn by<K: Hash>(key: impl Fn(&Message) -> Option<K> + Send + Sync + 'static) -> Self {
        let state = RandomState::new();
        Self::new("closure", move |message| key(message).map(|key| state.hash_one(key)))
    }

    fn new(name: &'static str, key: impl Fn(&Message) -> Option<u64> + Send + Sync + 'static) -> Self {
        Self { name, key: Arc::new(key), concurrency: None, turns: Arc::new(Turns::new(usize::MAX)) }
    }

    /// Sets how many messages are handled at once, of all keys together: by default as many as the consumer has slots. 0
    /// counts as 1. Messages that may start do so in the order of their arrival.
    #[must_use]
    pub fn concurrency(mut self, messages: usize) -> Self {
        let messages = messages.max(1);
        self.concurrency = Some(messages);
        self.turns = Arc::new(Turns::new(messages));
        self
    }
}

impl<S> Layer<S> for PartitionLayer {
    type Service = Partition<S>;

    fn layer(&self, inner: S) -> Partition<S> {
        Partition { inner, key: Arc::clone(&self.key), turns: Arc::clone(&self.turns) }
    }
}

impl Describe for PartitionLayer {
    fn info(&self) -> LayerInfo {
        let info = LayerInfo::new("partition")
            .only(Side::Receiving)
            .once()
            .setting("by", self.name)
            .inside_of("expiry", "a lock that was renewed while the message waited counts as lost")
            .inside_of("lock_renewal", "the lock of a message that waits is not renewed");
        match self.concurrency {
            Some(concurrency) => info.setting("concurrency", concurrency),
            None => info,
        }
    }
}

impl fmt::Debug for PartitionLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionLayer")
            .field("by", &self.name)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
