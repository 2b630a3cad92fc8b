//! The names of fields and variants, which other encoders may write as values of another kind.

use std::fmt;

use serde::de::{Deserialize, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};

/// What an identifier of serde is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Names {
    /// A key of any kind: serde buffers those of flattened fields.
    #[default]
    Keys,
    /// A field of a struct.
    Fields,
    /// A variant of an enum.
    Variants,
}

/// Passes text and bytes to the visitor of a field or a variant. It would take a number for a position in the type.
pub(crate) struct Identifier<V> {
    visitor: V,
    names: Names,
}

/// The name of no field, because it is not UTF-8.
const UNNAMED: &[u8] = b"\xff";

impl<V> Identifier<V> {
    #[inline]
    pub(crate) const fn new(visitor: V, names: Names) -> Self {
        Self { visitor, names }
    }
}

macro_rules! names {
    ($($name:ident: $type:ty),* $(,)?) => {$(
        #[inline]
        fn $name<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.visitor.$name(value)
        }
    )*};
}

macro_rules! others {
    ($($name:ident($($value:ident: $type:ty)?) $found:expr;)*) => {$(
        fn $name<E: Error>(self, $($value: $type)?) -> Result<V::Value, E> {
            match self.names {
                Names::Keys => self.visitor.$name($($value)?),
                Names::Fields => self.visitor.visit_bytes(UNNAMED),
                Names::Variants => Err(E::invalid_type($found, &self)),
            }
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Identifier<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    names! {
        visit_char: char, visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
        visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    others! {
        visit_bool(value: bool) Unexpected::Bool(value);
        visit_i8(value: i8) Unexpected::Signed(value.into());
        visit_i16(value: i16) Unexpected::Signed(value.into());
        visit_i32(value: i32) Unexpected::Signed(value.into());
        visit_i64(value: i64) Unexpected::Signed(value);
        visit_i128(value: i128) Unexpected::Other("a big integer");
        visit_u8(value: u8) Unexpected::Unsigned(value.into());
        visit_u16(value: u16) Unexpected::Unsigned(value.into());
        visit_u32(value: u32) Unexpected::Unsigned(value.into());
        visit_u64(value: u64) Unexpected::Unsigned(value);
        visit_u128(value: u128) Unexpected::Other("a big integer");
        visit_f32(value: f32) Unexpected::Float(value.into());
        visit_f64(value: f64) Unexpected::Float(value);
        visit_none() Unexpected::Option;
        visit_unit() Unexpected::Unit;
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        match self.names {
            Names::Keys => self.visitor.visit_some(value),
            Names::Fields => {
                IgnoredAny::deserialize(value)?;
                self.visitor.visit_bytes(UNNAMED)
            }
            Names::Variants => Err(D::Error::invalid_type(Unexpected::Option, &self)),
        }
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        match self.names {
            Names::Keys => self.visitor.visit_newtype_struct(value),
            Names::Fields => {
                IgnoredAny::deserialize(value)?;
                self.visitor.visit_bytes(UNNAMED)
            }
            Names::Variants => Err(D::Error::invalid_type(Unexpected::NewtypeStruct, &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<V::Value, A::Error> {
        match self.names {
            Names::Keys => self.visitor.visit_seq(elements),
            Names::Fields => {
                while elements.next_element::<IgnoredAny>()?.is_some() {}
                self.visitor.visit_bytes(UNNAMED)
            }
            Names::Variants => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<V::Value, A::Error> {
        match self.names {
            Names::Keys => self.visitor.visit_map(entries),
            Names::Fields => {
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                self.visitor.visit_bytes(UNNAMED)
            }
            Names::Variants => Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(variant)
    }
}
