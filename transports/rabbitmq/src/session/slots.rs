//! The slots that one client reads, each once for all of its sessions.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::{
    slot::{Pin, Slot},
    task,
};
use crate::{client::Shared, receiver::Source};

/// For how long the broker may not count released messages.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);

/// For how long a slot that was given up for another client is reserved for it.
const TAKEN_WITHIN: Duration = Duration::from_secs(2);

type Key = (String, u16);

#[derive(Default)]
pub(crate) struct Slots {
    open: Mutex<HashMap<Key, Arc<Slot>>>,
    left: Left,
    /// Slots that were given up for another client, and when.
    handed_over: Mutex<HashMap<Key, Instant>>,
    /// A message has arrived whose session has no holder, or a session or a slot was given up.
    pub(super) changed: Notify,
}

impl Slots {
    /// Keeps a slot open, or opens it.
    pub(super) fn pin(&self, client: &Arc<Shared>, source: &Source, index: u16) -> Pin {
        let mut open = self.open.lock();
        let key = (source.path.as_str().to_owned(), index);
        let before = open.get(&key).cloned();
        if let Some(pin) = before.as_ref().and_then(Slot::pin) {
            return pin;
        }
        let (slot, pin) = Slot::new(Arc::clone(client), source.clone(), index);
        open.insert(key, Arc::clone(&slot));
        drop(open);
        tokio::spawn(task::run(slot, before));
        pin
    }

    /// Keeps a slot open that is open here, unless another client gets it.
    pub(super) fn pin_open(&self, source: &Source, index: u16) -> Option<Pin> {
        let open = self.open.lock();
        open.get(&(source.path.as_str().to_owned(), index)).and_then(Slot::pin_next)
    }

    /// Keeps slots open that no accept has looked at, unless another client gets them.
    pub(super) fn pin_unseen(&self, source: &Source) -> Vec<Pin> {
        let open = self.open.lock();
        let of_entity = open.iter().filter(|((path, _), _)| path == source.path.as_str());
        of_entity.map(|(_, slot)| slot).filter(|slot| slot.is_unseen()).filter_map(Slot::pin_next).collect()
    }

    /// Returns how many slots of an entity are open here, and how many of these another client gets.
    pub(super) fn count(&self, source: &Source) -> (usize, usize) {
        let open = self.open.lock();
        let of_entity = open.iter().filter(|((path, _), _)| path == source.path.as_str());
        let promised = of_entity.clone().filter(|(_, slot)| slot.state().is_promised).count();
        (of_entity.count() - promised, promised)
    }

    /// Returns whether another client gets a slot, or was given it a moment ago.
    pub(super) fn is_handed_over(&self, source: &Source, index: u16) -> bool {
        let key = (source.path.as_str().to_owned(), index);
        let mut handed_over = self.handed_over.lock();
        handed_over.retain(|_, at| at.elapsed() < TAKEN_WITHIN);
        handed_over.contains_key(&key) || self.open.lock().get(&key).is_some_and(|slot| slot.state().is_promised)
    }

    /// Returns whether a slot was given up here a moment ago, with messages that the broker may not count so far.
    pub(super) fn was_left(&self, source: &Source, index: u16) -> bool {
        self.left.contains(&(source.path.as_str().to_owned(), index))
    }

    /// Records that a slot is about to be given up.
    pub(super) fn leave(&self, slot: &Slot, has_messages: bool) {
        if slot.state().is_promised {
            let key = (slot.source.path.as_str().to_owned(), slot.index);
            self.handed_over.lock().insert(key, Instant::now());
            return;
        }
        let key = (slot.source.path.as_str().to_owned(), slot.index);
        self.left.record(key, has_messages, slot.state().arrived > 0);
    }

    /// Records that a slot is given up.
    pub(super) fn forget(&self, slot: &Arc<Slot>) {
        let key = (slot.source.path.as_str().to_owned(), slot.index);
        let mut open = self.open.lock();
        if open.get(&key).is_some_and(|present| Arc::ptr_eq(present, slot)) {
            open.remove(&key);
        }
    }
}

/// Slots that were given up with messages, and when.
#[derive(Default)]
struct Left(Mutex<HashMap<Key, Instant>>);

impl Left {
    /// Records that a slot is given up. If messages had arrived and none is left, then those that it was given up with before are
    /// settled: an accept would wait for them.
    fn record(&self, key: Key, has_messages: bool, had_messages: bool) {
        if has_messages {
            self.0.lock().insert(key, Instant::now());
        } else if had_messages {
            self.0.lock().remove(&key);
        }
    }

    /// Returns whether a slot was given up a moment ago, with messages that the broker may not count so far.
    fn contains(&self, key: &Key) -> bool {
        let mut left = self.0.lock();
        left.retain(|_, at| at.elapsed() < COUNTED_WITHIN);
        left.contains_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slot_whose_messages_are_settled_is_not_expected_to_have_some() {
        let (left, key) = (Left::default(), ("orders".to_owned(), 3));
        left.record(key.clone(), true, true);
        // It was opened and given up before its messages arrived.
        left.record(key.clone(), false, false);
        assert!(left.contains(&key) && !left.contains(&("orders".to_owned(), 4)));
        left.record(key.clone(), false, true);
        assert!(!left.contains(&key));
        left.record(key.clone(), true, true);
        tokio::time::advance(COUNTED_WITHIN).await;
        assert!(!left.contains(&key));
    }
}
