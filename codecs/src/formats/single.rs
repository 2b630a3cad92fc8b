//! A float that is wider than the type.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};

/// Accepts a float of 64 bits for one of 32: the nearest one, and none that would become infinite.
pub(crate) struct Single<V>(pub(crate) V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Single<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    forward_to! { 0;
        visit_bool: bool, visit_f32: f32,
        visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128,
        visit_str: &str, visit_borrowed_str: &'de str, visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8],
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "to the nearest, and the range is checked")]
    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        if value.is_finite() && (value as f32).is_infinite() {
            return Err(E::invalid_value(Unexpected::Float(value), &"a number in the range of f32"));
        }
        self.0.visit_f64(value)
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }
}
