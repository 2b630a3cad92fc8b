//! The order in which the messages of each key start.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::task::AtomicWaker;

/// Keys that there is memory for while there are none.
const KEPT: usize = 4_096;

/// Which messages may start. It has one entry for each message that waits or runs.
pub(super) struct Turns {
    concurrency: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The messages of each key, the one that runs or may run first.
    keys: HashMap<u64, VecDeque<Arc<Ticket>>>,
    /// The first of each key, and those without a key, that wait because too many run.
    first: VecDeque<Arc<Ticket>>,
    running: usize,
}

/// The turn of one message.
#[derive(Default)]
pub(super) struct Ticket {
    may_run: AtomicBool,
    pub(super) waker: AtomicWaker,
}

impl Ticket {
    pub(super) fn may_run(&self) -> bool {
        self.may_run.load(Ordering::Acquire)
    }
}

impl Turns {
    pub(super) fn new(concurrency: usize) -> Self {
        Self { concurrency, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code of a user runs while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message arrives, after those of its key that are here.
    pub(super) fn enter(&self, key: Option<u64>) -> Arc<Ticket> {
        let ticket = Arc::<Ticket>::default();
        let mut state = self.state();
        let is_first = key.is_none_or(|key| {
            let queue = state.keys.entry(key).or_default();
            queue.push_back(Arc::clone(&ticket));
            queue.len() == 1
        });
        if is_first {
            state.first.push_back(Arc::clone(&ticket));
            self.start(&mut state);
        }
        ticket
    }

    /// A message has ended, or its call was dropped.
    pub(super) fn leave(&self, key: Option<u64>, ticket: &Arc<Ticket>) {
        let mut state = self.state();
        if ticket.may_run() {
            state.running -= 1;
        } else {
            state.first.retain(|other| !Arc::ptr_eq(other, ticket));
        }
        if let Some(key) = key
            && let Entry::Occupied(mut entry) = state.keys.entry(key)
        {
            let queue = entry.get_mut();
            let was_first = queue.front().is_some_and(|first| Arc::ptr_eq(first, ticket));
            if was_first {
                queue.pop_front();
            } else {
                queue.retain(|other| !Arc::ptr_eq(other, ticket));
            }
            let next = queue.front().filter(|_| was_first).cloned();
            if queue.is_empty() {
                entry.remove();
            }
            state.first.extend(next);
        }
        self.start(&mut state);
    }

    /// Starts what may start, in the order of arrival.
    fn start(&self, state: &mut MutexGuard<'_, State>) {
        while state.running < self.concurrency
            && let Some(ticket) = state.first.pop_front()
        {
            state.running += 1;
            ticket.may_run.store(true, Ordering::Release);
            ticket.waker.wake();
        }
        if state.keys.is_empty() && state.keys.capacity() > KEPT {
            // A burst of keys leaves nothing behind.
            drop(mem::take(&mut state.keys));
        }
    }
}
