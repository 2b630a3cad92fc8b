use std::time::Duration;

use super::{Metadata, QueueSettings, Status, setters};

/// The settings of a subscription. `Topic::create_subscription` checks their
/// ranges, which are those of [`QueueSettings`]. Its messages count against the size of its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionSettings {
    /// How long a lock holds: 5 s to 5 min, by default 60 s.
    pub lock_duration: Duration,
    /// The maximum number of deliveries of a message before it is dead-lettered: at least 1, by default 10.
    pub max_delivery_count: u32,
    /// The maximum time that a message waits, whatever its sender and the topic set: at least 1 s, by default
    /// unlimited.
    pub default_time_to_live: Option<Duration>,
    /// Whether an expired message is dead-lettered. By default it is removed.
    pub dead_letter_on_expiration: bool,
    /// Whether a message is dead-lettered for which a rule fails. It is by default; otherwise the rules that do not
    /// fail decide alone.
    pub dead_letter_on_filter_error: bool,
    /// Whether the subscription requires sessions; fixed when it is created.
    pub requires_session: bool,
    /// The entity to which every message is forwarded at once.
    pub forward_to: Option<String>,
    /// The entity to which dead letters are forwarded.
    pub forward_dead_letters_to: Option<String>,
    /// The time without a receive, an update, a new rule or a peek after which the subscription is deleted: at least
    /// 5 min, by default never.
    pub auto_delete_on_idle: Option<Duration>,
    /// Whether it can be received from. Messages are copied to it in any case.
    pub status: Status,
    /// What clients set and read again.
    pub metadata: Metadata,
}

impl SubscriptionSettings {
    setters! {
        lock_duration: Duration;
        max_delivery_count: u32;
        default_time_to_live: Duration => Some;
        dead_letter_on_expiration: bool;
        dead_letter_on_filter_error: bool;
        requires_session: bool;
        auto_delete_on_idle: Duration => Some;
        status: Status;
        metadata: Metadata;
    }

    /// Sets `forward_to`.
    #[must_use]
    pub fn forward_to(mut self, path: impl Into<String>) -> Self {
        self.forward_to = Some(path.into());
        self
    }

    /// Sets `forward_dead_letters_to`.
    #[must_use]
    pub fn forward_dead_letters_to(mut self, path: impl Into<String>) -> Self {
        self.forward_dead_letters_to = Some(path.into());
        self
    }

    /// Returns the settings of a queue that correspond to these. Its size is not limited: the topic limits it.
    #[must_use]
    pub fn to_queue(&self) -> QueueSettings {
        QueueSettings {
            lock_duration: self.lock_duration,
            max_delivery_count: self.max_delivery_count,
            default_time_to_live: self.default_time_to_live,
            dead_letter_on_expiration: self.dead_letter_on_expiration,
            requires_session: self.requires_session,
            forward_to: self.forward_to.clone(),
            forward_dead_letters_to: self.forward_dead_letters_to.clone(),
            auto_delete_on_idle: self.auto_delete_on_idle,
            status: self.status,
            metadata: self.metadata.clone(),
            max_size: u64::MAX,
            max_message_size: QueueSettings::MAX_MESSAGE_SIZE,
            ..QueueSettings::default()
        }
    }

    /// Returns the name of the first setting that differs.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        let of_queue = self.to_queue().difference(&other.to_queue());
        let is_other = self.dead_letter_on_filter_error != other.dead_letter_on_filter_error;
        of_queue.or(is_other.then_some("dead_letter_on_filter_error"))
    }
}

impl Default for SubscriptionSettings {
    fn default() -> Self {
        let queue = QueueSettings::default();
        Self {
            lock_duration: queue.lock_duration,
            max_delivery_count: queue.max_delivery_count,
            default_time_to_live: queue.default_time_to_live,
            dead_letter_on_expiration: queue.dead_letter_on_expiration,
            dead_letter_on_filter_error: true,
            requires_session: queue.requires_session,
            forward_to: None,
            forward_dead_letters_to: None,
            auto_delete_on_idle: queue.auto_delete_on_idle,
            status: queue.status,
            metadata: queue.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_that_of_the_queue_and_a_difference() {
        let seconds = Duration::from_secs;
        let metadata = Metadata { user: Some("x".into()), ..Metadata::default() };
        let none = SubscriptionSettings::default;
        let unlimited = QueueSettings::default().max_size(u64::MAX).max_message_size(QueueSettings::MAX_MESSAGE_SIZE);
        let queue = || unlimited.clone();
        assert_eq!((none().to_queue(), none().difference(&none())), (queue(), None));
        for (name, settings, expected) in [
            ("lock_duration", none().lock_duration(seconds(7)), queue().lock_duration(seconds(7))),
            ("max_delivery_count", none().max_delivery_count(7), queue().max_delivery_count(7)),
            ("default_time_to_live", none().default_time_to_live(seconds(7)), queue().default_time_to_live(seconds(7))),
            (
                "dead_letter_on_expiration",
                none().dead_letter_on_expiration(true),
                queue().dead_letter_on_expiration(true),
            ),
            ("requires_session", none().requires_session(true), queue().requires_session(true)),
            ("forward_to", none().forward_to("a"), queue().forward_to("a")),
            ("forward_dead_letters_to", none().forward_dead_letters_to("a"), queue().forward_dead_letters_to("a")),
            (
                "auto_delete_on_idle",
                none().auto_delete_on_idle(seconds(700)),
                queue().auto_delete_on_idle(seconds(700)),
            ),
            ("status", none().status(Status::Disabled), queue().status(Status::Disabled)),
            ("user_metadata", none().metadata(metadata.clone()), queue().metadata(metadata)),
            ("dead_letter_on_filter_error", none().dead_letter_on_filter_error(false), queue()),
        ] {
            assert_eq!(settings.to_queue(), expected, "{name}");
            assert_eq!(none().difference(&settings), Some(name));
        }
    }
}
