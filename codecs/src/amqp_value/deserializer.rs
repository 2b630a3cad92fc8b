use std::{cell::Cell, error, fmt};

use serde::{
    Deserialize,
    de::{self, Expected, Unexpected, Visitor, value::SeqDeserializer},
};

use super::{
    Node, Scalar, View,
    access::{Elements, Entries, Variant},
};
use crate::{
    DecodeError, DecodeErrorKind, Limits,
    explain::{Trace, explain},
    serde_error::Refused,
};

/// Reads a Rust type from a value. It may borrow texts and bytes from the value.
///
/// # Errors
/// The value is not of the type, or exceeds a limit. The error has the [path](DecodeError::path) in the type, such as
/// `items[3].price`, and never a part of the value.
pub fn from_value<'de, T: Deserialize<'de>, N: Node<'de>>(value: N, limits: &Limits) -> Result<T, DecodeError> {
    let budget = Budget::new(limits);
    T::deserialize(Deserializer::root(value, &budget)).map_err(|error| {
        let again = |trace: &Trace| trace.read::<T, _>(Deserializer::root(value, &Budget::new(limits)));
        explain(budget.limit.take().map_or(error.0.into_inner(), DecodeError::new), again, |_| None)
    })
}

/// The levels and elements that are left.
#[derive(Debug)]
pub(super) struct Budget {
    depth: usize,
    elements: Cell<usize>,
    /// The limit that was exceeded.
    limit: Cell<Option<DecodeErrorKind>>,
}

impl Budget {
    fn new(limits: &Limits) -> Self {
        Self { depth: limits.depth, elements: Cell::new(limits.elements), limit: Cell::new(None) }
    }

    #[cold]
    fn exceeded(&self, kind: DecodeErrorKind) -> Error {
        self.limit.set(Some(kind));
        DecodeError::new(kind).into()
    }

    /// Counts one element.
    pub(super) fn element(&self) -> Result<(), Error> {
        let left = self.elements.get().checked_sub(1).ok_or_else(|| self.exceeded(DecodeErrorKind::Count))?;
        self.elements.set(left);
        Ok(())
    }

    /// How many elements a visitor may reserve memory for.
    pub(super) fn hint(&self, lower: usize) -> usize {
        lower.min(self.elements.get())
    }
}

/// A [`serde::Deserializer`] over a value, within limits. [`from_value`] adds the path to its errors.
#[derive(Debug)]
pub struct Deserializer<'b, N> {
    pub(super) node: N,
    pub(super) budget: &'b Budget,
    pub(super) depth: usize,
}

impl<'b, N> Deserializer<'b, N> {
    pub(super) const fn root(node: N, budget: &'b Budget) -> Self {
        Self { node, budget, depth: 0 }
    }
}

/// The error of a [`Deserializer`].
#[derive(Debug)]
pub struct Error(Refused);

impl Error {
    /// Returns the refusal. It has no path.
    #[must_use]
    pub fn into_inner(self) -> DecodeError {
        self.0.into_inner()
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Refused::custom(message))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self(Refused::invalid_type(found, expected))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self(Refused::invalid_value(found, expected))
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self(Refused::invalid_length(length, expected))
    }
}

impl<'b, 'de, N: Node<'de>> Deserializer<'b, N> {
    /// The value without its descriptors, and its depth.
    fn undescribed(self) -> Result<(View<'de, N>, &'b Budget, usize), Error> {
        let Self { mut node, budget, mut depth } = self;
        loop {
            match node.view() {
                View::Described(inner) => {
                    depth = deeper(budget, depth)?;
                    node = inner;
                }
                view => return Ok((view, budget, depth)),
            }
        }
    }
}

fn deeper(budget: &Budget, depth: usize) -> Result<usize, Error> {
    if depth < budget.depth { Ok(depth + 1) } else { Err(budget.exceeded(DecodeErrorKind::Depth)) }
}

fn any<'de, N: Node<'de>, V: Visitor<'de>>(
    view: View<'de, N>,
    budget: &Budget,
    depth: usize,
    visitor: V,
) -> Result<V::Value, Error> {
    let scalar = match view {
        View::Scalar(scalar) => scalar,
        View::List(list) => return visitor.visit_seq(Elements { list, budget, depth: deeper(budget, depth)? }),
        View::Map(map) => return visitor.visit_map(Entries::new(map, budget, deeper(budget, depth)?)),
        View::Described(node) => {
            return de::Deserializer::deserialize_any(
                Deserializer { node, budget, depth: deeper(budget, depth)? },
                visitor,
            );
        }
    };
    match scalar {
        Scalar::Null => visitor.visit_unit(),
        Scalar::Boolean(value) => visitor.visit_bool(value),
        Scalar::Ubyte(value) => visitor.visit_u8(value),
        Scalar::Ushort(value) => visitor.visit_u16(value),
        Scalar::Uint(value) => visitor.visit_u32(value),
        Scalar::Ulong(value) => visitor.visit_u64(value),
        Scalar::Byte(value) => visitor.visit_i8(value),
        Scalar::Short(value) => visitor.visit_i16(value),
        Scalar::Int(value) => visitor.visit_i32(value),
        Scalar::Long(value) | Scalar::Timestamp(value) => visitor.visit_i64(value),
        Scalar::Float(value) => visitor.visit_f32(value),
        Scalar::Double(value) => visitor.visit_f64(value),
        Scalar::Char(value) => visitor.visit_char(value),
        Scalar::String(text) | Scalar::Symbol(text) => visitor.visit_borrowed_str(text),
        Scalar::Binary(bytes) | Scalar::Decimal(bytes) => visitor.visit_borrowed_bytes(bytes),
        Scalar::Uuid(uuid) => visitor.visit_str(hyphenated(&uuid, &mut [0; 36])),
    }
}

/// The text of a UUID, in lower case.
fn hyphenated<'t>(uuid: &[u8; 16], text: &'t mut [u8; 36]) -> &'t str {
    let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
    let mut digits = uuid.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    for (at, place) in text.iter_mut().enumerate() {
        *place = if matches!(at, 8 | 13 | 18 | 23) { b'-' } else { digits.next().unwrap_or_default() };
    }
    str::from_utf8(text).unwrap_or_default()
}

macro_rules! as_any {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.deserialize_any(visitor)
        }
    )*};
}

impl<'de, N: Node<'de>> de::Deserializer<'de> for Deserializer<'_, N> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let (view, budget, depth) = self.undescribed()?;
        any(view, budget, depth, visitor)
    }

    as_any! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_unit deserialize_map deserialize_identifier
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.undescribed()? {
            (View::Scalar(Scalar::Uuid(uuid)), ..) => visitor.visit_bytes(&uuid),
            (view, budget, depth) => any(view, budget, depth, visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.undescribed()? {
            (View::Scalar(Scalar::Uuid(uuid)), ..) => visitor.visit_seq(SeqDeserializer::new(uuid.into_iter())),
            (View::Scalar(Scalar::Binary(bytes) | Scalar::Decimal(bytes)), ..) => {
                visitor.visit_seq(SeqDeserializer::new(bytes.iter().copied()))
            }
            (view, budget, depth) => any(view, budget, depth, visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node.view() {
            View::Scalar(Scalar::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (view, budget, depth) = self.undescribed()?;
        let variant = match view {
            View::Scalar(Scalar::String(name) | Scalar::Symbol(name)) => Variant::unit(name, budget, depth),
            View::Map(mut pairs) => match (pairs.next(), pairs.next()) {
                (Some((name, data)), None) => {
                    budget.element()?;
                    Variant::with_data(name, data, budget, deeper(budget, depth)?)
                }
                _ => return Err(de::Error::invalid_value(Unexpected::Map, &"a map with one entry")),
            },
            view => return any(view, budget, depth, visitor),
        };
        visitor.visit_enum(variant)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        // The value is in memory, and nothing of it is read.
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// Text that is a key in place of a value.
pub(super) fn text(text: &str) -> de::value::BorrowedStrDeserializer<'_, Error> {
    de::value::BorrowedStrDeserializer::new(text)
}
