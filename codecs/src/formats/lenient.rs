//! Stands around a deserializer, and around what it hands out and is handed: a float that is an integer exactly is read
//! into an integer, and one of 64 bits into one of 32.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::number::{Integer, Single};
use crate::instant::INSTANT;

/// A deserializer, or what it hands out and is handed, that takes numbers as other encoders write them.
pub(super) struct Lenient<T>(pub(super) T);

macro_rules! forward {
    ($($name:ident($($arg:ident: $type:ty),*) with $with:expr;)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$name($($arg,)* $with(visitor))
        }
    )*};
}

macro_rules! leaves {
    ($($name:ident)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$name(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Lenient<D> {
    type Error = D::Error;

    leaves! {
        deserialize_bool deserialize_char deserialize_f64 deserialize_i128 deserialize_u128
        deserialize_str deserialize_string deserialize_identifier deserialize_bytes
        deserialize_unit deserialize_ignored_any
    }

    forward! {
        deserialize_i8() with Integer;
        deserialize_i16() with Integer;
        deserialize_i32() with Integer;
        deserialize_i64() with Integer;
        deserialize_u8() with Integer;
        deserialize_u16() with Integer;
        deserialize_u32() with Integer;
        deserialize_u64() with Integer;
        deserialize_f32() with Single;
        deserialize_any() with Lenient;
        deserialize_option() with Lenient;
        // A type of bytes may read a sequence of numbers.
        deserialize_byte_buf() with Lenient;
        deserialize_seq() with Lenient;
        deserialize_map() with Lenient;
        deserialize_unit_struct(name: &'static str) with Lenient;
        deserialize_tuple(len: usize) with Lenient;
        deserialize_tuple_struct(name: &'static str, len: usize) with Lenient;
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) with Lenient;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) with Lenient;
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        if name == INSTANT {
            return self.0.deserialize_any(visitor);
        }
        self.0.deserialize_newtype_struct(name, Lenient(visitor))
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visit {
    ($($name:ident: $type:ty),* $(,)?) => {$(
        #[inline]
        fn $name<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$name(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Lenient<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_bool: bool, visit_char: char, visit_f32: f32, visit_f64: f64,
        visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128,
        visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
        visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    #[inline]
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Lenient(value))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Lenient(value))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Lenient(elements))
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Lenient(entries))
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Lenient(variant))
    }
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Lenient<T> {
    type Value = T::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Value, D::Error> {
        self.0.deserialize(Lenient(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Lenient<A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(Lenient(seed))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Lenient<A> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(Lenient(seed))
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.0.next_value_seed(Lenient(seed))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Lenient<A> {
    type Error = A::Error;
    type Variant = Lenient<A::Variant>;

    #[inline]
    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), A::Error> {
        let (variant, content) = self.0.variant_seed(Lenient(seed))?;
        Ok((variant, Lenient(content)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Lenient<A> {
    type Error = A::Error;

    #[inline]
    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    #[inline]
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        self.0.newtype_variant_seed(Lenient(seed))
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, Lenient(visitor))
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Lenient(visitor))
    }
}
