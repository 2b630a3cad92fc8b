use std::time::Duration;

use super::{Metadata, QueueSettings, Status, setters};

/// The settings of a topic. `Broker::create_topic` checks their ranges, which are
/// those of [`QueueSettings`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicSettings {
    /// The maximum time that a message waits in any subscription: at least 1 s, by default unlimited.
    pub default_time_to_live: Option<Duration>,
    /// How long a MessageId is remembered after its first message: 20 s to 7 d. By default duplicates are not
    /// detected. Whether they are is fixed when the topic is created.
    pub duplicate_detection: Option<Duration>,
    /// The maximum number of ids that are remembered; beyond that sends are refused. At least 1, by default
    /// 1,000,000.
    pub max_duplicate_ids: usize,
    /// Whether the topic is partitioned; fixed when it is created.
    pub partitioned: bool,
    /// The size of the topic and all of its subscriptions in bytes, dead letters included: at least 1 KiB, by default
    /// 1 GiB.
    pub max_size: u64,
    /// The largest message, body and properties: 1 byte to 100 MiB, by default 256 KiB.
    pub max_message_size: usize,
    /// The time without use after which the topic is deleted with its subscriptions: at least 5 min, by default never.
    /// It is used by a send, an update or a scheduled message, and when one of its subscriptions is: see
    /// [`SubscriptionSettings::auto_delete_on_idle`](super::SubscriptionSettings::auto_delete_on_idle).
    pub auto_delete_on_idle: Option<Duration>,
    /// The directions that are open.
    pub status: Status,
    /// What clients set and read again.
    pub metadata: Metadata,
}

impl TopicSettings {
    setters! {
        default_time_to_live: Duration => Some;
        duplicate_detection: Duration => Some;
        max_duplicate_ids: usize;
        partitioned: bool;
        max_size: u64;
        max_message_size: usize;
        auto_delete_on_idle: Duration => Some;
        status: Status;
        metadata: Metadata;
    }

    /// Returns the settings of a queue that correspond to these.
    #[must_use]
    pub fn to_queue(&self) -> QueueSettings {
        QueueSettings {
            default_time_to_live: self.default_time_to_live,
            duplicate_detection: self.duplicate_detection,
            max_duplicate_ids: self.max_duplicate_ids,
            partitioned: self.partitioned,
            max_size: self.max_size,
            max_message_size: self.max_message_size,
            auto_delete_on_idle: self.auto_delete_on_idle,
            status: self.status,
            metadata: self.metadata.clone(),
            ..QueueSettings::default()
        }
    }

    /// Returns the name of the first setting that differs.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        self.to_queue().difference(&other.to_queue())
    }
}

impl Default for TopicSettings {
    fn default() -> Self {
        let queue = QueueSettings::default();
        Self {
            default_time_to_live: queue.default_time_to_live,
            duplicate_detection: queue.duplicate_detection,
            max_duplicate_ids: queue.max_duplicate_ids,
            partitioned: queue.partitioned,
            max_size: queue.max_size,
            max_message_size: queue.max_message_size,
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
        let (none, queue) = (TopicSettings::default, QueueSettings::default);
        assert_eq!((none().to_queue(), none().difference(&none())), (queue(), None));
        for (name, settings, expected) in [
            ("default_time_to_live", none().default_time_to_live(seconds(7)), queue().default_time_to_live(seconds(7))),
            ("duplicate_detection", none().duplicate_detection(seconds(30)), queue().duplicate_detection(seconds(30))),
            ("max_duplicate_ids", none().max_duplicate_ids(7), queue().max_duplicate_ids(7)),
            ("partitioned", none().partitioned(true), queue().partitioned(true)),
            ("max_size", none().max_size(2_048), queue().max_size(2_048)),
            ("max_message_size", none().max_message_size(7), queue().max_message_size(7)),
            (
                "auto_delete_on_idle",
                none().auto_delete_on_idle(seconds(700)),
                queue().auto_delete_on_idle(seconds(700)),
            ),
            ("status", none().status(Status::Disabled), queue().status(Status::Disabled)),
            ("user_metadata", none().metadata(metadata.clone()), queue().metadata(metadata)),
        ] {
            assert_eq!(settings.to_queue(), expected, "{name}");
            assert_eq!(none().difference(&settings), Some(name));
        }
    }
}
