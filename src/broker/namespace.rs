use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{
    Acknowledged, Quirks,
    engine::{Change, Engine, Now, Peeked, StoreId},
    panics::{self, Poisoned},
    waiters::Waiters,
};
#[cfg(feature = "durable")]
use super::{
    durable::{Batch, Recorder, StorageError, StorageErrorKind, Table, corrupted, key},
    engine::Wanted,
};
use crate::{Message, message::LockToken, sync::Mutex, time::Clock, transport::ManageError};

/// The state of a broker behind one lock that is never held across an await.
pub(super) struct Namespace {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// What makes the numbers of this broker's locks unlike those of any other.
    locks: u128,
    /// Whether a call panicked within the engine.
    is_poisoned: AtomicBool,
    #[cfg(feature = "durable")]
    recorder: Option<Recorder>,
}

/// Whether the time is written although nothing has changed. What waits is due by the latest time that was written if UTC
/// has stepped back when the store is opened again.
#[cfg(feature = "durable")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    No,
    /// If anything waits for its time.
    IfDue,
    Yes,
}

pub(super) struct State {
    pub(super) engine: Engine,
    pub(super) waiters: Waiters,
    /// Engines in which a call panicked. They are dropped last: what they hold may be the user's.
    abandoned: Vec<Engine>,
}

impl Namespace {
    pub(super) fn new(clock: Arc<dyn Clock>, quirks: Quirks) -> Self {
        let state = State::new(Engine::new(quirks));
        Self {
            clock,
            state: Mutex::new(state),
            locks: uuid::Uuid::new_v4().as_u128(),
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
        self.clock.now().into()
    }

    /// Runs a command on the engine and wakes whom its effects concern. A waker is the user's code, and so is the drop of
    /// a message, so these run outside the lock.
    ///
    /// If the command panics, what it did is half done. No other call sees that, and none is answered any more.
    #[inline]
    pub(super) fn with<T>(&self, command: impl FnOnce(&mut State) -> T) -> T {
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
        state.note_effects();
        #[cfg(feature = "durable")]
        if let Some(recorder) = &self.recorder {
            if state.engine.has_changes() {
                recorder.note();
                if state.engine.has_many_changes() {
                    recorder.hurry();
                }
            }
            let wanted = state.engine.take_wanted();
            if !wanted.is_empty() {
                recorder.fetch(wanted);
            }
        }
        let mut woken = state.waiters.next_woken();
        let dropped = state.engine.take_dropped();
        applying.end();
        failing.end();
        drop(guard);
        while let Some(waker) = woken {
            panics::wake(waker);
            woken = self.state.lock().waiters.next_woken();
        }
        dropped.release();
        answer
    }

    /// A call panicked within the engine: nothing is answered or stored any more.
    #[cold]
    fn fail(&self) {
        tracing::error!("a call panicked within the broker, which answers nothing any more");
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

/// A command that is applied. Dropped by a panic, it puts an engine without entities in the place of the one that is half
/// changed, so that no other call sees that one and nothing of it is stored.
struct Applying<'a> {
    is_poisoned: &'a AtomicBool,
    state: &'a mut State,
}

impl Applying<'_> {
    /// It is applied.
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
struct Failing<'a>(&'a Namespace);

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

impl Namespace {
    /// Messages that were looked at, also those that are on the disk only. Of these one that has gone meanwhile is left out.
    #[cfg_attr(not(feature = "durable"), allow(clippy::unused_self, reason = "as it is where there may be a disk"))]
    pub(super) fn here(&self, peeked: Vec<Peeked>) -> Vec<Message> {
        let here = |peeked| match peeked {
            Peeked::Here(message) => Some(message),
            #[cfg(feature = "durable")]
            Peeked::Away { serial, order, received, has_expired } => {
                self.recorder.as_ref()?.look_at(serial, order, *received, has_expired)
            }
        };
        peeked.into_iter().filter_map(here).collect()
    }
}

impl Namespace {
    /// Gives an entity other settings.
    pub(super) fn update(&self, store: StoreId, change: Change) -> Result<(), ManageError> {
        #[cfg(feature = "durable")]
        if let Some(recorder) = &self.recorder {
            return self.update_on_disk(recorder, store, change);
        }
        let now = self.now();
        self.with(|state| state.engine.update(now, store, change))
    }
}

#[cfg(feature = "durable")]
impl Namespace {
    /// Dead letters that are told from messages that expire only by the settings are written as what they are before the
    /// settings change.
    fn update_on_disk(&self, recorder: &Recorder, store: StoreId, change: Change) -> Result<(), ManageError> {
        let mut change = Some(change);
        let mut from = 0;
        loop {
            let now = self.now();
            let unsaid = self.with(|state| {
                let Some(to) = change.take() else { return Ok(Vec::new()) };
                let unsaid = state.engine.unsaid(now, store, &to, from);
                if unsaid.is_empty() && from == 0 {
                    return state.engine.update(now, store, to).map(|()| unsaid);
                }
                change = Some(to);
                Ok(unsaid)
            })?;
            if change.is_none() {
                return Ok(());
            }
            // Behind the last the first may be another one by now.
            from = unsaid.last().map_or(0, |last| last.order + 1);
            let read = recorder.read(&unsaid)?;
            let now = self.now();
            if let Some(Wanted { store, order, .. }) = self.with(|state| state.engine.page_in(now, read)) {
                return Err(corrupted(Table::Messages, &key(store.serial, order), "it is missing").into());
            }
            // However many there are, they leave memory again.
            self.flushed().wait()?;
        }
    }

    pub(super) fn on_disk(clock: Arc<dyn Clock>, engine: Engine, recorder: Recorder) -> Self {
        let mut namespace = Self::new(clock, Quirks::default());
        namespace.state = Mutex::new(State::new(engine));
        namespace.recorder = Some(recorder);
        namespace
    }

    pub(super) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Writes to `batch` what has changed, and tells which batch it is and what may leave memory once that is on the disk.
    pub(super) fn take_changes(&self, batch: &mut Batch, stamp: Stamp) -> (u64, Vec<Wanted>) {
        let now = self.now();
        self.with(|state| {
            let Some(recorder) = &self.recorder else { return (0, Vec::new()) };
            let stamp = match stamp {
                Stamp::No => false,
                Stamp::IfDue => state.engine.next_deadline().is_some(),
                Stamp::Yes => !self.is_poisoned.load(Ordering::Relaxed),
            };
            let written = state.engine.take_changes(now, recorder.identity(), batch, stamp);
            (recorder.turn(), written)
        })
    }

    pub(super) fn flushed(&self) -> Acknowledged<(), StorageError> {
        match &self.recorder {
            Some(recorder) => Acknowledged::when(recorder.flushed(), self.check_open()),
            None => Acknowledged::ready(self.check_open()),
        }
    }

    pub(super) fn compact(&self) -> Acknowledged<(), StorageError> {
        if let Some(recorder) = &self.recorder {
            self.with(|_| recorder.compact());
        }
        self.flushed()
    }

    pub(super) async fn close(&self) -> Result<(), StorageError> {
        let Some(recorder) = &self.recorder else { return Ok(()) };
        match recorder.close().await {
            Err(failure) if failure.kind() != StorageErrorKind::Closed => Err(failure),
            _ => Ok(()),
        }
    }

    /// Why nothing is stored any more.
    pub(super) fn failure(&self) -> Option<&StorageError> {
        self.recorder.as_ref()?.failure()
    }

    /// Fails when nothing is stored any more, so that a call has no effect that nobody would find again, and after a call
    /// that panicked within the engine.
    #[inline]
    pub(super) fn check_open<E: From<StorageError> + From<Poisoned>>(&self) -> Result<(), E> {
        match self.failure() {
            Some(failure) => Err(failure.clone().into()),
            None => self.check_whole(),
        }
    }

    /// Wakes all that wait for a message, to be told of the failure.
    pub(super) fn wake_all(&self) {
        self.with(|state| state.waiters.owe_everyone());
    }

    /// The answer to a call, when it is as safe as it is to be.
    #[inline]
    pub(super) fn acknowledge<T, E: From<StorageError>>(&self, answer: Result<T, E>) -> Acknowledged<T, E> {
        match &self.recorder {
            Some(recorder) => Acknowledged::when(recorder.pending(), answer),
            None => Acknowledged::ready(answer),
        }
    }

    /// The answer to a call that has succeeded, if it is not as safe as it is to be.
    #[inline]
    pub(super) fn unanswered<E: From<StorageError>>(&self) -> Option<Acknowledged<(), E>> {
        let commit = self.recorder.as_ref()?.pending()?;
        Some(Acknowledged::when(Some(commit), Ok(())))
    }
}

#[cfg(not(feature = "durable"))]
impl Namespace {
    #[inline]
    pub(super) fn check_open<E: From<Poisoned>>(&self) -> Result<(), E> {
        self.check_whole()
    }

    /// The answer to a call, when it is as safe as it is to be.
    #[inline]
    #[allow(clippy::unused_self, reason = "as it is where there may be a disk")]
    pub(super) fn acknowledge<T, E>(&self, answer: Result<T, E>) -> Acknowledged<T, E> {
        Acknowledged::ready(answer)
    }

    /// The answer to a call that has succeeded, if it is not as safe as it is to be.
    #[inline]
    #[allow(clippy::unused_self, reason = "as it is where there may be a disk")]
    pub(super) fn unanswered<E>(&self) -> Option<Acknowledged<(), E>> {
        None
    }
}

/// What is not written yet is, and the thread that does it ends.
#[cfg(feature = "durable")]
impl Drop for Namespace {
    fn drop(&mut self) {
        let mut last = Batch::default();
        if self.recorder.is_some() {
            self.take_changes(&mut last, Stamp::Yes);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.end(last);
        }
    }
}

impl State {
    fn new(engine: Engine) -> Self {
        Self { engine, waiters: Waiters::default(), abandoned: Vec::new() }
    }

    /// Whether nobody is to be woken and nothing is to be dropped, as after most calls.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.engine.is_quiet() && self.waiters.are_quiet(self.engine.next_deadline())
    }

    fn note_effects(&mut self) {
        let Self { engine, waiters, .. } = self;
        for line in engine.arrivals().drain(..) {
            waiters.owe(line, 1);
        }
        for store in engine.closed().drain(..) {
            waiters.owe_all(store);
        }
        waiters.cover(engine.next_deadline());
    }
}
