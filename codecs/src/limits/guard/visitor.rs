use std::fmt;

use serde::{
    Deserializer,
    de::{EnumAccess, Error, MapAccess, SeqAccess, Visitor},
};

use super::{
    Level,
    access::{Enum, Map, Seq},
};

/// A visitor that passes guarded deserializers to the visitor of the type.
pub(super) struct Container<'w, V> {
    pub(super) visitor: V,
    pub(super) level: Level<'w>,
    pub(super) length: Length,
}

/// The source of the number of elements of a sequence.
#[derive(Clone, Copy)]
pub(super) enum Length {
    OfBody,
    OfType,
}

macro_rules! leaves {
    ($($name:ident($type:ty))*) => {$(
        #[inline]
        fn $name<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.visitor.$name(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Container<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    leaves! {
        visit_bool(bool) visit_i8(i8) visit_i16(i16) visit_i32(i32) visit_i64(i64) visit_i128(i128)
        visit_u8(u8) visit_u16(u16) visit_u32(u32) visit_u64(u64) visit_u128(u128) visit_f32(f32) visit_f64(f64)
        visit_char(char) visit_str(&str) visit_borrowed_str(&'de str) visit_string(String)
        visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    #[inline]
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(self.level.option::<D::Error>()?.guard(inner))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(self.level.guard(inner))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let level = self.level.deeper::<A::Error>()?;
        let counted = match self.length {
            Length::OfBody => inner.size_hint().unwrap_or_default(),
            Length::OfType => 0,
        };
        level.count::<A::Error>(counted)?;
        self.visitor.visit_seq(Seq { inner, level, counted, length: self.length })
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let level = self.level.deeper::<A::Error>()?;
        let counted = inner.size_hint().unwrap_or_default();
        level.count::<A::Error>(counted)?;
        self.visitor.visit_map(Map { inner, level, counted })
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(Enum { inner, level: self.level })
    }
}
