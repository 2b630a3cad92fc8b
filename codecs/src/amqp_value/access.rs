//! The values inside a value, as serde reads them.

use serde::de::{self, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor};

use super::{
    Node,
    deserializer::{Budget, Deserializer, Error, text},
};
use crate::names::Names;

pub(super) struct Elements<'b, L> {
    pub(super) list: L,
    pub(super) budget: &'b Budget,
    pub(super) depth: usize,
}

impl<'de, N: Node<'de>, L: Iterator<Item = N>> SeqAccess<'de> for Elements<'_, L> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(node) = self.list.next() else { return Ok(None) };
        self.budget.element()?;
        seed.deserialize(Deserializer::new(node, self.budget, self.depth)).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.budget.hint(self.list.size_hint().0))
    }
}

pub(super) struct Entries<'b, N, M> {
    pub(super) map: M,
    value: Option<N>,
    budget: &'b Budget,
    depth: usize,
    /// What the keys are.
    names: Names,
}

impl<'b, N, M> Entries<'b, N, M> {
    pub(super) const fn new(map: M, budget: &'b Budget, depth: usize, names: Names) -> Self {
        Self { map, value: None, budget, depth, names }
    }
}

impl<'de, N: Node<'de>, M: Iterator<Item = (N, N)>> MapAccess<'de> for Entries<'_, N, M> {
    type Error = Error;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((node, value)) = self.map.next() else { return Ok(None) };
        self.value = Some(value);
        self.budget.element()?;
        seed.deserialize(Deserializer::new(node, self.budget, self.depth).naming(self.names)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let node = self.value.take().ok_or_else(|| <Error as de::Error>::custom("a value before its key"))?;
        seed.deserialize(Deserializer::new(node, self.budget, self.depth))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.budget.hint(self.map.size_hint().0))
    }
}

/// A variant of an enum: a name, and data unless it is a unit variant.
pub(super) struct Variant<'b, 'de, N> {
    name: Tag<'de, N>,
    data: Option<N>,
    budget: &'b Budget,
    depth: usize,
}

enum Tag<'de, N> {
    Text(&'de str),
    Node(N),
}

impl<'b, 'de, N> Variant<'b, 'de, N> {
    pub(super) const fn unit(name: &'de str, budget: &'b Budget, depth: usize) -> Self {
        Self { name: Tag::Text(name), data: None, budget, depth }
    }

    pub(super) const fn with_data(name: N, data: N, budget: &'b Budget, depth: usize) -> Self {
        Self { name: Tag::Node(name), data: Some(data), budget, depth }
    }

    fn data(self) -> Option<Deserializer<'b, N>> {
        self.data.map(|node| Deserializer::new(node, self.budget, self.depth))
    }
}

impl<'de, N: Node<'de>> EnumAccess<'de> for Variant<'_, 'de, N> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        let name = match &self.name {
            Tag::Text(name) => seed.deserialize(text(name))?,
            Tag::Node(node) => {
                seed.deserialize(Deserializer::new(*node, self.budget, self.depth).naming(Names::Variants))?
            }
        };
        Ok((name, self))
    }
}

impl<'de, N: Node<'de>> VariantAccess<'de> for Variant<'_, 'de, N> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        self.data().map_or(Ok(()), de::Deserialize::deserialize)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        match self.data() {
            Some(data) => seed.deserialize(data),
            None => Err(de::Error::invalid_type(Unexpected::UnitVariant, &"newtype variant")),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        match self.data() {
            Some(data) => de::Deserializer::deserialize_tuple(data, len, visitor),
            None => Err(de::Error::invalid_type(Unexpected::UnitVariant, &"tuple variant")),
        }
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        match self.data() {
            Some(data) => de::Deserializer::deserialize_struct(data, "", fields, visitor),
            None => Err(de::Error::invalid_type(Unexpected::UnitVariant, &"struct variant")),
        }
    }
}
