use std::{path::Path, sync::Arc, time::Duration};

use super::StorageError;
use crate::{
    broker::{Broker, Quirks},
    time::{Clock, SystemClock},
};

/// When a broker on a disk answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// When what was done is on the disk: it outlives the process and the power of the machine.
    #[default]
    Durable,
    /// At once. What was done is on the disk within `max_delay`; until then it is lost with the process.
    /// [`Broker::capabilities`] has no [`Acceptance`](crate::transport::Capability::Acceptance) then, and a warning in the
    /// log says so each time that the store is opened.
    Relaxed {
        /// How long what was done may be in memory only.
        max_delay: Duration,
    },
}

/// How a broker on a disk is opened: [`Broker::options`].
///
/// ```no_run
/// use std::time::Duration;
/// use consign::broker::Broker;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let broker = Broker::options().group_delay(Duration::from_micros(200)).hold_locks(true).open("orders.store")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is opened before `open`"]
pub struct OpenOptions {
    pub(super) durability: Durability,
    pub(super) group_delay: Duration,
    pub(super) hold_locks: bool,
    pub(super) memory_budget: usize,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) quirks: Quirks,
}

impl OpenOptions {
    /// How many bytes of messages are kept in memory by default, beside those that are on their way: 64 MiB.
    pub const MEMORY_BUDGET: usize = 64 << 20;

    pub(in crate::broker) fn new() -> Self {
        Self {
            durability: Durability::Durable,
            group_delay: Duration::ZERO,
            hold_locks: false,
            memory_budget: Self::MEMORY_BUDGET,
            clock: Arc::new(SystemClock::new()),
            quirks: Quirks::default(),
        }
    }

    /// When the broker answers. By default when what was done is on the disk.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long what is done comes together before it is written. By default not at all: what comes while a batch is being
    /// written is the next one. A longer delay costs each answer so much, and the disk fewer writes. What is more than 8 MiB
    /// of messages is written without delay, also under a relaxed durability.
    pub fn group_delay(mut self, delay: Duration) -> Self {
        self.group_delay = delay;
        self
    }

    /// Whether locks are written too, so that those of an earlier process hold until their time is over, as far as they had
    /// reached the disk: for receivers that go on without this process. Nobody can settle them; when they end the delivery
    /// has failed. By default they are released when the broker is opened, without a count. Locks of sessions are released
    /// in any case.
    pub fn hold_locks(mut self, hold: bool) -> Self {
        self.hold_locks = hold;
        self
    }

    /// How many bytes of messages are kept in memory, beside those that are on their way. What waits beyond that is on the
    /// disk only, and about 120 bytes of each message in memory; it is read again as receivers come near it. Messages that
    /// are locked, deferred or scheduled stay in memory.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = bytes;
        self
    }

    /// Takes the time from `clock`, by default from a [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Does some things as the hosted service does.
    pub fn quirks(mut self, quirks: Quirks) -> Self {
        self.quirks = quirks;
        self
    }

    /// Opens the store in the folder at `path`, or creates it: a folder for this broker alone. Blocks until every message
    /// that is there is known, and starts the thread that writes.
    ///
    /// Errors, by [`StorageErrorKind`](super::StorageErrorKind): `InUse`, `NewerFormat`, `NotAStore`, `Corrupted`, `Full`
    /// and `Failed`.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Broker, StorageError> {
        super::open::open(&self, path.as_ref())
    }
}

impl std::fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenOptions")
            .field("durability", &self.durability)
            .field("group_delay", &self.group_delay)
            .field("hold_locks", &self.hold_locks)
            .finish_non_exhaustive()
    }
}
