use std::{borrow::Cow, fmt, time::Duration};

use crate::{
    message::{InvalidArgument, Properties, PropertyValue},
    time::Timestamp,
    transport::Outbound,
};

/// A value on its way to be encoded, with the properties of its message. The first property that is not allowed is
/// remembered, and the send answers with it.
#[derive(Clone)]
#[must_use = "a value goes nowhere until it is sent"]
pub struct Outgoing<T> {
    pub(super) value: T,
    pub(super) properties: Properties,
    pub(super) error: Option<InvalidArgument>,
}

/// Values that are encoded one by one and sent as one transfer: all are accepted, or none is.
#[derive(Clone, Debug)]
#[must_use = "values go nowhere until they are sent"]
pub struct OutgoingBatch<T>(pub Vec<Outgoing<T>>);

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

impl<T> Outgoing<T> {
    /// A value whose message has no properties yet.
    pub fn new(value: T) -> Self {
        Self { value, properties: Properties::new(), error: None }
    }

    setters! {
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
        /// The identity of the message: 1 to 128 UTF-16 code units.
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

    /// The value.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The properties so far. The ContentType is stamped when the value is encoded.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }
}

/// Shows the properties, never the value.
impl<T> fmt::Debug for Outgoing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("properties", &self.properties)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<T> Outbound for Outgoing<T> {
    fn each_properties(&mut self, f: &mut dyn FnMut(&mut Properties)) {
        f(&mut self.properties);
    }
}

impl<T> Outbound for OutgoingBatch<T> {
    fn each_properties(&mut self, f: &mut dyn FnMut(&mut Properties)) {
        self.0.iter_mut().for_each(|outgoing| f(&mut outgoing.properties));
    }
}

impl<T> FromIterator<Outgoing<T>> for OutgoingBatch<T> {
    fn from_iter<I: IntoIterator<Item = Outgoing<T>>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
