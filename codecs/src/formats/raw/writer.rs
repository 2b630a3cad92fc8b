use bytes::{BufMut, BytesMut};
use serde::{
    Serialize, Serializer,
    ser::{Impossible, SerializeSeq, SerializeTuple},
};

use crate::formats::unsupported::{Refused, refuse};

/// Accepts one byte string, or a sequence of bytes.
pub(super) struct Writer<'a> {
    pub(super) out: &'a mut BytesMut,
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Bytes<'a>;
    type SerializeTuple = Bytes<'a>;
    type SerializeTupleStruct = Impossible<(), Refused>;
    type SerializeTupleVariant = Impossible<(), Refused>;
    type SerializeMap = Impossible<(), Refused>;
    type SerializeStruct = Impossible<(), Refused>;
    type SerializeStructVariant = Impossible<(), Refused>;

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Refused> {
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Refused> {
        value.serialize(self)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Bytes<'a>, Refused> {
        self.out.reserve(len.unwrap_or_default());
        Ok(Bytes { out: self.out })
    }

    fn serialize_tuple(self, _: usize) -> Result<Bytes<'a>, Refused> {
        Ok(Bytes { out: self.out })
    }

    refuse! { scalars:
        serialize_bool(bool) = "a bool",
        serialize_i8(i8) = "a number",
        serialize_i16(i16) = "a number",
        serialize_i32(i32) = "a number",
        serialize_i64(i64) = "a number",
        serialize_i128(i128) = "a number",
        serialize_u8(u8) = "a number",
        serialize_u16(u16) = "a number",
        serialize_u32(u32) = "a number",
        serialize_u64(u64) = "a number",
        serialize_u128(u128) = "a number",
        serialize_f32(f32) = "a number",
        serialize_f64(f64) = "a number",
        serialize_char(char) = "a char",
        serialize_str(&str) = "a string",
    }
    refuse!(shapes);
}

/// The elements of a sequence, which must be bytes.
pub(super) struct Bytes<'a> {
    out: &'a mut BytesMut,
}

impl SerializeSeq for Bytes<'_> {
    type Ok = ();
    type Error = Refused;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, element: &T) -> Result<(), Refused> {
        element.serialize(Byte { out: self.out })
    }

    fn end(self) -> Result<(), Refused> {
        Ok(())
    }
}

impl SerializeTuple for Bytes<'_> {
    type Ok = ();
    type Error = Refused;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, element: &T) -> Result<(), Refused> {
        SerializeSeq::serialize_element(self, element)
    }

    fn end(self) -> Result<(), Refused> {
        Ok(())
    }
}

struct Byte<'a> {
    out: &'a mut BytesMut,
}

impl Serializer for Byte<'_> {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Impossible<(), Refused>;
    type SerializeTuple = Impossible<(), Refused>;
    type SerializeTupleStruct = Impossible<(), Refused>;
    type SerializeTupleVariant = Impossible<(), Refused>;
    type SerializeMap = Impossible<(), Refused>;
    type SerializeStruct = Impossible<(), Refused>;
    type SerializeStructVariant = Impossible<(), Refused>;

    fn serialize_u8(self, byte: u8) -> Result<(), Refused> {
        self.out.put_u8(byte);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Refused> {
        value.serialize(self)
    }

    refuse! { scalars:
        serialize_bool(bool) = "a bool",
        serialize_i8(i8) = "a number",
        serialize_i16(i16) = "a number",
        serialize_i32(i32) = "a number",
        serialize_i64(i64) = "a number",
        serialize_i128(i128) = "a number",
        serialize_u16(u16) = "a number",
        serialize_u32(u32) = "a number",
        serialize_u64(u64) = "a number",
        serialize_u128(u128) = "a number",
        serialize_f32(f32) = "a number",
        serialize_f64(f64) = "a number",
        serialize_char(char) = "a char",
        serialize_str(&str) = "a string",
        serialize_bytes(&[u8]) = "a byte string in a sequence",
    }
    refuse!(shapes);
    refuse!(sequences);
}
