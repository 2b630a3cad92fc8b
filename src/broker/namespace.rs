use std::sync::Arc;

use super::{
    Quirks,
    engine::{Engine, Now},
    waiters::Waiters,
};
use crate::{message::LockToken, sync::Mutex, time::Clock};

/// The state of a broker behind one lock that is never held across an await.
pub(super) struct Namespace {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// As it is named in what it says of a refusal.
    pub(super) name: Arc<str>,
    /// What makes the numbers of this broker's locks unlike those of any other.
    locks: u128,
}

pub(super) struct State {
    pub(super) engine: Engine,
    pub(super) waiters: Waiters,
}

impl Namespace {
    pub(super) fn new(clock: Arc<dyn Clock>, quirks: Quirks) -> Self {
        let state = State { engine: Engine::new(quirks), waiters: Waiters::default() };
        Self { clock, state: Mutex::new(state), name: Arc::from("local"), locks: uuid::Uuid::new_v4().as_u128() }
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
        if state.is_quiet() {
            return answer;
        }
        state.note_effects();
        let mut woken = state.waiters.next_woken();
        let dropped = state.engine.take_dropped();
        drop(state);
        while let Some(waker) = woken {
            waker.wake();
            woken = self.state.lock().waiters.next_woken();
        }
        // Last, for a drop that panics must not cost anyone the wake-up.
        drop(dropped);
        answer
    }
}

impl State {
    /// Whether nobody is to be woken and nothing is to be dropped, as after most calls.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.engine.is_quiet() && self.waiters.are_quiet(self.engine.next_deadline())
    }

    fn note_effects(&mut self) {
        let Self { engine, waiters } = self;
        for line in engine.arrivals().drain(..) {
            waiters.owe(line, 1);
        }
        for store in engine.closed().drain(..) {
            waiters.owe_all(store);
        }
        waiters.cover(engine.next_deadline());
    }
}
