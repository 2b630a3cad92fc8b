//! The health of a consumer, for people and for probes.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
};

use serde::Serialize;

use super::stats::Stats;
use crate::transport::ErrorKind;

/// A live handle to the health of a consumer. Clones show the same, while the consumer runs and after it has
/// ended.
#[derive(Clone, Debug)]
pub struct Health {
    shared: Arc<Shared>,
    stats: Stats,
    /// A part of a consumer does not say what the whole of it is doing.
    is_whole: bool,
}

#[derive(Debug)]
struct Shared {
    slots: AtomicUsize,
    in_use: AtomicUsize,
    waiting: AtomicUsize,
    state: AtomicU8,
    last: Mutex<Option<ConsumerFailure>>,
}

/// The state of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ConsumerState {
    /// It was not polled yet.
    New,
    /// It receives and handles.
    Running,
    /// It has stopped receiving, and waits for handlers and settlements.
    Draining,
    /// It has ended, or was dropped.
    Ended,
    /// It receives nothing until it is [resumed](super::ConsumerControl::resume). Handlers may still run.
    Paused,
}

/// The last failure of a consumer. The kind is [`ServiceTimeout`](ErrorKind::ServiceTimeout) where the broker did not
/// answer within the operation timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConsumerFailure {
    /// A call of the stack answered with an error.
    Handler,
    /// A call of the stack panicked.
    Panic,
    /// The stack did not become ready, and never will.
    Stack,
    /// Receiving, or accepting a session, failed.
    Receive(ErrorKind),
    /// A lock was lost before its message was settled.
    LockLost,
    /// A settlement or a release failed.
    Settle(ErrorKind),
    /// The lock of a message or a session was not renewed. A session whose lock is not renewed
    /// is released.
    Renew(ErrorKind),
    /// A session was not closed.
    Close(ErrorKind),
}

/// The health of a consumer at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConsumerSnapshot {
    /// The state of the consumer.
    pub state: ConsumerState,
    /// How many messages it can handle at once; sessions, where it works through those.
    pub slots: usize,
    /// In how many of them a handler runs, or its message is being settled.
    pub in_use: usize,
    /// Messages that were received and wait for a slot, and those that are held outside of the slots.
    pub waiting: usize,
    /// Messages that were dispatched to the stack.
    pub handled: u64,
    /// Messages that were completed.
    pub completed: u64,
    /// Messages that were abandoned.
    pub abandoned: u64,
    /// Messages that were dead-lettered.
    pub dead_lettered: u64,
    /// Messages that were deferred.
    pub deferred: u64,
    /// Operations of the transport that were not answered in time: [`Stats::timed_out`].
    pub timed_out: u64,
    /// The last failure, if there was one.
    pub last_failure: Option<ConsumerFailure>,
}

/// What one run adds to the handle, which several may share.
#[derive(Debug, Default)]
pub(super) struct Share {
    in_use: usize,
    waiting: usize,
}

impl Health {
    pub(super) fn new(slots: usize, stats: Stats) -> Self {
        let shared = Shared {
            slots: AtomicUsize::new(slots),
            in_use: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            state: AtomicU8::new(ConsumerState::New as u8),
            last: Mutex::new(None),
        };
        Self { shared: Arc::new(shared), stats, is_whole: true }
    }

    /// For one session of a consumer.
    pub(super) fn of_part(&self) -> Self {
        Self { is_whole: false, ..self.clone() }
    }

    pub(super) fn set_slots(&self, slots: usize) {
        self.shared.slots.store(slots, Ordering::Relaxed);
    }

    /// Publishes a run's slots in use, and the messages that it has received and not
    /// dispatched.
    #[inline]
    pub(super) fn show(&self, share: &mut Share, in_use: usize, waiting: usize) {
        // Wrapping: what is added where it is less is taken away.
        if share.in_use != in_use {
            self.shared.in_use.fetch_add(in_use.wrapping_sub(share.in_use), Ordering::Relaxed);
            share.in_use = in_use;
        }
        if share.waiting != waiting {
            self.shared.waiting.fetch_add(waiting.wrapping_sub(share.waiting), Ordering::Relaxed);
            share.waiting = waiting;
        }
    }

    #[inline]
    pub(super) fn is(&self, state: ConsumerState) {
        if self.is_whole && self.shared.state.load(Ordering::Relaxed) != state as u8 {
            self.shared.state.store(state as u8, Ordering::Relaxed);
        }
    }

    #[cold]
    pub(super) fn failed(&self, failure: ConsumerFailure) {
        *self.shared.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    /// Returns the current health of the consumer. It does not block; numbers that change at once may be read one after
    /// the other.
    #[must_use]
    pub fn snapshot(&self) -> ConsumerSnapshot {
        let stats = &self.stats;
        let state = match self.shared.state.load(Ordering::Relaxed) {
            0 => ConsumerState::New,
            1 => ConsumerState::Running,
            2 => ConsumerState::Draining,
            4 => ConsumerState::Paused,
            _ => ConsumerState::Ended,
        };
        ConsumerSnapshot {
            state,
            slots: self.shared.slots.load(Ordering::Relaxed),
            in_use: self.shared.in_use.load(Ordering::Relaxed),
            waiting: self.shared.waiting.load(Ordering::Relaxed),
            handled: stats.handled(),
            completed: stats.completed(),
            abandoned: stats.abandoned(),
            dead_lettered: stats.dead_lettered(),
            deferred: stats.deferred(),
            timed_out: stats.timed_out(),
            last_failure: *self.shared.last.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl fmt::Display for ConsumerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "new",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Ended => "ended",
            Self::Paused => "paused",
        })
    }
}

impl fmt::Display for ConsumerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler => f.write_str("handler"),
            Self::Panic => f.write_str("panic"),
            Self::Stack => f.write_str("stack"),
            Self::Receive(kind) => write!(f, "receive: {kind:?}"),
            Self::LockLost => f.write_str("lock lost"),
            Self::Settle(kind) => write!(f, "settle: {kind:?}"),
            Self::Renew(kind) => write!(f, "renew: {kind:?}"),
            Self::Close(kind) => write!(f, "close: {kind:?}"),
        }
    }
}

/// As its text.
impl Serialize for ConsumerFailure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One line.
impl fmt::Display for ConsumerSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, slots, in_use, waiting, .. } = self;
        write!(f, "{state}, {in_use} of {slots} slots, {waiting} waiting, {} handled", self.handled)?;
        write!(f, ", {} completed, {} abandoned", self.completed, self.abandoned)?;
        write!(f, ", {} dead-lettered, {} deferred", self.dead_lettered, self.deferred)?;
        if self.timed_out > 0 {
            write!(f, ", {} timed out", self.timed_out)?;
        }
        match &self.last_failure {
            Some(failure) => write!(f, ", last failure {failure}"),
            None => f.write_str(", no failure"),
        }
    }
}
