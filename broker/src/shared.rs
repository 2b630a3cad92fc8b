mod direct;
#[cfg(feature = "durable")]
mod on_disk;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

#[cfg(not(feature = "durable"))]
use super::Acknowledged;
use super::{
    Quirks,
    direct::Direct,
    engine::{Change, Engine, Now, Peeked, Source, StoreId, Ticks},
    panics::{self, Poisoned},
    timer::Timer,
    waiters::Waiters,
};
use consign_core::{
    Message,
    message::{LockToken, SequenceNumber},
    time::Clock,
    transport::{ManageError, ReceiveError},
};

#[cfg(feature = "durable")]
pub(super) use self::on_disk::{Next, Stamp};
#[cfg(feature = "durable")]
use super::durable::Recorder;
use crate::{sabotage::Defect, sync::Mutex};

/// The state of a broker behind one lock that is never held across an await.
pub(super) struct Shared {
    clock: Arc<dyn Clock>,
    /// The clock that the application passed. That of a broker on a disk may be ahead of it.
    #[cfg(feature = "durable")]
    user_clock: Arc<dyn Clock>,
    follows_tokio: bool,
    state: Mutex<State>,
    pub(super) timer: Timer,
    /// Makes the lock numbers of this broker unlike those of any other.
    locks: u128,
    has_direct: AtomicBool,
    /// Whether a call panicked within the engine.
    is_poisoned: AtomicBool,
    #[cfg(feature = "durable")]
    recorder: Option<Recorder>,
}

pub(super) struct State {
    pub(super) engine: Engine,
    pub(super) waiters: Waiters,
    direct: Direct,
    /// Engines in which a call panicked. They are dropped last, because the user may own what they hold.
    abandoned: Vec<Engine>,
}

impl Shared {
    pub(super) fn new(clock: Arc<dyn Clock>, quirks: Quirks) -> Self {
        let state = State::new(Engine::new(quirks));
        Self {
            follows_tokio: clock.follows_tokio(),
            #[cfg(feature = "durable")]
            user_clock: Arc::clone(&clock),
            clock,
            state: Mutex::new(state),
            timer: Timer::default(),
            locks: uuid::Uuid::new_v4().as_u128(),
            has_direct: AtomicBool::new(false),
            is_poisoned: AtomicBool::new(false),
            #[cfg(feature = "durable")]
            recorder: None,
        }
    }

    pub(super) fn lock_token(&self, lock: u64) -> LockToken {
        LockToken::from_bytes((self.locks ^ u128::from(lock)).to_be_bytes())
    }

    #[inline]
    pub(super) fn now(&self) -> Now {
        let mut now = self.clock.now();
        if Defect::ExpireByUtc.is_there() {
            now.elapsed = Duration::from_millis(now.utc.as_millis().max(0).cast_unsigned());
        }
        now.into()
    }

    /// Returns the clock that the times in messages follow.
    pub(super) fn user_clock(&self) -> Arc<dyn Clock> {
        #[cfg(feature = "durable")]
        let clock = &self.user_clock;
        #[cfg(not(feature = "durable"))]
        let clock = &self.clock;
        Arc::clone(clock)
    }

    /// Whether a timer of tokio that was set for an instant of this clock stays right.
    #[inline]
    pub(super) fn follows_tokio(&self) -> bool {
        self.follows_tokio
    }

    /// Returns the instant to set the timer for. `None` if nothing is due that a receiver waits for.
    pub(super) fn arm_timer(&self) -> Option<Ticks> {
        let State { engine, waiters, .. } = &mut *self.state.lock();
        waiters.arm_timer(engine.next_deadline())
    }

    /// Runs a command on the engine and wakes the receivers that its effects concern. Wakers and the drop of a
    /// message run the user's code, so these run outside the lock.
    ///
    /// If the command panics, its changes are incomplete. No other call sees them, and every later call fails.
    #[inline]
    pub(super) fn with<T>(&self, command: impl FnOnce(&mut State) -> T) -> T {
        self.apply::<false, T>(command)
    }

    /// As [`with`](Self::with), for a call that [`acknowledge`](Self::acknowledge) or
    /// [`unanswered`](Self::unanswered) follows: the writer is notified of its changes when its caller waits for them,
    /// so that calls that are made together are one commit.
    #[inline]
    pub(super) fn with_answer<T>(&self, command: impl FnOnce(&mut State) -> T) -> T {
        self.apply::<true, T>(command)
    }

    #[inline]
    fn apply<const IS_ANSWERED: bool, T>(&self, command: impl FnOnce(&mut State) -> T) -> T {
        // After a panic these are dropped in the reverse order, so that the first is dropped without the lock.
        let failing = Failing(self);
        let mut guard = self.state.lock();
        let applying = Applying { is_poisoned: &self.is_poisoned, state: &mut guard };
        let state = &mut *applying.state;
        let answer = command(state);
        if state.is_quiet() {
            applying.end();
            failing.end();
            return answer;
        }
        let sets_timer = state.note_effects();
        #[cfg(feature = "durable")]
        let next = self.recorder.as_ref().and_then(|recorder| state.note_changes(recorder, IS_ANSWERED));
        let mut woken = state.waiters.next_woken();
        let is_any_left = state.waiters.has_woken();
        let dropped = state.engine.take_dropped();
        applying.end();
        failing.end();
        drop(guard);
        #[cfg(feature = "durable")]
        if let (Some(recorder), Some(next)) = (&self.recorder, next) {
            recorder.go_on(next);
        }
        while let Some(waker) = woken {
            panics::wake(waker);
            woken = if is_any_left { self.state.lock().waiters.next_woken() } else { None };
        }
        if let Some(dropped) = dropped {
            dropped.release();
        }
        if sets_timer {
            self.set_timer();
        }
        answer
    }

    /// Fails the broker after a panic within the engine: it answers and stores nothing any more.
    #[cold]
    fn fail(&self) {
        tracing::error!("a call panicked within the broker: all calls fail. Restart the process");
        #[cfg(feature = "durable")]
        if let Some(recorder) = &self.recorder {
            recorder.fail(Poisoned.into());
        }
        self.with(|state| state.waiters.owe_everyone());
    }

    /// Fails after a call that panicked within the engine.
    #[inline]
    pub(super) fn check_whole<E: From<Poisoned>>(&self) -> Result<(), E> {
        if self.is_poisoned.load(Ordering::Relaxed) { Err(Poisoned.into()) } else { Ok(()) }
    }
}

/// A command that is being applied. Dropped by a panic, it replaces the half-changed engine by one without entities.
/// No other call sees that engine, and nothing of it is stored.
struct Applying<'a> {
    is_poisoned: &'a AtomicBool,
    state: &'a mut State,
}

impl Applying<'_> {
    /// Ends the command: it is applied.
    #[inline]
    fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Applying<'_> {
    #[cold]
    fn drop(&mut self) {
        self.is_poisoned.store(true, Ordering::Relaxed);
        let empty = self.state.engine.without_entities();
        let half_changed = std::mem::replace(&mut self.state.engine, empty);
        self.state.abandoned.push(half_changed);
    }
}

/// Fails the broker when it is dropped by a panic.
struct Failing<'a>(&'a Shared);

impl Failing<'_> {
    #[inline]
    fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Failing<'_> {
    #[cold]
    fn drop(&mut self) {
        self.0.fail();
    }
}

impl Shared {
    /// Returns up to `max` messages from sequence number `from` on, also those that are on the disk only, and none behind the one
    /// with which they have `max_bytes`. The result is empty if there are no further messages, or the disk fails.
    pub(super) fn peek(
        &self,
        store: StoreId,
        source: Source,
        mut from: SequenceNumber,
        max: usize,
        max_bytes: usize,
    ) -> Vec<Message> {
        loop {
            let now = self.now();
            let peeked = self.with(|state| state.engine.peek(now, store, source, from, max));
            let Some(last) = peeked.last().and_then(Peeked::sequence_number) else { return Vec::new() };
            let messages = self.here(peeked, max_bytes);
            // All of them may have left the disk since the engine named them.
            if !messages.is_empty() || last.get() == u64::MAX || self.check_open::<ReceiveError>().is_err() {
                return messages;
            }
            from = last.next();
        }
    }

    /// Returns messages that were peeked. A message that has left the disk meanwhile is left out.
    #[cfg_attr(not(feature = "durable"), allow(clippy::unused_self, reason = "as it is where there may be a disk"))]
    fn here(&self, peeked: Vec<Peeked>, max_bytes: usize) -> Vec<Message> {
        let here = |peeked| match peeked {
            Peeked::Here(message) => Some(message),
            #[cfg(feature = "durable")]
            Peeked::Away { serial, order, received, has_expired } => {
                self.read_message(serial, order, *received, has_expired)
            }
        };
        let mut bytes = 0_usize;
        let mut messages = Vec::new();
        for message in peeked.into_iter().filter_map(here) {
            bytes = bytes.saturating_add(message.size());
            messages.push(message);
            if bytes >= max_bytes {
                break;
            }
        }
        messages
    }
}

impl Shared {
    /// Changes the settings of an entity.
    pub(super) fn update(&self, store: StoreId, change: Change) -> Result<(), ManageError> {
        #[cfg(feature = "durable")]
        if let Some(recorder) = &self.recorder {
            return self.update_on_disk(recorder, store, change);
        }
        let now = self.now();
        self.with(|state| state.engine.update(now, store, change))
    }
}

#[cfg(not(feature = "durable"))]
impl Shared {
    #[inline]
    pub(super) fn check_open<E: From<Poisoned>>(&self) -> Result<(), E> {
        self.check_whole()
    }

    /// Returns the result of a call, ready when it is as safe as it has to be.
    #[inline]
    #[allow(clippy::unused_self, reason = "as it is where there may be a disk")]
    pub(super) fn acknowledge<T, E>(&self, answer: Result<T, E>) -> Acknowledged<T, E> {
        Acknowledged::ready(answer)
    }

    /// Whether every call is as safe as it has to be when it has happened: the broker has no disk.
    #[inline]
    #[allow(clippy::unused_self, reason = "as it is where there may be a disk")]
    pub(super) fn answers_at_once(&self) -> bool {
        true
    }

    /// Returns the future of a call that has succeeded, if the call is not yet as safe as it has to be.
    #[inline]
    #[allow(clippy::unused_self, reason = "as it is where there may be a disk")]
    pub(super) fn unanswered<E>(&self) -> Option<Acknowledged<(), E>> {
        None
    }
}

impl State {
    fn new(engine: Engine) -> Self {
        Self { engine, waiters: Waiters::default(), direct: Direct::default(), abandoned: Vec::new() }
    }

    /// Whether there is nothing to wake and nothing to drop, as after most calls.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.engine.is_quiet() && self.waiters.are_quiet(self.engine.next_deadline())
    }

    /// Returns whether the timer has to be set.
    fn note_effects(&mut self) -> bool {
        let Self { engine, waiters, .. } = self;
        for line in engine.arrivals().drain(..) {
            waiters.owe(line, 1);
        }
        for store in engine.closed().drain(..) {
            waiters.owe_all(store);
        }
        waiters.cover(engine.next_deadline())
    }
}
