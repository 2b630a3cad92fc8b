//! Integers of 128 bits in `MessagePack`, which has none: those beyond 64 bits are 16 bytes.

use std::fmt;

use serde::de::{Error, Visitor};

/// Takes 16 bytes for an integer of 128 bits, with or without a sign.
pub(super) struct Wide<V> {
    pub(super) visitor: V,
    pub(super) has_sign: bool,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Wide<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    forward_to! { visitor;
        visit_bool: bool, visit_f32: f32, visit_f64: f64, visit_str: &str, visit_borrowed_str: &'de str,
        visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64,
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<V::Value, E> {
        match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) if self.has_sign => self.visitor.visit_i128(i128::from_be_bytes(bytes)),
            Ok(bytes) => self.visitor.visit_u128(u128::from_be_bytes(bytes)),
            Err(_) => self.visitor.visit_bytes(bytes),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }
}
