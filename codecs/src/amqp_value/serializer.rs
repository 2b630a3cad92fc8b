use std::{error, fmt, marker::PhantomData};

use serde::ser::{self, Error as _, Serialize};

use super::{Build, Name, Scalar};
use crate::{EncodeError, EncodeErrorKind, Limits};

/// Writes a Rust type as a value: a struct as a map with keys of text, a sequence and a tuple as a list. An enum's variant is its
/// name or, with data, a map of one entry.
///
/// # Errors
/// [`EncodeErrorKind::Unsupported`] for a number beyond 64 bits, or over [`Limits::MAX_DEPTH`] levels;
/// [`EncodeErrorKind::Value`] if the type refuses.
pub fn to_value<T: Serialize + ?Sized, B: Build>(value: &T) -> Result<B, EncodeError> {
    value.serialize(Serializer::new()).map_err(SerializeError::into_inner)
}

/// A [`serde::Serializer`] that builds a value.
#[derive(Debug)]
pub struct Serializer<B> {
    levels: usize,
    name: Option<&'static str>,
    built: PhantomData<fn() -> B>,
}

impl<B> Serializer<B> {
    /// Creates a serializer of a value with at most [`Limits::MAX_DEPTH`] levels.
    #[must_use]
    pub const fn new() -> Self {
        Self::within(Limits::MAX_DEPTH)
    }

    const fn within(levels: usize) -> Self {
        Self { levels, name: None, built: PhantomData }
    }

    fn deeper(&self) -> Result<usize, SerializeError> {
        self.levels.checked_sub(1).ok_or_else(|| refused("nested deeper than 128 levels"))
    }
}

impl<B> Default for Serializer<B> {
    fn default() -> Self {
        Self::new()
    }
}

/// The error of a [`Serializer`].
#[derive(Debug)]
pub struct SerializeError(EncodeError);

impl SerializeError {
    /// Returns the error.
    #[must_use]
    pub fn into_inner(self) -> EncodeError {
        self.0
    }
}

impl fmt::Display for SerializeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl error::Error for SerializeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source()
    }
}

impl ser::Error for SerializeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(EncodeError::new(EncodeErrorKind::Value).with_source(message.to_string()))
    }
}

#[cold]
fn refused(detail: &'static str) -> SerializeError {
    SerializeError(EncodeError::new(EncodeErrorKind::Unsupported).with_detail(detail))
}

fn scalar<B: Build>(value: Scalar<'_>) -> Result<B, SerializeError> {
    B::scalar(value).ok_or_else(|| refused("the type of values has no such value"))
}

macro_rules! scalars {
    ($($name:ident $type:ty => $variant:ident;)*) => {$(
        fn $name(self, value: $type) -> Result<B, SerializeError> {
            scalar(Scalar::$variant(value))
        }
    )*};
}

impl<B: Build> ser::Serializer for Serializer<B> {
    type Ok = B;
    type Error = SerializeError;
    type SerializeSeq = Sequence<B>;
    type SerializeTuple = Sequence<B>;
    type SerializeTupleStruct = Sequence<B>;
    type SerializeTupleVariant = Sequence<B>;
    type SerializeMap = Entries<B>;
    type SerializeStruct = Entries<B>;
    type SerializeStructVariant = Entries<B>;

    scalars! {
        serialize_bool bool => Boolean;
        serialize_i8 i8 => Byte;
        serialize_i16 i16 => Short;
        serialize_i32 i32 => Int;
        serialize_u8 u8 => Ubyte;
        serialize_u16 u16 => Ushort;
        serialize_u32 u32 => Uint;
        serialize_u64 u64 => Ulong;
        serialize_f32 f32 => Float;
        serialize_f64 f64 => Double;
        serialize_char char => Char;
    }

    fn serialize_i64(self, value: i64) -> Result<B, SerializeError> {
        scalar(if self.name == Some(Name::TIMESTAMP) { Scalar::Timestamp(value) } else { Scalar::Long(value) })
    }

    fn serialize_i128(self, value: i128) -> Result<B, SerializeError> {
        let value = i64::try_from(value).map_err(|_| refused("an integer beyond 64 bits"))?;
        scalar(Scalar::Long(value))
    }

    fn serialize_u128(self, value: u128) -> Result<B, SerializeError> {
        let value = u64::try_from(value).map_err(|_| refused("an integer beyond 64 bits"))?;
        scalar(Scalar::Ulong(value))
    }

    fn serialize_str(self, text: &str) -> Result<B, SerializeError> {
        if self.name != Some(Name::SYMBOL) {
            return scalar(Scalar::String(text));
        }
        if !text.is_ascii() {
            return Err(refused("a symbol that is not ASCII"));
        }
        scalar(Scalar::Symbol(text))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<B, SerializeError> {
        match self.name {
            Some(Name::UUID) => {
                let uuid = bytes.try_into().map_err(|_| refused("a UUID that is not 16 bytes"))?;
                scalar(Scalar::Uuid(uuid))
            }
            Some(Name::DECIMAL) if matches!(bytes.len(), 4 | 8 | 16) => scalar(Scalar::Decimal(bytes)),
            Some(Name::DECIMAL) => Err(refused("a decimal that is not 4, 8 or 16 bytes")),
            _ => scalar(Scalar::Binary(bytes)),
        }
    }

    fn serialize_none(self) -> Result<B, SerializeError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<B, SerializeError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<B, SerializeError> {
        scalar(Scalar::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<B, SerializeError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<B, SerializeError> {
        scalar(Scalar::String(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<B, SerializeError> {
        value.serialize(Self { name: Some(name), ..self })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<B, SerializeError> {
        let value = value.serialize(Self::within(self.deeper()?))?;
        Ok(B::map(vec![(scalar(Scalar::String(variant))?, value)]))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Sequence<B>, SerializeError> {
        Ok(Sequence { values: Vec::new(), levels: self.deeper()?, variant: None })
    }

    fn serialize_tuple(self, len: usize) -> Result<Sequence<B>, SerializeError> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Sequence<B>, SerializeError> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Sequence<B>, SerializeError> {
        let levels = Self::within(self.deeper()?).deeper()?;
        Ok(Sequence { values: Vec::new(), levels, variant: Some(variant) })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries<B>, SerializeError> {
        Ok(Entries { pairs: Vec::new(), key: None, levels: self.deeper()?, variant: None })
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Entries<B>, SerializeError> {
        self.serialize_map(Some(len))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Entries<B>, SerializeError> {
        let levels = Self::within(self.deeper()?).deeper()?;
        Ok(Entries { pairs: Vec::new(), key: None, levels, variant: Some(variant) })
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The elements of a list that is built.
#[derive(Debug)]
#[doc(hidden)]
pub struct Sequence<B> {
    values: Vec<B>,
    levels: usize,
    variant: Option<&'static str>,
}

/// The pairs of a map that is built.
#[derive(Debug)]
#[doc(hidden)]
pub struct Entries<B> {
    pairs: Vec<(B, B)>,
    key: Option<B>,
    levels: usize,
    variant: Option<&'static str>,
}

/// The value, in a map of one entry if it is the data of a variant.
fn of_variant<B: Build>(variant: Option<&'static str>, value: B) -> Result<B, SerializeError> {
    match variant {
        Some(variant) => Ok(B::map(vec![(scalar(Scalar::String(variant))?, value)])),
        None => Ok(value),
    }
}

impl<B: Build> Sequence<B> {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerializeError> {
        self.values.push(value.serialize(Serializer::within(self.levels))?);
        Ok(())
    }

    fn built(self) -> Result<B, SerializeError> {
        of_variant(self.variant, B::list(self.values))
    }
}

impl<B: Build> Entries<B> {
    fn push<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), SerializeError> {
        let value = value.serialize(Serializer::within(self.levels))?;
        self.pairs.push((scalar(Scalar::String(key))?, value));
        Ok(())
    }

    fn built(self) -> Result<B, SerializeError> {
        of_variant(self.variant, B::map(self.pairs))
    }
}

macro_rules! sequences {
    ($($trait:ident $push:ident;)*) => {$(
        impl<B: Build> ser::$trait for Sequence<B> {
            type Ok = B;
            type Error = SerializeError;

            fn $push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerializeError> {
                self.push(value)
            }

            fn end(self) -> Result<B, SerializeError> {
                self.built()
            }
        }
    )*};
}

sequences! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

macro_rules! structs {
    ($($trait:ident)*) => {$(
        impl<B: Build> ser::$trait for Entries<B> {
            type Ok = B;
            type Error = SerializeError;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), SerializeError> {
                self.push(key, value)
            }

            fn end(self) -> Result<B, SerializeError> {
                self.built()
            }
        }
    )*};
}

structs! { SerializeStruct SerializeStructVariant }

impl<B: Build> ser::SerializeMap for Entries<B> {
    type Ok = B;
    type Error = SerializeError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), SerializeError> {
        self.key = Some(key.serialize(Serializer::within(self.levels))?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerializeError> {
        let key = self.key.take().ok_or_else(|| SerializeError::custom("a value before its key"))?;
        self.pairs.push((key, value.serialize(Serializer::within(self.levels))?));
        Ok(())
    }

    fn end(self) -> Result<B, SerializeError> {
        self.built()
    }
}
