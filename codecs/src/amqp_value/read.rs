//! Which values each type of serde takes.

use serde::de::{self, Unexpected, Visitor};

use super::{
    Node, Scalar, View,
    access::{Elements, Entries, Variant},
    deserializer::{Budget, Deserializer, Error, deeper},
};
use crate::{
    formats::{octets, single::Single},
    names::{Identifier, Names},
    serde_error::left_a_part,
};

fn map<'de, N: Node<'de>, V: Visitor<'de>>(
    map: N::Map,
    budget: &Budget,
    depth: usize,
    names: Names,
    visitor: V,
) -> Result<V::Value, Error> {
    let mut entries = Entries::new(map, budget, deeper(budget, depth)?, names);
    let value = visitor.visit_map(&mut entries)?;
    if entries.map.next().is_some() { Err(left_a_part().into()) } else { Ok(value) }
}

fn any<'de, N: Node<'de>, V: Visitor<'de>>(
    view: View<'de, N>,
    budget: &Budget,
    depth: usize,
    visitor: V,
) -> Result<V::Value, Error> {
    let scalar = match view {
        View::Scalar(scalar) => scalar,
        View::List(list) => {
            let mut elements = Elements { list, budget, depth: deeper(budget, depth)? };
            let value = visitor.visit_seq(&mut elements)?;
            return if elements.list.next().is_some() { Err(left_a_part().into()) } else { Ok(value) };
        }
        View::Map(pairs) => return map::<N, V>(pairs, budget, depth, Names::Keys, visitor),
        View::Described(node) => {
            let inner = Deserializer::new(node, budget, deeper(budget, depth)?);
            return de::Deserializer::deserialize_any(inner, visitor);
        }
    };
    match scalar {
        Scalar::Null => visitor.visit_unit(),
        Scalar::Boolean(value) => visitor.visit_bool(value),
        Scalar::Ubyte(value) => visitor.visit_u8(value),
        Scalar::Ushort(value) => visitor.visit_u16(value),
        Scalar::Uint(value) => visitor.visit_u32(value),
        Scalar::Ulong(value) => visitor.visit_u64(value),
        Scalar::Byte(value) => visitor.visit_i8(value),
        Scalar::Short(value) => visitor.visit_i16(value),
        Scalar::Int(value) => visitor.visit_i32(value),
        Scalar::Long(value) | Scalar::Timestamp(value) => visitor.visit_i64(value),
        Scalar::Float(value) => visitor.visit_f32(value),
        Scalar::Double(value) => visitor.visit_f64(value),
        Scalar::Char(value) => visitor.visit_char(value),
        Scalar::String(text) | Scalar::Symbol(text) => visitor.visit_borrowed_str(text),
        Scalar::Binary(bytes) | Scalar::Decimal(bytes) => visitor.visit_borrowed_bytes(bytes),
        Scalar::Uuid(uuid) => visitor.visit_string(hyphenated(uuid)),
    }
}

/// The text of a UUID, in lower case.
fn hyphenated(uuid: [u8; 16]) -> String {
    let digit = |nibble: u8| char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.extend([digit(byte >> 4), digit(byte & 15)]);
    }
    text
}

macro_rules! as_any {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.deserialize_any(visitor)
        }
    )*};
}

impl<'de, N: Node<'de>> de::Deserializer<'de> for Deserializer<'_, N> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let (view, budget, depth) = self.undescribed()?;
        any(view, budget, depth, visitor)
    }

    as_any! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_unit deserialize_map
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(Single(visitor))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let names = self.names;
        self.deserialize_any(Identifier::new(visitor, names))
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.undescribed()? {
            (View::Scalar(Scalar::Uuid(uuid)), ..) => visitor.visit_bytes(&uuid),
            (view, budget, depth) => any(view, budget, depth, visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.undescribed()? {
            (View::Scalar(Scalar::Uuid(uuid)), ..) => octets::read(&uuid, visitor),
            (View::Scalar(Scalar::Binary(bytes) | Scalar::Decimal(bytes)), ..) => octets::read(bytes, visitor),
            (view, budget, depth) => any(view, budget, depth, visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.undescribed()? {
            (View::Map(pairs), budget, depth) => map::<N, V>(pairs, budget, depth, Names::Fields, visitor),
            (view, budget, depth) => any(view, budget, depth, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut view = self.node.view();
        while let View::Described(node) = view {
            view = node.view();
        }
        match view {
            View::Scalar(Scalar::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (view, budget, depth) = self.undescribed()?;
        let variant = match view {
            View::Scalar(Scalar::String(name) | Scalar::Symbol(name)) => Variant::unit(name, budget, depth),
            View::Map(mut pairs) => match (pairs.next(), pairs.next()) {
                (Some((name, data)), None) => {
                    budget.element()?;
                    Variant::with_data(name, data, budget, deeper(budget, depth)?)
                }
                _ => return Err(de::Error::invalid_value(Unexpected::Map, &"a map with one entry")),
            },
            view => return any(view, budget, depth, visitor),
        };
        visitor.visit_enum(variant)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        // The value is in memory, and nothing of it is read.
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}
