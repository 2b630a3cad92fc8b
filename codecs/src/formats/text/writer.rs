use bytes::BytesMut;
use serde::{Serialize, Serializer, ser::Impossible};

use crate::formats::unsupported::{Refused, refuse};

/// Accepts one string.
pub(super) struct Writer<'a> {
    pub(super) out: &'a mut BytesMut,
}

impl Serializer for Writer<'_> {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Impossible<(), Refused>;
    type SerializeTuple = Impossible<(), Refused>;
    type SerializeTupleStruct = Impossible<(), Refused>;
    type SerializeTupleVariant = Impossible<(), Refused>;
    type SerializeMap = Impossible<(), Refused>;
    type SerializeStruct = Impossible<(), Refused>;
    type SerializeStructVariant = Impossible<(), Refused>;

    fn serialize_str(self, text: &str) -> Result<(), Refused> {
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn serialize_char(self, char: char) -> Result<(), Refused> {
        self.serialize_str(char.encode_utf8(&mut [0; 4]))
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
        serialize_u8(u8) = "a number",
        serialize_u16(u16) = "a number",
        serialize_u32(u32) = "a number",
        serialize_u64(u64) = "a number",
        serialize_u128(u128) = "a number",
        serialize_f32(f32) = "a number",
        serialize_f64(f64) = "a number",
        serialize_bytes(&[u8]) = "a byte string",
    }
    refuse!(shapes);
    refuse!(sequences);
}
