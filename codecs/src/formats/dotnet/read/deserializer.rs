//! The methods of serde.

use serde::de::{Deserializer, Visitor};

use super::super::reader::Reader;
use crate::serde_error::Refused;

macro_rules! methods {
    ($($read:ident: $($name:ident)*;)*) => {$($(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            self.$read(visitor).map_err(|refused| self.at(refused))
        }
    )*)*};
}

impl<'de> Deserializer<'de> for Reader<'_, 'de> {
    type Error = Refused;

    methods! {
        any: deserialize_any;
        boolean: deserialize_bool;
        integer: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
            deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128;
        float: deserialize_f64;
        single: deserialize_f32;
        character: deserialize_char;
        str: deserialize_str deserialize_string deserialize_identifier;
        octets: deserialize_bytes deserialize_byte_buf;
        option: deserialize_option;
        unit: deserialize_unit;
        sequence: deserialize_seq;
        map: deserialize_map;
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self).map_err(|refused| self.at(refused))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.structure(visitor).map_err(|refused| self.at(refused))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.variant(visitor).map_err(|refused| self.at(refused))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }
}
