//! A wrapper of a deserializer and of the values that it passes on: a float that is an integer exactly is read into an integer,
//! and one of 64 bits into one of 32; an instant is read into text; and a number is not the name of a field or
//! of a variant.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::{bin, number::Integer, single::Single, time_text::TimeText, wide::Wide};
use crate::{
    instant::INSTANT,
    names::{Identifier, Names},
    transcode::EXACT,
};

/// A deserializer, or a value that it passes on, that accepts numbers as other encoders write them.
pub(super) struct Lenient<T> {
    inner: T,
    mode: Mode,
}

/// The form of untyped values. Serde buffers fields of internally tagged enums and flattened fields as untyped values, and the type of
/// the field may be an integer, or text.
#[derive(Clone, Copy, Default)]
pub(super) struct Mode {
    /// A whole float is an integer.
    whole_integers: bool,
    /// The timestamp extension is text.
    times_as_text: bool,
    names: Names,
}

impl Mode {
    pub(super) const fn new(whole_integers: bool, times_as_text: bool) -> Self {
        Self { whole_integers, times_as_text, names: Names::Keys }
    }

    #[inline]
    const fn naming(self, names: Names) -> Self {
        Self { names, ..self }
    }
}

impl<T> Lenient<T> {
    #[inline]
    pub(super) const fn new(inner: T, mode: Mode) -> Self {
        Self { inner, mode }
    }
}

macro_rules! nested {
    ($($name:ident($($arg:ident: $type:ty),*) $names:expr;)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$name($($arg,)* Lenient::new(visitor, self.mode.naming($names)))
        }
    )*};
}

/// The decoder itself reads a byte string as a sequence or a struct of any numbers, and drops those that the type does not read.
macro_rules! bytes_apart {
    ($($name:ident($($type:ty),*) $read:path, $names:expr;)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, $(_: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            $read(self.inner, Lenient::new(visitor, self.mode.naming($names)))
        }
    )*};
}

macro_rules! leaves {
    ($($name:ident)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$name(visitor)
        }
    )*};
}

macro_rules! leaves_with {
    ($($with:ident: $($name:ident)*;)*) => {$($(
        #[inline]
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$name($with(visitor))
        }
    )*)*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Lenient<D> {
    type Error = D::Error;

    leaves! {
        deserialize_bool deserialize_char deserialize_f64 deserialize_bytes deserialize_unit deserialize_ignored_any
    }

    leaves_with! {
        Integer: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
            deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64;
        Single: deserialize_f32;
        TimeText: deserialize_str deserialize_string;
    }

    nested! {
        deserialize_option() Names::Keys;
        // A type of bytes may read a sequence of numbers.
        deserialize_byte_buf() Names::Keys;
        deserialize_map() Names::Keys;
        deserialize_unit_struct(name: &'static str) Names::Keys;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) Names::Variants;
    }

    bytes_apart! {
        deserialize_seq() bin::sequence, Names::Keys;
        deserialize_tuple(usize) bin::sequence, Names::Keys;
        deserialize_tuple_struct(&'static str, usize) bin::sequence, Names::Keys;
        deserialize_struct(&'static str, &'static [&'static str]) Deserializer::deserialize_any, Names::Fields;
    }

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = Lenient::new(visitor, self.mode.naming(Names::Keys));
        if self.mode.times_as_text {
            return self.inner.deserialize_any(TimeText(visitor));
        }
        self.inner.deserialize_any(visitor)
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_identifier(Identifier::new(visitor, self.mode.names))
    }

    // The decoder itself reads -1 as the largest integer without a sign.
    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(Integer(Wide { visitor, has_sign: false }))
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(Integer(Wide { visitor, has_sign: true }))
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        if name == INSTANT {
            return self.inner.deserialize_any(visitor);
        }
        let mut mode = self.mode.naming(Names::Keys);
        // A value that is converted to another format must not lose its type.
        mode.times_as_text &= name != EXACT;
        self.inner.deserialize_newtype_struct(name, Lenient::new(visitor, mode))
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit {
    ($($name:ident: $type:ty),* $(,)?) => {$(
        #[inline]
        fn $name<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$name(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Lenient<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool: bool, visit_char: char,
        visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128,
        visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
        visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    #[inline]
    fn visit_f32<E: Error>(self, value: f32) -> Result<V::Value, E> {
        if self.mode.whole_integers {
            return Integer(self.inner).visit_f32(value);
        }
        self.inner.visit_f32(value)
    }

    #[inline]
    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        if self.mode.whole_integers {
            return Integer(self.inner).visit_f64(value);
        }
        self.inner.visit_f64(value)
    }

    #[inline]
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Lenient::new(value, self.mode.naming(Names::Keys)))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Lenient::new(value, self.mode.naming(Names::Keys)))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Lenient::new(elements, self.mode.naming(Names::Keys)))
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Lenient::new(entries, self.mode))
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(Lenient::new(variant, self.mode))
    }
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Lenient<T> {
    type Value = T::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Value, D::Error> {
        self.inner.deserialize(Lenient::new(deserializer, self.mode))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Lenient<A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.inner.next_element_seed(Lenient::new(seed, self.mode))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Lenient<A> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.inner.next_key_seed(Lenient::new(seed, self.mode))
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.inner.next_value_seed(Lenient::new(seed, self.mode.naming(Names::Keys)))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Lenient<A> {
    type Error = A::Error;
    type Variant = Lenient<A::Variant>;

    #[inline]
    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), A::Error> {
        let (variant, content) = self.inner.variant_seed(Lenient::new(seed, self.mode.naming(Names::Variants)))?;
        Ok((variant, Lenient::new(content, self.mode)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Lenient<A> {
    type Error = A::Error;

    #[inline]
    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    #[inline]
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        self.inner.newtype_variant_seed(Lenient::new(seed, self.mode.naming(Names::Keys)))
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, A::Error> {
        bin::tuple_variant(self.inner, Lenient::new(visitor, self.mode.naming(Names::Keys)))
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, A::Error> {
        bin::struct_variant(self.inner, Lenient::new(visitor, self.mode.naming(Names::Fields)))
    }
}
