use std::{collections::BTreeMap, fmt};

use super::{Field, InvalidArgument, Problem, PropertyValue, Value, limits};

/// The user's own properties of a message: keys and typed values, ordered by key.
#[derive(Clone, Default, PartialEq)]
pub struct ApplicationProperties(BTreeMap<Box<str>, PropertyValue>);

impl ApplicationProperties {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Sets one property and returns the value that it had.
    pub fn insert(&mut self, key: impl Into<Box<str>>, value: impl Into<PropertyValue>) -> Option<PropertyValue> {
        self.0.insert(key.into(), value.into())
    }

    /// Sets one property from a value of any AMQP type; what a property cannot hold is refused by key and type.
    pub fn try_insert(&mut self, key: &str, value: Value) -> Result<Option<PropertyValue>, InvalidArgument> {
        let value = value.into_property(key)?;
        Ok(self.0.insert(key.into(), value))
    }

    /// The value of one property. Keys are compared as they are, case and all.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&PropertyValue> {
        self.0.get(key)
    }

    /// Removes one property.
    pub fn remove(&mut self, key: &str) -> Option<PropertyValue> {
        self.0.remove(key)
    }

    /// Keys and values, by key.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &PropertyValue)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces and adds what `changes` holds, and removes nothing: what abandon, defer and dead-letter do.
    pub fn merge(&mut self, changes: Self) {
        self.0.extend(changes.0);
    }

    /// Bytes that keys and values count for against a size limit.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.size()).sum()
    }

    pub(super) fn check(&self) -> Result<(), InvalidArgument> {
        if self.len() > limits::PROPERTIES {
            return Err(InvalidArgument::new(Field::Properties, Problem::TooMany { limit: limits::PROPERTIES }));
        }
        let limit = limits::PROPERTY_BYTES;
        match self.iter().find(|(key, value)| key.len() + value.size() > limit) {
            Some((key, _)) => Err(InvalidArgument::new(Field::application_property(key), Problem::TooLong { limit })),
            None => Ok(()),
        }
    }
}

impl<K: Into<Box<str>>, V: Into<PropertyValue>> FromIterator<(K, V)> for ApplicationProperties {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

impl fmt::Debug for ApplicationProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
