use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

use super::seconds::Seconds;
use crate::instant::{EXTENSION, from_extension};

/// Accepts `MessagePack`'s timestamp extension as text: most instant types of other crates read text.
pub(super) struct TimeText<V>(pub(super) V);

impl<'de, V: Visitor<'de>> Visitor<'de> for TimeText<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    forward_to! { 0;
        visit_bool: bool, visit_f32: f32, visit_f64: f64,
        visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64,
        visit_str: &str, visit_borrowed_str: &'de str, visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8],
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(elements)
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(entries)
    }

    /// An extension: a sequence of its type and its bytes.
    #[cold]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, extension: D) -> Result<V::Value, D::Error> {
        // The body is read as a whole, so the bytes are in it.
        let (kind, bytes) = <(i8, &[u8])>::deserialize(extension)?;
        match text(bytes).filter(|_| kind == EXTENSION) {
            Some(text) => self.0.visit_string(text),
            None => Err(D::Error::invalid_type(Unexpected::Other("an extension"), &self)),
        }
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    let (seconds, nanos) = from_extension(bytes)?;
    Seconds { seconds, nanos }.to_text()
}
