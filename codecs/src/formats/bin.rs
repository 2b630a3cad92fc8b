//! A byte string of `MessagePack` where a sequence, a tuple or a struct is read.

use std::fmt::{self, Display, Write};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor};

use super::octets;

/// Reads an array, or a byte string as a sequence of `u8`.
#[inline]
pub(super) fn sequence<'de, D: Deserializer<'de>, V: Visitor<'de>>(
    deserializer: D,
    visitor: V,
) -> Result<V::Value, D::Error> {
    let mut found = None;
    let result = deserializer.deserialize_any(Sequence { visitor, found: &mut found });
    match (result, found) {
        (Err(error), Some((bytes, visitor))) if is_empty(&error) => octets::read(bytes, visitor),
        (result, _) => result,
    }
}

/// Whether an error is that of [`Sequence`]. The decoder passes text that is not UTF-8 on as bytes too, and replaces the error.
fn is_empty(error: &impl Display) -> bool {
    struct Nothing;

    impl Write for Nothing {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            if text.is_empty() { Ok(()) } else { Err(fmt::Error) }
        }
    }

    write!(Nothing, "{error}").is_ok()
}

/// Passes everything on except bytes. It leaves those to its caller, with the visitor, and returns an error without a text.
struct Sequence<'f, 'de, V> {
    visitor: V,
    found: &'f mut Option<(&'de [u8], V)>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Sequence<'_, 'de, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    forward_to! { visitor;
        visit_bool: bool, visit_f32: f32, visit_f64: f64, visit_str: &str, visit_borrowed_str: &'de str,
        visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64,
    }

    #[inline]
    fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<V::Value, E> {
        *self.found = Some((bytes, self.visitor));
        Err(E::custom(""))
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(value)
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_seq(elements)
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(entries)
    }
}

/// Reads the data of a tuple variant as [`sequence`] does.
#[inline]
pub(super) fn tuple_variant<'de, A: VariantAccess<'de>, V: Visitor<'de>>(
    variant: A,
    visitor: V,
) -> Result<V::Value, A::Error> {
    read(variant, visitor, true, "tuple variant")
}

/// Reads the data of a struct variant, which is not a byte string.
#[inline]
pub(super) fn struct_variant<'de, A: VariantAccess<'de>, V: Visitor<'de>>(
    variant: A,
    visitor: V,
) -> Result<V::Value, A::Error> {
    read(variant, visitor, false, "struct variant")
}

#[inline]
fn read<'de, A: VariantAccess<'de>, V: Visitor<'de>>(
    variant: A,
    visitor: V,
    is_tuple: bool,
    expected: &'static str,
) -> Result<V::Value, A::Error> {
    let mut is_present = false;
    let result = variant.newtype_variant_seed(Data { visitor, is_tuple, is_present: &mut is_present });
    if is_present { result } else { Err(A::Error::invalid_type(Unexpected::UnitVariant, &expected)) }
}

/// The data of a variant. A variant without data does not read it.
struct Data<'p, V> {
    visitor: V,
    is_tuple: bool,
    is_present: &'p mut bool,
}

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Data<'_, V> {
    type Value = V::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        *self.is_present = true;
        if self.is_tuple { sequence(deserializer, self.visitor) } else { deserializer.deserialize_any(self.visitor) }
    }
}
