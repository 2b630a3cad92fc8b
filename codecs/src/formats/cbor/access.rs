//! The contents of a container, one after the other.

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, EnumAccess, Error, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor},
};

use super::reader::{Head, Reader};
use crate::{
    names::Names,
    serde_error::{Refused, left_a_part},
};

/// The elements of an array, or the entries of a map.
pub(super) struct Entries<'r, 'de> {
    reader: &'r mut Reader<'de>,
    item: usize,
    left: usize,
    /// What the keys of a map are.
    names: Names,
}

impl<'r, 'de> Entries<'r, 'de> {
    /// Until the break of an indefinite length. No limit lets so many through.
    const UNTIL_BREAK: usize = usize::MAX;

    #[inline]
    pub(super) fn new(reader: &'r mut Reader<'de>, head: Head) -> Self {
        let left = if head.is_indefinite() {
            Self::UNTIL_BREAK
        } else {
            usize::try_from(head.argument).unwrap_or(Self::UNTIL_BREAK)
        };
        let item = reader.item();
        Self { reader, item, left, names: Names::Keys }
    }

    /// The entries of a map that is a struct.
    #[inline]
    pub(super) const fn with_fields(mut self) -> Self {
        self.names = Names::Fields;
        self
    }

    /// Returns whether an element follows. After the last, the container is the item that is being read.
    #[inline]
    fn advance(&mut self) -> bool {
        if self.left == Self::UNTIL_BREAK && self.reader.take_break() {
            self.left = 0;
        }
        match self.left {
            0 => {
                self.reader.back_to(self.item);
                false
            }
            Self::UNTIL_BREAK => true,
            _ => {
                self.left -= 1;
                true
            }
        }
    }

    /// Refuses a container that the type did not read to its end.
    #[inline]
    pub(super) fn end(mut self) -> Result<(), Refused> {
        if self.advance() { Err(left(&mut self)) } else { Ok(()) }
    }
}

#[cold]
fn left(entries: &mut Entries<'_, '_>) -> Refused {
    entries.reader.back_to(entries.item);
    left_a_part().into()
}

impl<'de> SeqAccess<'de> for Entries<'_, 'de> {
    type Error = Refused;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        if self.advance() { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        (self.left != Self::UNTIL_BREAK).then_some(self.left)
    }
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Refused;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        if !self.advance() {
            return Ok(None);
        }
        self.reader.names = self.names;
        seed.deserialize(&mut *self.reader).map(Some)
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Refused> {
        seed.deserialize(&mut *self.reader)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        (self.left != Self::UNTIL_BREAK).then_some(self.left)
    }
}

/// The name of a variant, and nothing else.
pub(super) struct UnitVariant<'r, 'de>(pub(super) &'r mut Reader<'de>);

impl<'de> EnumAccess<'de> for UnitVariant<'_, 'de> {
    type Error = Refused;
    type Variant = Self;

    #[inline]
    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Refused> {
        Ok((seed.deserialize(&mut *self.0)?, self))
    }
}

impl<'de> VariantAccess<'de> for UnitVariant<'_, 'de> {
    type Error = Refused;

    #[inline]
    fn unit_variant(self) -> Result<(), Refused> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Refused> {
        Err(Refused::invalid_type(Unexpected::UnitVariant, &"newtype variant"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Refused> {
        Err(Refused::invalid_type(Unexpected::UnitVariant, &"tuple variant"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Refused> {
        Err(Refused::invalid_type(Unexpected::UnitVariant, &"struct variant"))
    }
}

/// An entry of a map: from the name of a variant to its data.
pub(super) struct Variant<'e, 'r, 'de>(pub(super) &'e mut Entries<'r, 'de>);

impl<'de> EnumAccess<'de> for Variant<'_, '_, 'de> {
    type Error = Refused;
    type Variant = Self;

    #[inline]
    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Refused> {
        if !self.0.advance() {
            return Err(Refused::invalid_length(0, &"a map of one entry, from the name of the variant"));
        }
        self.0.reader.names = Names::Variants;
        Ok((seed.deserialize(&mut *self.0.reader)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, '_, 'de> {
    type Error = Refused;

    #[inline]
    fn unit_variant(self) -> Result<(), Refused> {
        Deserialize::deserialize(&mut *self.0.reader)
    }

    #[inline]
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refused> {
        seed.deserialize(&mut *self.0.reader)
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        self.0.reader.deserialize_tuple(len, visitor)
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Refused> {
        self.0.reader.deserialize_struct("", fields, visitor)
    }
}
