//! The embedded broker: queues and topics with peek-lock, sessions, scheduling, expiry, duplicate detection, rules,
//! forwarding, transactions and dead letters, in this process. It stores messages in memory or, with the feature `durable`,
//! on a disk.
//!
//! The broker implements the traits of a transport. In memory it has no thread: the next call applies events that are due, such
//! as a lock that has run out. While receivers wait, a timer of tokio applies them.
//!
//! ```
//! use consign::{Message, administration::QueueSettings, broker::Broker, transport::{ReceiverExt, Sender}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let broker = Broker::new();
//! let orders = broker.create_queue("orders", QueueSettings::default())?;
//! orders.sender()?.send(Message::new("one order")).await?;
//!
//! let delivery = orders.receiver().receive().await?;
//! assert_eq!(delivery.message.payload(), Some(&b"one order"[..]));
//! delivery.complete().await?;
//! assert_eq!(orders.counts().active, 0);
//! # Ok(())
//! # }
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod acknowledged;
mod admin;
mod connector;
mod direct;
#[cfg(feature = "durable")]
mod durable;
mod engine;
mod lease;
#[cfg(feature = "durable")]
mod lines;
mod panics;
mod queue;
mod quirks;
mod receiver;
mod rejection;
#[cfg_attr(not(feature = "durable"), allow(dead_code, reason = "most defects are of the store"))]
mod sabotage;
mod sender;
mod session;
mod shared;
mod snapshot;
mod statistics;
mod sync;
mod timer;
mod topic;
mod transaction;
mod transport;
mod wait;
mod waiters;

use std::{fmt, sync::Arc};

use self::shared::Shared;
pub use self::{
    acknowledged::Acknowledged,
    connector::connector,
    engine::{Ages, Totals},
    lease::QueueLease,
    queue::Queue,
    quirks::{OnDisconnect, Quirks},
    receiver::QueueReceiver,
    sender::QueueSender,
    session::{SessionAcceptor, SessionReceiver},
    snapshot::{BrokerSnapshot, EntitySnapshot},
    statistics::EntityStatistics,
    topic::{Subscription, Topic},
    transaction::{Committed, Transaction, TransactionError},
};
use consign_core::{
    time::{Clock, SystemClock, Timestamp},
    transport::{Capabilities, Capability, Level},
};

#[cfg(feature = "durable")]
#[cfg_attr(docsrs, doc(cfg(feature = "durable")))]
pub use self::statistics::StoreStatistics;
#[cfg(feature = "durable")]
pub use self::{
    durable::{Durability, OpenOptions, Recovery, Salvage, StorageError, StorageErrorKind, json_lines},
    lines::ImportError,
};

/// A broker in this process. Clones are handles to one broker.
///
/// All of its entities share one lock, so that an operation on several entities is one step. Brokers share nothing.
/// Put unrelated entities that are busy on many cores into several brokers.
#[derive(Clone)]
pub struct Broker {
    shared: Arc<Shared>,
}

/// The capabilities of the engine itself.
const NATIVE: &[Capability] = &[
    Capability::Acceptance,
    Capability::Rejection,
    Capability::ReceiveAndDelete,
    Capability::PeekLock,
    Capability::LockDuration,
    Capability::LockRenewal,
    Capability::LockFencing,
    Capability::SettleElsewhere,
    Capability::DeliveryCount,
    Capability::MaxDeliveryCount,
    Capability::DeadLetterReason,
    Capability::DeadLetterIntact,
    Capability::TimeToLive,
    Capability::DeadLetterOnExpiration,
    Capability::Scheduling,
    Capability::CancelScheduled,
    Capability::SequenceNumbers,
    Capability::EnqueuedTime,
    Capability::Peek,
    Capability::Deferral,
    Capability::AbandonInPlace,
    Capability::Release,
    Capability::DuplicateDetection,
    Capability::Sessions,
    Capability::SessionState,
    Capability::NextSession,
    Capability::Topics,
    Capability::CorrelationFilters,
    Capability::SqlRules,
    Capability::AutoForward,
    Capability::Transactions,
    Capability::Prefetch,
    Capability::LargeMessages,
    Capability::Purge,
];

impl Broker {
    /// The capabilities of a broker unless it was opened otherwise: [`Broker::capabilities`]. Two capabilities are
    /// built from others: a delayed retry is a copy for later and a completion in one transaction, and request and
    /// reply takes two queues.
    ///
    /// One is unsupported: a delivery that is dropped is abandoned and counts, also when its receiver is dropped with
    /// it. To return a message uncounted, call [`release`](consign_core::transport::Lease::release).
    pub const CAPABILITIES: Capabilities = Capabilities::none()
        .with_each(NATIVE, Level::Native)
        .with_each(&[Capability::DelayedRetry, Capability::RequestReply], Level::Emulated);

    /// Returns the capabilities of this broker: [`Broker::CAPABILITIES`], with one exception. Where the store was
    /// opened with a relaxed durability, a send ends before the message is stored ([`Capability::Acceptance`]). In
    /// memory a message is stored as long as the process lives.
    ///
    /// A program that must not lose an acknowledged message requires it, and gets an error before it sends:
    ///
    /// ```
    /// # use consign::{broker::Broker, transport::{Capability, Unsupported}};
    /// # fn check(broker: &Broker) -> Result<(), Unsupported> {
    /// broker.capabilities().require(Capability::Acceptance)?;
    /// # Ok(())
    /// # }
    /// # check(&Broker::new()).unwrap();
    /// ```
    #[must_use]
    #[cfg_attr(not(feature = "durable"), allow(clippy::unused_self, reason = "as it is where there may be a disk"))]
    pub fn capabilities(&self) -> Capabilities {
        #[cfg(feature = "durable")]
        if matches!(self.durability(), Some(Durability::Relaxed { .. })) {
            return Self::CAPABILITIES.with(Capability::Acceptance, Level::Unsupported);
        }
        Self::CAPABILITIES
    }

    /// Creates an empty broker on the [`SystemClock`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }

    /// Creates an empty broker on a clock of your own.
    #[must_use]
    pub fn with_clock(clock: impl Clock) -> Self {
        Self::with_quirks(clock, Quirks::default())
    }

    /// Creates an empty broker that has some behaviours of the hosted service.
    #[must_use]
    pub fn with_quirks(clock: impl Clock, quirks: Quirks) -> Self {
        Self { shared: Arc::new(Shared::new(Arc::new(clock), quirks)) }
    }

    /// Opens the broker in the folder at `path`, or creates it there, with the defaults of [`OpenOptions`].
    #[cfg(feature = "durable")]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self, StorageError> {
        Self::options().open(path)
    }

    /// Returns the options to open a broker on a disk.
    #[cfg(feature = "durable")]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Waits until everything that has happened is on the disk, also calls that are not awaited, such as the creation
    /// of an entity. Errors: the disk failed, or the broker was closed. For a broker in memory it is ready at once.
    #[cfg(feature = "durable")]
    pub fn flush(&self) -> Acknowledged<(), StorageError> {
        self.shared.flushed()
    }

    /// Writes all pending changes, closes the store, and ends: every later call fails, and every lease is lost.
    /// Dropping the last handle of a broker does the same, but does not show when the store is free again. For a
    /// broker in memory it does nothing.
    ///
    /// End all consumers first: what a consumer has settled is then on the disk, and what it had locked is free. A
    /// consumer that still runs ends with an error, and its messages are redelivered when the broker is opened.
    ///
    /// Errors: the disk failed before. The store is closed then as well, and can be opened again.
    #[cfg(feature = "durable")]
    pub async fn close(&self) -> Result<(), StorageError> {
        self.shared.close().await
    }

    /// Returns when a call is acknowledged; `None` in memory, where nothing outlives the process.
    #[cfg(feature = "durable")]
    #[must_use]
    pub fn durability(&self) -> Option<Durability> {
        self.shared.recorder().map(durable::Recorder::durability)
    }

    /// Returns what was found when this broker was opened; `None` in memory.
    #[cfg(feature = "durable")]
    #[must_use]
    pub fn recovery(&self) -> Option<Recovery> {
        self.shared.recorder().map(durable::Recorder::recovery)
    }

    /// Returns the behaviours that it was created with.
    #[must_use]
    pub fn quirks(&self) -> Quirks {
        self.shared.with(|state| state.engine.quirks())
    }

    /// Returns the time by which messages expire and locks end. On a disk it never goes back, so it is ahead of the clock if UTC
    /// has stepped back. The time of a scheduled message is compared with the clock itself, [`Sender::clock`](consign_core::transport::Sender::clock).
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.now().utc
    }

    /// Begins a transaction.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.shared))
    }
}

impl Default for Broker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}
