use std::fmt;

use crate::{
    message::{InvalidArgument, Properties, fluent::fluent_properties},
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

fluent_properties! { [T] Outgoing<T> }

impl<T> Outgoing<T> {
    /// A value whose message has no properties yet.
    pub fn new(value: T) -> Self {
        Self { value, properties: Properties::new(), error: None }
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

    fn all_properties(&self, f: &mut dyn FnMut(&Properties) -> bool) -> bool {
        f(&self.properties)
    }
}

impl<T> Outbound for OutgoingBatch<T> {
    fn each_properties(&mut self, f: &mut dyn FnMut(&mut Properties)) {
        self.0.iter_mut().for_each(|outgoing| f(&mut outgoing.properties));
    }

    fn all_properties(&self, f: &mut dyn FnMut(&Properties) -> bool) -> bool {
        self.0.iter().all(|outgoing| f(&outgoing.properties))
    }
}

impl<T> FromIterator<Outgoing<T>> for OutgoingBatch<T> {
    fn from_iter<I: IntoIterator<Item = Outgoing<T>>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
