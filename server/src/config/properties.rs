//! The settings of entities, as both formats have them.

use std::{collections::BTreeMap, time::Duration};

use consign_core::{
    administration::{EntitySettings, QueueSettings, Status, SubscriptionSettings, TopicSettings},
    message::PropertyValue,
};
use consign_rules::{CorrelationFilter, Filter, SqlFilter};
use serde::Deserialize;

use super::{ConfigError, duration::IsoDuration};

/// The window of duplicate detection, where none is given.
const WINDOW: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Deserialize)]
pub(super) enum StatusName {
    #[serde(alias = "active")]
    Active,
    #[serde(alias = "disabled")]
    Disabled,
    #[serde(alias = "send_disabled")]
    SendDisabled,
    #[serde(alias = "receive_disabled")]
    ReceiveDisabled,
}

impl From<StatusName> for Status {
    fn from(name: StatusName) -> Self {
        match name {
            StatusName::Active => Self::Active,
            StatusName::Disabled => Self::Disabled,
            StatusName::SendDisabled => Self::SendDisabled,
            StatusName::ReceiveDisabled => Self::ReceiveDisabled,
        }
    }
}

macro_rules! properties {
    ($(#[$doc:meta])* $name:ident { $($field:ident $alias:literal: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct $name {
            $(#[serde(alias = $alias)] $field: Option<$type>,)*
            #[serde(alias = "UserMetadata")]
            user_metadata: Option<String>,
            #[serde(alias = "EnableBatchedOperations")]
            enable_batched_operations: Option<bool>,
        }
    };
}

properties! {
    /// Of a queue.
    QueueProperties {
        lock_duration "LockDuration": IsoDuration,
        max_delivery_count "MaxDeliveryCount": u32,
        default_message_time_to_live "DefaultMessageTimeToLive": IsoDuration,
        dead_lettering_on_message_expiration "DeadLetteringOnMessageExpiration": bool,
        max_size_in_megabytes "MaxSizeInMegabytes": u32,
        max_message_size_in_kilobytes "MaxMessageSizeInKilobytes": u32,
        requires_session "RequiresSession": bool,
        requires_duplicate_detection "RequiresDuplicateDetection": bool,
        duplicate_detection_history_time_window "DuplicateDetectionHistoryTimeWindow": IsoDuration,
        enable_partitioning "EnablePartitioning": bool,
        forward_to "ForwardTo": String,
        forward_dead_lettered_messages_to "ForwardDeadLetteredMessagesTo": String,
        auto_delete_on_idle "AutoDeleteOnIdle": IsoDuration,
        status "Status": StatusName,
    }
}

properties! {
    /// Of a topic.
    TopicProperties {
        default_message_time_to_live "DefaultMessageTimeToLive": IsoDuration,
        max_size_in_megabytes "MaxSizeInMegabytes": u32,
        max_message_size_in_kilobytes "MaxMessageSizeInKilobytes": u32,
        requires_duplicate_detection "RequiresDuplicateDetection": bool,
        duplicate_detection_history_time_window "DuplicateDetectionHistoryTimeWindow": IsoDuration,
        enable_partitioning "EnablePartitioning": bool,
        auto_delete_on_idle "AutoDeleteOnIdle": IsoDuration,
        status "Status": StatusName,
    }
}

properties! {
    /// Of a subscription.
    SubscriptionProperties {
        lock_duration "LockDuration": IsoDuration,
        max_delivery_count "MaxDeliveryCount": u32,
        default_message_time_to_live "DefaultMessageTimeToLive": IsoDuration,
        dead_lettering_on_message_expiration "DeadLetteringOnMessageExpiration": bool,
        dead_lettering_on_filter_evaluation_exceptions "DeadLetteringOnFilterEvaluationExceptions": bool,
        requires_session "RequiresSession": bool,
        forward_to "ForwardTo": String,
        forward_dead_lettered_messages_to "ForwardDeadLetteredMessagesTo": String,
        auto_delete_on_idle "AutoDeleteOnIdle": IsoDuration,
        status "Status": StatusName,
    }
}

/// Sets what is given.
macro_rules! set {
    ($settings:ident, $given:ident: $($field:ident = $from:ident,)*) => {
        $(if let Some(value) = $given.$from { $settings.$field = value.into(); })*
    };
}

/// An empty text is none.
fn path(given: Option<String>) -> Option<String> {
    given.filter(|path| !path.is_empty())
}

fn window(requires: Option<bool>, given: Option<IsoDuration>, default: Option<Duration>) -> Option<Duration> {
    requires.unwrap_or(false).then(|| given.map_or(default.unwrap_or(WINDOW), |window| window.0))
}

fn limit(given: Option<IsoDuration>, default: Option<Duration>) -> Option<Duration> {
    given.map_or(default, IsoDuration::limited)
}

fn bytes(count: Option<u32>, unit: u32, default: u64) -> u64 {
    count.map_or(default, |count| u64::from(count) * u64::from(unit))
}

/// The defaults of a format.
#[derive(Clone, Debug)]
pub(super) struct Defaults {
    pub(super) queue: QueueSettings,
    pub(super) window: Option<Duration>,
}

impl QueueProperties {
    pub(super) fn settings(self, defaults: &Defaults) -> Result<QueueSettings, ConfigError> {
        let given = self;
        let mut settings = defaults.queue.clone();
        if let Some(duration) = given.lock_duration {
            settings.lock_duration = duration.0;
        }
        set!(settings, given:
            max_delivery_count = max_delivery_count,
            dead_letter_on_expiration = dead_lettering_on_message_expiration,
            requires_session = requires_session,
            partitioned = enable_partitioning,
            status = status,
        );
        settings.default_time_to_live = limit(given.default_message_time_to_live, settings.default_time_to_live);
        settings.auto_delete_on_idle = limit(given.auto_delete_on_idle, None);
        settings.max_size = bytes(given.max_size_in_megabytes, 1 << 20, settings.max_size);
        settings.max_message_size = message_size(given.max_message_size_in_kilobytes, settings.max_message_size);
        let history = given.duplicate_detection_history_time_window;
        settings.duplicate_detection = window(given.requires_duplicate_detection, history, defaults.window);
        settings.forward_to = path(given.forward_to);
        settings.forward_dead_letters_to = path(given.forward_dead_lettered_messages_to);
        settings.metadata.user = given.user_metadata;
        settings.metadata.batched_operations = given.enable_batched_operations;
        check(&settings.clone().into())?;
        Ok(settings)
    }
}

impl TopicProperties {
    pub(super) fn settings(self, defaults: &Defaults) -> Result<TopicSettings, ConfigError> {
        let given = self;
        let mut settings = TopicSettings::default();
        set!(settings, given: partitioned = enable_partitioning, status = status,);
        settings.default_time_to_live = limit(given.default_message_time_to_live, defaults.queue.default_time_to_live);
        settings.auto_delete_on_idle = limit(given.auto_delete_on_idle, None);
        settings.max_size = bytes(given.max_size_in_megabytes, 1 << 20, settings.max_size);
        settings.max_message_size = message_size(given.max_message_size_in_kilobytes, settings.max_message_size);
        let history = given.duplicate_detection_history_time_window;
        settings.duplicate_detection = window(given.requires_duplicate_detection, history, defaults.window);
        settings.metadata.user = given.user_metadata;
        settings.metadata.batched_operations = given.enable_batched_operations;
        check(&settings.clone().into())?;
        Ok(settings)
    }
}

impl SubscriptionProperties {
    pub(super) fn settings(self, defaults: &Defaults) -> Result<SubscriptionSettings, ConfigError> {
        let given = self;
        let mut settings = SubscriptionSettings::default()
            .lock_duration(given.lock_duration.map_or(defaults.queue.lock_duration, |duration| duration.0))
            .max_delivery_count(given.max_delivery_count.unwrap_or(defaults.queue.max_delivery_count));
        set!(settings, given:
            dead_letter_on_expiration = dead_lettering_on_message_expiration,
            dead_letter_on_filter_error = dead_lettering_on_filter_evaluation_exceptions,
            requires_session = requires_session,
            status = status,
        );
        settings.default_time_to_live = limit(given.default_message_time_to_live, defaults.queue.default_time_to_live);
        settings.auto_delete_on_idle = limit(given.auto_delete_on_idle, None);
        settings.forward_to = path(given.forward_to);
        settings.forward_dead_letters_to = path(given.forward_dead_lettered_messages_to);
        settings.metadata.user = given.user_metadata;
        settings.metadata.batched_operations = given.enable_batched_operations;
        check(&settings.clone().into())?;
        Ok(settings)
    }
}

fn message_size(kilobytes: Option<u32>, default: usize) -> usize {
    kilobytes.map_or(default, |count| usize::try_from(u64::from(count) << 10).unwrap_or(usize::MAX))
}

fn check(settings: &EntitySettings) -> Result<(), ConfigError> {
    settings.check().map_err(|error| ConfigError::new(error.to_string()))
}

/// A correlation filter.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "they are those of the format")]
pub(super) struct Correlation {
    #[serde(alias = "CorrelationId")]
    correlation_id: Option<String>,
    #[serde(alias = "MessageId")]
    message_id: Option<String>,
    #[serde(alias = "To")]
    to: Option<String>,
    #[serde(alias = "ReplyTo")]
    reply_to: Option<String>,
    #[serde(alias = "Label", alias = "Subject", alias = "label")]
    subject: Option<String>,
    #[serde(alias = "SessionId")]
    session_id: Option<String>,
    #[serde(alias = "ReplyToSessionId")]
    reply_to_session_id: Option<String>,
    #[serde(alias = "ContentType")]
    content_type: Option<String>,
    #[serde(alias = "Properties")]
    properties: BTreeMap<String, Property>,
}

/// The value of a property: a whole number is a long.
#[derive(Deserialize)]
#[serde(untagged)]
enum Property {
    Text(String),
    Truth(bool),
    Whole(i64),
    Real(f64),
}

impl From<Property> for PropertyValue {
    fn from(property: Property) -> Self {
        match property {
            Property::Text(text) => text.into(),
            Property::Truth(truth) => truth.into(),
            Property::Whole(number) => number.into(),
            Property::Real(number) => number.into(),
        }
    }
}

/// The filter of a rule: one of both, or every message.
pub(super) fn filter(sql: Option<&str>, correlation: Option<Correlation>) -> Result<Filter, ConfigError> {
    match (sql, correlation) {
        (Some(sql), None) => Ok(SqlFilter::parse(sql).map_err(|error| ConfigError::new(error.to_string()))?.into()),
        (None, Some(correlation)) => correlation.filter(),
        (None, None) => Ok(Filter::True),
        (Some(_), Some(_)) => Err(ConfigError::new("a rule has an SQL filter or a correlation filter, not both")),
    }
}

impl Correlation {
    fn filter(self) -> Result<Filter, ConfigError> {
        let mut builder = CorrelationFilter::builder();
        macro_rules! fields {
            ($($field:ident)*) => { $(if let Some(value) = self.$field { builder = builder.$field(value); })* };
        }
        fields!(correlation_id message_id to reply_to subject session_id reply_to_session_id content_type);
        for (name, value) in self.properties {
            builder = builder.property(name, value);
        }
        Ok(builder.build().map_err(|error| ConfigError::new(error.to_string()))?.into())
    }
}
