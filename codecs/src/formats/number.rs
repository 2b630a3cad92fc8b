//! Integers as other encoders write them: as a float.

use std::fmt;

use serde::de::{Error, Visitor};

/// Accepts a float for an integer if it is one exactly: JavaScript writes `Date.now()` as a float of 64 bits.
pub(crate) struct Integer<V>(pub(crate) V);

/// Returns the integer that a float is exactly.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked, and a fraction refused")]
pub(crate) fn integral(value: f64) -> Option<i128> {
    // 2^64: no integer type of 64 bits exceeds it.
    const END: f64 = 18_446_744_073_709_551_616.0;
    (value.fract().abs() <= 0.0 && value.abs() < END).then_some(value as i128)
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Integer<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    forward_to! { 0;
        visit_bool: bool,
        visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128,
        visit_str: &str, visit_borrowed_str: &'de str, visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8],
    }

    #[inline]
    fn visit_f32<E: Error>(self, value: f32) -> Result<V::Value, E> {
        self.visit_f64(value.into())
    }

    #[cold]
    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        let Some(whole) = integral(value) else { return self.0.visit_f64(value) };
        match (u64::try_from(whole), i64::try_from(whole)) {
            (Ok(whole), _) => self.0.visit_u64(whole),
            (_, Ok(whole)) => self.0.visit_i64(whole),
            _ => self.0.visit_f64(value),
        }
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_float_within_the_integers_of_64_bits_is_one() {
        for (value, whole) in [
            (1.7e12, Some(1_700_000_000_000)),
            (-3.0, Some(-3)),
            (-0.0, Some(0)),
            (18_446_744_073_709_549_568.0, Some(18_446_744_073_709_549_568)),
            (1.5, None),
            (-0.1, None),
            (18_446_744_073_709_551_616.0, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (f64::NEG_INFINITY, None),
        ] {
            assert_eq!(integral(value), whole, "{value}");
        }
    }
}
