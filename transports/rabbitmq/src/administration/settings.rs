//! The settings of consign as those of this crate.

use std::sync::Arc;

use consign_core::{
    administration::{
        EntityKind, EntitySettings, QueueSettings, SubscriptionSettings, TopicSettings, unsupported_setting,
    },
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};

use super::missing;
use crate::{QueueSettings as Own, stored::Known};

/// Returns the settings of this crate. A setting that RabbitMQ does not have must be at its default.
pub(super) fn to_known(path: &EntityPath, settings: &EntitySettings, slots: u16) -> Result<Known, ManageError> {
    settings.check()?;
    check_kind(path, settings.kind())?;
    let known = match settings {
        EntitySettings::Queue(settings) => {
            check_absent(settings, &QueueSettings::default())?;
            let own = Own { max_message_size: Some(settings.max_message_size), ..own(settings, slots) };
            own.check()?;
            Known::Queue(Arc::new(own))
        }
        EntitySettings::Subscription(settings) => {
            if !settings.dead_letter_on_filter_error {
                return Err(unsupported_setting("dead_letter_on_filter_error"));
            }
            check_absent(&settings.to_queue(), &SubscriptionSettings::default().to_queue())?;
            let own = own(&settings.to_queue(), slots);
            own.check()?;
            Known::Queue(Arc::new(own))
        }
        EntitySettings::Topic(settings) => {
            let default = TopicSettings::default().to_queue();
            check_absent(&settings.to_queue(), &default)?;
            if settings.max_message_size != default.max_message_size {
                return Err(unsupported_setting("max_message_size"));
            }
            Known::Topic(settings.default_time_to_live)
        }
    };
    Ok(known)
}

fn check_kind(path: &EntityPath, kind: EntityKind) -> Result<(), ManageError> {
    match (kind, path.subscription()) {
        (EntityKind::Subscription, None) => Err(missing(path)),
        (EntityKind::Queue | EntityKind::Topic, Some(_)) => {
            let detail = format!("{path}: the path of a subscription, with the settings of a {}", kind.name());
            Err(ManageError::new(ErrorKind::InvalidArgument).with_detail(detail))
        }
        _ => Ok(()),
    }
}

fn check_absent(settings: &QueueSettings, default: &QueueSettings) -> Result<(), ManageError> {
    let same = [
        ("max_size", settings.max_size == default.max_size),
        ("duplicate_detection", settings.duplicate_detection == default.duplicate_detection),
        ("max_duplicate_ids", settings.max_duplicate_ids == default.max_duplicate_ids),
        ("partitioned", settings.partitioned == default.partitioned),
        ("forward_to", settings.forward_to == default.forward_to),
        ("forward_dead_letters_to", settings.forward_dead_letters_to == default.forward_dead_letters_to),
        ("auto_delete_on_idle", settings.auto_delete_on_idle == default.auto_delete_on_idle),
        ("status", settings.status == default.status),
    ];
    let absent = same.into_iter().find(|(_, same)| !same).map(|(setting, _)| setting);
    let absent = absent.or_else(|| settings.metadata.difference(&default.metadata));
    absent.map_or(Ok(()), |setting| Err(unsupported_setting(setting)))
}

fn own(settings: &QueueSettings, slots: u16) -> Own {
    Own {
        lock_duration: settings.lock_duration,
        max_delivery_count: settings.max_delivery_count,
        default_time_to_live: settings.default_time_to_live,
        dead_letter_on_expiration: settings.dead_letter_on_expiration,
        max_message_size: None,
        max_length_bytes: None,
        requires_session: settings.requires_session,
        session_slots: slots,
    }
}

/// Returns the settings of consign. Those that it does not have are left out: `max_length_bytes`, `session_slots`.
pub(super) fn from_known(path: &EntityPath, known: &Known) -> EntitySettings {
    match known {
        Known::Topic(ttl) => {
            let mut settings = TopicSettings::default();
            settings.default_time_to_live = *ttl;
            settings.into()
        }
        Known::Queue(own) if path.subscription().is_some() => {
            let mut settings = SubscriptionSettings::default();
            settings.lock_duration = own.lock_duration;
            settings.max_delivery_count = own.max_delivery_count;
            settings.default_time_to_live = own.default_time_to_live;
            settings.dead_letter_on_expiration = own.dead_letter_on_expiration;
            settings.requires_session = own.requires_session;
            settings.into()
        }
        Known::Queue(own) => {
            let mut settings = QueueSettings::default();
            settings.lock_duration = own.lock_duration;
            settings.max_delivery_count = own.max_delivery_count;
            settings.default_time_to_live = own.default_time_to_live;
            settings.dead_letter_on_expiration = own.dead_letter_on_expiration;
            settings.max_message_size = own.max_message_size.unwrap_or(QueueSettings::MAX_MESSAGE_SIZE);
            settings.requires_session = own.requires_session;
            settings.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use consign_core::administration::Status;

    use super::*;

    fn path(path: &str) -> EntityPath {
        EntityPath::new(path).unwrap()
    }

    #[test]
    fn settings_of_consign_come_back() {
        let queue = QueueSettings::default()
            .lock_duration(Duration::from_secs(5))
            .max_delivery_count(2)
            .default_time_to_live(Duration::from_secs(60))
            .dead_letter_on_expiration(true)
            .max_message_size(1_000)
            .requires_session(true);
        let subscription = SubscriptionSettings::default()
            .lock_duration(Duration::from_secs(5))
            .max_delivery_count(2)
            .default_time_to_live(Duration::from_secs(60))
            .dead_letter_on_expiration(true)
            .requires_session(true);
        let topic = TopicSettings::default().default_time_to_live(Duration::from_secs(60));
        let of = |at: &str, settings: EntitySettings| (path(at), settings);
        for (path, settings) in [
            of("q", queue.into()),
            of("q", QueueSettings::default().into()),
            of("t/Subscriptions/s", subscription.into()),
            of("t/Subscriptions/s", SubscriptionSettings::default().into()),
            of("t", topic.into()),
        ] {
            let known = to_known(&path, &settings, 3).unwrap();
            assert_eq!(from_known(&path, &known), settings);
        }
    }

    #[test]
    fn a_setting_that_rabbitmq_does_not_have_is_refused_by_name() {
        let queue = QueueSettings::default;
        let hour = Duration::from_secs(3_600);
        let refused: [(&str, EntitySettings); 12] = [
            ("max_size", queue().max_size(1 << 20).into()),
            ("duplicate_detection", queue().duplicate_detection(hour).into()),
            ("max_duplicate_ids", queue().max_duplicate_ids(7).into()),
            ("partitioned", queue().partitioned(true).into()),
            ("forward_to", queue().forward_to("other").into()),
            ("forward_dead_letters_to", queue().forward_dead_letters_to("other").into()),
            ("auto_delete_on_idle", queue().auto_delete_on_idle(hour).into()),
            ("status", queue().status(Status::Disabled).into()),
            ("max_size", TopicSettings::default().max_size(1 << 20).into()),
            ("max_message_size", TopicSettings::default().max_message_size(1_000).into()),
            ("forward_to", SubscriptionSettings::default().forward_to("other").into()),
            ("dead_letter_on_filter_error", SubscriptionSettings::default().dead_letter_on_filter_error(false).into()),
        ];
        for (name, settings) in refused {
            let at = if settings.kind() == EntityKind::Subscription { "t/Subscriptions/s" } else { "q" };
            let error = to_known(&path(at), &settings, 3).unwrap_err();
            assert!(error.kind() == ErrorKind::NotSupported && error.to_string().contains(name), "{name}: {error}");
        }
    }

    #[test]
    fn a_kind_that_its_path_cannot_have_is_refused() {
        let error = to_known(&path("t/Subscriptions/s"), &QueueSettings::default().into(), 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let error = to_known(&path("q"), &SubscriptionSettings::default().into(), 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EntityNotFound);
    }
}
