//! The entities whose settings this process has, each read from the server once.

use std::{collections::HashMap, sync::Arc};

use consign_core::{message::EntityPath, transport::ErrorKind};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::Known;
use crate::{client::Shared, error::Failure, log};

/// How many entities are kept. One more drops those that can be read again.
const MOST: usize = 4_096;

#[derive(Default)]
pub(crate) struct Entities(Mutex<HashMap<String, Entity>>);

#[derive(Clone, Default)]
struct Entity {
    known: Arc<OnceCell<Known>>,
    /// Whether the program has registered it: the server may not have it.
    is_registered: bool,
}

impl Entities {
    pub(crate) fn get(&self, path: &EntityPath) -> Option<Known> {
        self.0.lock().get(path.as_str())?.known.get().cloned()
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
        let entity = Entity { known: Arc::new(OnceCell::new_with(Some(known))), is_registered };
        let mut entities = self.0.lock();
        limit(&mut entities);
        entities.insert(path.as_str().to_owned(), entity);
    }

    pub(crate) fn forget(&self, path: &EntityPath) {
        self.0.lock().remove(path.as_str());
    }

    /// Forgets settings that can be read again, because the entity was not found.
    pub(crate) fn doubt(&self, path: &EntityPath) {
        self.0.lock().retain(|key, entity| key != path.as_str() || entity.is_registered);
    }

    /// Returns the settings of an entity, from the server if they are not here. Callers at the same time share one question.
    ///
    /// An entity that another program created has none. Then these are the defaults, and a line is logged.
    pub(crate) async fn find(&self, shared: &Shared, path: &EntityPath) -> Result<Known, Failure> {
        let cell = {
            let mut entities = self.0.lock();
            limit(&mut entities);
            Arc::clone(&entities.entry(path.as_str().to_owned()).or_default().known)
        };
        let found = cell.get_or_try_init(|| load(shared, path)).await.cloned();
        if found.is_err() && !cell.initialized() {
            self.doubt(path);
        }
        found
    }
}

fn limit(entities: &mut HashMap<String, Entity>) {
    if entities.len() >= MOST {
        entities.retain(|_, entity| entity.is_registered);
    }
}

async fn load(shared: &Shared, path: &EntityPath) -> Result<Known, Failure> {
    // The broker's own names, as that of a queue for replies.
    if path.as_str().starts_with("amq.") {
        return Ok(Known::Queue(Arc::default()));
    }
    if let Some(known) = super::read(shared, path).await? {
        return Ok(known);
    }
    // Whether it exists cannot be found out on a channel that the answer would close.
    let known = if shared.link.is_wrapped() || shared.has_queue(path.as_str()).await? {
        Known::Queue(Arc::default())
    } else if crate::topic::has_exchange(shared, path.as_str()).await? {
        Known::Topic(None)
    } else {
        return Err(Failure::new(ErrorKind::EntityNotFound, "there is no queue and no topic of that name"));
    };
    log::no_settings(path);
    Ok(known)
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
        entities.register(&path("registered"), topic());
        entities.keep(&path("read"), topic());
        entities.doubt(&path("registered"));
        entities.doubt(&path("read"));
        assert_eq!((entities.get(&path("registered")), entities.get(&path("read"))), (Some(topic()), None));
        for index in 0..=MOST {
            entities.keep(&path(&format!("q{index}")), topic());
        }
        assert!(entities.0.lock().len() <= MOST);
        assert!(entities.get(&path("registered")).is_some() && entities.get(&path(&format!("q{MOST}"))).is_some());
        entities.forget(&path("registered"));
        assert_eq!(entities.get(&path("registered")), None);
    }
}
