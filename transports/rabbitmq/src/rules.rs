//! The rules of subscriptions.
//!
//! A rule is an exchange, `prices/Subscriptions/audit/$rule-large`, between the topic and the queue of the subscription. Its
//! bindings to the topic are the filter. So a rule is deleted by its name, without its filter, and RabbitMQ deletes the exchange
//! with the queue.

use std::collections::BTreeMap;

use consign_core::{
    message::{EntityPath, PropertyValue},
    transport::{Capability, ErrorKind, ManageError, Unsupported},
};
use consign_rules::{CorrelationFilter, Filter, Rule};
use lapin::{
    ExchangeKind,
    options::{ExchangeBindOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions},
    types::{AMQPValue, FieldTable, ShortString},
};

use crate::{
    RabbitMq,
    client::Shared,
    link::Leased,
    settings::check_path,
    stored::Known,
    wire::{SHORT, names},
};

impl RabbitMq {
    /// Creates a rule, for the messages that its filter matches, besides those of other rules. A message that several rules
    /// match is copied once.
    ///
    /// # Errors
    ///
    /// `NotSupported` for a rule with an SQL filter or an action; `AlreadyExists`; `EntityNotFound`.
    pub async fn create_rule(&self, subscription: &str, rule: &Rule) -> Result<(), ManageError> {
        let path = check_path(subscription)?;
        topic_of(&path)?;
        arguments(rule)?;
        let Known::Queue(settings) = self.0.entities.find(&self.0, &path).await?.known else {
            return Err(ManageError::new(ErrorKind::EntityNotFound));
        };
        let known = Known::Queue(settings.clone());
        if !self.0.exists(&path, &known).await? {
            self.0.entities.doubt(&path);
            return Err(ManageError::new(ErrorKind::EntityNotFound).with_detail(path.to_string()));
        }
        if self.0.has_exchange(&exchange(&path, rule.name())?).await? {
            return Err(ManageError::new(ErrorKind::AlreadyExists).with_detail("a rule of that name"));
        }
        bind(&self.0, &path, settings.requires_session, rule).await
    }

    /// Deletes a rule. That of a new subscription is named `$Default` and matches every message.
    ///
    /// # Errors
    ///
    /// `EntityNotFound` without the subscription or the rule.
    pub async fn delete_rule(&self, subscription: &str, name: &str) -> Result<(), ManageError> {
        let path = check_path(subscription)?;
        topic_of(&path)?;
        let exchange = exchange(&path, name)?;
        if !self.0.has_exchange(&exchange).await? {
            return Err(ManageError::new(ErrorKind::EntityNotFound).with_detail("there is no rule of that name"));
        }
        let deleting = async |leased: &Leased| {
            leased.channel.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default()).await
        };
        Ok(self.0.manage("exchange.delete", deleting).await?)
    }
}

/// Returns the topic of a subscription.
fn topic_of(subscription: &EntityPath) -> Result<&str, ManageError> {
    let no_subscription =
        || ManageError::new(ErrorKind::InvalidArgument).with_detail("the path is not that of a subscription");
    subscription.subscription().map(|(topic, _)| topic).ok_or_else(no_subscription)
}

/// The name of a rule's exchange.
fn exchange(subscription: &EntityPath, rule: &str) -> Result<String, ManageError> {
    let name = format!("{subscription}/$rule-{rule}");
    if name.len() > SHORT {
        let detail = "the path of the subscription and the name of the rule have at most 248 bytes";
        return Err(ManageError::new(ErrorKind::InvalidArgument).with_detail(detail));
    }
    Ok(name)
}

/// Creates the exchange of a rule. The bindings to the topic are the last: a message that comes before it is not lost halfway.
pub(crate) async fn bind(shared: &Shared, path: &EntityPath, by_session: bool, rule: &Rule) -> Result<(), ManageError> {
    let topic = topic_of(path)?;
    let filters = arguments(rule)?;
    let exchange = ShortString::from(exchange(path, rule.name())?);
    let binding = async |leased: &Leased| {
        let channel = &leased.channel;
        // RabbitMQ deletes it with its last binding to a queue.
        let options = ExchangeDeclareOptions { durable: true, auto_delete: true, ..ExchangeDeclareOptions::default() };
        channel.exchange_declare(exchange.clone(), ExchangeKind::Fanout, options, FieldTable::default()).await?;
        let (to, key) = (ShortString::from(path.as_str()), ShortString::default());
        if by_session {
            let options = ExchangeBindOptions::default();
            channel.exchange_bind(to, exchange.clone(), key.clone(), options, FieldTable::default()).await?;
        } else {
            channel
                .queue_bind(to, exchange.clone(), key.clone(), QueueBindOptions::default(), FieldTable::default())
                .await?;
        }
        for filter in filters {
            let options = ExchangeBindOptions::default();
            channel.exchange_bind(exchange.clone(), topic.into(), key.clone(), options, filter).await?;
        }
        Ok(())
    };
    Ok(shared.manage("the binding of a rule", binding).await?)
}

/// Returns the arguments of each binding of a rule. A message that one of them matches is copied once.
fn arguments(rule: &Rule) -> Result<Vec<FieldTable>, ManageError> {
    if rule.action().is_some() {
        return Err(Unsupported::new(Capability::SqlRules).into());
    }
    match rule.filter() {
        Filter::True => Ok(vec![FieldTable::default()]),
        Filter::False => Ok(Vec::new()),
        Filter::Correlation(filter) => correlation(filter),
        Filter::Sql(_) => Err(Unsupported::new(Capability::SqlRules).into()),
    }
}

fn correlation(filter: &CorrelationFilter) -> Result<Vec<FieldTable>, ManageError> {
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
    // Properties that another publisher writes under their names, and this crate does not.
    let mut foreign = Vec::new();
    for (name, value) in filter.properties().iter() {
        let invalid = || ManageError::new(ErrorKind::InvalidArgument).with_detail("a property that cannot be a header");
        // A header without a value would match any.
        let value = Some(value).filter(|value| **value != PropertyValue::Null).ok_or_else(invalid)?;
        let (header, value) = crate::wire::header(name, value).ok_or_else(invalid)?;
        if names::is_foreign(name) {
            foreign.push((header.clone(), ShortString::from(name)));
        }
        arguments.insert(header, value);
    }
    // RabbitMQ: headers exchanges ignore names that begin with `x-`, unless they are configured otherwise.
    let has_x = (&arguments).into_iter().any(|(name, _)| name.as_str().starts_with("x-"));
    let all = if has_x { "all-with-x" } else { "all" };
    arguments.insert("x-match".into(), AMQPValue::LongString(all.into()));
    if foreign.is_empty() {
        return Ok(vec![arguments]);
    }
    let renamed = arguments.inner().iter().map(|(header, value)| {
        let own = foreign.iter().find(|(escaped, _)| escaped == header);
        (own.map_or(header, |(_, name)| name).clone(), value.clone())
    });
    let others = renamed.collect::<BTreeMap<_, _>>().into();
    Ok(vec![arguments, others])
}
