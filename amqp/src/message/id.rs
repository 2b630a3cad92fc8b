use std::fmt;

use crate::{
    codec::{Decode, DecodeError, Decoder, Encode, Encoder, codes},
    value::{Binary, Str, Uuid},
};

/// The id of a message, or of the message that it is correlated with, in the type that its sender chose.
///
/// `Display` is the text that ids are compared by: decimal, a hyphenated UUID in lower case, or hexadecimal in upper case.
///
/// ```
/// use consign_amqp::{message::MessageId, value::Uuid};
///
/// assert_eq!(MessageId::Ulong(17).to_string(), "17");
/// assert_eq!(MessageId::Uuid(Uuid([0xab; 16])).to_string(), "abababab-abab-abab-abab-abababababab");
/// assert_eq!(MessageId::Binary(vec![0xab, 1].into()).to_string(), "AB01");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MessageId {
    /// A number.
    Ulong(u64),
    /// A UUID.
    Uuid(Uuid),
    /// Bytes.
    Binary(Binary),
    /// Text.
    String(Str),
}

impl Decode for MessageId {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        match code {
            codes::STRING_8 | codes::STRING_32 => Str::decode_after(decoder, code).map(Self::String),
            codes::UUID => Uuid::decode_after(decoder, code).map(Self::Uuid),
            codes::ULONG | codes::SMALL_ULONG | codes::ULONG_0 => u64::decode_after(decoder, code).map(Self::Ulong),
            codes::BINARY_8 | codes::BINARY_32 => Binary::decode_after(decoder, code).map(Self::Binary),
            _ => Err(decoder.mismatch("message id", code)),
        }
    }
}

impl Encode for MessageId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Ulong(number) => number.encode(encoder),
            Self::Uuid(uuid) => uuid.encode(encoder),
            Self::Binary(bytes) => bytes.encode(encoder),
            Self::String(text) => text.encode(encoder),
        }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ulong(number) => write!(f, "{number}"),
            Self::Uuid(uuid) => write!(f, "{uuid}"),
            Self::Binary(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}")),
            Self::String(text) => f.write_str(text),
        }
    }
}

impl From<&str> for MessageId {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}
