use consign_broker::{Broker, Subscription, Topic};
use consign_core::{
    administration::{Metadata, QueueSettings},
    transport::{ErrorKind, ManageError},
};
use consign_rules::{Filter, Rule};

use super::{Config, ConfigError, SubscriptionConfig, TopicConfig};
use crate::errors::text;

impl Config {
    /// Creates the entities that a broker does not have, and changes the settings of those that it has. Rules are added,
    /// or replaced by those of the same name. A subscription with rules loses a `$Default` that is always true and that the file
    /// does not name, since the other rules would filter nothing beside it. Nothing else is deleted: no entity, no rule and no message.
    ///
    /// # Errors
    /// An entity cannot be created or changed: for example, it forwards to one that does not exist, or a setting that is
    /// fixed at its creation differs. The error names it. Entities before it are created.
    pub fn apply(&self, broker: &Broker) -> Result<(), ConfigError> {
        // An entity may forward to a later one: forwards are set when all exist.
        for (name, settings) in &self.queues {
            let mut plain = settings.clone();
            (plain.forward_to, plain.forward_dead_letters_to) = (None, None);
            existing(broker.create_queue(name, plain)).map_err(|error| failure(&error).at(name))?;
        }
        for topic in &self.topics {
            topic.create(broker).map_err(|error| error.at(&topic.name))?;
        }
        for (name, settings) in &self.queues {
            let targets = [settings.forward_to.as_deref(), settings.forward_dead_letters_to.as_deref()];
            update_queue(broker, name, settings).map_err(|error| of_targets(&error, targets).at(name))?;
        }
        for topic in &self.topics {
            topic.update(broker).map_err(|error| error.at(&topic.name))?;
        }
        Ok(())
    }
}

/// None for what exists.
fn existing<T>(created: Result<T, ManageError>) -> Result<Option<T>, ManageError> {
    match created {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
        created => created.map(Some),
    }
}

fn failure(error: &ManageError) -> ConfigError {
    ConfigError::new(text(error.kind(), error.description(), error))
}

/// Names the setting that forwards to an entity that does not exist.
fn of_targets(error: &ManageError, targets: [Option<&str>; 2]) -> ConfigError {
    let failure = failure(error);
    let missing = error.description().filter(|_| error.kind() == ErrorKind::EntityNotFound).map(str::to_lowercase);
    let is_missing = |target: Option<&str>| missing.is_some() && target.map(str::to_lowercase) == missing;
    match targets.into_iter().position(is_missing) {
        Some(setting) => failure.at(["forward_to", "forward_dead_lettered_messages_to"][setting]),
        None => failure,
    }
}

fn update_queue(broker: &Broker, name: &str, settings: &QueueSettings) -> Result<(), ManageError> {
    let existing = broker.queue(name)?.settings()?;
    let mut settings = settings.clone();
    keep(&mut settings.metadata, existing.metadata.clone());
    match existing.difference(&settings) {
        Some(_) => broker.update_queue(name, settings),
        None => Ok(()),
    }
}

/// Keeps the metadata that clients have set and that the file leaves out.
fn keep(metadata: &mut Metadata, existing: Metadata) {
    metadata.user = metadata.user.take().or(existing.user);
    metadata.batched_operations = metadata.batched_operations.or(existing.batched_operations);
    metadata.express = metadata.express.or(existing.express);
    metadata.ordering = metadata.ordering.or(existing.ordering);
    metadata.duplicate_window = metadata.duplicate_window.or(existing.duplicate_window);
    if metadata.authorization_rules.is_empty() {
        metadata.authorization_rules = existing.authorization_rules;
    }
}

impl TopicConfig {
    fn create(&self, broker: &Broker) -> Result<(), ConfigError> {
        existing(broker.create_topic(&self.name, self.settings.clone())).map_err(|error| failure(&error))?;
        let topic = broker.topic(&self.name).map_err(|error| failure(&error))?;
        for subscription in &self.subscriptions {
            subscription.create(&topic).map_err(|error| failure(&error).at(&subscription.name))?;
        }
        Ok(())
    }

    fn update(&self, broker: &Broker) -> Result<(), ConfigError> {
        let topic = broker.topic(&self.name).map_err(|error| failure(&error))?;
        let existing = topic.settings().map_err(|error| failure(&error))?;
        let mut settings = self.settings.clone();
        keep(&mut settings.metadata, existing.metadata.clone());
        if existing.difference(&settings).is_some() {
            broker.update_topic(&self.name, settings).map_err(|error| failure(&error))?;
        }
        for subscription in &self.subscriptions {
            let updated = subscription.update(&topic);
            let settings = &subscription.settings;
            let targets = [settings.forward_to.as_deref(), settings.forward_dead_letters_to.as_deref()];
            updated.map_err(|error| of_targets(&error, targets).at(&subscription.name))?;
        }
        Ok(())
    }
}

impl SubscriptionConfig {
    fn create(&self, topic: &Topic) -> Result<(), ManageError> {
        let mut plain = self.settings.clone();
        (plain.forward_to, plain.forward_dead_letters_to) = (None, None);
        existing(match self.rules.first() {
            Some(rule) => topic.create_subscription_with(&self.name, plain, rule.clone()),
            None => topic.create_subscription(&self.name, plain),
        })?;
        Ok(())
    }

    fn update(&self, topic: &Topic) -> Result<(), ManageError> {
        let subscription = topic.subscription(&self.name)?;
        let existing = subscription.subscription_settings()?;
        let mut settings = self.settings.clone();
        keep(&mut settings.metadata, existing.metadata.clone());
        if existing.difference(&settings).is_some() {
            topic.update_subscription(&self.name, settings)?;
        }
        self.rules.iter().try_for_each(|rule| declare_rule(&subscription, rule))?;
        self.remove_default(topic, &subscription)
    }

    /// Removes the rule of a subscription that was created without rules.
    fn remove_default(&self, topic: &Topic, subscription: &Subscription) -> Result<(), ManageError> {
        if self.rules.is_empty() || self.rules.iter().any(|rule| rule.is_named(Rule::DEFAULT_NAME)) {
            return Ok(());
        }
        let default = subscription.rule(Rule::DEFAULT_NAME);
        if default.is_some_and(|rule| matches!(rule.filter(), Filter::True) && rule.action().is_none()) {
            subscription.delete_rule(Rule::DEFAULT_NAME)?;
            let (topic, name) = (topic.path(), subscription.name());
            tracing::info!(%topic, subscription = name, "$Default was removed, as the configuration has other rules");
        }
        Ok(())
    }
}

fn declare_rule(subscription: &Subscription, rule: &Rule) -> Result<(), ManageError> {
    match subscription.rule(rule.name()) {
        Some(existing) if existing == *rule => return Ok(()),
        Some(existing) => drop(subscription.delete_rule(existing.name())?),
        None => {}
    }
    subscription.create_rule(rule.clone())
}
