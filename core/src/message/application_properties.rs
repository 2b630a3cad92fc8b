use std::{collections::BTreeMap, fmt};

use super::{Field, InvalidArgument, Problem, PropertyValue, Value, limits};

type Entries = BTreeMap<Box<str>, PropertyValue>;

/// The user's own properties of a message: keys and typed values, ordered by key.
#[derive(Clone, Default)]
pub struct ApplicationProperties(
    /// `None` until there is one, for then there is nothing to drop either.
    Option<Entries>,
);

static NONE: Entries = Entries::new();

impl ApplicationProperties {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    #[inline]
    fn entries(&self) -> &Entries {
        self.0.as_ref().unwrap_or(&NONE)
    }

    fn entries_mut(&mut self) -> &mut Entries {
        self.0.get_or_insert_default()
    }

    /// Sets one property and returns the value that it had.
    pub fn insert(&mut self, key: impl Into<Box<str>>, value: impl Into<PropertyValue>) -> Option<PropertyValue> {
        self.entries_mut().insert(key.into(), value.into())
    }

    /// Sets one property from a value of any AMQP type; what a property cannot hold is refused by key and type.
    pub fn try_insert(&mut self, key: &str, value: Value) -> Result<Option<PropertyValue>, InvalidArgument> {
        let value = value.into_property(key)?;
        Ok(self.entries_mut().insert(key.into(), value))
    }

    /// Returns the value of one property. Keys are case-sensitive.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &str) -> Option<&PropertyValue> {
        self.entries().get(key)
    }

    /// Removes one property.
    pub fn remove(&mut self, key: &str) -> Option<PropertyValue> {
        self.0.as_mut()?.remove(key)
    }

    /// Keys and values, by key.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &PropertyValue)> {
        self.entries().iter().map(|(key, value)| (&**key, value))
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Returns whether it is empty.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Replaces and adds what `changes` holds, and removes nothing: what abandon, defer and dead-letter do.
    pub fn merge(&mut self, changes: Self) {
        if let Some(changes) = changes.0 {
            self.entries_mut().extend(changes);
        }
    }

    /// Bytes that keys and values count for against a size limit.
    #[must_use]
    pub fn size(&self) -> usize {
        self.entries().iter().map(|(key, value)| key.len() + value.size()).sum()
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
        Self(Some(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect()))
    }
}

impl PartialEq for ApplicationProperties {
    fn eq(&self, other: &Self) -> bool {
        self.entries() == other.entries()
    }
}

impl fmt::Debug for ApplicationProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_left_is_none() {
        let mut properties = ApplicationProperties::new();
        assert_eq!(properties.remove("k"), None);
        properties.insert("k", true);
        assert_ne!(properties, ApplicationProperties::new());
        properties.remove("k");
        assert_eq!(properties, ApplicationProperties::new());
        properties.merge(ApplicationProperties::new());
        assert!(properties.is_empty() && properties.iter().len() == 0);
    }
}
