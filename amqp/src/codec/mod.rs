//! From bytes to values and back, within limits.
//!
//! A decoder accepts every encoding that AMQP 1.0 has for a type. An encoder writes the smallest one, or
//! with [`Encoder::full_widths`] the widest. A decoded string, symbol or
//! binary is a slice of the input: it is not copied, and it keeps the input's memory until it is dropped.

mod array;
pub(crate) mod codes;
mod compound;
mod decoder;
mod encoder;
mod error;
mod limits;
mod scalars;

use bytes::Bytes;

pub(crate) use self::compound::{ArrayHeader, Fields, RESERVED};
pub use self::{
    decoder::Decoder,
    encoder::Encoder,
    error::{DecodeError, DecodeErrorKind, EncodeError},
    limits::Limits,
};

/// A type that an AMQP value is decoded into.
pub trait Decode: Sized {
    /// Decodes the value whose format code has been read.
    ///
    /// After an error the position of the decoder is not specified.
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError>;

    /// Decodes the next value.
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let code = decoder.format_code()?;
        Self::decode_after(decoder, code)
    }
}

/// A type that is encoded as an AMQP value.
pub trait Encode {
    /// Appends the encoding. The encoder keeps the first error, which [`Encoder::finish`] returns.
    fn encode(&self, encoder: &mut Encoder<'_>);
}

/// Decodes one value within the default [`Limits`]. The input has to end with it.
///
/// # Errors
/// The input is malformed, is not a `T`, exceeds a limit, or goes on after the value.
pub fn decode<T: Decode>(input: &Bytes) -> Result<T, DecodeError> {
    let mut decoder = Decoder::new(input);
    let value = T::decode(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

/// Encodes one value.
///
/// # Errors
/// The value is too long or too deep for AMQP 1.0 or this encoder.
///
/// ```
/// use consign_amqp::{codec, value::Value};
///
/// assert_eq!(codec::encode(&Value::Uint(7))?.as_ref(), [0x52, 7]);
/// # Ok::<(), codec::EncodeError>(())
/// ```
pub fn encode<T: Encode + ?Sized>(value: &T) -> Result<Bytes, EncodeError> {
    let mut out = Vec::new();
    encode_into(value, &mut out)?;
    Ok(out.into())
}

/// Appends one encoded value to a buffer.
///
/// # Errors
/// The value is too long or too deep. The buffer is then as it was before.
pub fn encode_into<T: Encode + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    let mut encoder = Encoder::new(out);
    value.encode(&mut encoder);
    let outcome = encoder.finish();
    if outcome.is_err() {
        out.truncate(start);
    }
    outcome
}
