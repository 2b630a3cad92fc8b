use std::time::Duration;

use consign_core::{
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use serde::{Deserialize, Serialize};

/// The settings of a queue: those that JetStream or this transport can honour, and no more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSettings {
    /// How long a lock holds: 1 s to 1 h, by default 60 s.
    pub lock_duration: Duration,
    /// How often a message is delivered before it is dead-lettered: at least 1, by default 10.
    pub max_delivery_count: u32,
    /// Whether messages are received by session only.
    pub requires_session: bool,
    /// For how long a `MessageId` is remembered, and a second message with it dropped: 100 ms to 7 days. The server keeps the
    /// ids in memory, and reads those of the window from the stream again when it starts.
    pub duplicate_detection: Option<Duration>,
    /// How many bytes the queue holds at most; further messages are refused as [`QuotaExceeded`](ErrorKind::QuotaExceeded).
    /// Dead letters and deferred messages do not count.
    pub max_bytes: Option<u64>,
    /// After which age the server removes a message, locked or not, and without a dead letter. It is not a time to live, which
    /// no message can have of its own.
    pub max_age: Option<Duration>,
    /// On how many servers of a cluster each message is stored: 1 to 5, by default 1.
    pub replicas: usize,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            lock_duration: LOCK,
            max_delivery_count: DELIVERIES,
            requires_session: false,
            duplicate_detection: None,
            max_bytes: None,
            max_age: None,
            replicas: 1,
        }
    }
}

impl QueueSettings {
    pub(crate) fn check(&self) -> Result<(), ManageError> {
        check_lock(self.lock_duration, self.max_delivery_count)?;
        self.limits().check()
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            duplicate_detection: self.duplicate_detection,
            max_bytes: self.max_bytes,
            max_age: self.max_age,
            replicas: self.replicas,
        }
    }

    /// Returns the record of a new queue.
    pub(crate) fn stored(&self, path: &EntityPath) -> Stored {
        let Self { lock_duration, max_delivery_count, requires_session, .. } = *self;
        let stored = Stored::new(Kind::Queue, path.as_str(), lock_duration, max_delivery_count, requires_session);
        Stored { detects_duplicates: self.duplicate_detection.is_some(), ..stored }
    }
}

/// The settings of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicSettings {
    /// The window of duplicate detection, like [`QueueSettings::duplicate_detection`], which happens before messages are
    /// copied.
    pub duplicate_detection: Option<Duration>,
    /// How many bytes wait at most in the topic until each subscription has its copy; further messages are refused as
    /// [`QuotaExceeded`](ErrorKind::QuotaExceeded).
    pub max_bytes: Option<u64>,
    /// After which age the server removes a message that a subscription has no copy of so far, without a dead letter.
    pub max_age: Option<Duration>,
    /// On how many servers of a cluster each message is stored, also in its subscriptions: 1 to 5, by default 1.
    pub replicas: usize,
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self { duplicate_detection: None, max_bytes: None, max_age: None, replicas: 1 }
    }
}

impl TopicSettings {
    pub(crate) fn limits(&self) -> Limits {
        let Self { duplicate_detection, max_bytes, max_age, replicas } = *self;
        Limits { duplicate_detection, max_bytes, max_age, replicas }
    }

    /// Returns the record of a new topic.
    pub(crate) fn stored(&self, path: &EntityPath) -> Stored {
        let stored = Stored::new(Kind::Topic, path.as_str(), Duration::ZERO, 0, false);
        Stored { detects_duplicates: self.duplicate_detection.is_some(), ..stored }
    }
}

/// The settings of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionSettings {
    /// How long a lock holds: 1 s to 1 h, by default 60 s.
    pub lock_duration: Duration,
    /// How often a message is delivered before it is dead-lettered: at least 1, by default 10.
    pub max_delivery_count: u32,
    /// Whether a message is dead-lettered if a rule fails for it; by default true. Otherwise the rules that do not fail
    /// decide alone.
    pub dead_letter_on_filter_error: bool,
    /// Whether messages are received by session only. A message without a session is dead-lettered.
    pub requires_session: bool,
}

impl Default for SubscriptionSettings {
    fn default() -> Self {
        Self {
            lock_duration: LOCK,
            max_delivery_count: DELIVERIES,
            dead_letter_on_filter_error: true,
            requires_session: false,
        }
    }
}

impl SubscriptionSettings {
    pub(crate) fn check(&self) -> Result<(), ManageError> {
        check_lock(self.lock_duration, self.max_delivery_count)
    }

    /// Returns the record of a new subscription of the topic with this id.
    pub(crate) fn stored(&self, path: &EntityPath, topic: String) -> Stored {
        let Self { lock_duration, max_delivery_count, requires_session, dead_letter_on_filter_error } = *self;
        let stored =
            Stored::new(Kind::Subscription, path.as_str(), lock_duration, max_delivery_count, requires_session);
        Stored { topic: Some(topic), dead_letter_on_filter_error, ..stored }
    }
}

const LOCK: Duration = Duration::from_secs(60);
const DELIVERIES: u32 = 10;
const HOUR: Duration = Duration::from_secs(3_600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The record of an entity in its stream: JSON in its description, which every server keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// The version of this form.
    pub(crate) consign: u32,
    /// An id that no other stream has, so that none is created twice.
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) path: String,
    #[serde(rename = "lock_ms")]
    pub(crate) lock: u64,
    pub(crate) max_delivery_count: u32,
    pub(crate) requires_session: bool,
    pub(crate) detects_duplicates: bool,
    /// Of a subscription: the id of its topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) dead_letter_on_filter_error: bool,
}

/// The kind of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Queue,
    Topic,
    Subscription,
}

impl Stored {
    pub(crate) const VERSION: u32 = 1;

    /// Returns the record of a new entity.
    pub(crate) fn new(kind: Kind, path: &str, lock: Duration, max_delivery_count: u32, requires_session: bool) -> Self {
        Self {
            consign: Self::VERSION,
            id: uuid::Uuid::new_v4().to_string(),
            kind,
            path: path.to_owned(),
            lock: u64::try_from(lock.as_millis()).unwrap_or(u64::MAX),
            max_delivery_count,
            requires_session,
            detects_duplicates: false,
            topic: None,
            dead_letter_on_filter_error: false,
        }
    }

    pub(crate) fn lock(&self) -> Duration {
        Duration::from_millis(self.lock)
    }
}

/// The limits of a stream as its configuration has them.
pub(crate) struct Limits {
    pub(crate) duplicate_detection: Option<Duration>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) max_age: Option<Duration>,
    pub(crate) replicas: usize,
}

impl Limits {
    /// The limits of a stream that has none of its own.
    pub(crate) fn none(replicas: usize) -> Self {
        Self { duplicate_detection: None, max_bytes: None, max_age: None, replicas }
    }

    pub(crate) fn check(&self) -> Result<(), ManageError> {
        if self.duplicate_detection.is_some_and(|window| window < Duration::from_millis(100) || window > WEEK) {
            return Err(refused("duplicate_detection must be 100 ms to 7 days"));
        }
        if let (Some(window), Some(age)) = (self.duplicate_detection, self.max_age)
            && window > age
        {
            return Err(refused("duplicate_detection must not be longer than max_age"));
        }
        if self.max_age.is_some_and(|age| age < Duration::from_millis(100)) {
            return Err(refused("max_age must be at least 100 ms"));
        }
        if self.max_bytes.is_some_and(|bytes| bytes == 0 || i64::try_from(bytes).is_err()) {
            return Err(refused("max_bytes must be more than zero, and less than 8 EiB"));
        }
        if !(1..=5).contains(&self.replicas) {
            return Err(refused("replicas must be 1 to 5"));
        }
        Ok(())
    }
}

fn check_lock(lock: Duration, deliveries: u32) -> Result<(), ManageError> {
    if lock < Duration::from_secs(1) || lock > HOUR {
        return Err(refused("lock_duration must be 1 s to 1 h"));
    }
    if deliveries == 0 {
        return Err(refused("max_delivery_count must be at least 1"));
    }
    Ok(())
}

fn refused(why: &'static str) -> ManageError {
    ManageError::new(ErrorKind::InvalidArgument).with_detail(why)
}
