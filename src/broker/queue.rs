use std::{fmt, sync::Arc, task::Waker};

use parking_lot::Mutex;

use super::{
    Counts, QueueReceiver, QueueSender, QueueSettings, ReceiveMode,
    engine::{Engine, Now, Part},
    lease::QueueLease,
    waiters::Waiters,
};
use crate::{
    Message,
    message::{EntityPath, LockToken, SequenceNumber},
    time::Clock,
    transport::{Delivery, ErrorKind, ReceiveError, SendError},
};

/// A queue of the embedded broker, or its dead-letter sub-queue.
#[derive(Clone)]
pub struct Queue {
    pub(super) shared: Arc<Shared>,
    pub(super) part: Part,
}

/// One queue: its state behind one lock that is never held across an await.
pub(super) struct Shared {
    path: EntityPath,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// What makes the numbers of this queue's locks unlike those of any other.
    locks: u128,
}

pub(super) struct State {
    pub(super) engine: Engine,
    main: Waiters,
    dead: Waiters,
}

impl Shared {
    pub(super) fn new(path: EntityPath, clock: Arc<dyn Clock>, settings: QueueSettings) -> Self {
        let state = State { engine: Engine::new(settings), main: Waiters::default(), dead: Waiters::default() };
        Self { path, clock, state: Mutex::new(state), locks: uuid::Uuid::new_v4().as_u128() }
    }

    pub(super) fn path(&self) -> &EntityPath {
        &self.path
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
    #[inline]
    pub(super) fn with<T>(&self, command: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let answer = command(&mut state);
        state.note_effects();
        let mut woken = state.next_woken();
        let expired = state.engine.take_expired();
        drop(state);
        drop(expired);
        while let Some(waker) = woken {
            waker.wake();
            woken = self.state.lock().next_woken();
        }
        answer
    }
}

impl State {
    pub(super) fn waiters(&mut self, part: Part) -> &mut Waiters {
        match part {
            Part::Main => &mut self.main,
            Part::DeadLetter => &mut self.dead,
        }
    }

    #[inline]
    fn note_effects(&mut self) {
        let main = self.engine.take_arrivals(Part::Main);
        let dead = self.engine.take_arrivals(Part::DeadLetter);
        if self.main.is_empty() && self.dead.is_empty() {
            return;
        }
        self.main.owe(main);
        self.dead.owe(dead);
        let deadline = self.engine.next_deadline();
        self.main.cover(deadline);
        self.dead.cover(deadline);
    }

    #[inline]
    fn next_woken(&mut self) -> Option<Waker> {
        self.main.next_woken().or_else(|| self.dead.next_woken())
    }
}

impl Queue {
    /// The path, with `/$deadletterqueue` on a dead-letter sub-queue.
    #[must_use]
    pub fn path(&self) -> EntityPath {
        match self.part {
            Part::Main => self.shared.path().clone(),
            Part::DeadLetter => self.shared.path().dead_letter(),
        }
    }

    /// The dead-letter sub-queue. It is there as long as its queue.
    #[must_use]
    pub fn dead_letter(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), part: Part::DeadLetter }
    }

    /// A sender. Nothing can be sent to a dead-letter sub-queue: that is [`ErrorKind::InvalidOperation`].
    pub fn sender(&self) -> Result<QueueSender, SendError> {
        match self.part {
            Part::Main => Ok(QueueSender::new(Arc::clone(&self.shared))),
            Part::DeadLetter => {
                Err(SendError::new(ErrorKind::InvalidOperation)
                    .with_detail("a dead-letter sub-queue takes no messages"))
            }
        }
    }

    /// A receiver in peek-lock mode.
    #[must_use]
    pub fn receiver(&self) -> QueueReceiver {
        QueueReceiver::new(self.clone(), ReceiveMode::PeekLock)
    }

    /// A receiver that removes each message as it delivers it. A message that is lost on the way is lost.
    #[must_use]
    pub fn receive_and_delete(&self) -> QueueReceiver {
        QueueReceiver::new(self.clone(), ReceiveMode::ReceiveAndDelete)
    }

    /// Locks deferred messages by their sequence numbers. If one of them is not deferred here, or has expired, that is
    /// [`ErrorKind::MessageNotFound`] and none is locked.
    pub fn receive_deferred(&self, numbers: &[SequenceNumber]) -> Result<Vec<Delivery<QueueLease>>, ReceiveError> {
        let now = self.shared.now();
        let locked = self.shared.with(|state| state.engine.receive_deferred(now, self.part, numbers))?;
        Ok(locked.into_iter().map(|locked| QueueLease::deliver(&self.shared, locked)).collect())
    }

    /// Looks at up to `max` messages from sequence number `from` on, in order, without locking or counting. Messages
    /// that are locked or deferred are among them, dead-lettered ones are not. The list may be empty.
    ///
    /// Every locked message of the queue is looked at once for it.
    #[must_use]
    pub fn peek(&self, from: SequenceNumber, max: usize) -> Vec<Message> {
        let now = self.shared.now();
        self.shared.with(|state| state.engine.peek(now, self.part, from, max))
    }

    /// Ends every lock before its time, as if it had run out. A broker elsewhere does so when it restarts or when a
    /// connection breaks; here it lets a test see what becomes of the settlements.
    pub fn lose_locks(&self) {
        let now = self.shared.now();
        self.shared.with(|state| state.engine.lose_locks(now, self.part));
    }

    /// How many messages there are, by state.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let now = self.shared.now();
        self.shared.with(|state| state.engine.counts(now, self.part))
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> QueueSettings {
        self.shared.with(|state| state.engine.settings().clone())
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("path", &self.path()).finish_non_exhaustive()
    }
}
