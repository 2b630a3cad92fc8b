mod fit;
mod set;
mod size;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{
    ApplicationProperties, PassThrough, PropertyValue,
    text::{Id, Text, Token},
};
use crate::time::Timestamp;

/// The properties that a sender sets. What the broker sets is [`Received`](super::Received), which no sender can write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    content_type: Option<Text>,
    correlation_id: Option<Id>,
    message_id: Option<Id>,
    /// Whether a broker or a transport has made the `MessageId`, for the sender set none.
    is_message_id_stamped: bool,
    subject: Option<Text>,
    reply_to: Option<Text>,
    session_id: Option<Text>,
    time_to_live: Option<Duration>,
    application: ApplicationProperties,
    /// `None` while all of it is at its default.
    rare: Option<Box<Rare>>,
}

/// What few messages have, so that the others are small.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rare {
    reply_to_session_id: Option<Text>,
    partition_key: Option<Text>,
    transaction_partition_key: Option<Text>,
    to: Option<Text>,
    scheduled_enqueue_time: Option<Timestamp>,
    pass_through: Option<Box<PassThrough>>,
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[inline]
        pub fn $name(&self) -> Option<&str> {
            Some(self.$name.as_ref()?.as_str())
        }
    )*};
}

macro_rules! rare_getters {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[inline]
        pub fn $name(&self) -> Option<&str> {
            Some(self.rare.as_ref()?.$name.as_ref()?.as_str())
        }
    )*};
}

impl Properties {
    /// The application property that holds the reason of a dead letter.
    pub const DEAD_LETTER_REASON: &'static str = "DeadLetterReason";
    /// The application property that holds the description of a dead letter.
    pub const DEAD_LETTER_DESCRIPTION: &'static str = "DeadLetterErrorDescription";

    /// The application property that holds the first `MessageId` of a message that was sent again under another one.
    pub const ORIGINAL_MESSAGE_ID: &'static str = "x-original-message-id";

    /// No properties.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    getters! {
        /// The format of the body, as it was written; brokers do not read it.
        content_type;
        /// The `MessageId` that this message answers, or whatever sender and receiver agree on.
        correlation_id;
        /// The identity of the message, at most 128 UTF-16 code units.
        message_id;
        /// What the message is about; routing goes by it. Also known as Label.
        subject;
        /// Where an answer goes: an entity's path, absolute or relative.
        reply_to;
        /// The session of the message. The empty string is a session like any other.
        session_id;
    }

    rare_getters! {
        /// The session for replies.
        reply_to_session_id;
        /// The key by which a partitioned entity chooses the partition.
        partition_key;
        /// The key by which a partitioned entity chooses the transfer partition, when it sends on behalf of
        /// another.
        transaction_partition_key;
        /// Where the message goes, for the application; no broker routes by it.
        to;
    }

    /// Returns whether a broker or a transport generated the `MessageId`, because the sender had set none. The sender does
    /// not have such an id, so no reply names it.
    #[must_use]
    #[inline]
    pub fn is_message_id_stamped(&self) -> bool {
        self.is_message_id_stamped
    }

    /// Returns how long the message may wait, from its acceptance. `None` is the entity's default.
    #[must_use]
    pub fn time_to_live(&self) -> Option<Duration> {
        self.time_to_live
    }

    /// Returns when the message becomes visible to receivers.
    #[must_use]
    pub fn scheduled_enqueue_time(&self) -> Option<Timestamp> {
        self.rare.as_ref()?.scheduled_enqueue_time
    }

    /// Returns the reason why the message was dead-lettered: the application property [`Properties::DEAD_LETTER_REASON`].
    #[must_use]
    pub fn dead_letter_reason(&self) -> Option<&str> {
        self.application.get(Self::DEAD_LETTER_REASON).and_then(PropertyValue::as_str)
    }

    /// Returns the `MessageId` that the message had when it was sent first: the application property
    /// [`Properties::ORIGINAL_MESSAGE_ID`], or without one its `MessageId`. A retry or a resubmission has a new id, for a
    /// broker may drop the old one as a duplicate; what tells messages apart by what they mean goes by this.
    #[must_use]
    #[inline]
    pub fn original_message_id(&self) -> Option<&str> {
        // Most messages have no application properties.
        if self.application.is_empty() { self.message_id() } else { self.kept_message_id() }
    }

    fn kept_message_id(&self) -> Option<&str> {
        let original = self.application.get(Self::ORIGINAL_MESSAGE_ID).and_then(PropertyValue::as_str);
        original.filter(|id| !id.is_empty()).or_else(|| self.message_id())
    }

    /// Returns the description of a dead letter: the application property [`Properties::DEAD_LETTER_DESCRIPTION`].
    #[must_use]
    pub fn dead_letter_description(&self) -> Option<&str> {
        self.application.get(Self::DEAD_LETTER_DESCRIPTION).and_then(PropertyValue::as_str)
    }

    /// Returns the user's own properties.
    #[must_use]
    #[inline]
    pub fn application_properties(&self) -> &ApplicationProperties {
        &self.application
    }

    /// The user's own properties, to change them.
    pub fn application_properties_mut(&mut self) -> &mut ApplicationProperties {
        &mut self.application
    }

    /// Returns the properties that brokers store and never read.
    #[must_use]
    pub fn pass_through(&self) -> Option<&PassThrough> {
        self.rare.as_ref()?.pass_through.as_deref()
    }

    /// Whether anything is set that most messages have not.
    #[inline]
    #[doc(hidden)]
    #[must_use]
    pub fn has_rare(&self) -> bool {
        self.rare.is_some()
    }

    /// Returns the properties that brokers store and never read, to change them.
    pub fn pass_through_mut(&mut self) -> &mut PassThrough {
        self.rare_mut().pass_through.get_or_insert_default()
    }

    /// Returns whether there is a `MessageId`; faster than reading it.
    #[inline]
    #[doc(hidden)]
    #[must_use]
    pub fn has_message_id(&self) -> bool {
        self.message_id.is_some()
    }

    /// Returns the `CorrelationId` in the form that is compared with tokens.
    #[inline]
    #[doc(hidden)]
    #[must_use]
    pub fn correlation_bytes(&self) -> Option<&[u8; Token::LENGTH]> {
        self.correlation_id.as_ref()?.token_bytes()
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}
