//! A layer that keeps messages from the handler if they have expired, or if their lock has run out.
//!
//! The lock of a message runs while the message waits in a buffer of a client or of the stack. If the handler ran after
//! that, it would run twice, because the message is redelivered.
//!
//! ```
//! use std::time::Duration;
//! use consign::{
//!     Disposition, Message,
//!     message::{Received, SequenceNumber},
//!     middleware::expiry::{ExpiryLayer, LockExpired},
//!     time::{Clock, SystemClock},
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let clock = SystemClock::new();
//! let now = clock.now().utc;
//! let expiry = ExpiryLayer::new(clock);
//! let stack = ServiceBuilder::new()
//!     .layer(&expiry)
//!     .service(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
//!
//! let mut received = Received::new(SequenceNumber::new(1), now, 1);
//! received.locked_until = Some(now.saturating_add(Duration::from_secs(30)));
//! tokio::time::advance(Duration::from_secs(30)).await;
//! let error = stack.oneshot(Message::new("late").with_received(received)).await.unwrap_err();
//! assert!(error.is::<LockExpired>());
//! assert_eq!(expiry.counts().locks(), 1);
//! # }
//! ```
//!
//! # Failure
//!
//! For a message whose lock has run out the call returns [`LockExpired`], because it cannot be settled. For a message that
//! has expired it returns [`Disposition::ABANDON`](crate::Disposition::ABANDON), so that the broker applies its rule for expired messages at once.
//! Neither reaches the inner service, and [`ExpiryLayer::counts`] counts both. Messages in a dead-letter sub-queue do not
//! expire.
//!
//! The times are the broker's, and the clock is that of this process: they should differ by a small part of the lock
//! duration only.
//!
//! # Signed and encrypted messages
//!
//! The time to live, and all properties that the broker sets, are not authenticated.
//!
//! # Order
//!
//! Directly outside of the first layer that does work, and inside of every layer that may make a message wait, except
//! [`PartitionLayer`](crate::middleware::partition): the lock of a message that waits for its key is renewed, and this layer
//! knows only the time until which the delivery was locked.
//!
//! # Cost
//!
//! The clock is read once for each message, which may cost more than the rest. Nothing is allocated. The table *Layers* of
//! `docs/benchmarks.md` has the figures.

mod service;

use std::{
    error, fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tower_layer::Layer;

use self::service::Expiry;
use crate::{Message, time::Clock};

/// A layer that keeps expired messages and lost locks from the handler; see the [module](self). All of them count together.
pub struct ExpiryLayer<C> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    clock: C,
    counts: ExpiryCounts,
}

/// The counts of messages that were not passed on.
#[derive(Debug, Default)]
pub struct ExpiryCounts {
    locks: AtomicU64,
    messages: AtomicU64,
}

impl ExpiryCounts {
    /// Messages whose lock had run out.
    #[must_use]
    pub fn locks(&self) -> u64 {
        self.locks.load(Ordering::Relaxed)
    }

    /// Messages that had expired under a lock that held.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }
}

impl<C: Clock> ExpiryLayer<C> {
    /// Compares with the time of `clock`.
    #[must_use]
    pub fn new(clock: C) -> Self {
        Self { shared: Arc::new(Shared { clock, counts: ExpiryCounts::default() }) }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> &ExpiryCounts {
        &self.shared.counts
    }
}

impl<C> Clone for ExpiryLayer<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C> fmt::Debug for ExpiryLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpiryLayer").field("counts", &self.shared.counts).finish_non_exhaustive()
    }
}

impl<S, C> Layer<S> for ExpiryLayer<C> {
    type Service = Expiry<S, C>;

    fn layer(&self, inner: S) -> Expiry<S, C> {
        Expiry { inner, shared: Arc::clone(&self.shared) }
    }
}

impl<C: Clock> Shared<C> {
    fn check(&self, message: &Message) -> Verdict {
        let Some(received) = message.received() else { return Verdict::InTime };
        let now = self.clock.now().utc;
        if received.locked_until.is_some_and(|until| until <= now) {
            self.counts.locks.fetch_add(1, Ordering::Relaxed);
            return Verdict::LockExpired;
        }
        // The largest instant stands for never.
        let expires = !received.dead_lettered && received.expires_at < crate::time::Timestamp::MAX;
        if expires && received.expires_at <= now {
            self.counts.messages.fetch_add(1, Ordering::Relaxed);
            return Verdict::MessageExpired;
        }
        Verdict::InTime
    }
}

enum Verdict {
    InTime,
    LockExpired,
    MessageExpired,
}

/// The lock of a message had run out before a handler saw it. The message will be, or has been, delivered again.
#[derive(Debug)]
pub struct LockExpired(());

impl fmt::Display for LockExpired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lock of the message ran out before it was handled")
    }
}

impl error::Error for LockExpired {}
