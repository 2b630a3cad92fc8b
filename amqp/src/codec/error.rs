use std::{error, fmt};

/// Why a decoder refused its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The input, or the list, map or array around the value, ends inside the value.
    Truncated,
    /// Bytes follow the value, or the last element of a list, map or array.
    Trailing,
    /// A value of another type than the field has.
    Type,
    /// A format code that AMQP 1.0 does not define.
    FormatCode,
    /// A descriptor that is not one of the expected ones, or is neither an unsigned long nor a symbol.
    Descriptor,
    /// A string that is not UTF-8, or a symbol where [UTF-8 is allowed](crate::codec::Limits::utf8_symbols).
    Utf8,
    /// A symbol with a byte that is not ASCII.
    Ascii,
    /// A value outside of its type: a character that is not a Unicode scalar, a truth value other than 0 and 1, an enumeration's
    /// number without a meaning.
    Invalid,
    /// A declared size is beyond the end of the input.
    Size,
    /// A declared count is over the bytes that are left or over [`Limits::elements`](crate::codec::Limits::elements), or the
    /// count of a map is odd.
    Count,
    /// Over [`Limits::depth`](crate::codec::Limits::depth).
    Depth,
    /// A mandatory field is null or missing.
    Missing,
    /// A section of a message is repeated, or is not where AMQP 1.0 has it.
    Order,
}

impl DecodeErrorKind {
    /// Returns whether a limit was exceeded, as opposed to a violation of the format.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::Size | Self::Count | Self::Depth)
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::Truncated => "the input ends inside the value",
            Self::Trailing => "bytes follow the value",
            Self::Type => "the value is of another type",
            Self::FormatCode => "unknown format code",
            Self::Descriptor => "unexpected descriptor",
            Self::Utf8 => "the text is not UTF-8",
            Self::Ascii => "the symbol is not ASCII",
            Self::Invalid => "the value is outside of its type",
            Self::Size => "the declared size is beyond the end of the input",
            Self::Count => "the declared count is more than the input or the limit allows",
            Self::Depth => "nested deeper than the limit",
            Self::Missing => "a mandatory field is missing",
            Self::Order => "the section is repeated or out of order",
        }
    }
}

/// The refusal of an input: why, where, and what the type expected. It never holds bytes of the input, but for one format code.
///
/// ```
/// use consign_amqp::{bytes::Bytes, codec::{self, DecodeErrorKind}, types::Close};
///
/// // The error of a close frame has a number where its condition should be.
/// let close = Bytes::from_static(&[0, 0x53, 0x18, 0xc0, 9, 1, 0, 0x53, 0x1d, 0xc0, 3, 1, 0x52, 7]);
/// let error = codec::decode::<Close>(&close).unwrap_err();
/// assert_eq!((error.kind(), error.offset()), (DecodeErrorKind::Type, 12));
/// assert_eq!(
///     error.to_string(),
///     "the value is of another type: expected symbol, found format code 0x52 in `Error.condition`, at byte 12"
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeError(Box<Refusal>);

/// Behind a pointer, so that what is decoded without an error is not moved in the size of one.
#[derive(Clone, PartialEq, Eq)]
struct Refusal {
    kind: DecodeErrorKind,
    offset: usize,
    expected: Option<&'static str>,
    found: Option<u8>,
    field: Option<&'static str>,
}

impl DecodeError {
    #[cold]
    pub(crate) fn new(kind: DecodeErrorKind, offset: usize) -> Self {
        Self(Box::new(Refusal { kind, offset, expected: None, found: None, field: None }))
    }

    /// Adds the type that was expected.
    pub(crate) fn expected(mut self, expected: &'static str) -> Self {
        self.0.expected = Some(expected);
        self
    }

    /// Adds the format code that was found.
    pub(crate) fn found(mut self, code: u8) -> Self {
        self.0.found = Some(code);
        self
    }

    /// Adds the field; the innermost one stays.
    #[cold]
    pub(crate) fn within(mut self, field: &'static str) -> Self {
        self.0.field.get_or_insert(field);
        self
    }

    /// Returns why the input was refused.
    #[must_use]
    pub fn kind(&self) -> DecodeErrorKind {
        self.0.kind
    }

    /// Returns the byte of the input, from 0, at which the decoder stopped.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// Returns the type that was expected, in the words of AMQP 1.0.
    #[must_use]
    pub fn expected_type(&self) -> Option<&'static str> {
        self.0.expected
    }

    /// Returns the format code that was found instead.
    #[must_use]
    pub fn found_code(&self) -> Option<u8> {
        self.0.found
    }

    /// Returns the type and the field that were being decoded, such as `Attach.handle`.
    #[must_use]
    pub fn field(&self) -> Option<&'static str> {
        self.0.field
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecodeError({:?}: {self})", self.0.kind)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.kind.describe())?;
        match (self.0.expected, self.0.found) {
            (Some(expected), Some(code)) => write!(f, ": expected {expected}, found format code {code:#04x}")?,
            (Some(expected), None) => write!(f, ": expected {expected}")?,
            (None, Some(code)) => write!(f, ": {code:#04x}")?,
            (None, None) => {}
        }
        if let Some(field) = self.0.field {
            write!(f, " in `{field}`")?;
        }
        write!(f, ", at byte {}", self.0.offset)
    }
}

impl error::Error for DecodeError {}

/// Why a value cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EncodeError {
    /// A string, a binary, a list, a map, an array or a frame takes over 4,294,967,295 bytes.
    TooLong,
    /// Lists, maps, arrays and described values are nested deeper than [`Limits::MAX_DEPTH`](crate::codec::Limits::MAX_DEPTH).
    TooDeep,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the value takes over 4,294,967,295 bytes",
            Self::TooDeep => "the value is nested over 64 levels deep",
        })
    }
}

impl error::Error for EncodeError {}
