use std::{collections::btree_map::Entry, sync::Arc};

use consign_core::{
    administration::{Administration, Counts, Entity, EntityKind, EntitySettings, QueueSettings, unsupported_setting},
    message::EntityPath,
    transport::{Capability, ErrorKind, ManageError, Unsupported},
};

use crate::{Channels, key, queue::Queue};

impl Administration for Channels {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        match self.create_queue(path, settings)? {
            None => Ok(()),
            Some(_) => Err(ManageError::new(ErrorKind::AlreadyExists).with_detail(path.to_string())),
        }
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        match self.create_queue(path, settings)? {
            None => Ok(()),
            Some(found) => EntitySettings::from(found.settings.clone()).check_declared(path, settings),
        }
    }

    async fn update(&self, _: &EntityPath, _: &EntitySettings) -> Result<(), ManageError> {
        Err(ManageError::new(ErrorKind::NotSupported).with_detail("the settings of a queue are fixed"))
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        let removed = self.queues.lock().remove(&key(path));
        removed.map(|queue| queue.delete()).ok_or_else(|| missing(path))
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        let (queue, _) = self.find(path).ok_or_else(|| missing(path))?;
        Ok(queue.settings.clone().into())
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        let queues = self.queues.lock();
        Ok(queues.values().map(|queue| Entity::new(queue.path.clone(), EntityKind::Queue)).collect())
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        let (queue, part) = self.find(path).ok_or_else(|| missing(path))?;
        Ok(queue.counts(part))
    }
}

impl Channels {
    /// Creates a queue, or returns the queue that exists.
    fn create_queue(&self, path: &EntityPath, settings: &EntitySettings) -> Result<Option<Arc<Queue>>, ManageError> {
        let EntitySettings::Queue(settings) = settings else { return Err(Unsupported::new(Capability::Topics).into()) };
        if path.is_sub_queue() {
            return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue belongs to its queue"));
        }
        settings.check()?;
        check_supported(settings)?;
        match self.queues.lock().entry(key(path)) {
            Entry::Occupied(found) => Ok(Some(Arc::clone(found.get()))),
            Entry::Vacant(place) => {
                place.insert(Arc::new(Queue::new(path.clone(), settings.clone(), Arc::clone(&self.clock))));
                Ok(None)
            }
        }
    }
}

/// Refuses every setting but three, also those that a later version of the settings adds.
fn check_supported(settings: &QueueSettings) -> Result<(), ManageError> {
    let supported = QueueSettings::default()
        .max_delivery_count(settings.max_delivery_count)
        .max_size(settings.max_size)
        .max_message_size(settings.max_message_size);
    supported.difference(settings).map_or(Ok(()), |setting| Err(unsupported_setting(setting)))
}

fn missing(path: &EntityPath) -> ManageError {
    ManageError::new(ErrorKind::EntityNotFound).with_detail(path.to_string())
}
