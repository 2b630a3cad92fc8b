//! A byte string as a sequence. Its elements are of type `u8` only: bytes of an encoder may also be an array of wider numbers.

use std::{marker::PhantomData, slice};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, SeqAccess, Unexpected, Visitor},
    forward_to_deserialize_any,
};

use crate::serde_error::LEFT_A_PART;

/// Passes the bytes on as a sequence. Refuses those that the type does not read to their end.
pub(crate) fn read<'de, V: Visitor<'de>, E: Error>(bytes: &[u8], visitor: V) -> Result<V::Value, E> {
    let mut octets = Octets { left: bytes.iter(), error: PhantomData };
    let value = visitor.visit_seq(&mut octets)?;
    if octets.left.as_slice().is_empty() { Ok(value) } else { Err(E::custom(LEFT_A_PART)) }
}

struct Octets<'b, E> {
    left: slice::Iter<'b, u8>,
    error: PhantomData<E>,
}

impl<'de, E: Error> SeqAccess<'de> for Octets<'_, E> {
    type Error = E;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, E> {
        self.left.next().map(|&value| seed.deserialize(Octet { value, error: PhantomData })).transpose()
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

struct Octet<E> {
    value: u8,
    error: PhantomData<E>,
}

impl<'de, E: Error> Deserializer<'de> for Octet<E> {
    type Error = E;

    #[inline]
    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_u8(self.value)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, E> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        Err(E::invalid_type(Unexpected::Other("a byte of a byte string"), &visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}
