use std::time::Duration;

use consign_core::{
    message::{EntityPath, InvalidArgument},
    transport::{Capability, ErrorKind, ManageError, Unsupported},
};

use crate::wire::SHORT;

/// Sessions are spread over as many buckets, and buckets over slots, so that a topic does not depend on the number of slots of
/// a subscription.
pub(crate) const MOST_SLOTS: u16 = 64;

/// The settings of a topic. They are stored on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicSettings {
    /// The longest that a copy of a message waits, as the sender counts. None.
    pub default_time_to_live: Option<Duration>,
}

/// The settings of a queue. They are [stored on the server](crate#administration), where every client finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSettings {
    /// How long a lock holds, by the clock of the receiver. 1 ms to 25 min; 30 s. RabbitMQ closes a channel whose delivery is
    /// not settled after its `consumer_timeout`, 30 min by default.
    pub lock_duration: Duration,
    /// The number of failed deliveries after which a message is dead-lettered, as the receiver counts. At least 1; 10.
    pub max_delivery_count: u32,
    /// The longest that a message waits: the queue's `x-message-ttl`. 1 ms to 49 days; none.
    pub default_time_to_live: Option<Duration>,
    /// Whether an expired message is dead-lettered: `x-dead-letter-exchange`, at least once. `false`.
    pub dead_letter_on_expiration: bool,
    /// The largest message, bytes of properties and body, as the sender counts. None: the broker's own limit, 128 MiB.
    pub max_message_size: Option<usize>,
    /// Bytes of the bodies in the queue above which it refuses further ones: `x-max-length-bytes`, `reject-publish`. Messages
    /// in its dead-letter queue do not count. With sessions each slot has its share. None.
    pub max_length_bytes: Option<u64>,
    /// Whether messages are received by session only. Every message then has a session id. `false`.
    pub requires_session: bool,
    /// With sessions: the number of pairs of queues that the messages and states are spread over, 1 to 64; 16. It is part of
    /// the queues' names.
    pub session_slots: u16,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            lock_duration: Duration::from_secs(30),
            max_delivery_count: 10,
            default_time_to_live: None,
            dead_letter_on_expiration: false,
            max_message_size: None,
            max_length_bytes: None,
            requires_session: false,
            session_slots: 16,
        }
    }
}

impl QueueSettings {
    const MAX_LOCK: Duration = Duration::from_secs(25 * 60);
    /// RabbitMQ's timers have 32 bits of milliseconds.
    const MAX_TIME_TO_LIVE: Duration = Duration::from_millis(u32::MAX as u64);

    pub(crate) fn check(&self) -> Result<(), ManageError> {
        let invalid = |what: &'static str| Err(ManageError::new(ErrorKind::InvalidArgument).with_detail(what));
        if self.lock_duration < Duration::from_millis(1) || self.lock_duration > Self::MAX_LOCK {
            return invalid("the lock duration must be 1 ms to 25 min");
        }
        if self.max_delivery_count == 0 {
            return invalid("the delivery count must be at least 1");
        }
        if !(1..=MOST_SLOTS).contains(&self.session_slots) {
            return invalid("there are 1 to 64 slots for sessions");
        }
        let is_allowed = |ttl: Duration| ttl >= Duration::from_millis(1) && ttl <= Self::MAX_TIME_TO_LIVE;
        if self.default_time_to_live.is_some_and(|ttl| !is_allowed(ttl)) {
            return invalid("the time to live must be 1 ms to 49 days");
        }
        Ok(())
    }
}

/// Checks a name for AMQP: 255 bytes, including the suffix of the dead-letter queue.
pub(crate) fn check_path(path: &str) -> Result<EntityPath, InvalidOrLong> {
    let path = EntityPath::new(path)?;
    if path.dead_letter().as_str().len() > SHORT {
        return Err(InvalidOrLong::Long);
    }
    if path.is_transfer_dead_letter() {
        return Err(InvalidOrLong::Unsupported);
    }
    Ok(path)
}

#[derive(Debug)]
pub(crate) enum InvalidOrLong {
    Invalid(InvalidArgument),
    Long,
    /// There are no transfer queues.
    Unsupported,
}

impl From<InvalidArgument> for InvalidOrLong {
    fn from(error: InvalidArgument) -> Self {
        Self::Invalid(error)
    }
}

macro_rules! into_operation_error {
    ($($error:ident),*) => {$(
        impl From<InvalidOrLong> for consign_core::transport::$error {
            fn from(error: InvalidOrLong) -> Self {
                match error {
                    InvalidOrLong::Invalid(error) => error.into(),
                    InvalidOrLong::Long => Self::new(ErrorKind::InvalidArgument)
                        .with_detail("the path and that of its dead-letter queue have at most 255 bytes"),
                    InvalidOrLong::Unsupported => Unsupported::new(Capability::AutoForward).into(),
                }
            }
        }
    )*};
}

into_operation_error!(SendError, ReceiveError, ManageError);
