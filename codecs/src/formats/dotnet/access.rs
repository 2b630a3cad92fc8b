//! Lists, objects, dictionaries and enums of a document.

use std::borrow::Cow;

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, EnumAccess, Error, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
        value::{BorrowedStrDeserializer, StrDeserializer},
    },
};

use super::{
    document::{Document, Inside, Kind},
    reader::Reader,
};
use crate::{
    DecodeError, DecodeErrorKind,
    serde_error::{Refused, left_a_part},
};

/// Returns the next element. Text beside elements is refused, unless it is white space.
fn next_element(inside: &mut Inside<'_, '_>) -> Result<Option<usize>, Refused> {
    for (node, kind) in inside {
        match kind {
            Kind::Element(_) => return Ok(Some(node)),
            Kind::Value(value) if value.is_blank() => {}
            Kind::Value(_) => {
                return Err(DecodeError::new(DecodeErrorKind::Type).with_detail("text beside elements").into());
            }
        }
    }
    Ok(None)
}

fn end(inside: &mut Inside<'_, '_>) -> Result<(), Refused> {
    match next_element(inside)? {
        None => Ok(()),
        Some(_) => Err(left_a_part().into()),
    }
}

/// The items of a list, whatever their names.
pub(super) struct Items<'d, 'de> {
    document: &'d Document<'de>,
    inside: Inside<'d, 'de>,
}

impl<'d, 'de> Items<'d, 'de> {
    pub(super) fn new(document: &'d Document<'de>, node: usize) -> Self {
        Self { document, inside: document.inside(node) }
    }

    pub(super) fn end(&mut self) -> Result<(), Refused> {
        end(&mut self.inside)
    }
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Refused;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        let Some(node) = next_element(&mut self.inside)? else { return Ok(None) };
        seed.deserialize(Reader::new(self.document, node)).map(Some)
    }
}

/// The members of an object, by the names of their elements.
pub(super) struct Members<'d, 'de> {
    document: &'d Document<'de>,
    inside: Inside<'d, 'de>,
    value: Option<usize>,
}

impl<'d, 'de> Members<'d, 'de> {
    pub(super) fn new(document: &'d Document<'de>, node: usize) -> Self {
        Self { document, inside: document.inside(node), value: None }
    }

    pub(super) fn end(&mut self) -> Result<(), Refused> {
        end(&mut self.inside)
    }
}

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = Refused;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        self.value = next_element(&mut self.inside)?;
        let Some(element) = self.value.and_then(|node| self.document.element(node)) else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(element.name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        let Some(node) = self.value.take() else { return Err(Refused::custom("a value before its key")) };
        seed.deserialize(Reader::new(self.document, node))
    }
}

/// The entries of a dictionary: elements with a key and a value inside.
pub(super) struct Dictionary<'d, 'de> {
    document: &'d Document<'de>,
    inside: Inside<'d, 'de>,
    value: Option<usize>,
}

impl<'d, 'de> Dictionary<'d, 'de> {
    pub(super) fn new(document: &'d Document<'de>, node: usize) -> Self {
        Self { document, inside: document.inside(node), value: None }
    }

    pub(super) fn end(&mut self) -> Result<(), Refused> {
        end(&mut self.inside)
    }
}

impl<'de> MapAccess<'de> for Dictionary<'_, 'de> {
    type Error = Refused;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        let Some(entry) = next_element(&mut self.inside)? else { return Ok(None) };
        let mut inside = self.document.inside(entry);
        let (key, value) = (next_element(&mut inside)?, next_element(&mut inside)?);
        let is_named = |node: usize, name| self.document.element(node).is_some_and(|element| element.name == name);
        match (key, value, next_element(&mut inside)?) {
            (Some(key), Some(value), None) if is_named(key, "Key") && is_named(value, "Value") => {
                self.value = Some(value);
                seed.deserialize(Reader::new(self.document, key)).map(Some)
            }
            _ => {
                let error = DecodeError::new(DecodeErrorKind::Type).at(self.document.position(entry));
                Err(error.with_expected("an entry of a dictionary: `Key`, then `Value`").into())
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        let Some(node) = self.value.take() else { return Err(Refused::custom("a value before its key")) };
        seed.deserialize(Reader::new(self.document, node))
    }
}

/// The name of an enum's variant.
pub(super) struct UnitVariant<'t>(pub(super) Cow<'t, str>);

impl<'de> EnumAccess<'de> for UnitVariant<'_> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Refused> {
        let name: StrDeserializer<'_, Refused> = StrDeserializer::new(&self.0);
        let value = seed.deserialize(name)?;
        Ok((value, self))
    }
}

impl<'de> VariantAccess<'de> for UnitVariant<'_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _: S) -> Result<S::Value, Refused> {
        Err(Refused::invalid_type(Unexpected::UnitVariant, &"a variant with a value"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refused> {
        Err(Refused::invalid_type(Unexpected::UnitVariant, &visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Refused> {
        Err(Refused::invalid_type(Unexpected::UnitVariant, &visitor))
    }
}

/// A variant with a value: an element of the variant's name.
pub(super) struct Variant<'d, 'de> {
    document: &'d Document<'de>,
    node: usize,
}

impl<'d, 'de> Variant<'d, 'de> {
    pub(super) const fn new(document: &'d Document<'de>, node: usize) -> Self {
        Self { document, node }
    }

    const fn reader(&self) -> Reader<'d, 'de> {
        Reader::new(self.document, self.node)
    }
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Refused> {
        let name = self.document.element(self.node).map_or("", |element| element.name);
        let name: BorrowedStrDeserializer<'_, Refused> = BorrowedStrDeserializer::new(name);
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        serde::Deserialize::deserialize(self.reader())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Refused> {
        seed.deserialize(self.reader())
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        self.reader().deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Refused> {
        self.reader().deserialize_struct("", fields, visitor)
    }
}
