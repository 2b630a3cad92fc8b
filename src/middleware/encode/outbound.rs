use std::{fmt, iter, slice};

use crate::{
    message::{InvalidArgument, Properties, fluent::fluent_properties},
    message_types::{AsType, MessageType, SendTypes},
    transport::{Sealed, SendError, SendRequest},
};

/// A value to be encoded, with the properties of its message. The first property that is not allowed is kept, and
/// the send fails with it.
#[derive(Clone)]
#[must_use = "a value goes nowhere until it is sent"]
pub struct OutboundMessage<T> {
    pub(super) value: T,
    pub(super) properties: Properties,
    pub(super) error: Option<InvalidArgument>,
    pub(super) codec: Option<&'static str>,
}

/// Values that are encoded one by one and sent as one transfer: the broker accepts all of them, or none.
#[derive(Clone, Debug)]
#[must_use = "values go nowhere until they are sent"]
pub struct OutboundBatch<T>(pub(super) Vec<OutboundMessage<T>>);

fluent_properties! { [T] OutboundMessage<T> }

impl<T> OutboundMessage<T> {
    /// A value whose message has no properties yet.
    pub fn new(value: T) -> Self {
        Self { value, properties: Properties::new(), error: None, codec: None }
    }

    /// Sets the codec of this value by name. It takes precedence over the codec of the type and of the layer. A send fails
    /// as [`Serialization`](crate::transport::ErrorKind::Serialization) if the set has none of this name, or if the value
    /// has a format of its own.
    pub fn codec(mut self, name: &'static str) -> Self {
        self.codec = Some(name);
        self
    }

    /// Returns the codec that this message or its type names. `None` leaves it to the layer.
    #[must_use]
    pub fn chosen_codec(&self) -> Option<&'static str> {
        self.codec
    }

    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Returns the properties so far. The ContentType is stamped when the value is encoded.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }
}

impl<E: SendTypes> OutboundMessage<AsType<E>> {
    /// A value of an enum of types: its message says the type and the newest version of it, and is written by the codec that
    /// the type names, if it names one. The body is what the variant holds.
    ///
    /// ```
    /// # #[cfg(feature = "derive")] {
    /// use consign::{middleware::encode::OutboundMessage, message_types::MessageTypes};
    ///
    /// #[derive(MessageTypes)]
    /// enum Event {
    ///     #[message("order.shipped", version = 2, codec = "msgpack")]
    ///     Shipped(u64),
    /// }
    ///
    /// let outgoing = OutboundMessage::typed(Event::Shipped(7));
    /// assert_eq!(outgoing.properties().subject(), Some("order.shipped"));
    /// assert_eq!(outgoing.properties().application_properties().get("x-message-version"), Some(&2_u32.into()));
    /// assert_eq!(outgoing.chosen_codec(), Some("msgpack"));
    /// # }
    /// ```
    pub fn typed(value: E) -> Self {
        let index = value.index();
        let mut outgoing = Self::new(AsType(value));
        E::TYPES.stamp(index, &mut outgoing.properties);
        outgoing.codec = E::TYPES.types().get(index).and_then(MessageType::own_codec);
        outgoing
    }
}

/// Shows the properties, never the value.
impl<T> fmt::Debug for OutboundMessage<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundMessage")
            .field("properties", &self.properties)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<T> Sealed for OutboundMessage<T> {}

impl<T> SendRequest for OutboundMessage<T> {
    type Item = Self;

    fn items(&self) -> &[Self] {
        slice::from_ref(self)
    }

    fn all_properties(&self) -> impl Iterator<Item = &Properties> {
        iter::once(&self.properties)
    }

    fn all_properties_mut(&mut self) -> impl Iterator<Item = &mut Properties> {
        iter::once(&mut self.properties)
    }

    fn try_map<F>(self, mut f: F) -> Result<Self, SendError>
    where
        F: FnMut(Self) -> Result<Self, SendError>,
    {
        f(self)
    }
}

impl<T> Sealed for OutboundBatch<T> {}

impl<T> SendRequest for OutboundBatch<T> {
    type Item = OutboundMessage<T>;

    fn items(&self) -> &[OutboundMessage<T>] {
        &self.0
    }

    fn all_properties(&self) -> impl Iterator<Item = &Properties> {
        self.0.iter().map(|outgoing| &outgoing.properties)
    }

    fn all_properties_mut(&mut self) -> impl Iterator<Item = &mut Properties> {
        self.0.iter_mut().map(|outgoing| &mut outgoing.properties)
    }

    fn try_map<F>(self, f: F) -> Result<Self, SendError>
    where
        F: FnMut(OutboundMessage<T>) -> Result<OutboundMessage<T>, SendError>,
    {
        self.0.into_iter().map(f).collect()
    }
}

impl<T> From<Vec<OutboundMessage<T>>> for OutboundBatch<T> {
    fn from(values: Vec<OutboundMessage<T>>) -> Self {
        Self(values)
    }
}

impl<T> FromIterator<OutboundMessage<T>> for OutboundBatch<T> {
    fn from_iter<I: IntoIterator<Item = OutboundMessage<T>>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
