//! The entities whose settings this process has, each read from the server once.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use consign_core::message::EntityPath;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::QueueSettings;

/// How many entities are kept. One more drops those that can be read again.
const MOST: usize = 4_096;

/// An entity and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// A queue or a subscription.
    Queue(Arc<QueueSettings>),
    Topic(Option<Duration>),
}

/// An entity as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) known: Known,
    /// Whether it is of another program. Then the settings are the defaults.
    pub(crate) is_foreign: bool,
}

impl From<Known> for Found {
    fn from(known: Known) -> Self {
        Self { known, is_foreign: false }
    }
}

/// The settings that this process has.
#[derive(Default)]
pub(crate) struct Entities {
    known: Mutex<HashMap<String, Entity>>,
    /// The queues of which the routing key is the Subject of messages. A registration is for the life of the client, so the
    /// program bounds their number.
    subject_from_routing_key: Mutex<HashSet<String>>,
}

#[derive(Clone, Default)]
struct Entity {
    known: Arc<OnceCell<Found>>,
    /// Whether the program has registered it: the server may not have it.
    is_registered: bool,
}

impl Entities {
    pub(crate) fn get(&self, path: &EntityPath) -> Option<Found> {
        self.known.lock().get(path.as_str())?.known.get().cloned()
    }

    /// Has the routing key of a message from this queue be its Subject.
    pub(crate) fn take_subject_from_routing_key(&self, path: &EntityPath) {
        self.subject_from_routing_key.lock().insert(path.as_str().to_owned());
    }

    /// Returns whether the routing key of a message from this queue is its Subject.
    pub(crate) fn is_subject_from_routing_key(&self, path: &EntityPath) -> bool {
        self.subject_from_routing_key.lock().contains(path.as_str())
    }

    /// Keeps settings that the server has.
    pub(crate) fn keep(&self, path: &EntityPath, known: Known) {
        self.insert(path, known, false);
    }

    /// Keeps settings that the program has registered.
    pub(crate) fn register(&self, path: &EntityPath, known: Known) {
        self.insert(path, known, true);
    }

    fn insert(&self, path: &EntityPath, known: Known, is_registered: bool) {
        let entity = Entity { known: Arc::new(OnceCell::new_with(Some(known.into()))), is_registered };
        let mut entities = self.known.lock();
        limit(&mut entities);
        entities.insert(path.as_str().to_owned(), entity);
    }

    pub(crate) fn forget(&self, path: &EntityPath) {
        self.known.lock().remove(path.as_str());
    }

    /// Forgets settings that can be read again, because the entity was not found.
    pub(crate) fn doubt(&self, path: &EntityPath) {
        self.known.lock().retain(|key, entity| key != path.as_str() || entity.is_registered);
    }

    /// Returns the place of an entity's settings, which are found once.
    pub(crate) fn cell(&self, path: &EntityPath) -> Arc<OnceCell<Found>> {
        let mut entities = self.known.lock();
        limit(&mut entities);
        Arc::clone(&entities.entry(path.as_str().to_owned()).or_default().known)
    }
}

fn limit(entities: &mut HashMap<String, Entity>) {
    if entities.len() >= MOST {
        entities.retain(|_, entity| entity.is_registered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> EntityPath {
        EntityPath::new(name).unwrap()
    }

    #[test]
    fn only_what_was_registered_outlives_a_doubt_and_a_full_table() {
        let entities = Entities::default();
        let topic = || Known::Topic(None);
        let found = || Some(Found::from(topic()));
        entities.register(&path("registered"), topic());
        entities.keep(&path("read"), topic());
        entities.doubt(&path("registered"));
        entities.doubt(&path("read"));
        assert_eq!((entities.get(&path("registered")), entities.get(&path("read"))), (found(), None));
        for index in 0..=MOST {
            entities.keep(&path(&format!("q{index}")), topic());
        }
        assert!(entities.known.lock().len() <= MOST);
        assert!(entities.get(&path("registered")).is_some() && entities.get(&path(&format!("q{MOST}"))).is_some());
        entities.forget(&path("registered"));
        assert_eq!(entities.get(&path("registered")), None);
    }
}
