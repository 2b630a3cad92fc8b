use std::{sync::Arc, time::Duration};

use consign_core::time::{Clock, SystemClock};

use crate::Quirks;

/// The durability of a broker on a disk: when it acknowledges a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// When its changes are on the disk: they survive a process crash and power loss.
    #[default]
    Durable,
    /// At once. Changes are on the disk within `max_delay`; until then a process crash loses them.
    /// [`Broker::capabilities`](crate::Broker::capabilities) then has no [`Acceptance`](consign_core::transport::Capability::Acceptance), and a warning
    /// is logged each time that the store is opened.
    Relaxed {
        /// How long changes may be in memory only.
        max_delay: Duration,
    },
}

/// The options to open a broker on a disk: [`Broker::options`](crate::Broker::options).
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
    /// Whether locks of an earlier process hold, although those of this one are not written.
    pub(super) keep_locks: bool,
    pub(super) memory_budget: usize,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) quirks: Quirks,
}

impl OpenOptions {
    /// The default of [`OpenOptions::memory_budget`]: 64 MiB.
    pub const MEMORY_BUDGET: usize = 64 << 20;

    pub(crate) fn new() -> Self {
        Self {
            durability: Durability::Durable,
            group_delay: Duration::ZERO,
            hold_locks: false,
            keep_locks: false,
            memory_budget: Self::MEMORY_BUDGET,
            clock: Arc::new(SystemClock::new()),
            quirks: Quirks::default(),
        }
    }

    /// Sets when the broker acknowledges a call. By default when its changes are on the disk.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how long changes are collected before they are written. By default not at all: changes during a write
    /// form the next batch. A longer delay adds its length to each acknowledgement, and saves disk writes. More than
    /// 8 MiB of messages is written without delay, also under a relaxed durability.
    pub fn group_delay(mut self, delay: Duration) -> Self {
        self.group_delay = delay;
        self
    }

    /// Sets whether locks are written too. Locks of an earlier process then hold until they run out, as far as they
    /// had reached the disk: for receivers that continue without this process. No receiver can settle those messages;
    /// when the locks end the delivery has failed.
    ///
    /// By default locks are released when the broker is opened, without a count. Locks of sessions are always
    /// released.
    pub fn hold_locks(mut self, hold: bool) -> Self {
        self.hold_locks = hold;
        self
    }

    /// Keeps locks that a process with [`hold_locks`](Self::hold_locks) has written, and writes none.
    pub(crate) fn keep_locks(self) -> Self {
        Self { keep_locks: true, ..self }
    }

    /// Sets how many bytes of messages are kept in memory, besides those in transit. Waiting messages beyond that are
    /// on the disk only, except for about 120 bytes each. They are read again as receivers come near them. Messages
    /// that are locked, deferred or scheduled stay in memory.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = bytes;
        self
    }

    /// Takes the time from `clock`, by default from a [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Enables some behaviours of the hosted service.
    pub fn quirks(mut self, quirks: Quirks) -> Self {
        self.quirks = quirks;
        self
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
