//! Headers of this crate. `sb-` is reserved: an application property of such a name is written under [`ESCAPE`]. A header of such a
//! name that this crate does not have is read, and kept, as any other.

pub(crate) const CONTENT_TYPE: &str = "sb-content-type";
pub(crate) const CORRELATION_ID: &str = "sb-correlation-id";
pub(crate) const MESSAGE_ID: &str = "sb-message-id";
/// Whether this crate made the `message_id`, because the sender set none.
pub(crate) const MESSAGE_ID_STAMPED: &str = "sb-message-id-stamped";
pub(crate) const SUBJECT: &str = "sb-subject";
pub(crate) const REPLY_TO: &str = "sb-reply-to";
pub(crate) const REPLY_TO_SESSION_ID: &str = "sb-reply-to-session-id";
pub(crate) const SESSION_ID: &str = "sb-session-id";
pub(crate) const PARTITION_KEY: &str = "sb-partition-key";
pub(crate) const TRANSACTION_PARTITION_KEY: &str = "sb-transaction-partition-key";
pub(crate) const TO: &str = "sb-to";
pub(crate) const TIME_TO_LIVE: &str = "sb-time-to-live-ms";
pub(crate) const SCHEDULED_TIME: &str = "sb-scheduled-time-ms";

pub(crate) const ENQUEUED_TIME: &str = "sb-enqueued-time-ms";
pub(crate) const SEQUENCE_NUMBER: &str = "sb-sequence-number";
pub(crate) const FAILED_DELIVERIES: &str = "sb-delivery-count";
/// Of a copy that `convert::abandoned` has made: the routing key of its original.
pub(crate) const ROUTING_KEY: &str = "sb-routing-key";
/// The queue that a delayed message is for.
pub(crate) const DESTINATION: &str = "sb-destination";

/// Of a message to a topic: the [`bucket`](crate::session::bucket) of its session.
pub(crate) const SESSION_BUCKET: &str = "sb-session-bucket";
/// Of a request for a slot of sessions: how many slots its client has.
pub(crate) const OPEN_SLOTS: &str = "sb-open-slots";
/// Of the record of a session: which one is the newest, whether there is a state, and failures by sequence number.
pub(crate) const VERSION: &str = "sb-version";
pub(crate) const HAS_STATE: &str = "sb-has-state";
pub(crate) const FAILURES: &str = "sb-failures";

/// How the payload is encoded, if it is not the body unchanged.
pub(crate) const BODY: &str = "sb-body";
/// A table from the names of application properties to their types, where the header does not have the type.
pub(crate) const TYPES: &str = "sb-types";
/// The prefix of an application property whose name has a meaning for the broker or this crate.
pub(crate) const ESCAPE: &str = "sb-property-";

pub(crate) const USER_ID: &str = "sb-user-id";
pub(crate) const CONTENT_ENCODING: &str = "sb-content-encoding";
pub(crate) const GROUP_SEQUENCE: &str = "sb-group-sequence";
pub(crate) const CREATION_TIME: &str = "sb-creation-time-ms";
pub(crate) const DURABLE: &str = "sb-durable";
pub(crate) const FIRST_ACQUIRER: &str = "sb-first-acquirer";
pub(crate) const FORCE_PERSISTENCE: &str = "sb-force-persistence";
pub(crate) const ANNOTATIONS: &str = "sb-annotations";
pub(crate) const FOOTER: &str = "sb-footer";

/// Application properties that have a place among the properties of AMQP 0-9-1, and none in the message.
pub(crate) const APP_ID: &str = "app_id";
pub(crate) const LONG_MESSAGE_ID: &str = "message_id";

/// Headers of texts whose property of AMQP 0-9-1 is absent if it is empty.
pub(super) const NEVER_EMPTY: [&str; 3] = [CONTENT_TYPE, SUBJECT, REPLY_TO];

const PREFIX: &str = "sb-";

/// Other names with the prefix are headers of another publisher.
const OWN: [&str; 34] = [
    CONTENT_TYPE,
    CORRELATION_ID,
    MESSAGE_ID,
    MESSAGE_ID_STAMPED,
    SUBJECT,
    REPLY_TO,
    REPLY_TO_SESSION_ID,
    SESSION_ID,
    PARTITION_KEY,
    TRANSACTION_PARTITION_KEY,
    TO,
    TIME_TO_LIVE,
    SCHEDULED_TIME,
    ENQUEUED_TIME,
    SEQUENCE_NUMBER,
    FAILED_DELIVERIES,
    ROUTING_KEY,
    DESTINATION,
    SESSION_BUCKET,
    OPEN_SLOTS,
    VERSION,
    HAS_STATE,
    FAILURES,
    BODY,
    TYPES,
    USER_ID,
    CONTENT_ENCODING,
    GROUP_SEQUENCE,
    CREATION_TIME,
    DURABLE,
    FIRST_ACQUIRER,
    FORCE_PERSISTENCE,
    ANNOTATIONS,
    FOOTER,
];

/// Returns the name of a header with a property, for a report; the prefix of all for another name.
pub(super) fn of_property(name: &str) -> &'static str {
    let all = [
        CONTENT_TYPE,
        CORRELATION_ID,
        SUBJECT,
        REPLY_TO,
        MESSAGE_ID,
        SESSION_ID,
        REPLY_TO_SESSION_ID,
        PARTITION_KEY,
        TRANSACTION_PARTITION_KEY,
        TO,
        SCHEDULED_TIME,
        CONTENT_ENCODING,
        USER_ID,
        GROUP_SEQUENCE,
        CREATION_TIME,
        DURABLE,
        FIRST_ACQUIRER,
        FORCE_PERSISTENCE,
    ];
    all.into_iter().find(|own| *own == name).unwrap_or(PREFIX)
}

/// How often a quorum queue has delivered a message before, from RabbitMQ 4.3 on.
pub(crate) const ACQUIRED: &str = "x-acquired-count";

/// The history of a message that RabbitMQ has dead-lettered.
pub(crate) const DEATHS: &str = "x-death";

/// Whether a header is a part of the history of a message that RabbitMQ has dead-lettered.
pub(super) fn is_history(name: &str) -> bool {
    name == DEATHS || name.starts_with("x-first-death-") || name.starts_with("x-last-death-")
}

/// Whether a header is the broker's or this crate's. RabbitMQ routes by `CC` and `BCC`, and writes those that begin with
/// `x-death`, `x-first-death-` or `x-last-death-`, `x-delivery-count`, and [`ACQUIRED`].
pub(super) fn is_reserved(name: &str) -> bool {
    const BROKERS: [&str; 4] = ["CC", "BCC", "x-delivery-count", ACQUIRED];
    name.starts_with(PREFIX) || BROKERS.contains(&name) || is_history(name)
}

/// Whether a header of a delivery is one of another publisher, or an application property.
pub(super) fn is_read(name: &str) -> bool {
    if name.starts_with(PREFIX) { !OWN.contains(&name) } else { !is_reserved(name) }
}

/// Returns the name of the application property that a sender of this crate has written under [`ESCAPE`].
pub(super) fn escaped(header: &str) -> Option<&str> {
    header.strip_prefix(ESCAPE).filter(|name| is_reserved(name))
}

/// Whether a header has the prefix of this crate, and is one of another publisher.
pub(crate) fn is_foreign(name: &str) -> bool {
    name.starts_with(PREFIX) && is_read(name) && escaped(name).is_none()
}
