//! The form of a message in NATS.

mod decode;
mod encode;
mod foreign;
mod plain;
mod text;

pub(crate) use self::{
    decode::{Malformed, decode, decode_readable, wrong_session_subject},
    encode::{encode, encode_copy, encode_short},
    foreign::{foreign, keep},
    plain::{add_unread, invalid_request, read_service_error, write_reason, write_service_error},
    text::{escape, plain_id, token, untoken},
};

/// Bytes of headers that a stream takes at most.
pub(crate) const MAX_HEADERS: usize = 0xffff;
/// Bytes of these that are reserved for headers that only a stored message has: its number, its time, an id.
pub(crate) const ROOM_FOR_OWN: usize = 512;

/// Bytes that headers take on the wire.
pub(crate) fn size(headers: &async_nats::HeaderMap) -> usize {
    let lines = headers.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
    "NATS/1.0\r\n\r\n".len()
        + lines.map(|(name, value)| AsRef::<str>::as_ref(name).len() + value.as_str().len() + 4).sum::<usize>()
}

/// Converts a time for the server: a time that is too long for it is the longest.
pub(crate) fn nanos(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Names of headers. `Nats-` is the server's prefix.
pub(crate) mod name {
    use async_nats::HeaderName;

    macro_rules! names {
        ($($constant:ident $name:literal)*) => {
            $(pub(crate) const $constant: HeaderName = HeaderName::from_static($name);)*
            const ALL: &[&str] = &[$($name),*];
        };
    }

    names! {
        CONTENT_TYPE "Sb-Content-Type"
        CORRELATION_ID "Sb-Correlation-Id"
        MESSAGE_ID "Sb-Message-Id"
        MESSAGE_ID_STAMPED "Sb-Message-Id-Stamped"
        SUBJECT "Sb-Subject"
        REPLY_TO "Sb-Reply-To"
        SESSION_ID "Sb-Session-Id"
        REPLY_TO_SESSION_ID "Sb-Reply-To-Session-Id"
        PARTITION_KEY "Sb-Partition-Key"
        TRANSACTION_PARTITION_KEY "Sb-Transaction-Partition-Key"
        TO "Sb-To"
        PASS_THROUGH "Sb-Pass-Through"
        BODY "Sb-Body"
        SECTIONS "Sb-Sections"
        SEQUENCE_NUMBER "Sb-Sequence-Number"
        ENQUEUED_TIME "Sb-Enqueued-Time"
        DELIVERY_COUNT "Sb-Delivery-Count"
    }

    /// The prefix of the header of an application property.
    pub(crate) const PROPERTY: &str = "Sb-P-";

    /// Returns whether a message of this transport may have this header. Another one that begins with `Sb-` is of another client, or
    /// of another version.
    pub(crate) fn is_own(name: &str) -> bool {
        name.starts_with("Sb-") && (name.starts_with(PROPERTY) || ALL.contains(&name))
    }
}
