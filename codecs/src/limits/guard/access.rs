use std::mem;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::{
    Level,
    visitor::{Container, Length},
};

pub(super) struct Seq<'w, A> {
    pub(super) inner: A,
    pub(super) level: Level<'w>,
    /// How many of the elements to come are counted already.
    pub(super) counted: usize,
    pub(super) length: Length,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Seq<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        let element = self.inner.next_element_seed(Seed { seed, level: self.level })?;
        if matches!(self.length, Length::OfBody) {
            came(element.is_some(), &mut self.counted, self.level)?;
        }
        Ok(element)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.level.reserve(self.inner.size_hint())
    }
}

pub(super) struct Map<'w, A> {
    pub(super) inner: A,
    pub(super) level: Level<'w>,
    pub(super) counted: usize,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Map<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let key = self.inner.next_key_seed(Seed { seed, level: self.level })?;
        came(key.is_some(), &mut self.counted, self.level)?;
        Ok(key)
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.inner.next_value_seed(Seed { seed, level: self.level })
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.level.reserve(self.inner.size_hint())
    }
}

pub(super) struct Enum<'w, A> {
    pub(super) inner: A,
    pub(super) level: Level<'w>,
}

impl<'de, 'w, A: EnumAccess<'de>> EnumAccess<'de> for Enum<'w, A> {
    type Error = A::Error;
    type Variant = Enum<'w, A::Variant>;

    #[inline]
    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), A::Error> {
        let (variant, inner) = self.inner.variant_seed(Seed { seed, level: self.level })?;
        Ok((variant, Enum { inner, level: self.level }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Enum<'_, A> {
    type Error = A::Error;

    #[inline]
    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    #[inline]
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        let level = self.level.deeper::<A::Error>()?;
        self.inner.newtype_variant_seed(Seed { seed, level })
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let level = self.level.deeper::<A::Error>()?;
        self.inner.tuple_variant(len, Container { visitor, level, length: Length::OfType })
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let level = self.level.deeper::<A::Error>()?;
        self.inner.struct_variant(fields, Container { visitor, level, length: Length::OfType })
    }
}

struct Seed<'w, T> {
    seed: T,
    level: Level<'w>,
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<'_, T> {
    type Value = T::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<T::Value, D::Error> {
        self.seed.deserialize(self.level.guard(inner))
    }
}

/// Counts an element that was read, unless it was declared. Elements of no size are in no relation to the bytes of a body, so
/// undeclared ones are counted as they are read.
#[inline]
fn came<E: Error>(is_element: bool, counted: &mut usize, level: Level<'_>) -> Result<(), E> {
    match counted.checked_sub(1) {
        Some(fewer) if is_element => *counted = fewer,
        None if is_element => return level.count(1),
        _ => level.uncount(mem::take(counted)),
    }
    Ok(())
}
