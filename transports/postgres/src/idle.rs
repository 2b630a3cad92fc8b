//! Acceptors of sessions of one entity in one process that have found none: one of them polls for all.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Those that have found nothing, by entity. An entity is here as long as one of them polls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Idle(Arc<Mutex<HashMap<i64, Waiting>>>);

/// Those that wait for their turn, or for a session.
type Waiting = VecDeque<oneshot::Sender<Option<Turn>>>;

/// The turn of the acceptor that polls. Dropped, it is that of the next.
#[derive(Debug)]
pub(crate) struct Turn {
    idle: Idle,
    entity: i64,
    /// Whether it was passed on.
    is_over: bool,
}

/// What an idle acceptor is to do.
pub(crate) enum Joined {
    /// Poll for all.
    Polls(Turn),
    /// Wait until it is its turn, or there may be a session for it too.
    Waits(oneshot::Receiver<Option<Turn>>),
}

impl Idle {
    pub(crate) fn join(&self, entity: i64) -> Joined {
        match self.0.lock().entry(entity) {
            Entry::Vacant(first) => {
                first.insert(VecDeque::new());
                Joined::Polls(Turn { idle: self.clone(), entity, is_over: false })
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

    /// Has one more acceptor look, besides the one that polls: there may be more sessions.
    pub(crate) fn wake_one(&self, entity: i64) {
        let mut all = self.0.lock();
        let Some(others) = all.get_mut(&entity) else { return };
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
        let mut turn = Self { idle: self.idle.clone(), entity: self.entity, is_over: false };
        loop {
            let next = {
                let mut all = self.idle.0.lock();
                let next = all.get_mut(&self.entity).and_then(VecDeque::pop_front);
                if next.is_none() {
                    all.remove(&self.entity);
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

    const ENTITY: i64 = 1;

    fn waits(joined: Joined) -> oneshot::Receiver<Option<Turn>> {
        match joined {
            Joined::Waits(woken) => woken,
            Joined::Polls(turn) => panic!("{turn:?}"),
        }
    }

    #[test]
    fn one_acceptor_polls_and_its_turn_passes_on() {
        let idle = Idle::default();
        let Joined::Polls(first) = idle.join(ENTITY) else { panic!("none polls") };
        let Joined::Polls(_) = idle.join(2) else { panic!("another entity has a turn of its own") };
        let (mut second, third, mut fourth) =
            (waits(idle.join(ENTITY)), waits(idle.join(ENTITY)), waits(idle.join(ENTITY)));
        idle.wake_one(ENTITY);
        assert!(second.try_recv().unwrap().is_none());
        // A cancelled call is passed over.
        drop(third);
        drop(first);
        let turn = fourth.try_recv().unwrap().unwrap();
        let fifth = waits(idle.join(ENTITY));
        // The turn of an acceptor that is gone is not lost.
        drop(turn);
        drop(fifth);
        assert!(matches!(idle.join(ENTITY), Joined::Polls(_)));
    }
}
