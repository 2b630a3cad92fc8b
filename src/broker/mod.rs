//! The embedded broker: queues with peek-lock, deferral, expiry and dead letters, in this process and in memory.
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

mod engine;
mod lease;
mod queue;
mod receiver;
mod sender;
mod settings;
mod waiters;

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::RwLock;

pub use self::{
    engine::Counts,
    lease::QueueLease,
    queue::Queue,
    receiver::{QueueReceiver, ReceiveMode},
    sender::QueueSender,
    settings::QueueSettings,
};
use self::{engine::Part, queue::Shared};
use crate::{
    message::EntityPath,
    time::{Clock, SystemClock},
    transport::{ErrorKind, ManageError},
};

/// A broker in this process. Clones are handles to one broker.
#[derive(Clone)]
pub struct Broker {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    entities: RwLock<HashMap<Box<str>, Arc<Shared>>>,
}

impl Broker {
    /// Most entities of one broker.
    pub const MAX_ENTITIES: usize = 10_000;

    /// An empty broker on the [`SystemClock`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }

    /// An empty broker on a clock of your own.
    #[must_use]
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { inner: Arc::new(Inner { clock: Arc::new(clock), entities: RwLock::default() }) }
    }

    /// Creates a queue. Errors: [`InvalidArgument`](ErrorKind::InvalidArgument) for a path or a setting that breaks a
    /// rule, [`AlreadyExists`](ErrorKind::AlreadyExists), [`QuotaExceeded`](ErrorKind::QuotaExceeded) beyond
    /// [`Broker::MAX_ENTITIES`].
    pub fn create_queue(&self, path: &str, settings: QueueSettings) -> Result<Queue, ManageError> {
        let path = EntityPath::new(path)?;
        settings.check()?;
        if path.is_dead_letter() {
            let detail = "a dead-letter sub-queue comes with its queue";
            return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail));
        }
        let mut entities = self.inner.entities.write();
        if entities.contains_key(&path.key()) {
            return Err(ManageError::new(ErrorKind::AlreadyExists).with_detail(path.to_string()));
        }
        if entities.len() >= Self::MAX_ENTITIES {
            let detail = format!("at most {} entities", Self::MAX_ENTITIES);
            return Err(ManageError::new(ErrorKind::QuotaExceeded).with_detail(detail));
        }
        let key = path.key();
        let shared = Arc::new(Shared::new(path, Arc::clone(&self.inner.clock), settings));
        entities.insert(key, Arc::clone(&shared));
        Ok(Queue { shared, part: Part::Main })
    }

    /// The queue, or the dead-letter sub-queue, at `path`; case does not matter. Errors:
    /// [`InvalidArgument`](ErrorKind::InvalidArgument), [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub fn queue(&self, path: &str) -> Result<Queue, ManageError> {
        let path = EntityPath::new(path)?;
        let entities = self.inner.entities.read();
        match entities.get(&path.parent().key()) {
            Some(shared) => {
                let part = if path.is_dead_letter() { Part::DeadLetter } else { Part::Main };
                Ok(Queue { shared: Arc::clone(shared), part })
            }
            None => Err(ManageError::new(ErrorKind::EntityNotFound).with_detail(path.to_string())),
        }
    }
}

impl Default for Broker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("entities", &self.inner.entities.read().len()).finish_non_exhaustive()
    }
}
