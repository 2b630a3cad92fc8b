use std::fmt;

use super::Value;

/// Values of any types, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List(pub Vec<Value>);

/// Pairs of keys and values, in the order of the encoding. A key that occurs twice is kept twice.
///
/// ```
/// use consign_amqp::value::{Map, Symbol, Value};
///
/// let map: Map = [(Symbol::from_static("product").into(), Value::from("consign"))].into_iter().collect();
/// assert_eq!(map.get("product").and_then(Value::as_str), Some("consign"));
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct Map(pub Vec<(Value, Value)>);

impl Map {
    /// Returns the value of the first key that is this text: a string or a symbol.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let matches = |candidate: &Value| match candidate {
            Value::String(text) => text.as_bytes() == key.as_bytes(),
            Value::Symbol(text) => text.as_bytes() == key.as_bytes(),
            _ => false,
        };
        self.0.iter().find(|(candidate, _)| matches(candidate)).map(|(_, value)| value)
    }

    /// Appends a pair. A pair with the same key stays.
    pub fn push(&mut self, key: impl Into<Value>, value: impl Into<Value>) {
        self.0.push((key.into(), value.into()));
    }

    /// Returns the number of pairs.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no pair.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Value, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (Value, Value)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// Shows names that are symbols, and no other text.
impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (key, value) in &self.0 {
            match key {
                Value::Symbol(name) => map.entry(name, value),
                key => map.entry(key, value),
            };
        }
        map.finish()
    }
}

/// A value, and the descriptor that gives it a meaning: an unsigned long or a symbol.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The descriptor.
    pub descriptor: Value,
    /// The value.
    pub value: Value,
}
