//! Floats of 16, 32 and 64 bits.

use std::fmt;

use serde::de::{Error, Visitor};

use super::reader::Head;

/// A float as wide as it was written. One of 16 bits is one of 32 here.
#[derive(Clone, Copy)]
pub(super) enum Float {
    F32(f32),
    F64(f64),
}

impl Float {
    #[inline]
    pub(super) fn of(head: Head) -> Option<Self> {
        const F16: u8 = 0xf9;
        const F32: u8 = 0xfa;
        const F64: u8 = 0xfb;
        match head.first {
            F64 => Some(Self::F64(f64::from_bits(head.argument))),
            F32 => Some(Self::F32(f32::from_bits(u32::try_from(head.argument).ok()?))),
            F16 => Some(Self::F32(half(u16::try_from(head.argument).ok()?))),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn wide(self) -> f64 {
        match self {
            Self::F32(value) => value.into(),
            Self::F64(value) => value,
        }
    }
}

/// A float of 16 bits: a sign, 5 bits of exponent, 10 of the fraction (RFC 8949, appendix D).
fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), bits & 0x3ff);
    let value = match (exponent, fraction) {
        (0, _) => f32::from(fraction) * 2_f32.powi(-24),
        (31, 0) => f32::INFINITY,
        (31, _) => f32::NAN,
        _ => f32::from(fraction + 1_024) * 2_f32.powi(exponent - 25),
    };
    if bits >> 15 == 0 { value } else { -value }
}

/// The nearest float of a negative integer.
#[expect(clippy::cast_precision_loss, reason = "to the nearest")]
pub(super) const fn negative(argument: u64) -> f64 {
    (-1 - argument as i128) as f64
}

/// Takes a big integer for the float nearest to it.
pub(super) struct Nearest<V>(pub(super) V);

#[expect(clippy::cast_precision_loss, reason = "to the nearest")]
impl<'de, V: Visitor<'de>> Visitor<'de> for Nearest<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.0.visit_f64(value as f64)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.0.visit_f64(value as f64)
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<V::Value, E> {
        self.0.visit_f64(value as f64)
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<V::Value, E> {
        self.0.visit_f64(value as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8949, appendix A.
    #[test]
    fn floats_of_16_bits_are_those_of_the_rfc() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0x3e00, 1.5),
            (0x7bff, 65_504.0),
            (0x0001, 5.960_464_5e-8),
            (0x0400, 0.000_061_035_156),
            (0xc400, -4.0),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(half(bits).to_bits(), f32::to_bits(value), "{bits:#x}");
        }
        assert_eq!(half(0x8000).to_bits(), f32::to_bits(-0.0));
        assert!(half(0x7e00).is_nan());
    }
}
