use std::{borrow::Cow, time::Duration};

use super::{Body, InvalidArgument, Message, Properties, PropertyValue};
use crate::time::Timestamp;

/// Builds a [`Message`]. The first value that is not allowed is remembered, and [`build`](Self::build) answers with it.
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct MessageBuilder {
    properties: Properties,
    error: Option<InvalidArgument>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident, $set:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, value: impl Into<Cow<'static, str>>) -> Self {
            self.properties.$set(value);
            self
        }
    )*};
}

macro_rules! checked_setters {
    ($($(#[$doc:meta])* $name:ident, $set:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, value: impl Into<Cow<'static, str>>) -> Self {
            let result = self.properties.$set(value).err();
            self.error = self.error.or(result);
            self
        }
    )*};
}

impl MessageBuilder {
    setters! {
        /// The format of the body.
        content_type, set_content_type;
        /// The `MessageId` that this message answers.
        correlation_id, set_correlation_id;
        /// What the message is about; routing goes by it.
        subject, set_subject;
        /// Where an answer goes.
        reply_to, set_reply_to;
        /// Where the message goes, for the application.
        to, set_to;
    }

    checked_setters! {
        /// The identity of the message: 1 to 128 UTF-16 code units. Without one a random UUID is stamped when it is sent.
        message_id, set_message_id;
        /// The session: at most 128 UTF-16 code units.
        session_id, set_session_id;
        /// The session that an answer goes to: at most 128 UTF-16 code units.
        reply_to_session_id, set_reply_to_session_id;
        /// The partition key: at most 128 UTF-16 code units, equal to the session if that is set.
        partition_key, set_partition_key;
        /// The transfer partition's key: at most 128 UTF-16 code units.
        transaction_partition_key, set_transaction_partition_key;
    }

    /// How long the message may wait: more than zero.
    pub fn time_to_live(mut self, value: Duration) -> Self {
        let result = self.properties.set_time_to_live(value).err();
        self.error = self.error.or(result);
        self
    }

    /// When the message becomes visible.
    pub fn scheduled_enqueue_time(mut self, value: Timestamp) -> Self {
        self.properties.set_scheduled_enqueue_time(value);
        self
    }

    /// One of the user's own properties.
    pub fn property(mut self, key: impl Into<Box<str>>, value: impl Into<PropertyValue>) -> Self {
        self.properties.application_mut().insert(key, value);
        self
    }

    /// The message, or the first rule that was broken.
    pub fn build(self, body: impl Into<Body>) -> Result<Message, InvalidArgument> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.properties.check()?;
        Ok(Message::from_parts(self.properties, body.into()))
    }
}
