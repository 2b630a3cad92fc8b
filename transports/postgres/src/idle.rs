//! Idle receivers of one source in one process: one of them polls for all.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A source of messages or sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// An entity, its part, and whether messages are deleted.
    Messages(i64, i16, bool),
    /// The sessions of an entity that no receiver holds.
    Sessions(i64),
}

/// The receivers that have found nothing, by source. A source is here as long as one of them polls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Idle(Arc<Mutex<HashMap<Key, Waiting>>>);

/// Those that wait for their turn, or for a message.
type Waiting = VecDeque<oneshot::Sender<Option<Turn>>>;

/// The turn of the receiver that polls. Dropped, it is that of the next.
#[derive(Debug)]
pub(crate) struct Turn {
    idle: Idle,
    key: Key,
    /// Whether it was passed on.
    is_over: bool,
}

/// What an idle receiver is to do.
pub(crate) enum Joined {
    /// Poll for all.
    Polls(Turn),
    /// Wait until it is its turn, or there may be a message for it too.
    Waits(oneshot::Receiver<Option<Turn>>),
}

impl Idle {
    pub(crate) fn join(&self, key: Key) -> Joined {
        match self.0.lock().entry(key) {
            Entry::Vacant(first) => {
                first.insert(VecDeque::new());
                Joined::Polls(Turn { idle: self.clone(), key, is_over: false })
            }
            Entry::Occupied(mut others) => {
                let (wake, woken) = oneshot::channel();
                let others = others.get_mut();
                // Cancelled calls leave their places behind.
                if others.len() > 64 && others.len().is_power_of_two() {
                    others.retain(|other| !other.is_closed());
                }
                others.push_back(wake);
                Joined::Waits(woken)
            }
        }
    }

    /// Has one more receiver look, besides the one that polls: there may be more messages.
    pub(crate) fn wake_one(&self, key: Key) {
        let mut all = self.0.lock();
        let Some(others) = all.get_mut(&key) else { return };
        while let Some(next) = others.pop_front() {
            if next.send(None).is_ok() {
                return;
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut turn = Self { idle: self.idle.clone(), key: self.key, is_over: false };
        loop {
            let next = {
                let mut all = self.idle.0.lock();
                let next = all.get_mut(&self.key).and_then(VecDeque::pop_front);
                if next.is_none() {
                    all.remove(&self.key);
                }
                next
            };
            let Some(next) = next else {
                turn.is_over = true;
                return;
            };
            // Its call may have been cancelled.
            let Err(Some(left)) = next.send(Some(turn)) else { return };
            turn = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key::Messages(1, 0, false);

    fn waits(joined: Joined) -> oneshot::Receiver<Option<Turn>> {
        match joined {
            Joined::Waits(woken) => woken,
            Joined::Polls(turn) => panic!("{turn:?}"),
        }
    }

    #[test]
    fn one_receiver_polls_and_its_turn_passes_on() {
        let idle = Idle::default();
        let Joined::Polls(first) = idle.join(KEY) else { panic!("none polls") };
        let Joined::Polls(_) = idle.join(Key::Sessions(1)) else { panic!("another source has a turn of its own") };
        let (mut second, third, mut fourth) = (waits(idle.join(KEY)), waits(idle.join(KEY)), waits(idle.join(KEY)));
        idle.wake_one(KEY);
        assert!(second.try_recv().unwrap().is_none());
        // A cancelled call is passed over.
        drop(third);
        drop(first);
        let turn = fourth.try_recv().unwrap().unwrap();
        let fifth = waits(idle.join(KEY));
        // The turn of a receiver that is gone is not lost.
        drop(turn);
        drop(fifth);
        assert!(matches!(idle.join(KEY), Joined::Polls(_)));
    }
}
