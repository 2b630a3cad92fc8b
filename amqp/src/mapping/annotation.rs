//! The names of annotations on Service Bus.

/// The key by which a partitioned entity chooses the partition: a string.
pub const PARTITION_KEY: &str = "x-opt-partition-key";
/// The key by which a partitioned entity chooses the transfer partition: a string.
pub const VIA_PARTITION_KEY: &str = "x-opt-via-partition-key";
/// When the message becomes visible: a timestamp.
pub const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";
/// The sequence number, set by the broker: a long with the 64 bits of the number.
pub const SEQUENCE_NUMBER: &str = "x-opt-sequence-number";
/// The sequence number of the first submission of a forwarded message, set by the broker: a long.
pub const ENQUEUE_SEQUENCE_NUMBER: &str = "x-opt-enqueue-sequence-number";
/// When the entity accepted the message, set by the broker: a timestamp.
pub const ENQUEUED_TIME: &str = "x-opt-enqueued-time";
/// Until when the lock is valid, set by the broker: a timestamp.
pub const LOCKED_UNTIL: &str = "x-opt-locked-until";
/// The state of the message, set by the broker: an int, 0 active, 1 deferred, 2 scheduled.
pub const MESSAGE_STATE: &str = "x-opt-message-state";
/// The path of the entity where a forwarded message was dead-lettered, set by the broker: a string.
pub const DEADLETTER_SOURCE: &str = "x-opt-deadletter-source";
/// The partition, set by the broker: a short.
pub const PARTITION_ID: &str = "x-opt-partition-id";
/// The lock token, a delivery annotation that the broker sets: a UUID.
pub const LOCK_TOKEN: &str = "x-opt-lock-token";

/// The annotations of a message that a broker sets.
pub(super) const OF_BROKER: [&str; 7] = [
    SEQUENCE_NUMBER,
    ENQUEUE_SEQUENCE_NUMBER,
    ENQUEUED_TIME,
    LOCKED_UNTIL,
    MESSAGE_STATE,
    DEADLETTER_SOURCE,
    PARTITION_ID,
];
