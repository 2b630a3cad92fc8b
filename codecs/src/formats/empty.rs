//! A body of no bytes is only none and unit. A message that lost its body must not become an object whose fields all have their
//! defaults, so structs, maps and sequences refuse it.

use serde::{Deserialize, Deserializer, de::Visitor, forward_to_deserialize_any};

use crate::serde_error::Refused;
use crate::{DecodeError, DecodeErrorKind};

/// Reads a `T` from an empty body.
#[cold]
pub(crate) fn decode<'de, T: Deserialize<'de>>() -> Result<T, DecodeError> {
    T::deserialize(Empty).map_err(|_| refused())
}

struct Empty;

fn refused() -> DecodeError {
    DecodeError::new(DecodeErrorKind::EmptyBody)
}

impl<'de> Deserializer<'de> for Empty {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
        Err(refused().into())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_none()
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        seq tuple tuple_struct map struct enum identifier
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::de::IgnoredAny;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(default)]
    #[derive(Default)]
    struct Defaults {
        qty: u32,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Unit;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Maybe(Option<u32>);

    fn kind<T: for<'de> Deserialize<'de>>() -> Option<DecodeErrorKind> {
        decode::<T>().err().map(|error| error.kind())
    }

    /// Rules: P-20.
    #[test]
    fn an_empty_body_is_none_or_unit() {
        assert_eq!(decode(), Ok(None::<u32>));
        assert_eq!(decode(), Ok(()));
        assert_eq!(decode(), Ok(Unit));
        assert_eq!(decode(), Ok(Maybe(None)));
        assert!(decode::<IgnoredAny>().is_ok());
    }

    /// Rules: P-20.
    #[test]
    fn an_empty_body_is_no_object_of_defaults() {
        let empty = Some(DecodeErrorKind::EmptyBody);
        assert_eq!(kind::<Defaults>(), empty);
        assert_eq!(kind::<BTreeMap<String, u32>>(), empty);
        assert_eq!(kind::<Vec<u32>>(), empty);
        assert_eq!(kind::<String>(), empty);
        assert_eq!(kind::<u32>(), empty);
    }
}
