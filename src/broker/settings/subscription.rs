use std::time::Duration;

use super::{QueueSettings, Status, setters};

/// The settings of a subscription. [`Topic::create_subscription`](crate::broker::Topic::create_subscription) checks their
/// ranges, which are those of [`QueueSettings`]. Its messages count against the size of its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionSettings {
    /// How long a lock holds: 5 s to 5 min, by default 60 s.
    pub lock_duration: Duration,
    /// How often a message is delivered at most before it is dead-lettered: at least 1, by default 10.
    pub max_delivery_count: u32,
    /// How long a message waits at most, whatever its sender and the topic say: at least 1 s, by default for ever.
    pub default_time_to_live: Option<Duration>,
    /// Whether an expired message is dead-lettered, and not removed. By default it is removed.
    pub dead_letter_on_expiration: bool,
    /// Whether a message is dead-lettered for which a rule fails, as by default it is; else the rules that do not fail
    /// decide alone.
    pub dead_letter_on_filter_error: bool,
    /// Whether it is received from by sessions; fixed when it is created.
    pub requires_session: bool,
    /// The entity that every message is handed to at once.
    pub forward_to: Option<String>,
    /// The entity that dead letters are handed to.
    pub forward_dead_letters_to: Option<String>,
    /// After how long without a receive, an update, a new rule or a peek the subscription is deleted: at least 5 min, by
    /// default never.
    pub auto_delete_on_idle: Option<Duration>,
    /// Whether it can be received from. Messages are copied to it in any case.
    pub status: Status,
}

impl SubscriptionSettings {
    setters! {
        with_lock_duration, lock_duration: Duration;
        with_max_delivery_count, max_delivery_count: u32;
        with_default_time_to_live, default_time_to_live: Duration => Some;
        with_dead_letter_on_expiration, dead_letter_on_expiration: bool;
        with_dead_letter_on_filter_error, dead_letter_on_filter_error: bool;
        with_sessions, requires_session: bool;
        with_auto_delete_on_idle, auto_delete_on_idle: Duration => Some;
        with_status, status: Status;
    }

    /// Sets `forward_to`.
    #[must_use]
    pub fn with_forward_to(mut self, path: impl Into<String>) -> Self {
        self.forward_to = Some(path.into());
        self
    }

    /// Sets `forward_dead_letters_to`.
    #[must_use]
    pub fn with_forward_dead_letters_to(mut self, path: impl Into<String>) -> Self {
        self.forward_dead_letters_to = Some(path.into());
        self
    }

    /// The first setting that is another one here.
    pub(in super::super) fn difference(&self, other: &Self) -> Option<&'static str> {
        let of_store = self.of_store().difference(&other.of_store());
        let is_other = self.dead_letter_on_filter_error != other.dead_letter_on_filter_error;
        of_store.or(is_other.then_some("dead_letter_on_filter_error"))
    }

    /// As its store sees them. Size is a matter of the topic.
    pub(in super::super) fn of_store(&self) -> QueueSettings {
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
            max_size: u64::MAX,
            max_message_size: QueueSettings::MAX_MESSAGE_SIZE,
            ..QueueSettings::default()
        }
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
        }
    }
}
