//! Conversions of the suite's settings to those of the model, for brokers that have its entities and rules.

use crate::{Correlation, Filter, QueueSpec, RuleSpec, Status, SubscriptionSpec, TopicSpec};
use consign::{
    administration::{self, QueueSettings, SubscriptionSettings, TopicSettings},
    message::EntityPath,
    rules::{self, CorrelationFilter, ParseError, Rule, SqlAction, SqlFilter},
    transport::{ErrorKind, ManageError},
};

/// Returns the settings of a queue.
#[must_use]
pub fn queue(spec: &QueueSpec) -> QueueSettings {
    let mut settings = QueueSettings::default();
    settings.lock_duration = spec.lock_duration.unwrap_or(settings.lock_duration);
    settings.max_delivery_count = spec.max_delivery_count.unwrap_or(settings.max_delivery_count);
    settings.default_time_to_live = spec.time_to_live;
    settings.dead_letter_on_expiration = spec.dead_letter_on_expiration;
    settings.requires_session = spec.requires_session;
    settings.duplicate_detection = spec.duplicate_window;
    settings.forward_to = spec.forward_to.as_ref().map(EntityPath::to_string);
    settings.forward_dead_letters_to = spec.forward_dead_letters_to.as_ref().map(EntityPath::to_string);
    settings.max_size = spec.max_size.unwrap_or(settings.max_size);
    settings.max_message_size = spec.max_message_size.unwrap_or(settings.max_message_size);
    settings
}

/// Returns the settings of a topic.
#[must_use]
pub fn topic(spec: &TopicSpec) -> TopicSettings {
    let mut settings = TopicSettings::default();
    settings.default_time_to_live = spec.time_to_live;
    settings.duplicate_detection = spec.duplicate_window;
    settings
}

/// Returns the settings of a subscription.
#[must_use]
pub fn subscription(spec: &SubscriptionSpec) -> SubscriptionSettings {
    let mut settings = SubscriptionSettings::default();
    settings.lock_duration = spec.lock_duration.unwrap_or(settings.lock_duration);
    settings.max_delivery_count = spec.max_delivery_count.unwrap_or(settings.max_delivery_count);
    settings.default_time_to_live = spec.time_to_live;
    settings.dead_letter_on_expiration = spec.dead_letter_on_expiration;
    settings.dead_letter_on_filter_error = spec.dead_letter_on_filter_error;
    settings.requires_session = spec.requires_session;
    settings.forward_to = spec.forward_to.as_ref().map(EntityPath::to_string);
    settings
}

/// Returns which directions of an entity are open.
#[must_use]
pub fn status(status: Status) -> administration::Status {
    match status {
        Status::Active => administration::Status::Active,
        Status::Disabled => administration::Status::Disabled,
        Status::SendDisabled => administration::Status::SendDisabled,
        Status::ReceiveDisabled => administration::Status::ReceiveDisabled,
    }
}

/// Returns the topic and the name of a subscription.
///
/// # Errors
///
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for another path.
pub fn parts(path: &EntityPath) -> Result<(&str, &str), ManageError> {
    let no_subscription = || ManageError::new(ErrorKind::InvalidArgument).with_detail("the path of no subscription");
    path.subscription().ok_or_else(no_subscription)
}

/// Returns a rule with its filter and its action.
///
/// # Errors
///
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for an expression that cannot be read.
pub fn rule(spec: &RuleSpec) -> Result<Rule, ManageError> {
    let filter = match &spec.filter {
        Filter::True => rules::Filter::True,
        Filter::False => rules::Filter::False,
        Filter::Correlation(correlation) => filter(correlation)?.into(),
        Filter::Sql(expression) => SqlFilter::parse(expression).map_err(unreadable)?.into(),
    };
    let rule = Rule::new(spec.name, filter)?;
    match spec.action {
        None => Ok(rule),
        Some(statements) => Ok(rule.with_action(SqlAction::parse(statements).map_err(unreadable)?)),
    }
}

fn unreadable(error: ParseError) -> ManageError {
    ManageError::new(ErrorKind::InvalidArgument).with_detail(error.to_string()).with_source(error)
}

fn filter(correlation: &Correlation) -> Result<CorrelationFilter, ManageError> {
    let mut filter = CorrelationFilter::builder();
    macro_rules! fields {
        ($($field:ident),*) => {$(
            if let Some(value) = correlation.$field {
                filter = filter.$field(value);
            }
        )*};
    }
    fields!(content_type, correlation_id, subject, message_id, reply_to, reply_to_session_id, session_id, to);
    for &(key, value) in &correlation.properties {
        filter = filter.property(key, value);
    }
    Ok(filter.build()?)
}
