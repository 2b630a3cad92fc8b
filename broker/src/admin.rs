use std::sync::Arc;

use consign_core::{
    administration::{Entity, EntityKind, QueueSettings, TopicSettings},
    message::EntityPath,
    transport::{ErrorKind, ManageError, SendError},
};

use super::{
    Broker, Queue, QueueSender, Topic,
    engine::{Change, Part, StoreId},
};

impl Broker {
    /// The maximum number of entities of one broker.
    pub const MAX_ENTITIES: usize = 10_000;
    /// The maximum number of subscriptions of one topic.
    pub const MAX_SUBSCRIPTIONS: usize = 2_000;

    /// Creates a queue. [`Broker::declare_queue`] also accepts one that exists, as that of a store at the second start.
    ///
    /// Errors: [`InvalidArgument`](ErrorKind::InvalidArgument) for a path or a setting that breaks a rule, and
    /// [`AlreadyExists`](ErrorKind::AlreadyExists). [`QuotaExceeded`](ErrorKind::QuotaExceeded) beyond
    /// [`Broker::MAX_ENTITIES`]. [`EntityNotFound`](ErrorKind::EntityNotFound) if a forward names no entity.
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) for the path of a sub-queue or a subscription, for a forward
    /// to a subscription, and for a forward of an entity that requires sessions.
    pub fn create_queue(&self, path: &str, settings: QueueSettings) -> Result<Queue, ManageError> {
        let path = EntityPath::new(path)?;
        let store = self.create(path.clone(), Change::Queue(settings))?;
        Ok(Queue { shared: Arc::clone(&self.shared), store, part: Part::Main, entity: path })
    }

    /// Creates a topic. Errors: those of [`Broker::create_queue`].
    pub fn create_topic(&self, path: &str, settings: TopicSettings) -> Result<Topic, ManageError> {
        let path = EntityPath::new(path)?;
        let store = self.create(path.clone(), Change::Topic(settings))?;
        Ok(Topic { shared: Arc::clone(&self.shared), store, path })
    }

    /// Returns the queue at `path` with these settings, and creates it if it does not exist. Its messages stay. This
    /// is how RabbitMQ declares queues (RabbitMQ: Queues, Declaration and Property Equivalence).
    ///
    /// Errors: those of [`Broker::create_queue`]. Here [`AlreadyExists`](ErrorKind::AlreadyExists) means that the
    /// path has another kind of entity, or that a setting, which the error names, differs: [`Broker::update_queue`]
    /// changes it.
    pub fn declare_queue(&self, path: &str, settings: QueueSettings) -> Result<Queue, ManageError> {
        let (store, entity) = self.declare(path, Change::Queue(settings))?;
        Ok(Queue { shared: Arc::clone(&self.shared), store, part: Part::Main, entity })
    }

    /// Returns the topic at `path` with these settings, and creates it if it does not exist. Its subscriptions stay.
    /// Errors: those of [`Broker::declare_queue`].
    pub fn declare_topic(&self, path: &str, settings: TopicSettings) -> Result<Topic, ManageError> {
        let (store, path) = self.declare(path, Change::Topic(settings))?;
        Ok(Topic { shared: Arc::clone(&self.shared), store, path })
    }

    fn declare(&self, path: &str, change: Change) -> Result<(StoreId, EntityPath), ManageError> {
        let path = EntityPath::new(path)?;
        self.shared.check_open::<ManageError>()?;
        let now = self.shared.now();
        self.shared.with(|state| state.engine.declare(now, path, change, None))
    }

    fn create(&self, path: EntityPath, change: Change) -> Result<StoreId, ManageError> {
        self.shared.check_open::<ManageError>()?;
        let now = self.shared.now();
        self.shared.with(|state| state.engine.create(now, path, change, None))
    }

    /// Changes the settings of a queue. Locks are released without a count if their duration changes.
    ///
    /// On a disk it blocks this thread before a change of [`QueueSettings::dead_letter_on_expiration`]. It first
    /// dead-letters expired messages that are only on the disk.
    ///
    /// Errors: those of its creation, [`EntityNotFound`](ErrorKind::EntityNotFound), and
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) for a setting that is fixed when the queue is created.
    pub fn update_queue(&self, path: &str, settings: QueueSettings) -> Result<(), ManageError> {
        let (store, _) = self.find(path, EntityKind::Queue)?;
        self.shared.update(store, Change::Queue(settings))
    }

    /// Changes the settings of a topic. Errors: those of [`Broker::update_queue`].
    pub fn update_topic(&self, path: &str, settings: TopicSettings) -> Result<(), ManageError> {
        let (store, _) = self.find(path, EntityKind::Topic)?;
        self.shared.update(store, Change::Topic(settings))
    }

    /// Deletes a queue or a subscription with its messages, or a topic with its subscriptions. Errors:
    /// [`InvalidArgument`](ErrorKind::InvalidArgument), [`EntityNotFound`](ErrorKind::EntityNotFound),
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) for a sub-queue, which is deleted with its entity.
    pub fn delete(&self, path: &str) -> Result<(), ManageError> {
        let path = EntityPath::new(path)?;
        if path.is_sub_queue() {
            return Err(
                ManageError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue is deleted with its entity")
            );
        }
        self.shared.check_open::<ManageError>()?;
        let now = self.shared.now();
        self.shared.with(|state| match state.engine.find(now, &path.key()) {
            Some((store, ..)) => state.engine.delete(now, store),
            None => Err(missing(&path)),
        })
    }

    /// Returns the queue, the subscription, or the sub-queue of one, at `path`; case does not matter. Errors:
    /// [`InvalidArgument`](ErrorKind::InvalidArgument), and [`EntityNotFound`](ErrorKind::EntityNotFound), also for a
    /// topic. The only part of a topic to receive from is its transfer dead-letter sub-queue.
    pub fn queue(&self, path: &str) -> Result<Queue, ManageError> {
        let path = EntityPath::new(path)?;
        let part = match (path.is_dead_letter(), path.is_transfer_dead_letter()) {
            (true, _) => Part::DeadLetter,
            (_, true) => Part::TransferDeadLetter,
            _ => Part::Main,
        };
        self.shared.check_open::<ManageError>()?;
        let now = self.shared.now();
        match self.shared.with(|state| state.engine.find(now, &path.parent().key())) {
            Some((store, kind, entity)) if kind != EntityKind::Topic || part == Part::TransferDeadLetter => {
                Ok(Queue { shared: Arc::clone(&self.shared), store, part, entity })
            }
            _ => Err(missing(&path)),
        }
    }

    /// Returns a sender to the queue or the topic at `path`, for example the ReplyTo of a message. Errors:
    /// [`EntityNotFound`](ErrorKind::EntityNotFound), and [`InvalidOperation`](ErrorKind::InvalidOperation) for an entity
    /// that accepts no sends; see [`Queue::sender`].
    pub fn sender(&self, path: &EntityPath) -> Result<QueueSender, SendError> {
        self.shared.check_open::<SendError>()?;
        let now = self.shared.now();
        match self.shared.with(|state| state.engine.find(now, &path.parent().key())) {
            Some((store, kind @ (EntityKind::Queue | EntityKind::Topic), entity)) if !path.is_sub_queue() => {
                Ok(QueueSender::new(Arc::clone(&self.shared), store, entity, kind))
            }
            Some(_) => {
                let part = if path.is_sub_queue() { "a sub-queue" } else { "a subscription" };
                let detail = format!("{path}: {part} accepts no sends");
                Err(SendError::new(ErrorKind::InvalidOperation).with_detail(detail))
            }
            None => Err(SendError::new(ErrorKind::EntityNotFound).with_detail(path.to_string())),
        }
    }

    /// Returns the topic at `path`; case does not matter. Errors: [`InvalidArgument`](ErrorKind::InvalidArgument),
    /// [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub fn topic(&self, path: &str) -> Result<Topic, ManageError> {
        let (store, path) = self.find(path, EntityKind::Topic)?;
        Ok(Topic { shared: Arc::clone(&self.shared), store, path })
    }

    /// Returns all entities, in the order of their paths.
    #[must_use]
    pub fn entities(&self) -> Vec<Entity> {
        let now = self.shared.now();
        let entities = self.shared.with(|state| state.engine.entities(now));
        entities.into_iter().map(|(path, kind)| Entity::new(path, kind)).collect()
    }

    fn find(&self, path: &str, wanted: EntityKind) -> Result<(StoreId, EntityPath), ManageError> {
        let path = EntityPath::new(path)?;
        self.shared.check_open::<ManageError>()?;
        let now = self.shared.now();
        match self.shared.with(|state| state.engine.find(now, &path.key())) {
            Some((store, kind, path)) if kind == wanted => Ok((store, path)),
            _ => Err(missing(&path)),
        }
    }
}

fn missing(path: &EntityPath) -> ManageError {
    ManageError::new(ErrorKind::EntityNotFound).with_detail(path.to_string())
}
