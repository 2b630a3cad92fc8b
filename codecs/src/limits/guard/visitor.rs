use std::{fmt, marker::PhantomData, mem};

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::Level;

/// A visitor that passes guarded deserializers to the visitor of the type.
///
/// `OF_TYPE` says that the type determines the number of elements of a sequence, and not the body.
pub(super) struct Container<'w, V, const OF_TYPE: bool> {
    pub(super) visitor: V,
    pub(super) level: Level<'w>,
}

macro_rules! leaves {
    ($($name:ident($type:ty))*) => {$(
        #[inline]
        fn $name<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.visitor.$name(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>, const OF_TYPE: bool> Visitor<'de> for Container<'_, V, OF_TYPE> {
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
        if OF_TYPE {
            return self.visitor.visit_seq(Fields { inner, level });
        }
        let counted = inner.size_hint().unwrap_or(0);
        level.count::<A::Error>(counted)?;
        self.visitor.visit_seq(Seq { inner, level, counted })
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let level = self.level.deeper::<A::Error>()?;
        let counted = inner.size_hint().unwrap_or(0);
        level.count::<A::Error>(counted)?;
        self.visitor.visit_map(Map { inner, level, counted })
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(Enum { inner, level: self.level })
    }
}

/// The fields of a struct or a tuple.
struct Fields<'w, A> {
    inner: A,
    level: Level<'w>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Fields<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.inner.next_element_seed(Seed { seed, level: self.level })
    }

    #[expect(clippy::inline_always, reason = "measured: a call for each field costs more than the limits")]
    #[inline(always)]
    fn next_element<T: Deserialize<'de>>(&mut self) -> Result<Option<T>, A::Error> {
        self.next_element_seed(PhantomData)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.level.reserve(self.inner.size_hint())
    }
}

/// The elements of a sequence of any length.
struct Seq<'w, A> {
    inner: A,
    level: Level<'w>,
    /// How many of the elements to come are counted already.
    counted: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Seq<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        let element = self.inner.next_element_seed(Seed { seed, level: self.level })?;
        came(element.is_some(), &mut self.counted, self.level)?;
        Ok(element)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.level.reserve(self.inner.size_hint())
    }
}

struct Map<'w, A> {
    inner: A,
    level: Level<'w>,
    counted: usize,
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

struct Enum<'w, A> {
    inner: A,
    level: Level<'w>,
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
        self.inner.tuple_variant(len, Container::<_, true> { visitor, level })
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let level = self.level.deeper::<A::Error>()?;
        self.inner.struct_variant(fields, Container::<_, true> { visitor, level })
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
