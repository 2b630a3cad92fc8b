//! Lists, maps and arrays: sizes and counts are checked before an element is read.

use super::{
    Decode, DecodeError, DecodeErrorKind, Decoder, Limits,
    codes::{self, Layout},
};
use crate::value::{Array, Described, List, Map, Value, ValueType};

/// The capacity that is reserved before the elements are read, at most.
pub(crate) const RESERVED: usize = 16;

/// The elements of a list, one after another.
pub(crate) struct Fields<'b> {
    left: u32,
    /// What follows the list; nothing where the list is the encoding without content.
    after: Option<&'b [u8]>,
}

impl<'b> Fields<'b> {
    /// Enters the list whose format code has been read.
    pub(crate) fn list(decoder: &mut Decoder<'b>, code: u8) -> Result<Self, DecodeError> {
        match code {
            codes::LIST_0 => {
                // A level as in every other encoding, one of which the encoder may choose.
                decoder.descend()?;
                decoder.ascend();
                Ok(Self { left: 0, after: None })
            }
            codes::LIST_8 | codes::LIST_32 => Self::enter(decoder, code == codes::LIST_32),
            _ => Err(decoder.mismatch("list", code)),
        }
    }

    /// Enters the map whose format code has been read; keys and values take turns.
    pub(crate) fn map(decoder: &mut Decoder<'b>, code: u8) -> Result<Self, DecodeError> {
        if !matches!(code, codes::MAP_8 | codes::MAP_32) {
            return Err(decoder.mismatch("map", code));
        }
        let start = decoder.offset();
        let fields = Self::enter(decoder, code == codes::MAP_32)?;
        if fields.left % 2 == 0 { Ok(fields) } else { Err(DecodeError::new(DecodeErrorKind::Count, start)) }
    }

    fn enter(decoder: &mut Decoder<'b>, wide: bool) -> Result<Self, DecodeError> {
        let content = decoder.sized(wide)?;
        let after = decoder.enter(content)?;
        let left = decoder.number(wide)?;
        decoder.count(left, 1)?;
        Ok(Self { left, after: Some(after) })
    }

    pub(crate) const fn left(&self) -> u32 {
        self.left
    }

    /// The next element; `None` if it is null, or if the list ends before it.
    pub(crate) fn next<T: Decode>(&mut self, decoder: &mut Decoder<'b>) -> Result<Option<T>, DecodeError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        match decoder.format_code()? {
            codes::NULL => Ok(None),
            code => T::decode_after(decoder, code).map(Some),
        }
    }

    /// Skips the elements that are left, and leaves the list.
    pub(crate) fn finish(mut self, decoder: &mut Decoder<'b>) -> Result<(), DecodeError> {
        while self.left > 0 {
            self.left -= 1;
            decoder.skip()?;
        }
        self.after.map_or(Ok(()), |after| decoder.leave(after))
    }

    /// All elements, by `read`, which reads one each time.
    fn collect<T>(
        self,
        decoder: &mut Decoder<'b>,
        per: u32,
        mut read: impl FnMut(&mut Decoder<'b>) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.left / per;
        let mut values = Vec::with_capacity(RESERVED.min(count as usize));
        for _ in 0..count {
            values.push(read(decoder)?);
        }
        self.after.map_or(Ok(()), |after| decoder.leave(after))?;
        Ok(values)
    }
}

/// The head of an array: its size, count and constructor.
pub(crate) struct ArrayHeader<'b> {
    descriptors: Vec<Value>,
    element: ValueType,
    /// The format code of every element.
    code: u8,
    count: u32,
    after: &'b [u8],
}

impl<'b> ArrayHeader<'b> {
    /// Enters the array whose format code has been read.
    pub(crate) fn read(decoder: &mut Decoder<'b>, code: u8) -> Result<Self, DecodeError> {
        if !matches!(code, codes::ARRAY_8 | codes::ARRAY_32) {
            return Err(decoder.mismatch("array", code));
        }
        let wide = code == codes::ARRAY_32;
        let content = decoder.sized(wide)?;
        let after = decoder.enter(content)?;
        let count = decoder.number(wide)?;
        let mut descriptors = Vec::new();
        let code = loop {
            match decoder.format_code()? {
                codes::DESCRIBED => {
                    decoder.descend()?;
                    decoder.count(1, 0)?;
                    descriptors.push(decoder.value()?);
                }
                code => break code,
            }
        };
        let Some(element) = ValueType::of_code(code) else { return Err(decoder.unknown(code)) };
        let width = match codes::layout(code) {
            Some(Layout::Fixed(0)) if count > Limits::ZERO_WIDTH_ELEMENTS => {
                return Err(decoder.error(DecodeErrorKind::Count));
            }
            Some(Layout::Fixed(width)) => width,
            Some(Layout::Sized { wide: true }) => 4,
            Some(Layout::Sized { wide: false }) => 1,
            _ => return Err(decoder.unknown(code)),
        };
        decoder.count(count, width)?;
        Ok(Self { descriptors, element, code, count, after })
    }

    /// Decodes the elements, and leaves the array.
    pub(crate) fn elements<T: Decode>(&self, decoder: &mut Decoder<'b>) -> Result<Vec<T>, DecodeError> {
        let mut values = Vec::with_capacity(RESERVED.min(self.count as usize));
        for _ in 0..self.count {
            values.push(T::decode_after(decoder, self.code)?);
        }
        for _ in &self.descriptors {
            decoder.ascend();
        }
        decoder.leave(self.after)?;
        Ok(values)
    }
}

impl Decode for Array {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        let header = ArrayHeader::read(decoder, code)?;
        let values = header.elements(decoder)?;
        Ok(Self::from_parts(header.descriptors, header.element, values))
    }
}

impl Decode for List {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        let fields = Fields::list(decoder, code)?;
        fields.collect(decoder, 1, Decoder::value).map(Self)
    }
}

impl Decode for Map {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        let fields = Fields::map(decoder, code)?;
        fields.collect(decoder, 2, |decoder| Ok((decoder.value()?, decoder.value()?))).map(Self)
    }
}

impl Decode for Described {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        if code != codes::DESCRIBED {
            return Err(decoder.mismatch("described value", code));
        }
        decoder.descend()?;
        decoder.count(2, 0)?;
        let described = Self { descriptor: decoder.value()?, value: decoder.value()? };
        decoder.ascend();
        Ok(described)
    }
}
