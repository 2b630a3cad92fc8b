//! The getters of a message, which are those of its properties.

use std::time::Duration;

use super::{ApplicationProperties, InvalidArgument, Message, PassThrough};
use crate::time::Timestamp;

macro_rules! forwarded {
    ($($(#[$doc:meta])* $name:ident -> $type:ty;)*) => {
        impl Message {
            $(
                $(#[$doc])*
                #[must_use]
                #[inline]
                pub fn $name(&self) -> $type {
                    self.properties().$name()
                }
            )*
        }
    };
}

forwarded! {
    /// Returns the `MessageId`, at most 128 UTF-16 code units.
    message_id -> Option<&str>;
    /// Returns the `CorrelationId`: the `MessageId` that this message answers, or what sender and receiver agree on.
    correlation_id -> Option<&str>;
    /// Returns the `ContentType`, as it was written.
    content_type -> Option<&str>;
    /// Returns the subject, by which a router selects the handler. Also known as Label.
    subject -> Option<&str>;
    /// Returns the path of the entity that a reply goes to, absolute or relative.
    reply_to -> Option<&str>;
    /// Returns the session that a reply goes to.
    reply_to_session_id -> Option<&str>;
    /// Returns the session of the message. The empty string is a session like any other.
    session_id -> Option<&str>;
    /// Returns the key by which a partitioned entity chooses the partition.
    partition_key -> Option<&str>;
    /// Returns the key by which a partitioned entity chooses the transfer partition.
    transaction_partition_key -> Option<&str>;
    /// Returns the destination, for the application; no broker routes by it.
    to -> Option<&str>;
    /// Returns the time to live.
    time_to_live -> Option<Duration>;
    /// Returns when the message becomes visible.
    scheduled_enqueue_time -> Option<Timestamp>;
    /// Returns the reason of a dead letter.
    dead_letter_reason -> Option<&str>;
    /// Returns the description of a dead letter.
    dead_letter_description -> Option<&str>;
    /// Returns the first `MessageId` of a message that was sent again under another one.
    original_message_id -> Option<&str>;
    /// Returns whether a broker or a transport generated the `MessageId`, because the sender had set none.
    is_message_id_stamped -> bool;
    /// Returns the application properties.
    application_properties -> &ApplicationProperties;
    /// Returns the properties that a broker stores and returns unchanged.
    pass_through -> Option<&PassThrough>;
}

impl Message {
    /// Returns how long the sender of a request waits for the reply.
    ///
    /// # Errors
    ///
    /// As [`Properties::timeout`](super::Properties::timeout).
    pub fn timeout(&self) -> Result<Option<Duration>, InvalidArgument> {
        self.properties().timeout()
    }
}
