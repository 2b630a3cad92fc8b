//! The binary encoding of XML: the records of [MC-NBFX]. One loop without recursion; nothing is reserved for a declared length or
//! count before the bytes are there.

use std::{borrow::Cow, str};

use super::{
    document::{Attribute, Builder, Document},
    time,
    value::{Decimal, Value},
};
use crate::{DecodeError, DecodeErrorKind as Kind, Limits, Position};

/// Reads the records of a body.
pub(super) fn parse<'a>(body: &'a [u8], limits: &Limits) -> Result<Document<'a>, DecodeError> {
    let mut reader = Reader { body, at: 0, max_bytes: limits.bytes };
    let mut builder = Builder::new(limits);
    while !builder.is_done() {
        record(&mut reader, &mut builder)?;
    }
    if reader.at < body.len() {
        return Err(refuse(Kind::Trailing, reader.at));
    }
    Ok(builder.finish(None))
}

const END: u8 = 0x01;
const COMMENT: u8 = 0x02;
const ARRAY: u8 = 0x03;
const WITH_END: u8 = 0x01;
const START_LIST: u8 = 0xa4;
const END_LIST: u8 = 0xa6;

/// The letters that one-byte prefixes are made of: a record has the number of one.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

fn letter(number: u8) -> &'static str {
    let at = usize::from(number);
    LETTERS.get(at..=at).unwrap_or_default()
}

fn record<'a>(reader: &mut Reader<'a>, builder: &mut Builder<'a>) -> Result<(), DecodeError> {
    let start = reader.at;
    let first = reader.byte()?;
    if builder.is_new() && !matches!(first, COMMENT | 0x40..=0x77) {
        return Err(refuse(Kind::Syntax, start).with_expected("a record that starts an element"));
    }
    let refused = |kind| refuse(kind, start);
    match first {
        END => {
            builder.content().map_err(refused)?;
            builder.end().map_err(refused)
        }
        COMMENT => {
            builder.content().map_err(refused)?;
            reader.string().map(drop)
        }
        ARRAY => {
            builder.content().map_err(refused)?;
            array(reader, builder, start)
        }
        0x04..=0x3f => attribute(reader, builder, first, start),
        0x40..=0x77 => {
            builder.content().map_err(refused)?;
            let (prefix, name) = element(reader, first, start)?;
            builder.start(prefix, name, "", start).map_err(refused)
        }
        START_LIST => {
            builder.content().map_err(refused)?;
            list(reader, builder)
        }
        0x80.. => {
            builder.content().map_err(refused)?;
            let value = text(reader, first & !WITH_END, start)?;
            builder.value(value, start).map_err(refused)?;
            if first & WITH_END == 0 { Ok(()) } else { builder.end().map_err(refused) }
        }
        0x00 | 0x78..=0x7f => Err(unknown(start)),
    }
}

/// Reads prefix and name of an element after its first byte.
fn element<'a>(reader: &mut Reader<'a>, first: u8, start: usize) -> Result<(&'a str, &'a str), DecodeError> {
    match first {
        0x40 => Ok(("", reader.name()?)),
        0x41 => Ok((reader.name()?, reader.name()?)),
        0x5e..=0x77 => Ok((letter(first - 0x5e), reader.name()?)),
        _ => Err(dictionary(start)),
    }
}

/// Reads an attribute or a declaration after its first byte.
fn attribute<'a>(
    reader: &mut Reader<'a>,
    builder: &mut Builder<'a>,
    first: u8,
    start: usize,
) -> Result<(), DecodeError> {
    if !builder.is_in_tag() {
        return Err(refuse(Kind::Syntax, start).with_detail("an attribute after the start of an element"));
    }
    let refused = |kind| refuse(kind, start);
    let (prefix, name) = match first {
        0x04 => ("", reader.name()?),
        0x05 => (reader.name()?, reader.name()?),
        0x26..=0x3f => (letter(first - 0x26), reader.name()?),
        0x08 => return builder.declare("", Cow::Borrowed(reader.string()?)).map_err(refused),
        0x09 => {
            let prefix = reader.name()?;
            return builder.declare(prefix, Cow::Borrowed(reader.string()?)).map_err(refused);
        }
        _ => return Err(dictionary(start)),
    };
    let (at, first) = (reader.at, reader.byte()?);
    let is_true = match first {
        START_LIST => {
            while reader.peek()? != END_LIST {
                let (at, first) = (reader.at, reader.byte()?);
                text(reader, first, at)?;
            }
            reader.byte()?;
            false
        }
        _ if first & WITH_END != 0 => return Err(unknown(at)),
        _ => match text(reader, first, at)? {
            Value::Bool(value) => value,
            Value::Int(value) => value == 1,
            Value::Text(text) => matches!(text.trim(), "true" | "1"),
            _ => false,
        },
    };
    builder.attribute(Attribute { prefix, name, is_true }).map_err(refused)
}

/// Reads the items of a list, which stand with a space between them.
fn list<'a>(reader: &mut Reader<'a>, builder: &mut Builder<'a>) -> Result<(), DecodeError> {
    let mut is_first = true;
    loop {
        let start = reader.at;
        let first = reader.byte()?;
        let refused = |kind| refuse(kind, start);
        if first & !WITH_END == END_LIST {
            return if first & WITH_END == 0 { Ok(()) } else { builder.end().map_err(refused) };
        }
        if first & WITH_END != 0 {
            return Err(unknown(start));
        }
        if !is_first {
            builder.value(Value::Text(Cow::Borrowed(" ")), start).map_err(refused)?;
        }
        is_first = false;
        let value = text(reader, first, start)?;
        builder.value(value, start).map_err(refused)?;
    }
}

/// Reads an array: an element that occurs as often as counted, each time with another value of one size.
fn array<'a>(reader: &mut Reader<'a>, builder: &mut Builder<'a>, start: usize) -> Result<(), DecodeError> {
    let refused = |kind| refuse(kind, start);
    let head = reader.at;
    let first = reader.byte()?;
    let (prefix, name) = element(reader, first, head)?;
    builder.start(prefix, name, "", head).map_err(refused)?;
    loop {
        let (start, first) = (reader.at, reader.byte()?);
        match first {
            END => break,
            0x04..=0x3f => attribute(reader, builder, first, start)?,
            _ => return Err(unknown(start)),
        }
    }
    builder.content().map_err(refused)?;
    let (at, first) = (reader.at, reader.byte()?);
    let size = match first {
        0xb5 => 1,
        0x8b => 2,
        0x8d | 0x91 => 4,
        0x8f | 0x93 | 0x97 | 0xaf => 8,
        0x95 | 0xb1 => 16,
        _ => return Err(refuse(Kind::Syntax, at).with_expected("the record of a value of one size")),
    };
    let at = reader.at;
    let count = reader.length()?;
    let Some(others) = count.checked_sub(1) else {
        return Err(refuse(Kind::Syntax, at).with_detail("an array of no values"));
    };
    if others > builder.room() {
        return Err(refuse(Kind::Count, at));
    }
    if count.saturating_mul(size) > reader.body.len() - reader.at {
        return Err(refuse(Kind::Truncated, reader.at));
    }
    for number in 0..count {
        let at = reader.at;
        let value = text(reader, first & !WITH_END, at)?;
        if number > 0 {
            builder.start_again(at).map_err(refused)?;
        }
        builder.value(value, at).map_err(refused)?;
        builder.end().map_err(refused)?;
    }
    Ok(())
}

/// Reads the value of a text record after its first byte, which is even.
fn text<'a>(reader: &mut Reader<'a>, first: u8, start: usize) -> Result<Value<'a>, DecodeError> {
    Ok(match first {
        0x80 => Value::Int(0),
        0x82 => Value::Int(1),
        0x84 => Value::Bool(false),
        0x86 => Value::Bool(true),
        0x88 => Value::Int(i8::from_le_bytes(reader.array()?).into()),
        0x8a => Value::Int(i16::from_le_bytes(reader.array()?).into()),
        0x8c => Value::Int(i32::from_le_bytes(reader.array()?).into()),
        0x8e => Value::Int(i64::from_le_bytes(reader.array()?)),
        0x90 => Value::Float(f32::from_le_bytes(reader.array()?)),
        0x92 => Value::Double(f64::from_le_bytes(reader.array()?)),
        0x94 => {
            let decimal = Decimal::read(reader.array()?);
            Value::Decimal(decimal.ok_or_else(|| refuse(Kind::Syntax, start).with_expected("a decimal"))?)
        }
        0x96 => {
            let binary = u64::from_le_bytes(reader.array()?);
            if !time::is_instant(binary) {
                return Err(refuse(Kind::Syntax, start).with_expected("a time of the years 1 to 9999"));
            }
            Value::Time(binary)
        }
        0x98 | 0x9a | 0x9c => {
            let len = reader.text_length(first - 0x98)?;
            Value::Text(Cow::Borrowed(reader.utf8(len)?))
        }
        0x9e | 0xa0 | 0xa2 => {
            let len = reader.text_length(first - 0x9e)?;
            Value::Bytes(reader.take(len)?)
        }
        0xa8 => Value::Text(Cow::Borrowed("")),
        0xac => Value::UniqueId(reader.array()?),
        0xae => Value::Span(i64::from_le_bytes(reader.array()?)),
        0xb0 => Value::Guid(reader.array()?),
        0xb2 => Value::Unsigned(u64::from_le_bytes(reader.array()?)),
        0xb4 => match reader.byte()? {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            _ => return Err(refuse(Kind::Syntax, start).with_expected("0 or 1")),
        },
        0xb6 | 0xb8 | 0xba => {
            let len = reader.text_length(first - 0xb6)?;
            Value::Text(Cow::Owned(reader.utf16(len)?))
        }
        0xaa | 0xbc => return Err(dictionary(start)),
        _ => return Err(unknown(start)),
    })
}

#[cold]
fn refuse(kind: Kind, at: usize) -> DecodeError {
    DecodeError::new(kind).at(Position::Offset(at))
}

#[cold]
fn unknown(at: usize) -> DecodeError {
    refuse(Kind::Syntax, at).with_expected("a record of .NET binary XML")
}

/// Refuses a number that stands for a text which both sides must have agreed upon.
#[cold]
fn dictionary(at: usize) -> DecodeError {
    let error = refuse(Kind::Type, at).with_detail("numbers of a dictionary are not supported");
    error.with_expected("a record with its text")
}

struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    max_bytes: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Result<u8, DecodeError> {
        self.body.get(self.at).copied().ok_or_else(|| refuse(Kind::Truncated, self.at))
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let rest = self.body.get(self.at..).unwrap_or_default();
        let Some(bytes) = rest.get(..len) else {
            // The same distinction as in the other binary formats: no body that could be read is this long.
            let kind = if len > self.max_bytes { Kind::Length } else { Kind::Truncated };
            return Err(refuse(kind, self.at));
        };
        self.at += len;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let at = self.at;
        self.take(N)?.try_into().map_err(|_| refuse(Kind::Truncated, at))
    }

    /// Reads an integer of seven bits a byte, up to 31 bits.
    fn length(&mut self) -> Result<usize, DecodeError> {
        let start = self.at;
        let mut value = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(value)
                    .ok()
                    .filter(|&value| value < 1 << 31)
                    .ok_or_else(|| refuse(Kind::Length, start));
            }
        }
        Err(refuse(Kind::Syntax, start).with_expected("a length of at most 31 bits"))
    }

    /// Reads the length of a text record: one, two or four bytes, for the records 0, 2 and 4 of a group.
    fn text_length(&mut self, record: u8) -> Result<usize, DecodeError> {
        let start = self.at;
        let len = match record {
            0 => u32::from(self.byte()?),
            2 => u32::from(u16::from_le_bytes(self.array()?)),
            _ => u32::from_le_bytes(self.array()?),
        };
        usize::try_from(len).map_err(|_| refuse(Kind::Length, start))
    }

    fn utf8(&mut self, len: usize) -> Result<&'a str, DecodeError> {
        let start = self.at;
        let bytes = self.take(len)?;
        str::from_utf8(bytes).map_err(|error| refuse(Kind::Utf8, start + error.valid_up_to()))
    }

    fn utf16(&mut self, len: usize) -> Result<String, DecodeError> {
        let start = self.at;
        let bytes = self.take(len)?;
        let (pairs, rest) = bytes.as_chunks::<2>();
        let units = pairs.iter().map(|&pair| u16::from_le_bytes(pair));
        let text = char::decode_utf16(units).collect::<Result<String, _>>();
        text.ok().filter(|_| rest.is_empty()).ok_or_else(|| refuse(Kind::Utf8, start))
    }

    fn string(&mut self) -> Result<&'a str, DecodeError> {
        let len = self.length()?;
        self.utf8(len)
    }

    /// Reads the name of an element, an attribute or a prefix.
    fn name(&mut self) -> Result<&'a str, DecodeError> {
        let start = self.at;
        let name = self.string()?;
        let is_name = !name.is_empty() && !name.contains([' ', '\t', '\r', '\n', '<', '>', '&', ':', '\0']);
        if is_name { Ok(name) } else { Err(refuse(Kind::Syntax, start).with_expected("a name")) }
    }
}
