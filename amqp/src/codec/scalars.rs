//! Every encoding of the types without elements.

use super::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder, codes};
use crate::value::{Binary, Decimal32, Decimal64, Decimal128, Described, Str, Symbol, Timestamp, Uuid, Value};

impl Decode for bool {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        match code {
            codes::TRUE => Ok(true),
            codes::FALSE => Ok(false),
            codes::BOOLEAN => match decoder.array()? {
                [0] => Ok(false),
                [1] => Ok(true),
                _ => Err(DecodeError::new(DecodeErrorKind::Invalid, decoder.offset() - 1).expected("boolean")),
            },
            _ => Err(decoder.mismatch("boolean", code)),
        }
    }
}

/// Types with one encoding of a fixed width.
macro_rules! fixed {
    ($($type:ty, $name:literal, $code:ident, $from:expr;)*) => {$(
        impl Decode for $type {
            fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
                if code != codes::$code {
                    return Err(decoder.mismatch($name, code));
                }
                Ok($from(decoder.array()?))
            }
        }
    )*};
}

fixed! {
    u8, "ubyte", UBYTE, u8::from_be_bytes;
    u16, "ushort", USHORT, u16::from_be_bytes;
    i8, "byte", BYTE, i8::from_be_bytes;
    i16, "short", SHORT, i16::from_be_bytes;
    f32, "float", FLOAT, f32::from_be_bytes;
    f64, "double", DOUBLE, f64::from_be_bytes;
    Decimal32, "decimal32", DECIMAL32, Decimal32;
    Decimal64, "decimal64", DECIMAL64, Decimal64;
    Decimal128, "decimal128", DECIMAL128, Decimal128;
    Timestamp, "timestamp", TIMESTAMP, |bytes| Timestamp(i64::from_be_bytes(bytes));
    Uuid, "uuid", UUID, Uuid;
}

/// Types with a full encoding and one of a byte; the unsigned ones have a third, for zero.
macro_rules! integers {
    ($($type:ty, $name:literal, $full:ident, $small:ident as $byte:ty $(, $zero:ident)?;)*) => {$(
        impl Decode for $type {
            fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
                match code {
                    codes::$small => decoder.array().map(<$byte>::from_be_bytes).map(Self::from),
                    codes::$full => decoder.array().map(Self::from_be_bytes),
                    $(codes::$zero => Ok(0),)?
                    _ => Err(decoder.mismatch($name, code)),
                }
            }
        }

        impl Encode for $type {
            fn encode(&self, encoder: &mut Encoder<'_>) {
                if encoder.full {
                    return encoder.code_and(codes::$full, self.to_be_bytes());
                }
                $(if *self == 0 {
                    return encoder.put(codes::$zero);
                })?
                match <$byte>::try_from(*self) {
                    Ok(small) => encoder.code_and(codes::$small, small.to_be_bytes()),
                    Err(_) => encoder.code_and(codes::$full, self.to_be_bytes()),
                }
            }
        }
    )*};
}

integers! {
    u32, "uint", UINT, SMALL_UINT as u8, UINT_0;
    u64, "ulong", ULONG, SMALL_ULONG as u8, ULONG_0;
    i32, "int", INT, SMALL_INT as i8;
    i64, "long", LONG, SMALL_LONG as i8;
}

impl Decode for char {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        if code != codes::CHAR {
            return Err(decoder.mismatch("char", code));
        }
        let scalar = decoder.array().map(u32::from_be_bytes)?;
        Self::from_u32(scalar)
            .ok_or_else(|| DecodeError::new(DecodeErrorKind::Invalid, decoder.offset() - 4).expected("char"))
    }
}

impl Decode for Binary {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        if !matches!(code, codes::BINARY_8 | codes::BINARY_32) {
            return Err(decoder.mismatch("binary", code));
        }
        let bytes = decoder.sized(code == codes::BINARY_32)?;
        Ok(Self(decoder.share(bytes)))
    }
}

impl Decode for Str {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        if !matches!(code, codes::STRING_8 | codes::STRING_32) {
            return Err(decoder.mismatch("string", code));
        }
        let bytes = decoder.sized(code == codes::STRING_32)?;
        let start = decoder.offset() - bytes.len();
        // Short texts are mostly ASCII, which is the quicker check.
        if !bytes.is_ascii()
            && let Err(error) = str::from_utf8(bytes)
        {
            return Err(DecodeError::new(DecodeErrorKind::Utf8, start + error.valid_up_to()));
        }
        Ok(Self::from_checked(decoder.share(bytes)))
    }
}

/// A string is accepted too, if it is ASCII: clients write strings where AMQP has symbols.
impl Decode for Symbol {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        let wide = match code {
            codes::SYMBOL_8 | codes::STRING_8 => false,
            codes::SYMBOL_32 | codes::STRING_32 => true,
            _ => return Err(decoder.mismatch("symbol", code)),
        };
        let bytes = decoder.sized(wide)?;
        if !bytes.is_ascii() {
            let start = decoder.offset() - bytes.len();
            if !decoder.utf8_symbols {
                let at = bytes.iter().take_while(|byte| byte.is_ascii()).count();
                return Err(DecodeError::new(DecodeErrorKind::Ascii, start + at));
            }
            if let Err(error) = str::from_utf8(bytes) {
                return Err(DecodeError::new(DecodeErrorKind::Utf8, start + error.valid_up_to()));
            }
        }
        Ok(Self::from_checked(decoder.share(bytes)))
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        if code == codes::NULL { Ok(None) } else { T::decode_after(decoder, code).map(Some) }
    }
}

impl<T: Decode> Decode for Box<T> {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        T::decode_after(decoder, code).map(Self::new)
    }
}

impl Decode for Value {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        match code {
            codes::NULL => Ok(Self::Null),
            codes::TRUE | codes::FALSE | codes::BOOLEAN => read(decoder, code, Self::Boolean),
            codes::UBYTE => read(decoder, code, Self::Ubyte),
            codes::USHORT => read(decoder, code, Self::Ushort),
            codes::UINT | codes::SMALL_UINT | codes::UINT_0 => read(decoder, code, Self::Uint),
            codes::ULONG | codes::SMALL_ULONG | codes::ULONG_0 => read(decoder, code, Self::Ulong),
            codes::BYTE => read(decoder, code, Self::Byte),
            codes::SHORT => read(decoder, code, Self::Short),
            codes::INT | codes::SMALL_INT => read(decoder, code, Self::Int),
            codes::LONG | codes::SMALL_LONG => read(decoder, code, Self::Long),
            codes::FLOAT => read(decoder, code, Self::Float),
            codes::DOUBLE => read(decoder, code, Self::Double),
            codes::DECIMAL32 => read(decoder, code, Self::Decimal32),
            codes::DECIMAL64 => read(decoder, code, Self::Decimal64),
            codes::DECIMAL128 => read(decoder, code, Self::Decimal128),
            codes::CHAR => read(decoder, code, Self::Char),
            codes::TIMESTAMP => read(decoder, code, Self::Timestamp),
            codes::UUID => read(decoder, code, Self::Uuid),
            _ => sized_value(decoder, code),
        }
    }
}

/// A function of its own for each type: as one, the compiler makes them write their results byte by byte.
#[inline(never)]
fn read<T: Decode>(decoder: &mut Decoder<'_>, code: u8, value: impl FnOnce(T) -> Value) -> Result<Value, DecodeError> {
    T::decode_after(decoder, code).map(value)
}

/// A value with a size or a descriptor. Apart from the others, which need less of the stack.
#[inline(never)]
fn sized_value(decoder: &mut Decoder<'_>, code: u8) -> Result<Value, DecodeError> {
    Ok(match code {
        codes::DESCRIBED => Value::Described(Box::new(Described::decode_after(decoder, code)?)),
        codes::BINARY_8 | codes::BINARY_32 => Value::Binary(Decode::decode_after(decoder, code)?),
        codes::STRING_8 | codes::STRING_32 => Value::String(Decode::decode_after(decoder, code)?),
        codes::SYMBOL_8 | codes::SYMBOL_32 => Value::Symbol(Decode::decode_after(decoder, code)?),
        codes::LIST_0 | codes::LIST_8 | codes::LIST_32 => Value::List(Decode::decode_after(decoder, code)?),
        codes::MAP_8 | codes::MAP_32 => Value::Map(Decode::decode_after(decoder, code)?),
        codes::ARRAY_8 | codes::ARRAY_32 => Value::Array(Decode::decode_after(decoder, code)?),
        _ => return Err(decoder.unknown(code)),
    })
}

impl Encode for bool {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.put(if *self { codes::TRUE } else { codes::FALSE });
    }
}

impl Encode for char {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.code_and(codes::CHAR, u32::from(*self).to_be_bytes());
    }
}

macro_rules! encode_fixed {
    ($($type:ty, $code:ident, |$value:ident| $bytes:expr;)*) => {$(
        impl Encode for $type {
            fn encode(&self, encoder: &mut Encoder<'_>) {
                let $value = self;
                encoder.code_and(codes::$code, $bytes);
            }
        }
    )*};
}

encode_fixed! {
    u8, UBYTE, |value| value.to_be_bytes();
    u16, USHORT, |value| value.to_be_bytes();
    i8, BYTE, |value| value.to_be_bytes();
    i16, SHORT, |value| value.to_be_bytes();
    f32, FLOAT, |value| value.to_be_bytes();
    f64, DOUBLE, |value| value.to_be_bytes();
    Decimal32, DECIMAL32, |value| value.0;
    Decimal64, DECIMAL64, |value| value.0;
    Decimal128, DECIMAL128, |value| value.0;
    Timestamp, TIMESTAMP, |value| value.0.to_be_bytes();
    Uuid, UUID, |value| value.0;
}

impl Encode for Binary {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.variable(codes::BINARY_8, codes::BINARY_32, &self.0);
    }
}

impl Encode for Str {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.variable(codes::STRING_8, codes::STRING_32, self.as_bytes());
    }
}

impl Encode for Symbol {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.variable(codes::SYMBOL_8, codes::SYMBOL_32, self.as_bytes());
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Some(value) => value.encode(encoder),
            None => encoder.put(codes::NULL),
        }
    }
}

impl<T: Encode + ?Sized> Encode for Box<T> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        (**self).encode(encoder);
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        (**self).encode(encoder);
    }
}

impl Encode for Value {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Null => encoder.put(codes::NULL),
            Self::Boolean(value) => value.encode(encoder),
            Self::Ubyte(value) => value.encode(encoder),
            Self::Ushort(value) => value.encode(encoder),
            Self::Uint(value) => value.encode(encoder),
            Self::Ulong(value) => value.encode(encoder),
            Self::Byte(value) => value.encode(encoder),
            Self::Short(value) => value.encode(encoder),
            Self::Int(value) => value.encode(encoder),
            Self::Long(value) => value.encode(encoder),
            Self::Float(value) => value.encode(encoder),
            Self::Double(value) => value.encode(encoder),
            Self::Decimal32(value) => value.encode(encoder),
            Self::Decimal64(value) => value.encode(encoder),
            Self::Decimal128(value) => value.encode(encoder),
            Self::Char(value) => value.encode(encoder),
            Self::Timestamp(value) => value.encode(encoder),
            Self::Uuid(value) => value.encode(encoder),
            Self::Binary(value) => value.encode(encoder),
            Self::String(value) => value.encode(encoder),
            Self::Symbol(value) => value.encode(encoder),
            Self::List(value) => value.encode(encoder),
            Self::Map(value) => value.encode(encoder),
            Self::Array(value) => value.encode(encoder),
            Self::Described(value) => value.encode(encoder),
        }
    }
}
