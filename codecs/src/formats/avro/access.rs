//! The contents of arrays, maps, records and unions.

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
        value::{BorrowedStrDeserializer, StrDeserializer},
    },
};

use super::{
    input::Input,
    reader::Reader,
    schema::{AvroSchema, Field, Id, Node},
};
use crate::serde_error::{Refused, left_a_part};

/// The items of an array.
pub(super) struct Items<'i, 'de, 's> {
    input: &'i mut Input<'de>,
    schema: &'s AvroSchema,
    id: Id,
    /// How many follow in this block.
    left: usize,
    is_over: bool,
}

impl<'i, 'de, 's> Items<'i, 'de, 's> {
    pub(super) fn new(input: &'i mut Input<'de>, schema: &'s AvroSchema, id: Id) -> Self {
        Self { input, schema, id, left: 0, is_over: false }
    }

    fn advance(&mut self) -> Result<bool, Refused> {
        if self.left == 0 && !self.is_over {
            self.left = self.input.block()?;
            self.is_over = self.left == 0;
        }
        if self.is_over {
            return Ok(false);
        }
        self.left -= 1;
        Ok(true)
    }

    fn value<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Refused> {
        seed.deserialize(Reader::new(self.input, self.schema, self.id))
    }

    /// Refuses an array that the type did not read to its end.
    pub(super) fn end(&mut self) -> Result<(), Refused> {
        if self.advance()? { Err(left_a_part().into()) } else { Ok(()) }
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de, '_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        if self.advance()? { self.value(seed).map(Some) } else { Ok(None) }
    }

    /// An element of no bytes is bounded by the limit of elements only.
    fn size_hint(&self) -> Option<usize> {
        Some(self.left.min(self.input.left()))
    }
}

/// The entries of a map. A key is text.
pub(super) struct Entries<'i, 'de, 's>(pub(super) Items<'i, 'de, 's>);

impl<'de> MapAccess<'de> for &mut Entries<'_, 'de, '_> {
    type Error = Refused;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        if !self.0.advance()? {
            return Ok(None);
        }
        let key = self.0.input.text()?;
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Refused> {
        self.0.value(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.left.min(self.0.input.left()))
    }
}

/// The fields of a record. Their names are in the schema.
pub(super) struct Fields<'i, 'de, 's> {
    input: &'i mut Input<'de>,
    schema: &'s AvroSchema,
    rest: std::slice::Iter<'s, Field>,
    value: Option<Id>,
}

impl<'i, 'de, 's> Fields<'i, 'de, 's> {
    pub(super) fn new(input: &'i mut Input<'de>, schema: &'s AvroSchema, fields: &'s [Field]) -> Self {
        Self { input, schema, rest: fields.iter(), value: None }
    }

    pub(super) fn end(&self) -> Result<(), Refused> {
        if self.rest.len() == 0 { Ok(()) } else { Err(left_a_part().into()) }
    }
}

impl<'de> MapAccess<'de> for &mut Fields<'_, 'de, '_> {
    type Error = Refused;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        let Some(field) = self.rest.next() else { return Ok(None) };
        self.value = Some(field.id);
        let name: StrDeserializer<'_, Refused> = field.name.as_str().into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Refused> {
        let Some(id) = self.value.take() else { return Err(Refused::custom("a value before its key")) };
        seed.deserialize(Reader::new(self.input, self.schema, id))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// A variant without data, by its name.
pub(super) struct Symbol<'s>(pub(super) &'s str);

impl<'de> EnumAccess<'de> for Symbol<'_> {
    type Error = Refused;
    type Variant = UnitOnly;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, UnitOnly), Refused> {
        let name: StrDeserializer<'_, Refused> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, UnitOnly))
    }
}

pub(super) struct UnitOnly;

impl<'de> VariantAccess<'de> for UnitOnly {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Refused> {
        Err(Refused::invalid_type(Unexpected::UnitVariant, &"a variant with data"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refused> {
        Err(Refused::invalid_type(Unexpected::UnitVariant, &visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Refused> {
        Err(Refused::invalid_type(Unexpected::UnitVariant, &visitor))
    }
}

/// A branch of a union: its name, and its value.
pub(super) struct Branch<'i, 'de, 's>(pub(super) Reader<'i, 'de, 's>);

impl<'de> EnumAccess<'de> for Branch<'_, 'de, '_> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Refused> {
        let name: StrDeserializer<'_, Refused> = self.0.schema.node(self.0.id).label().into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Branch<'_, 'de, '_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        match self.0.schema.node(self.0.id) {
            Node::Null | Node::Record(_) => self.0.skip(),
            node => Err(Refused::invalid_type(Unexpected::Other(node.kind()), &"a variant without data")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refused> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refused> {
        self.0.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Refused> {
        self.0.deserialize_any(visitor)
    }
}
