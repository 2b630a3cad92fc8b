use super::{EntityKind, QueueSettings, SubscriptionSettings, TopicSettings};
use crate::{
    message::{EntityPath, InvalidArgument},
    transport::{ErrorKind, ManageError},
};

/// The settings of a queue, a topic or a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntitySettings {
    /// Of a queue.
    Queue(QueueSettings),
    /// Of a topic.
    Topic(TopicSettings),
    /// Of a subscription.
    Subscription(SubscriptionSettings),
}

impl EntitySettings {
    /// Returns the kind of entity.
    #[must_use]
    pub fn kind(&self) -> EntityKind {
        match self {
            Self::Queue(_) => EntityKind::Queue,
            Self::Topic(_) => EntityKind::Topic,
            Self::Subscription(_) => EntityKind::Subscription,
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// The first setting that is out of its range, with its name.
    pub fn check(&self) -> Result<(), InvalidArgument> {
        match self {
            Self::Queue(settings) => settings.check(),
            Self::Topic(settings) => settings.to_queue().check(),
            Self::Subscription(settings) => settings.to_queue().check(),
        }
    }

    /// Returns the name of the first setting that differs; `kind` if the kinds of entity do.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        match (self, other) {
            (Self::Queue(one), Self::Queue(other)) => one.difference(other),
            (Self::Topic(one), Self::Topic(other)) => one.difference(other),
            (Self::Subscription(one), Self::Subscription(other)) => one.difference(other),
            _ => Some("kind"),
        }
    }

    /// Checks that an entity at `path` which has these settings agrees with those that are `declared`.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) names the first setting that differs.
    pub fn check_declared(&self, path: &EntityPath, declared: &Self) -> Result<(), ManageError> {
        match self.difference(declared) {
            None => Ok(()),
            Some(setting) => {
                let detail = format!("{path}: its {setting} differs");
                Err(ManageError::new(ErrorKind::AlreadyExists).with_detail(detail))
            }
        }
    }
}

impl From<QueueSettings> for EntitySettings {
    fn from(settings: QueueSettings) -> Self {
        Self::Queue(settings)
    }
}

impl From<TopicSettings> for EntitySettings {
    fn from(settings: TopicSettings) -> Self {
        Self::Topic(settings)
    }
}

impl From<SubscriptionSettings> for EntitySettings {
    fn from(settings: SubscriptionSettings) -> Self {
        Self::Subscription(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_one_kind_differ_by_a_name_and_those_of_two_by_their_kind() {
        let queue = |deliveries| EntitySettings::from(QueueSettings::default().max_delivery_count(deliveries));
        let topic = |bytes| EntitySettings::from(TopicSettings::default().max_message_size(bytes));
        let subscription = |session| EntitySettings::from(SubscriptionSettings::default().requires_session(session));
        for (one, other, difference) in [
            (queue(1), queue(1), None),
            (queue(1), queue(2), Some("max_delivery_count")),
            (topic(1), topic(1), None),
            (topic(1), topic(2), Some("max_message_size")),
            (subscription(false), subscription(false), None),
            (subscription(false), subscription(true), Some("requires_session")),
            (queue(1), topic(1), Some("kind")),
            (topic(1), subscription(false), Some("kind")),
            (subscription(false), queue(1), Some("kind")),
        ] {
            assert_eq!(one.difference(&other), difference, "{one:?} {other:?}");
            assert_eq!(other.difference(&one), difference, "{other:?} {one:?}");
        }
    }
}
