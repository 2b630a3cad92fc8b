//! Serde's side of reading: which kinds of item each type takes. Tags are skipped.

use std::mem;

use serde::de::{Deserializer, Error, Expected, Unexpected, Visitor};

use super::{
    access::{Entries, UnitVariant, Variant},
    float::{self, Float},
    instant::{midnight, seconds},
    reader::{
        ARRAY, BYTES, FALSE, Head, MAP, NEGATIVE, NULL, Reader, SIMPLE, TEXT, TRUE, UNDEFINED, UNSIGNED, not_text,
    },
};
use crate::{
    DecodeError, DecodeErrorKind,
    formats::{extension::Extension, number::Integer, octets, seconds::Seconds, single::Single},
    instant::INSTANT,
    names::Identifier,
    serde_error::Refused,
    transcode::EXACT,
};

impl<'de> Reader<'de> {
    /// Reads an item of any kind.
    fn any<V: Visitor<'de>>(&mut self, head: Head, visitor: V) -> Result<V::Value, Refused> {
        match head.major() {
            UNSIGNED | NEGATIVE | SIMPLE if self.tag() == Some(1) => time(head, visitor),
            UNSIGNED => visitor.visit_u64(head.argument),
            NEGATIVE => negative(head.argument, visitor),
            BYTES if matches!(self.tag(), Some(2 | 3)) => self.big(head, visitor),
            BYTES => self.byte_string(head, visitor),
            TEXT => self.text_string(head, visitor),
            ARRAY => self.array(head, visitor),
            MAP => self.map(head, visitor),
            _ => self.simple(head, visitor),
        }
    }

    /// A float or a simple value where any is taken.
    fn simple<V: Visitor<'de>>(&self, head: Head, visitor: V) -> Result<V::Value, Refused> {
        if self.has_whole_integers() { simple(head, Integer(visitor)) } else { simple(head, visitor) }
    }

    #[inline]
    fn integer<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Refused> {
        let head = self.head()?;
        match head.major() {
            UNSIGNED => visitor.visit_u64(head.argument),
            NEGATIVE => negative(head.argument, visitor),
            SIMPLE => simple(head, Integer(visitor)),
            _ => self.any(head, visitor),
        }
    }

    /// An integer where the type is a float.
    fn float<V: Visitor<'de>>(&mut self, head: Head, visitor: V) -> Result<V::Value, Refused> {
        match head.major() {
            UNSIGNED => visitor.visit_u64(head.argument),
            NEGATIVE => visitor.visit_f64(float::negative(head.argument)),
            BYTES if matches!(self.tag(), Some(2 | 3)) => self.big(head, float::Nearest(visitor)),
            _ => self.any(head, visitor),
        }
    }

    #[inline]
    fn byte_string<V: Visitor<'de>>(&mut self, head: Head, visitor: V) -> Result<V::Value, Refused> {
        if !head.is_indefinite() {
            return visitor.visit_borrowed_bytes(self.bytes(head)?);
        }
        visitor.visit_byte_buf(self.string(head)?.into_owned())
    }

    #[inline]
    fn text_string<V: Visitor<'de>>(&mut self, head: Head, visitor: V) -> Result<V::Value, Refused> {
        if !head.is_indefinite() {
            return visitor.visit_borrowed_str(self.text(head)?);
        }
        let bytes = self.string(head)?.into_owned();
        visitor.visit_string(String::from_utf8(bytes).map_err(|_| not_text())?)
    }

    #[inline]
    fn array<V: Visitor<'de>>(&mut self, head: Head, visitor: V) -> Result<V::Value, Refused> {
        let mut elements = Entries::new(self, head);
        let value = visitor.visit_seq(&mut elements)?;
        elements.end()?;
        Ok(value)
    }

    #[inline]
    fn map<V: Visitor<'de>>(&mut self, head: Head, visitor: V) -> Result<V::Value, Refused> {
        let mut entries = Entries::new(self, head);
        let value = visitor.visit_map(&mut entries)?;
        entries.end()?;
        Ok(value)
    }

    /// A map whose keys are the names of fields.
    #[inline]
    fn fields<V: Visitor<'de>>(&mut self, head: Head, visitor: V) -> Result<V::Value, Refused> {
        let mut entries = Entries::new(self, head).with_fields();
        let value = visitor.visit_map(&mut entries)?;
        entries.end()?;
        Ok(value)
    }

    /// A sequence: an array, or bytes as a sequence of `u8`.
    #[inline]
    fn sequence<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Refused> {
        let head = self.head()?;
        match head.major() {
            ARRAY => self.array(head, visitor),
            BYTES => self.octets(head, visitor),
            _ => self.any(head, visitor),
        }
    }

    #[cold]
    fn octets<V: Visitor<'de>>(&mut self, head: Head, visitor: V) -> Result<V::Value, Refused> {
        octets::read(&self.string(head)?, visitor)
    }

    /// A big integer: the bytes inside of tag 2 or 3.
    #[cold]
    fn big<V: Visitor<'de>>(&mut self, head: Head, visitor: V) -> Result<V::Value, Refused> {
        let is_negative = self.tag() == Some(3);
        let bytes = self.string(head)?;
        let Some(magnitude) = magnitude(&bytes) else {
            return Err(Refused::invalid_value(Unexpected::Other("a big integer"), &visitor));
        };
        match (is_negative, u64::try_from(magnitude)) {
            (false, Ok(value)) => visitor.visit_u64(value),
            (false, Err(_)) => visitor.visit_u128(magnitude),
            (true, Ok(value)) => negative(value, visitor),
            (true, Err(_)) => match i128::try_from(magnitude) {
                Ok(value) => visitor.visit_i128(-1 - value),
                Err(_) => Err(Refused::invalid_value(Unexpected::Other("a big integer"), &visitor)),
            },
        }
    }

    /// Reads a value for a type that requests an [`INSTANT`].
    fn instant<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Refused> {
        let head = self.head()?;
        match head.major() {
            UNSIGNED | NEGATIVE | SIMPLE if self.tag() == Some(1) => match seconds(head) {
                Some(seconds) => visitor.visit_seq(Extension::from(seconds)),
                None => Err(out_of_range(&visitor)),
            },
            UNSIGNED | NEGATIVE if self.tag() == Some(100) => match midnight(head) {
                Some(seconds) => visitor.visit_seq(Extension::from(seconds)),
                None => Err(out_of_range(&visitor)),
            },
            _ => self.any(head, visitor),
        }
    }
}

/// Reads seconds since 1970, of tag 1, for a type that takes text or any value. As a number they could not be distinguished
/// from milliseconds there.
#[cold]
fn time<'de, V: Visitor<'de>>(head: Head, visitor: V) -> Result<V::Value, Refused> {
    match seconds(head).and_then(Seconds::to_text) {
        Some(text) => visitor.visit_string(text),
        None => Err(out_of_range(&visitor)),
    }
}

#[cold]
fn out_of_range(expected: &dyn Expected) -> Refused {
    Refused::invalid_value(Unexpected::Other("a time out of range"), expected)
}

#[inline]
fn negative<'de, V: Visitor<'de>>(argument: u64, visitor: V) -> Result<V::Value, Refused> {
    match i64::try_from(argument) {
        Ok(value) => visitor.visit_i64(!value),
        Err(_) => visitor.visit_i128(!i128::from(argument)),
    }
}

/// Reads a float or a simple value. An unassigned one is of no type.
fn simple<'de, V: Visitor<'de>>(head: Head, visitor: V) -> Result<V::Value, Refused> {
    match head.first {
        FALSE => visitor.visit_bool(false),
        TRUE => visitor.visit_bool(true),
        NULL | UNDEFINED => visitor.visit_unit(),
        _ => match Float::of(head) {
            Some(Float::F64(value)) => visitor.visit_f64(value),
            Some(Float::F32(value)) => visitor.visit_f32(value),
            None => Err(Refused::invalid_type(Unexpected::Other("a simple value"), &visitor)),
        },
    }
}

fn magnitude(bytes: &[u8]) -> Option<u128> {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    let bytes = &bytes[zeros..];
    (bytes.len() <= 16).then(|| bytes.iter().fold(0, |value, &byte| value << 8 | u128::from(byte)))
}

macro_rules! integers {
    ($($name:ident)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            self.integer(visitor)
        }
    )*};
}

macro_rules! as_another {
    ($($name:ident($($arg:ident: $type:ty),*) => $other:ident($($passed:ident),*);)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, Refused> {
            self.$other($($passed,)* visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Refused;

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    as_another! {
        deserialize_string() => deserialize_str();
        deserialize_char() => deserialize_str();
        deserialize_byte_buf() => deserialize_bytes();
        deserialize_unit_struct(_name: &'static str) => deserialize_unit();
        deserialize_seq() => sequence();
        deserialize_tuple(_len: usize) => sequence();
        deserialize_tuple_struct(_name: &'static str, _len: usize) => sequence();
    }

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let head = self.head()?;
        self.any(head, visitor)
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let head = self.head()?;
        match head.first {
            FALSE => visitor.visit_bool(false),
            TRUE => visitor.visit_bool(true),
            _ => self.any(head, visitor),
        }
    }

    #[inline]
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let head = self.head()?;
        match Float::of(head) {
            Some(value) => visitor.visit_f64(value.wide()),
            None => self.float(head, visitor),
        }
    }

    #[inline]
    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let head = self.head()?;
        match Float::of(head) {
            Some(Float::F32(value)) => visitor.visit_f32(value),
            Some(Float::F64(value)) => Single(visitor).visit_f64(value),
            None => self.float(head, Single(visitor)),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let head = self.head()?;
        if head.major() == TEXT && !head.is_indefinite() {
            return visitor.visit_borrowed_str(self.text(head)?);
        }
        self.any(head, visitor)
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let names = mem::take(&mut self.names);
        self.deserialize_str(Identifier::new(visitor, names))
    }

    #[inline]
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let head = self.head()?;
        match head.major() {
            BYTES => self.byte_string(head, visitor),
            _ => self.any(head, visitor),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.take_null()? {
            return visitor.visit_none();
        }
        self.in_option(|reader| visitor.visit_some(reader))
    }

    #[inline]
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        /// An array of no elements, which is a unit in older bodies.
        const NOTHING: u8 = 0x80;
        let head = self.head()?;
        match head.first {
            NULL | UNDEFINED | NOTHING => visitor.visit_unit(),
            _ => self.any(head, visitor),
        }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Refused> {
        match name {
            INSTANT => self.instant(visitor),
            EXACT if self.is_at_tag() => {
                Err(DecodeError::new(DecodeErrorKind::Type).with_detail("a tag, which no other format has").into())
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let head = self.head()?;
        match head.major() {
            MAP => self.map(head, visitor),
            _ => self.any(head, visitor),
        }
    }

    /// A struct has names in CBOR, so it is not read from an array.
    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let head = self.head()?;
        match head.major() {
            MAP => self.fields(head, visitor),
            ARRAY => Err(Refused::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.any(head, visitor),
        }
    }

    /// A variant without data is its name; one with data is a map from its name.
    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        if self.is_at_tag() {
            self.tags()?;
        }
        if self.is_at_text() {
            return visitor.visit_enum(UnitVariant(self));
        }
        let head = self.head()?;
        match head.major() {
            MAP if head.argument == 1 || head.is_indefinite() => {
                let mut entry = Entries::new(self, head);
                let value = visitor.visit_enum(Variant(&mut entry))?;
                entry.end()?;
                Ok(value)
            }
            MAP => Err(Refused::invalid_length(0, &"a map of one entry, from the name of the variant")),
            _ => self.any(head, visitor),
        }
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.skip()?;
        visitor.visit_unit()
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        false
    }
}
