//! Settings and their descriptions.

use consign_core::{
    administration::{EntitySettings, unsupported_setting},
    transport::{ErrorKind, ManageError},
};
use consign_http::administration::{
    Description, QueueDescription, SettingsError, SubscriptionDescription, TopicDescription,
};

fn unreadable(error: &SettingsError) -> ManageError {
    ManageError::new(ErrorKind::NotSupported).with_detail(error.to_string())
}

/// Returns the settings of a description.
pub(super) fn read(description: &Description) -> Result<EntitySettings, ManageError> {
    match description {
        Description::Queue(queue) => Ok(queue.to_settings().map_err(|error| unreadable(&error))?.into()),
        Description::Topic(topic) => Ok(topic.to_settings().map_err(|error| unreadable(&error))?.into()),
        Description::Subscription(subscription) => {
            Ok(subscription.to_settings().map_err(|error| unreadable(&error))?.into())
        }
        _ => Err(ManageError::new(ErrorKind::General).with_detail("the answer is not that of an entity")),
    }
}

/// Returns the description of settings. One that it cannot represent, such as a size that is not a whole number of megabytes, is
/// refused by its name.
pub(super) fn describe(settings: &EntitySettings) -> Result<Description, ManageError> {
    let description: Description = match settings {
        EntitySettings::Queue(queue) => QueueDescription::from(queue).into(),
        EntitySettings::Topic(topic) => TopicDescription::from(topic).into(),
        EntitySettings::Subscription(subscription) => SubscriptionDescription::from(subscription).into(),
    };
    match read(&description)?.difference(settings) {
        None => Ok(description),
        // The service has these settings, in larger units.
        Some("max_size") => Err(inexact("max_size must be a whole number of megabytes")),
        Some("max_message_size") => Err(inexact("max_message_size must be a whole number of kilobytes")),
        Some(setting) => Err(unsupported_setting(setting)),
    }
}

fn inexact(detail: &'static str) -> ManageError {
    ManageError::new(ErrorKind::NotSupported).with_detail(detail)
}

/// Returns the entities that settings forward to: messages, dead letters.
pub(super) fn forwards(settings: &EntitySettings) -> (Option<&str>, Option<&str>) {
    match settings {
        EntitySettings::Queue(queue) => (queue.forward_to.as_deref(), queue.forward_dead_letters_to.as_deref()),
        EntitySettings::Topic(_) => (None, None),
        EntitySettings::Subscription(subscription) => {
            (subscription.forward_to.as_deref(), subscription.forward_dead_letters_to.as_deref())
        }
    }
}

/// Refuses a change of a setting that is fixed when the entity is created.
pub(super) fn check_fixed(current: &EntitySettings, new: &EntitySettings) -> Result<(), ManageError> {
    match (current, new) {
        (EntitySettings::Queue(current), EntitySettings::Queue(new)) => current.check_fixed(new),
        (EntitySettings::Topic(current), EntitySettings::Topic(new)) => current.to_queue().check_fixed(&new.to_queue()),
        (EntitySettings::Subscription(current), EntitySettings::Subscription(new)) => {
            current.to_queue().check_fixed(&new.to_queue())
        }
        _ => {
            let detail = "the entity is of another kind";
            Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use consign_core::administration::{QueueSettings, SubscriptionSettings, TopicSettings};

    use super::*;

    #[test]
    fn settings_are_described_or_refused_by_name() {
        for settings in [
            QueueSettings::default().requires_session(true).lock_duration(Duration::from_secs(7)).into(),
            TopicSettings::default().into(),
            EntitySettings::from(SubscriptionSettings::default()),
        ] {
            assert_eq!(read(&describe(&settings).unwrap()).unwrap(), settings);
        }
        let odd = [
            (QueueSettings::default().max_size(1_000_000), "max_size must be a whole number of megabytes"),
            (QueueSettings::default().max_message_size(1_000), "max_message_size must be a whole number of kilobytes"),
        ];
        for (settings, detail) in odd {
            let failure = describe(&settings.into()).unwrap_err();
            assert_eq!((failure.kind(), failure.description()), (ErrorKind::NotSupported, Some(detail)));
        }
    }

    #[test]
    fn what_is_fixed_is_not_changed() {
        let current = EntitySettings::from(QueueSettings::default());
        let new = EntitySettings::from(QueueSettings::default().requires_session(true));
        assert_eq!(check_fixed(&current, &new).unwrap_err().kind(), ErrorKind::InvalidOperation);
        check_fixed(&current, &QueueSettings::default().max_delivery_count(3).into()).unwrap();
        let topic = EntitySettings::from(TopicSettings::default());
        assert_eq!(check_fixed(&current, &topic).unwrap_err().kind(), ErrorKind::InvalidOperation);
    }
}
