use std::{fmt, time::Duration};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use consign::administration::{EntityKind, EntitySettings, Status};
use serde::Serialize;

use crate::cli::{
    failure::Failure,
    values::{OptionalDuration, duration, optional_duration},
};

/// The settings of an entity as options. Those that are absent are not changed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct Settings {
    /// How long a lock holds: 5 s to 5 min
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    lock_duration: Option<Duration>,
    /// The number of deliveries after which a message is dead-lettered
    #[arg(long, value_name = "COUNT")]
    max_delivery_count: Option<u32>,
    /// The maximum time that a message waits, or none
    #[arg(long, value_name = "DURATION", value_parser = optional_duration)]
    time_to_live: Option<OptionalDuration>,
    /// Whether an expired message is dead-lettered
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    dead_letter_on_expiration: Option<bool>,
    /// Whether a message for which a rule fails is dead-lettered; subscriptions
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    dead_letter_on_filter_error: Option<bool>,
    /// Whether the entity requires sessions; fixed when it is created
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    sessions: Option<bool>,
    /// How long a MessageId is remembered: 20 s to 7 d, or none. Detection cannot be switched on or off later; queues and topics
    #[arg(long, value_name = "DURATION", value_parser = optional_duration)]
    duplicate_detection: Option<OptionalDuration>,
    /// The maximum number of remembered ids; queues and topics
    #[arg(long, value_name = "COUNT")]
    max_duplicate_ids: Option<usize>,
    /// Whether the entity has partitions; fixed when it is created; queues and topics
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    partitioned: Option<bool>,
    /// The size of the entity in bytes; queues and topics
    #[arg(long, value_name = "BYTES")]
    max_size: Option<u64>,
    /// The largest message in bytes; queues and topics
    #[arg(long, value_name = "BYTES")]
    max_message_size: Option<usize>,
    /// The entity to which messages are forwarded; empty for none
    #[arg(long, value_name = "ENTITY")]
    forward_to: Option<String>,
    /// The entity to which dead letters are forwarded; empty for none
    #[arg(long, value_name = "ENTITY")]
    forward_dead_letters_to: Option<String>,
    /// The time without use after which the entity is deleted, or none
    #[arg(long, value_name = "DURATION", value_parser = optional_duration)]
    auto_delete_on_idle: Option<OptionalDuration>,
    /// The directions that are open
    #[arg(long, value_parser = statuses())]
    status: Option<Status>,
}

const STATUSES: [(&str, Status); 4] = [
    ("active", Status::Active),
    ("disabled", Status::Disabled),
    ("send-disabled", Status::SendDisabled),
    ("receive-disabled", Status::ReceiveDisabled),
];

fn statuses() -> impl TypedValueParser<Value = Status> {
    let named = |name: String| STATUSES.into_iter().find(|(known, _)| *known == name).map(|(_, status)| status);
    PossibleValuesParser::new(STATUSES.map(|(name, _)| name)).try_map(move |name| named(name).ok_or("not a status"))
}

fn name(status: Status) -> &'static str {
    STATUSES.into_iter().find(|(_, known)| *known == status).map_or("unknown", |(name, _)| name)
}

/// Sets the named fields of settings that have them all, where an option is given.
macro_rules! set {
    ($options:ident, $settings:ident: $($option:ident => $field:ident $(. $inner:tt)?),* $(,)?) => {$(
        if let Some(value) = $options.$option {
            $settings.$field = value $(. $inner)?;
        }
    )*};
}

impl Settings {
    /// Changes the settings whose options are given.
    ///
    /// # Errors
    ///
    /// An option that the kind of entity does not have.
    pub(crate) fn change(&self, settings: &mut EntitySettings) -> Result<(), Failure> {
        let path = |text: &String| (!text.is_empty()).then(|| text.clone());
        self.check(settings.kind())?;
        match settings {
            EntitySettings::Queue(queue) => {
                set!(self, queue: lock_duration => lock_duration, max_delivery_count => max_delivery_count,
                    time_to_live => default_time_to_live.0, dead_letter_on_expiration => dead_letter_on_expiration,
                    sessions => requires_session, duplicate_detection => duplicate_detection.0,
                    max_duplicate_ids => max_duplicate_ids, partitioned => partitioned, max_size => max_size,
                    max_message_size => max_message_size, auto_delete_on_idle => auto_delete_on_idle.0);
                if let Some(to) = &self.forward_to {
                    queue.forward_to = path(to);
                }
                if let Some(to) = &self.forward_dead_letters_to {
                    queue.forward_dead_letters_to = path(to);
                }
                queue.status = self.status.unwrap_or(queue.status);
            }
            EntitySettings::Topic(topic) => {
                set!(self, topic: time_to_live => default_time_to_live.0, duplicate_detection => duplicate_detection.0,
                    max_duplicate_ids => max_duplicate_ids, partitioned => partitioned, max_size => max_size,
                    max_message_size => max_message_size, auto_delete_on_idle => auto_delete_on_idle.0);
                topic.status = self.status.unwrap_or(topic.status);
            }
            EntitySettings::Subscription(subscription) => {
                set!(self, subscription: lock_duration => lock_duration, max_delivery_count => max_delivery_count,
                    time_to_live => default_time_to_live.0, dead_letter_on_expiration => dead_letter_on_expiration,
                    dead_letter_on_filter_error => dead_letter_on_filter_error, sessions => requires_session,
                    auto_delete_on_idle => auto_delete_on_idle.0);
                if let Some(to) = &self.forward_to {
                    subscription.forward_to = path(to);
                }
                if let Some(to) = &self.forward_dead_letters_to {
                    subscription.forward_dead_letters_to = path(to);
                }
                subscription.status = self.status.unwrap_or(subscription.status);
            }
        }
        Ok(settings.check()?)
    }

    fn check(&self, kind: EntityKind) -> Result<(), Failure> {
        let (queue, topic, subscription) = match kind {
            EntityKind::Queue => (true, false, false),
            EntityKind::Topic => (false, true, false),
            EntityKind::Subscription => (false, false, true),
        };
        let given = [
            ("--lock-duration", self.lock_duration.is_some(), !topic),
            ("--max-delivery-count", self.max_delivery_count.is_some(), !topic),
            ("--dead-letter-on-expiration", self.dead_letter_on_expiration.is_some(), !topic),
            ("--dead-letter-on-filter-error", self.dead_letter_on_filter_error.is_some(), subscription),
            ("--sessions", self.sessions.is_some(), !topic),
            ("--duplicate-detection", self.duplicate_detection.is_some(), queue || topic),
            ("--max-duplicate-ids", self.max_duplicate_ids.is_some(), queue || topic),
            ("--partitioned", self.partitioned.is_some(), queue || topic),
            ("--max-size", self.max_size.is_some(), queue || topic),
            ("--max-message-size", self.max_message_size.is_some(), queue || topic),
            ("--forward-to", self.forward_to.is_some(), !topic),
            ("--forward-dead-letters-to", self.forward_dead_letters_to.is_some(), !topic),
        ];
        match given.into_iter().find(|(_, is_given, fits)| *is_given && !fits) {
            Some((option, ..)) => Err(Failure::usage(format!("a {} does not have {option}", kind.name()))),
            None => Ok(()),
        }
    }
}

/// Settings as they are printed. Durations are in milliseconds, and a setting without a limit is null.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct Shown(serde_json::Map<String, serde_json::Value>);

impl Shown {
    pub(crate) fn new(settings: &EntitySettings) -> Self {
        let EntitySettings::Queue(queue) = as_queue(settings) else { return Self(serde_json::Map::new()) };
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let mut map = serde_json::Map::new();
        let kind = settings.kind();
        let mut put = |name: &str, kinds: &[EntityKind], value: serde_json::Value| {
            if kinds.contains(&kind) {
                map.insert(name.to_owned(), value);
            }
        };
        let (all, own, received) = (
            &[EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription][..],
            &[EntityKind::Queue, EntityKind::Topic][..],
            &[EntityKind::Queue, EntityKind::Subscription][..],
        );
        put("lock_duration", received, millis(queue.lock_duration).into());
        put("max_delivery_count", received, queue.max_delivery_count.into());
        put("time_to_live", all, queue.default_time_to_live.map(millis).into());
        put("dead_letter_on_expiration", received, queue.dead_letter_on_expiration.into());
        if let EntitySettings::Subscription(subscription) = settings {
            put("dead_letter_on_filter_error", received, subscription.dead_letter_on_filter_error.into());
        }
        put("sessions", received, queue.requires_session.into());
        put("duplicate_detection", own, queue.duplicate_detection.map(millis).into());
        put("max_duplicate_ids", own, queue.max_duplicate_ids.into());
        put("partitioned", own, queue.partitioned.into());
        put("max_size", own, queue.max_size.into());
        put("max_message_size", own, queue.max_message_size.into());
        put("forward_to", received, queue.forward_to.clone().into());
        put("forward_dead_letters_to", received, queue.forward_dead_letters_to.clone().into());
        put("auto_delete_on_idle", all, queue.auto_delete_on_idle.map(millis).into());
        put("status", all, name(queue.status).into());
        Self(map)
    }
}

fn as_queue(settings: &EntitySettings) -> EntitySettings {
    match settings {
        EntitySettings::Queue(queue) => queue.clone(),
        EntitySettings::Topic(topic) => topic.to_queue(),
        EntitySettings::Subscription(subscription) => subscription.to_queue(),
    }
    .into()
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "  {name}: ")?;
            match value {
                serde_json::Value::Null => f.write_str("none")?,
                serde_json::Value::String(text) => write!(f, "{}", consign::transport::Escaped(text))?,
                _ => write!(f, "{value}")?,
            }
            if matches!(name.as_str(), "lock_duration" | "time_to_live" | "duplicate_detection" | "auto_delete_on_idle")
                && value.is_number()
            {
                f.write_str(" ms")?;
            }
        }
        Ok(())
    }
}
