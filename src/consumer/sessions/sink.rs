use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::consumer::{Undeliverable, slot::caught};

/// The function that takes the undeliverable messages of all sessions, one after the other. It is called without a lock: it
/// may block, panic, or come back here.
pub(super) struct Sink(Mutex<State>);

struct State {
    /// Not there while it is called.
    call: Option<Box<dyn FnMut(Undeliverable) + Send>>,
    /// Messages for the caller that has it.
    waiting: VecDeque<Undeliverable>,
}

impl Sink {
    pub(super) fn new(call: impl FnMut(Undeliverable) + Send + 'static) -> Self {
        Self(Mutex::new(State { call: Some(Box::new(call)), waiting: VecDeque::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a call panicked.
    pub(super) fn call(&self, undeliverable: Undeliverable) -> bool {
        self.state().waiting.push_back(undeliverable);
        let mut has_panicked = false;
        while let Some((mut call, undeliverable)) = self.take() {
            has_panicked |= caught(|| call(undeliverable)).is_none();
            self.state().call = Some(call);
        }
        has_panicked
    }

    /// The function and what to call it with, unless another caller has it, who goes on until nothing waits.
    #[expect(clippy::type_complexity, reason = "it is what `State` has")]
    fn take(&self) -> Option<(Box<dyn FnMut(Undeliverable) + Send>, Undeliverable)> {
        let mut state = self.state();
        let call = state.call.take()?;
        if let Some(undeliverable) = state.waiting.pop_front() {
            return Some((call, undeliverable));
        }
        state.call = Some(call);
        None
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::Message;

    fn undeliverable() -> Undeliverable {
        Undeliverable { message: Message::new("an order"), dead_letter: None }
    }

    #[test]
    fn the_sink_is_called_outside_of_its_lock() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let sink = Arc::new_cyclic(|own: &Weak<Sink>| {
            let own = Weak::clone(own);
            Sink::new(move |_| {
                let call = counted.fetch_add(1, Ordering::Relaxed);
                let own = own.upgrade().unwrap();
                assert!(own.0.try_lock().is_ok(), "the lock is held");
                if call == 0 {
                    own.call(undeliverable());
                }
            })
        });
        sink.call(undeliverable());
        assert_eq!(calls.load(Ordering::Relaxed), 2, "a call from within is made after the one that made it");
    }

    #[test]
    fn a_panic_of_the_sink_ends_one_call() {
        let mut calls = 0;
        let (send, received) = std::sync::mpsc::channel();
        let sink = Sink::new(move |_| {
            calls += 1;
            assert!(calls > 1, "on purpose");
            send.send(calls).unwrap();
        });
        sink.call(undeliverable());
        sink.call(undeliverable());
        assert_eq!(received.try_recv(), Ok(2));
    }
}
