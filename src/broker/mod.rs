//! The embedded broker: queues and topics with peek-lock, sessions, scheduling, expiry, duplicate detection, rules,
//! forwarding, transactions and dead letters, in this process and in memory.
//!
//! It is a transport like any other, and the default. Nothing in it runs by itself: what is due, such as a lock that
//! runs out, is applied by the next call that could notice, and a receiver that waits has a timer for it.
//!
//! ```
//! use consign::{
//!     Message,
//!     broker::{Broker, QueueSettings},
//!     transport::{ReceiverExt, Sender},
//! };
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

mod acknowledged;
mod admin;
#[cfg(feature = "durable")]
mod durable;
mod engine;
mod lease;
#[cfg(feature = "durable")]
mod lines;
mod namespace;
mod panics;
mod queue;
mod receiver;
mod rejection;
#[cfg(feature = "durable")]
mod sabotage;
mod sender;
mod session;
mod settings;
mod snapshot;
mod topic;
mod transaction;
mod wait;
mod waiters;

use std::{fmt, sync::Arc};

use self::namespace::Namespace;
pub use self::{
    acknowledged::Acknowledged,
    admin::{EntityInfo, EntityKind},
    engine::{Ages, Counts},
    lease::QueueLease,
    queue::Queue,
    receiver::{QueueReceiver, ReceiveMode},
    sender::QueueSender,
    session::{SessionAcceptor, SessionReceiver},
    settings::{QueueSettings, Quirks, Status, SubscriptionSettings, TopicSettings},
    snapshot::{BrokerSnapshot, EntitySnapshot},
    topic::{Subscription, Topic},
    transaction::{Committed, Transaction, TransactionError},
};
#[cfg(feature = "durable")]
pub use self::{
    durable::{Durability, OpenOptions, Recovery, Salvage, StorageError, StorageErrorKind},
    lines::ImportError,
};
use crate::{
    time::{Clock, SystemClock},
    transport::{Capabilities, Capability, Level},
};

/// A broker in this process. Clones are handles to one broker.
///
/// All of its entities share one lock, so that what concerns several happens in one step. Brokers share nothing: entities
/// that have nothing to do with each other and are busy on many cores are better kept in several.
#[derive(Clone)]
pub struct Broker {
    namespace: Arc<Namespace>,
}

impl Broker {
    /// What a broker can do unless it was opened otherwise: [`Broker::capabilities`]. Two capabilities are made of others:
    /// a delayed retry is a copy for later and a completion in one transaction, and request and reply takes two queues.
    /// One is unsupported: a delivery that is dropped is abandoned and counts, also when its receiver is dropped with it.
    /// To return a message uncounted, call [`release`](crate::transport::Lease::release).
    pub const CAPABILITIES: Capabilities = Capabilities::all(Level::Native)
        .with(Capability::DelayedRetry, Level::Emulated)
        .with(Capability::RequestReply, Level::Emulated)
        .with(Capability::ReleaseOnDisconnect, Level::Unsupported);

    /// What this one can do: [`Broker::CAPABILITIES`], but that a send ends before the message is stored
    /// ([`Capability::Acceptance`]) where the store was opened with a relaxed durability. In memory a message is stored as
    /// long as the process lives.
    ///
    /// A program that must not lose what it was told is stored asks for it, and gets an error before it sends anything:
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

    /// An empty broker on the [`SystemClock`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }

    /// An empty broker on a clock of your own.
    #[must_use]
    pub fn with_clock(clock: impl Clock) -> Self {
        Self::with_quirks(clock, Quirks::default())
    }

    /// An empty broker that does some things as the hosted service does.
    #[must_use]
    pub fn with_quirks(clock: impl Clock, quirks: Quirks) -> Self {
        Self { namespace: Arc::new(Namespace::new(Arc::new(clock), quirks)) }
    }

    /// Opens the broker in the folder at `path`, or creates it there, with the defaults of [`OpenOptions`].
    #[cfg(feature = "durable")]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self, StorageError> {
        Self::options().open(path)
    }

    /// How a broker on a disk is to be opened.
    #[cfg(feature = "durable")]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Waits until everything that has happened is on the disk, also what nobody waits for, such as the creation of an
    /// entity. Errors: the disk failed, or the broker was closed. Of a broker in memory it is ready at once.
    #[cfg(feature = "durable")]
    pub fn flush(&self) -> Acknowledged<(), StorageError> {
        self.namespace.flushed()
    }

    /// Writes what there is to write, lets go of the store, and ends: every later call fails, and every lease is lost.
    /// When the last handle of a broker is dropped the same happens, but nobody can tell when the store is free again. Of a
    /// broker in memory it does nothing.
    ///
    /// A consumer is to be ended before: what it has settled is on the disk then, and what it had locked is free. One that
    /// still runs ends with an error, and its messages come again when the broker is opened.
    ///
    /// Errors: the disk failed before.
    #[cfg(feature = "durable")]
    pub async fn close(&self) -> Result<(), StorageError> {
        self.namespace.close().await
    }

    /// When it answers; `None` in memory, where nothing outlives the process.
    #[cfg(feature = "durable")]
    #[must_use]
    pub fn durability(&self) -> Option<Durability> {
        self.namespace.recorder().map(durable::Recorder::durability)
    }

    /// What was found when this broker was opened; `None` in memory.
    #[cfg(feature = "durable")]
    #[must_use]
    pub fn recovery(&self) -> Option<Recovery> {
        self.namespace.recorder().map(durable::Recorder::recovery)
    }

    /// Begins a transaction.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.namespace))
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
