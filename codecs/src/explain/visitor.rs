use std::fmt;

use serde::{
    Deserializer,
    de::{EnumAccess, Error, MapAccess, SeqAccess, Visitor},
};

use super::{
    Trace,
    access::{Enum, Map, Seq},
    traced::{Key, Traced},
};

/// A visitor that passes traced deserializers to the visitor of the type.
pub(super) struct Watched<'t, V> {
    pub(super) visitor: V,
    pub(super) trace: &'t Trace,
    /// The names of the fields or variants, if the type is a struct or an enum.
    pub(super) names: &'static [&'static str],
    pub(super) key: Option<Key<'t>>,
}

macro_rules! leaves {
    ($($name:ident($($value:ident: $type:ty)?) $(key $bytes:expr)?;)*) => {$(
        fn $name<E: Error>(self, $($value: $type)?) -> Result<V::Value, E> {
            $(if let Some(key) = self.key {
                key.look_up($bytes);
            })?
            self.visitor.$name($($value)?).map_err(|refused| self.trace.lower(refused))
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Watched<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    leaves! {
        visit_bool(value: bool);
        visit_i8(value: i8);
        visit_i16(value: i16);
        visit_i32(value: i32);
        visit_i64(value: i64);
        visit_i128(value: i128);
        visit_u8(value: u8);
        visit_u16(value: u16);
        visit_u32(value: u32);
        visit_u64(value: u64);
        visit_u128(value: u128);
        visit_f32(value: f32);
        visit_f64(value: f64);
        visit_char(value: char);
        visit_str(value: &str) key value.as_bytes();
        visit_borrowed_str(value: &'de str) key value.as_bytes();
        visit_string(value: String) key value.as_bytes();
        visit_bytes(value: &[u8]) key value;
        visit_borrowed_bytes(value: &'de [u8]) key value;
        visit_byte_buf(value: Vec<u8>) key &value;
        visit_none();
        visit_unit();
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let Self { visitor, trace, .. } = self;
        visitor.visit_some(Traced::new(inner, trace)).map_err(|refused| trace.lower(refused))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let Self { visitor, trace, .. } = self;
        visitor.visit_newtype_struct(Traced::new(inner, trace)).map_err(|refused| trace.lower(refused))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self { visitor, trace, names, .. } = self;
        let mut seq = Seq::new(inner, trace, names);
        let result = visitor.visit_seq(&mut seq);
        seq.end(result).map_err(|refused| trace.lower(refused))
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self { visitor, trace, names, .. } = self;
        visitor.visit_map(Map::new(inner, trace, names)).map_err(|refused| trace.lower(refused))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self { visitor, trace, names, .. } = self;
        visitor.visit_enum(Enum { inner, trace, names }).map_err(|refused| trace.lower(refused))
    }
}
