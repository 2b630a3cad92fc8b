//! Queues, topics and subscriptions: one of them.

use axum::http::StatusCode;
use consign_core::{
    administration::Metadata,
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use consign_http::administration::{Description, Entry, QueueDescription, SubscriptionDescription, TopicDescription};
use consign_rules::Rule;

use super::{Request, authorization_rules::complete};
use crate::http::refusal::Refusal;

impl Request<'_> {
    pub(super) fn entity(&self, path: &EntityPath) -> Result<Entry, Refusal> {
        if path.is_sub_queue() {
            return Err(Refusal::bad_request("A sub-queue has no description of its own."));
        }
        let broker = self.http.server.broker();
        if let Some((topic, name)) = path.subscription() {
            let topic = broker.topic(topic).map_err(|error| Self::missing(error, topic))?;
            let subscription = topic.subscription(name).map_err(|error| Self::missing(error, path.as_str()))?;
            return self.show_subscription(topic.path(), &subscription);
        }
        match broker.queue(path.as_str()) {
            Ok(queue) => self.show_queue(&queue),
            Err(error) if error.kind() == ErrorKind::EntityNotFound => {
                let topic = broker.topic(path.as_str());
                self.show_topic(&topic.map_err(|error| Self::missing(error, path.as_str()))?)
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn put_entity(&self, path: &EntityPath, description: Description) -> Result<Entry, Refusal> {
        if path.is_sub_queue() {
            return Err(Refusal::bad_request("A sub-queue is created with its entity."));
        }
        match (path.subscription(), description) {
            (None, Description::Queue(queue)) => self.put_queue(path, &queue),
            (None, Description::Topic(topic)) => self.put_topic(path, &topic),
            (Some((topic, name)), Description::Subscription(subscription)) => {
                self.put_subscription(topic, name, path, &subscription)
            }
            _ => Err(Refusal::bad_request("The path and the description are of different kinds.")),
        }
    }

    fn put_queue(&self, path: &EntityPath, description: &QueueDescription) -> Result<Entry, Refusal> {
        let broker = self.http.server.broker();
        if self.is_update {
            let missing = |error| Self::missing(error, path.as_str());
            let current = broker.queue(path.as_str()).and_then(|queue| queue.settings()).map_err(missing)?;
            let mut settings = description.update(&current)?;
            complete(&mut settings.metadata, &current.metadata, broker.now());
            broker.update_queue(path.as_str(), settings).map_err(|error| not_updated(error, path))?;
        } else {
            let mut settings = description.to_settings()?;
            complete(&mut settings.metadata, &Metadata::default(), broker.now());
            broker.create_queue(path.as_str(), settings).map_err(|error| conflict(error, path))?;
        }
        self.entity(path)
    }

    fn put_topic(&self, path: &EntityPath, description: &TopicDescription) -> Result<Entry, Refusal> {
        let broker = self.http.server.broker();
        if self.is_update {
            let missing = |error| Self::missing(error, path.as_str());
            let current = broker.topic(path.as_str()).and_then(|topic| topic.settings()).map_err(missing)?;
            let mut settings = description.update(&current)?;
            complete(&mut settings.metadata, &current.metadata, broker.now());
            broker.update_topic(path.as_str(), settings).map_err(missing)?;
        } else {
            let mut settings = description.to_settings()?;
            complete(&mut settings.metadata, &Metadata::default(), broker.now());
            broker.create_topic(path.as_str(), settings).map_err(|error| conflict(error, path))?;
        }
        self.entity(path)
    }

    fn put_subscription(
        &self,
        topic: &str,
        name: &str,
        path: &EntityPath,
        description: &SubscriptionDescription,
    ) -> Result<Entry, Refusal> {
        let topic = self.http.server.broker().topic(topic).map_err(|error| Self::missing(error, topic))?;
        if self.is_update {
            let missing = |error| Self::missing(error, path.as_str());
            let current = topic.subscription(name).and_then(|found| found.subscription_settings()).map_err(missing)?;
            let settings = description.update(&current)?;
            topic.update_subscription(name, settings).map_err(|error| not_updated(error, path))?;
        } else {
            let settings = description.to_settings()?;
            let created = match &description.default_rule_description {
                Some(rule) => {
                    let rule = rule.to_rule(Rule::DEFAULT_NAME)?;
                    topic.create_subscription_with(name, settings, rule)
                }
                None => topic.create_subscription(name, settings),
            };
            created.map_err(|error| conflict(error, path))?;
        }
        self.entity(path)
    }
}

/// The refusal of an update. What is not found is the entity, or another one to which it would forward.
fn not_updated(error: ManageError, path: &EntityPath) -> Refusal {
    let is_other = error.description().is_some_and(|other| other.to_lowercase() != path.as_str().to_lowercase());
    if error.kind() == ErrorKind::EntityNotFound && is_other {
        return conflict(error, path);
    }
    Request::missing(error, path.as_str())
}

/// Clients recognise an entity that exists by its status, and people by the text.
pub(super) fn conflict(error: ManageError, path: &EntityPath) -> Refusal {
    if error.kind() == ErrorKind::AlreadyExists {
        return Refusal::new(StatusCode::CONFLICT, format!("The entity '{path}' already exists."));
    }
    // An entity that a forward names: the request is wrong.
    match error.kind() {
        ErrorKind::EntityNotFound => Refusal::bad_request(
            error.description().map_or_else(|| error.to_string(), |path| format!("There is no entity '{path}'.")),
        ),
        _ => error.into(),
    }
}
