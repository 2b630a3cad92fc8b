use bytes::Bytes;

use super::number;
use crate::{
    message::{PropertyValue, Value},
    time::Timestamp,
    wire::{Malformed, Problem, Type},
};

/// Reads values from bytes, from the first to the last one. Each length is checked against the bytes that are left.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    all: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads these bytes.
    #[must_use]
    pub const fn new(all: &'a [u8]) -> Self {
        Self { all, rest: all }
    }

    /// Returns how many bytes were read.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.all.len() - self.rest.len()
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    ///
    /// [`Problem::Trailing`].
    pub fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.fail(Problem::Trailing, "value")) }
    }

    fn fail(&self, problem: Problem, expected: &'static str) -> Malformed {
        Malformed::new(problem, expected, self.position())
    }

    fn truncated(&self, expected: &'static str) -> Malformed {
        self.fail(Problem::Truncated, expected)
    }

    /// Returns the error of something that is not what was expected before this place.
    #[must_use]
    pub fn invalid(&self, expected: &'static str) -> Malformed {
        self.fail(Problem::Invalid, expected)
    }

    /// Reads one byte.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    /// Reads as many bytes as an array has.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or_else(|| self.truncated("number"))?;
        self.rest = rest;
        Ok(*array)
    }

    /// Reads bytes with their count before them.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`]; those of [`unsigned`](Self::unsigned).
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.unsigned()?;
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.truncated("string of bytes"))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// [`Problem::Invalid`] if it is not UTF-8; those of [`bytes`](Self::bytes).
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        str::from_utf8(self.bytes()?).map_err(|_| self.invalid("text"))
    }

    /// Reads a truth value.
    ///
    /// # Errors
    ///
    /// [`Problem::Invalid`] for a byte above 1; [`Problem::Truncated`].
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.invalid("truth value")),
        }
    }

    /// Reads an unsigned integer.
    ///
    /// # Errors
    ///
    /// [`Problem::Invalid`] for one that exceeds 64 bits or the type; [`Problem::Truncated`].
    pub fn unsigned<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return T::try_from(value).map_err(|_| self.invalid("number"));
            }
        }
        Err(self.invalid("number"))
    }

    /// Reads a signed integer.
    ///
    /// # Errors
    ///
    /// Those of [`unsigned`](Self::unsigned).
    pub fn signed<T: TryFrom<i64>>(&mut self) -> Result<T, Malformed> {
        let folded: u64 = self.unsigned()?;
        let value = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
        T::try_from(value).map_err(|_| self.invalid("number"))
    }

    /// Reads a count of things, each of which has as many bytes as `each` at least.
    fn count(&mut self, each: usize) -> Result<usize, Malformed> {
        let count: usize = self.unsigned()?;
        if count > self.rest.len() / each { Err(self.truncated("list of values")) } else { Ok(count) }
    }

    /// Reads a simple value.
    ///
    /// # Errors
    ///
    /// [`Problem::Invalid`] for the number of another value, and for what a type cannot be; [`Problem::Truncated`].
    pub fn simple(&mut self) -> Result<PropertyValue, Malformed> {
        let number = self.byte()?;
        self.simple_of(number)
    }

    fn simple_of(&mut self, number: u8) -> Result<PropertyValue, Malformed> {
        let kind = Type::from_number(number).ok_or_else(|| self.invalid("kind of a value"))?;
        Ok(match kind {
            Type::Null => PropertyValue::Null,
            Type::Bool => PropertyValue::Bool(self.bool()?),
            Type::U8 => PropertyValue::U8(self.byte()?),
            Type::U16 => PropertyValue::U16(self.unsigned()?),
            Type::U32 => PropertyValue::U32(self.unsigned()?),
            Type::U64 => PropertyValue::U64(self.unsigned()?),
            Type::I8 => PropertyValue::I8(self.byte()?.cast_signed()),
            Type::I16 => PropertyValue::I16(self.signed()?),
            Type::I32 => PropertyValue::I32(self.signed()?),
            Type::I64 => PropertyValue::I64(self.signed()?),
            Type::F32 => PropertyValue::F32(f32::from_bits(u32::from_le_bytes(self.array()?))),
            Type::F64 => PropertyValue::F64(f64::from_bits(u64::from_le_bytes(self.array()?))),
            Type::Char => {
                let scalar = char::from_u32(self.unsigned()?);
                PropertyValue::Char(scalar.ok_or_else(|| self.invalid("character"))?)
            }
            Type::String => PropertyValue::String(self.text()?.into()),
            Type::Decimal => PropertyValue::Decimal(self.array()?),
            Type::Uuid => PropertyValue::Uuid(self.array()?),
            Type::DateTime => PropertyValue::DateTime(Timestamp::from_millis(self.signed()?)),
            Type::DateTimeOffset => PropertyValue::DateTimeOffset(self.signed()?),
            Type::TimeSpan => PropertyValue::TimeSpan(self.signed()?),
            Type::Uri => PropertyValue::Uri(self.text()?.into()),
            Type::Bytes => PropertyValue::Bytes(Bytes::copy_from_slice(self.bytes()?)),
        })
    }

    /// Reads a value of at most so many levels. Reading recurses as deep on the stack.
    ///
    /// # Errors
    ///
    /// [`Problem::TooDeep`]; those of [`simple`](Self::simple).
    pub fn value(&mut self, levels: usize) -> Result<Value, Malformed> {
        let Some(left) = levels.checked_sub(1) else { return Err(self.fail(Problem::TooDeep, "value")) };
        let number = self.byte()?;
        Ok(match number {
            number::SYMBOL => Value::Symbol(self.text()?.into()),
            number::LIST => Value::List(self.values(left)?),
            number::MAP => {
                let entries = (0..self.count(2)?).map(|_| Ok((self.value(left)?, self.value(left)?)));
                Value::Map(entries.collect::<Result<_, _>>()?)
            }
            number::ARRAY => Value::Array(self.values(left)?),
            number::DESCRIBED => Value::Described(Box::new((self.value(left)?, self.value(left)?))),
            _ => Value::Simple(self.simple_of(number)?),
        })
    }

    /// Reads a count of values of at most so many levels, and the values.
    ///
    /// # Errors
    ///
    /// Those of [`value`](Self::value).
    pub fn values(&mut self, levels: usize) -> Result<Vec<Value>, Malformed> {
        (0..self.count(1)?).map(|_| self.value(levels)).collect()
    }
}
