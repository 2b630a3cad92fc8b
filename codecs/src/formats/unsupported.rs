//! The shared part of the writers of text and of bytes: nearly every shape is refused.

use std::{error, fmt};

use serde::ser;

use crate::EncodeError;
use crate::serde_error;

/// The serde error of a writer that accepts few shapes.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The shape that the format cannot hold.
    Shape(&'static str),
    /// The error of the value's own `Serialize`.
    Value(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(shape) => write!(f, "this format does not support {shape}"),
            Self::Value(message) => f.write_str(message),
        }
    }
}

impl error::Error for Refused {}

impl ser::Error for Refused {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Value(message.to_string())
    }
}

impl From<Refused> for EncodeError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Shape(shape) => serde_error::unsupported(Refused::Shape(shape)).with_detail(shape),
            value @ Refused::Value(_) => serde_error::refused_value(value),
        }
    }
}

/// Refuses the named `serialize_*` methods of a `Serializer` whose error is [`Refused`].
macro_rules! refuse {
    (scalars: $($name:ident($type:ty) = $shape:literal),* $(,)?) => {$(
        fn $name(self, _: $type) -> Result<Self::Ok, Self::Error> {
            Err(Refused::Shape($shape))
        }
    )*};
    (shapes) => {
        fn serialize_none(self) -> Result<Self::Ok, Self::Error> {
            Err(Refused::Shape("an option"))
        }

        fn serialize_some<T: serde::Serialize + ?Sized>(self, _: &T) -> Result<Self::Ok, Self::Error> {
            Err(Refused::Shape("an option"))
        }

        fn serialize_unit(self) -> Result<Self::Ok, Self::Error> {
            Err(Refused::Shape("a unit"))
        }

        fn serialize_unit_struct(self, _: &'static str) -> Result<Self::Ok, Self::Error> {
            Err(Refused::Shape("a unit"))
        }

        fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<Self::Ok, Self::Error> {
            Err(Refused::Shape("an enum"))
        }

        fn serialize_newtype_variant<T: serde::Serialize + ?Sized>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: &T,
        ) -> Result<Self::Ok, Self::Error> {
            Err(Refused::Shape("an enum"))
        }

        fn serialize_tuple_struct(
            self,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleStruct, Self::Error> {
            Err(Refused::Shape("a struct"))
        }

        fn serialize_tuple_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleVariant, Self::Error> {
            Err(Refused::Shape("an enum"))
        }

        fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Self::Error> {
            Err(Refused::Shape("a map"))
        }

        fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Self::Error> {
            Err(Refused::Shape("a struct"))
        }

        fn serialize_struct_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeStructVariant, Self::Error> {
            Err(Refused::Shape("an enum"))
        }
    };
    (sequences) => {
        fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Self::Error> {
            Err(Refused::Shape("a sequence"))
        }

        fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Self::Error> {
            Err(Refused::Shape("a sequence"))
        }
    };
}

pub(crate) use refuse;
