//! Serde's side of writing. Unit, as every absent value, is null.

use std::{convert::Infallible, error, fmt};

use bytes::BytesMut;
use cbor4ii::core::{
    enc::{self, Encode, Write},
    types::{Array, Bytes, Map, Null},
};
use serde::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

type Name = &'static str;

pub(super) struct Writer<'a>(Sink<'a>);

impl<'a> Writer<'a> {
    #[inline]
    pub(super) const fn new(out: &'a mut BytesMut) -> Self {
        Self(Sink(out))
    }

    #[inline]
    fn write(&mut self, value: impl Encode) -> Result<(), Refusal> {
        Ok(value.encode(&mut self.0)?)
    }

    #[inline]
    fn array(&mut self, len: usize) -> Result<Containing<'_, 'a>, Refusal> {
        Array::bounded(len, &mut self.0)?;
        Ok(Containing { writer: self, is_open: false })
    }

    #[inline]
    fn map(&mut self, len: usize) -> Result<Containing<'_, 'a>, Refusal> {
        Map::bounded(len, &mut self.0)?;
        Ok(Containing { writer: self, is_open: false })
    }

    /// The head of a map from the name of a variant to its data.
    #[inline]
    fn variant(&mut self, name: Name) -> Result<&mut Self, Refusal> {
        Map::bounded(1, &mut self.0)?;
        self.write(name)?;
        Ok(self)
    }
}

struct Sink<'a>(&'a mut BytesMut);

impl Write for Sink<'_> {
    type Error = Infallible;

    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// The error of a value's own `Serialize`. It is small, since each write returns one or none.
#[derive(Debug)]
pub(super) struct Refusal(Box<str>);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Refusal {}

impl ser::Error for Refusal {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string().into())
    }
}

impl From<enc::Error<Infallible>> for Refusal {
    #[cold]
    fn from(error: enc::Error<Infallible>) -> Self {
        Self(error.to_string().into())
    }
}

macro_rules! leaves {
    ($($name:ident: $type:ty),* $(,)?) => {$(
        #[inline]
        fn $name(self, value: $type) -> Result<(), Refusal> {
            self.write(value)
        }
    )*};
}

impl<'w, 'a> Serializer for &'w mut Writer<'a> {
    type Ok = ();
    type Error = Refusal;
    type SerializeSeq = Containing<'w, 'a>;
    type SerializeTuple = Containing<'w, 'a>;
    type SerializeTupleStruct = Containing<'w, 'a>;
    type SerializeTupleVariant = Containing<'w, 'a>;
    type SerializeMap = Containing<'w, 'a>;
    type SerializeStruct = Containing<'w, 'a>;
    type SerializeStructVariant = Containing<'w, 'a>;

    leaves! {
        serialize_bool: bool, serialize_f32: f32, serialize_f64: f64, serialize_str: &str,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
    }

    #[inline]
    fn serialize_char(self, value: char) -> Result<(), Refusal> {
        self.write(&*value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_bytes(self, value: &[u8]) -> Result<(), Refusal> {
        self.write(Bytes(value))
    }

    #[inline]
    fn serialize_none(self) -> Result<(), Refusal> {
        self.write(Null)
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Refusal> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), Refusal> {
        self.write(Null)
    }

    #[inline]
    fn serialize_unit_struct(self, _: Name) -> Result<(), Refusal> {
        self.write(Null)
    }

    #[inline]
    fn serialize_unit_variant(self, _: Name, _: u32, variant: Name) -> Result<(), Refusal> {
        self.write(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: Name, value: &T) -> Result<(), Refusal> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: Name,
        _: u32,
        variant: Name,
        value: &T,
    ) -> Result<(), Refusal> {
        value.serialize(self.variant(variant)?)
    }

    #[inline]
    fn serialize_seq(self, len: Option<usize>) -> Result<Containing<'w, 'a>, Refusal> {
        let Some(len) = len else {
            Array::unbounded(&mut self.0)?;
            return Ok(Containing { writer: self, is_open: true });
        };
        self.array(len)
    }

    #[inline]
    fn serialize_tuple(self, len: usize) -> Result<Containing<'w, 'a>, Refusal> {
        self.array(len)
    }

    #[inline]
    fn serialize_tuple_struct(self, _: Name, len: usize) -> Result<Containing<'w, 'a>, Refusal> {
        self.array(len)
    }

    #[inline]
    fn serialize_tuple_variant(
        self,
        _: Name,
        _: u32,
        variant: Name,
        len: usize,
    ) -> Result<Containing<'w, 'a>, Refusal> {
        self.variant(variant)?.array(len)
    }

    #[inline]
    fn serialize_map(self, len: Option<usize>) -> Result<Containing<'w, 'a>, Refusal> {
        let Some(len) = len else {
            Map::unbounded(&mut self.0)?;
            return Ok(Containing { writer: self, is_open: true });
        };
        self.map(len)
    }

    #[inline]
    fn serialize_struct(self, _: Name, len: usize) -> Result<Containing<'w, 'a>, Refusal> {
        self.map(len)
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        _: Name,
        _: u32,
        variant: Name,
        len: usize,
    ) -> Result<Containing<'w, 'a>, Refusal> {
        self.variant(variant)?.map(len)
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// A container whose head is written. One of indefinite length is closed at its end.
pub(super) struct Containing<'w, 'a> {
    writer: &'w mut Writer<'a>,
    is_open: bool,
}

impl Containing<'_, '_> {
    #[inline]
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refusal> {
        value.serialize(&mut *self.writer)
    }

    #[inline]
    fn close(self) -> Result<(), Refusal> {
        // An array ends as a map does.
        if self.is_open { Ok(Array::end(&mut self.writer.0)?) } else { Ok(()) }
    }
}

macro_rules! containers {
    ($($container:ident: $name:ident),* $(,)?) => {$(
        impl $container for Containing<'_, '_> {
            type Ok = ();
            type Error = Refusal;

            #[inline]
            fn $name<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refusal> {
                self.element(value)
            }

            #[inline]
            fn end(self) -> Result<(), Refusal> {
                self.close()
            }
        }
    )*};
}

macro_rules! structs {
    ($($container:ident),* $(,)?) => {$(
        impl $container for Containing<'_, '_> {
            type Ok = ();
            type Error = Refusal;

            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: Name, value: &T) -> Result<(), Refusal> {
                self.writer.write(key)?;
                self.element(value)
            }

            #[inline]
            fn end(self) -> Result<(), Refusal> {
                self.close()
            }
        }
    )*};
}

containers! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
}

structs!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Containing<'_, '_> {
    type Ok = ();
    type Error = Refusal;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refusal> {
        self.element(key)
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refusal> {
        self.element(value)
    }

    #[inline]
    fn end(self) -> Result<(), Refusal> {
        self.close()
    }
}
