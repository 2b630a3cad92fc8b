//! Topics: a headers exchange, and a queue for each subscription.

use std::{sync::Arc, time::Duration};

use consign_core::{
    message::{EntityPath, PropertyValue},
    transport::{Capability, ErrorKind, ManageError, Unsupported},
};
use consign_rules::{CorrelationFilter, Filter, Rule};
use lapin::{
    ExchangeKind,
    options::{
        ExchangeBindOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, ExchangeUnbindOptions, QueueBindOptions,
    },
    types::{AMQPValue, FieldTable},
};

use crate::{
    QueueSettings, RabbitMq,
    client::{Known, Shared},
    error::Failure,
    link::Leased,
    session,
    settings::check_path,
    wire::names,
};

/// The settings of a topic. A [`RabbitMq`] keeps them as it keeps those of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicSettings {
    /// The longest that a copy of a message waits, as the sender counts. None.
    pub default_time_to_live: Option<Duration>,
}

/// The rule that a new subscription has.
const DEFAULT_RULE: &str = "$Default";

impl RabbitMq {
    /// Creates a topic: a durable headers exchange of that name.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; a path or settings that are not allowed.
    pub async fn create_topic(&self, path: &str, settings: TopicSettings) -> Result<(), ManageError> {
        let path = check_path(path)?;
        if has_exchange(&self.0, &path).await? {
            return Err(ManageError::new(ErrorKind::AlreadyExists));
        }
        let declaring = async |leased: &Leased| {
            let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            leased.channel.exchange_declare(path.as_str().into(), ExchangeKind::Headers, durable, none()).await
        };
        self.0.manage("exchange.declare", declaring).await?;
        self.know_topic(path.as_str(), settings)
    }

    /// Registers a topic that was created elsewhere, with its settings.
    pub fn know_topic(&self, path: &str, settings: TopicSettings) -> Result<(), ManageError> {
        self.0.remember(&check_path(path)?, Known::Topic(settings.default_time_to_live));
        Ok(())
    }

    /// Creates a subscription of a topic, which gets every message: a queue at `topic/Subscriptions/name` and its dead-letter
    /// queue. Returns its path.
    ///
    /// # Errors
    ///
    /// `EntityNotFound` without the topic; otherwise as [`create_queue`](Self::create_queue).
    pub async fn create_subscription(
        &self,
        topic: &str,
        name: &str,
        settings: QueueSettings,
    ) -> Result<EntityPath, ManageError> {
        let topic = check_path(topic)?;
        let path = topic.subscription_of(name)?;
        if !has_exchange(&self.0, &topic).await? {
            return Err(ManageError::new(ErrorKind::EntityNotFound));
        }
        let by_session = settings.requires_session.then_some(settings.session_slots);
        self.create_queue(path.as_str(), settings).await?;
        if let Some(slots) = by_session {
            session::declare_exchange(&self.0, &path, slots).await?;
        }
        bind(&self.0, &path, DEFAULT_RULE, none()).await?;
        Ok(path)
    }

    /// Creates a rule: a binding for the messages that its filter matches, besides those of other rules. A message that several
    /// rules match is copied once.
    ///
    /// # Errors
    ///
    /// `NotSupported` for a rule with an SQL filter or an action; `EntityNotFound`.
    pub async fn create_rule(&self, subscription: &str, rule: &Rule) -> Result<(), ManageError> {
        let path = check_path(subscription)?;
        match arguments(rule)? {
            Some(arguments) => Ok(bind(&self.0, &path, rule.name(), arguments).await?),
            None => Ok(()),
        }
    }

    /// Deletes a rule. RabbitMQ finds a binding by all of it, so the rule must have the same filter as when it was created. The
    /// rule of a new subscription is named `$Default` and matches every message. A missing rule is not an error.
    pub async fn delete_rule(&self, subscription: &str, rule: &Rule) -> Result<(), ManageError> {
        let path = check_path(subscription)?;
        let Some(arguments) = arguments(rule)? else { return Ok(()) };
        let topic = topic_of(&path)?;
        let by_session = self.0.settings(&path).requires_session;
        let unbinding = async |leased: &Leased| {
            if by_session {
                let options = ExchangeUnbindOptions::default();
                let (to, from) = (path.as_str().into(), topic.into());
                return leased.channel.exchange_unbind(to, from, rule.name().into(), options, arguments).await;
            }
            leased.channel.queue_unbind(path.as_str().into(), topic.into(), rule.name().into(), arguments).await
        };
        Ok(self.0.manage("queue.unbind", unbinding).await?)
    }
}

fn none() -> FieldTable {
    FieldTable::default()
}

fn topic_of(subscription: &EntityPath) -> Result<&str, ManageError> {
    let no_subscription = || ManageError::new(ErrorKind::InvalidArgument).with_detail("the path of no subscription");
    subscription.subscription().map(|(topic, _)| topic).ok_or_else(no_subscription)
}

async fn has_exchange(shared: &Shared, path: &EntityPath) -> Result<bool, Failure> {
    let asking = async |leased: &Leased| {
        let passive = ExchangeDeclareOptions { passive: true, durable: true, ..ExchangeDeclareOptions::default() };
        leased.channel.exchange_declare(path.as_str().into(), ExchangeKind::Headers, passive, none()).await
    };
    match shared.manage("exchange.declare", asking).await {
        Ok(()) => Ok(true),
        Err(failure) if failure.kind() == ErrorKind::EntityNotFound => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// The name of the rule is the binding's key, which a headers exchange ignores.
async fn bind(shared: &Shared, path: &EntityPath, rule: &str, arguments: FieldTable) -> Result<(), ManageError> {
    let topic = topic_of(path)?;
    let by_session = shared.settings(path).requires_session;
    let binding = async |leased: &Leased| {
        if by_session {
            let options = ExchangeBindOptions::default();
            let (to, from) = (path.as_str().into(), topic.into());
            return leased.channel.exchange_bind(to, from, rule.into(), options, arguments).await;
        }
        let options = QueueBindOptions::default();
        leased.channel.queue_bind(path.as_str().into(), topic.into(), rule.into(), options, arguments).await
    };
    Ok(shared.manage("queue.bind", binding).await?)
}

/// Deletes a topic with the subscriptions that are registered here.
pub(crate) async fn delete(shared: &Arc<Shared>, path: &EntityPath) -> Result<(), ManageError> {
    let deleting = async |leased: &Leased| {
        leased.channel.exchange_delete(path.as_str().into(), ExchangeDeleteOptions::default()).await
    };
    shared.manage("exchange.delete", deleting).await?;
    shared.forget_delays(path.as_str());
    for subscription in shared.known_subscriptions(path) {
        shared.delete(&subscription).await?;
    }
    shared.forget(path);
    Ok(())
}

/// Returns the arguments of a rule's binding; `None` for one that matches nothing.
fn arguments(rule: &Rule) -> Result<Option<FieldTable>, ManageError> {
    if rule.action().is_some() {
        return Err(Unsupported::new(Capability::SqlRules).into());
    }
    match rule.filter() {
        Filter::True => Ok(Some(none())),
        Filter::False => Ok(None),
        Filter::Correlation(filter) => correlation(filter).map(Some),
        _ => Err(Unsupported::new(Capability::SqlRules).into()),
    }
}

fn correlation(filter: &CorrelationFilter) -> Result<FieldTable, ManageError> {
    let mut arguments = FieldTable::default();
    let fields = [
        (names::CONTENT_TYPE, filter.content_type()),
        (names::CORRELATION_ID, filter.correlation_id()),
        (names::SUBJECT, filter.subject()),
        (names::MESSAGE_ID, filter.message_id()),
        (names::REPLY_TO, filter.reply_to()),
        (names::REPLY_TO_SESSION_ID, filter.reply_to_session_id()),
        (names::SESSION_ID, filter.session_id()),
        (names::TO, filter.to()),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            arguments.insert(name.into(), AMQPValue::LongString(value.into()));
        }
    }
    for (name, value) in filter.properties().iter() {
        let invalid = || ManageError::new(ErrorKind::InvalidArgument).with_detail("a property that no header can be");
        // A header without a value would match any.
        let value = Some(value).filter(|value| **value != PropertyValue::Null).ok_or_else(invalid)?;
        let (name, value) = crate::wire::header(name, value).ok_or_else(invalid)?;
        arguments.insert(name, value);
    }
    // RabbitMQ: headers exchanges ignore names that begin with `x-`, unless they are configured otherwise.
    let has_x = (&arguments).into_iter().any(|(name, _)| name.as_str().starts_with("x-"));
    let all = if has_x { "all-with-x" } else { "all" };
    arguments.insert("x-match".into(), AMQPValue::LongString(all.into()));
    Ok(arguments)
}
