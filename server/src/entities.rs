//! Entities by the addresses of links.

use std::sync::Arc;

use consign_broker::{Broker, Queue, QueueSender, Topic};
use consign_core::{
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    message::EntityPath,
    transport::{ErrorKind, ManageError, SendError},
};

use crate::errors::{Failure, text};

const CBS: &str = "$cbs";
const MANAGEMENT: &str = "$management";

/// What an address names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Address {
    /// `$cbs`, which takes tokens.
    Cbs,
    /// The management node of an entity.
    Management(EntityPath),
    /// An entity, or a sub-queue of one.
    Entity(EntityPath),
}

impl Address {
    /// Reads an address: a path with or without a slash in front, or a URL whose path it is. The names of nodes and the word
    /// `Subscriptions` may have any case.
    pub(crate) fn parse(address: &str) -> Result<Self, Failure> {
        // Only a URL has a query: the name with a question mark is refused.
        let is_url = address.split_once("://").is_some_and(|(scheme, _)| !scheme.contains(['/', '?']));
        let path = if is_url { path_of(address) } else { address.trim_matches('/') };
        if path.eq_ignore_ascii_case(CBS) {
            return Ok(Self::Cbs);
        }
        let entity = |path: &str| {
            EntityPath::new(path).map_err(|error| {
                let mut failure = Failure::no_entity(address);
                failure.description = format!("{} {error}", failure.description).into();
                failure
            })
        };
        match path.rsplit_once('/') {
            Some((path, node)) if node.eq_ignore_ascii_case(MANAGEMENT) => Ok(Self::Management(entity(path)?)),
            _ => Ok(Self::Entity(entity(path)?)),
        }
    }
}

/// The path of an address or of the resource of a token, without a query and slashes at its ends.
pub(crate) fn path_of(address: &str) -> &str {
    let path = match address.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => address,
    };
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    path.trim_matches('/')
}

/// The key of the entity that an address or an audience names, also if it is that of its management node.
pub(crate) fn entity_of(address: &str) -> String {
    let key = path_of(address).to_lowercase();
    match key.strip_suffix(MANAGEMENT) {
        Some("") => String::new(),
        Some(entity) if entity.ends_with('/') => entity.trim_end_matches('/').to_owned(),
        _ => key,
    }
}

/// An entity of the broker.
#[derive(Clone, Debug)]
pub(crate) enum Entity {
    /// A queue, a subscription, or a sub-queue.
    Queue(Queue),
    /// A topic.
    Topic(Topic),
}

impl Entity {
    /// Finds an entity, and creates it if the server creates entities.
    pub(crate) fn find(broker: &Broker, path: &EntityPath, create: Option<Creation>) -> Result<Self, Failure> {
        let found = Self::existing(broker, path);
        let (Err(error), Some(creation)) = (&found, create) else {
            return found.map_err(|error| failure(error, path));
        };
        if error.kind() == ErrorKind::EntityNotFound {
            match creation.create(broker, &path.parent()) {
                Ok(()) => tracing::info!(entity = %path.parent(), "created"),
                // Another link has created it.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failure(error, path)),
            }
        }
        Self::existing(broker, path).map_err(|error| failure(error, path))
    }

    fn existing(broker: &Broker, path: &EntityPath) -> Result<Self, ManageError> {
        match broker.queue(path.as_str()) {
            Err(error) if error.kind() == ErrorKind::EntityNotFound && !path.is_sub_queue() => {
                broker.topic(path.as_str()).map(Self::Topic)
            }
            found => found.map(Self::Queue),
        }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> EntityPath {
        match self {
            Self::Queue(queue) => queue.path(),
            Self::Topic(topic) => topic.path().clone(),
        }
    }

    /// Returns the key by which paths are compared.
    pub(crate) fn key(&self) -> Arc<str> {
        key(&self.path())
    }

    /// Returns a sender.
    pub(crate) fn sender(&self) -> Result<QueueSender, SendError> {
        match self {
            Self::Queue(queue) => queue.sender(),
            Self::Topic(topic) => Ok(topic.sender()),
        }
    }

    /// Returns the size of the largest message in bytes.
    pub(crate) fn max_message_size(&self) -> u64 {
        let size = match self {
            Self::Queue(queue) => queue.settings().map(|settings| settings.max_message_size),
            Self::Topic(topic) => topic.settings().map(|settings| settings.max_message_size),
        };
        size.unwrap_or(QueueSettings::default().max_message_size) as u64
    }

    /// Returns the size of the largest message that a receiver gets. The topic of a subscription limits it.
    pub(crate) fn max_delivery_size(&self, broker: &Broker) -> u64 {
        let path = self.path().parent();
        match path.subscription().and_then(|(topic, _)| broker.topic(topic).ok()) {
            Some(topic) => Self::Topic(topic).max_message_size(),
            None => self.max_message_size(),
        }
    }
}

/// Returns the key by which paths are compared.
pub(crate) fn key(path: &EntityPath) -> Arc<str> {
    path.as_str().to_lowercase().into()
}

fn failure(error: impl std::borrow::Borrow<ManageError>, path: &EntityPath) -> Failure {
    let error = error.borrow();
    match error.kind() {
        ErrorKind::EntityNotFound => Failure::no_entity(path.as_str()),
        kind => Failure::new(kind, text(kind, error.description(), error)),
    }
}

/// How an entity is created on first use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Creation {
    /// Whether the link that uses it accepts a session.
    pub(crate) sessions: bool,
}

impl Creation {
    fn create(self, broker: &Broker, path: &EntityPath) -> Result<(), ManageError> {
        let Some((topic, name)) = path.subscription() else {
            let settings = QueueSettings::default().requires_session(self.sessions);
            return broker.create_queue(path.as_str(), settings).map(drop);
        };
        let topic = match broker.topic(topic) {
            Err(error) if error.kind() == ErrorKind::EntityNotFound => {
                match broker.create_topic(topic, TopicSettings::default()) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => broker.topic(topic),
                    created => created,
                }
            }
            found => found,
        }?;
        let mut settings = SubscriptionSettings::default();
        settings.requires_session = self.sessions;
        topic.create_subscription(name, settings).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(address: &str) -> String {
        match Address::parse(address).unwrap() {
            Address::Entity(path) => path.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// Rules: A-39.
    #[test]
    fn an_address_is_a_path_or_a_url() {
        for address in
            ["orders", "/orders", "orders/", "amqps://host:5671/orders", "sb://host/orders/", "amqp://host/orders?x=1"]
        {
            assert_eq!(entity(address), "orders", "{address}");
        }
        assert_eq!(entity("amqps://host/a/b/c"), "a/b/c");
        assert_eq!(
            key(&EntityPath::new("T/SUBSCRIPTIONS/S").unwrap()),
            key(&EntityPath::new("t/Subscriptions/s").unwrap())
        );
    }

    #[test]
    fn nodes_have_names_of_any_case() {
        assert_eq!(Address::parse("$CBS").unwrap(), Address::Cbs);
        assert_eq!(Address::parse("amqps://host/$cbs").unwrap(), Address::Cbs);
        let queue = EntityPath::new("orders").unwrap();
        assert_eq!(Address::parse("orders/$Management").unwrap(), Address::Management(queue.clone()));
        let dead = Address::parse("amqp://host:1/orders/$DeadLetterQueue/$management").unwrap();
        assert_eq!(dead, Address::Management(queue.dead_letter()));
    }

    /// Rules: A-39.
    #[test]
    fn an_address_that_names_nothing_is_not_found() {
        for address in ["", "/", "sb://host", "$other", "a//b", "a?b", "/a?x=1", "a?next=sb://h/b"] {
            let failure = Address::parse(address).unwrap_err();
            assert_eq!(failure.condition.as_str(), "amqp:not-found", "{address}");
        }
    }
}
