//! Messages as rows: the properties as readable JSON, the body as its bytes.
//!
//! Values are in the form [`Tagged`](consign_core::wire::json::Tagged): floating-point numbers are their bits, because a
//! decimal fraction may be read as a neighbouring number, and bytes are hexadecimal digits.

mod body;
mod properties;

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use consign_core::{
    Message,
    message::{InvalidArgument, Properties, PropertyValue, Value, limits},
    transport::SendError,
    wire::json::{As, Tagged},
};

/// A value as it is written.
type Any<'a> = As<Tagged, Cow<'a, Value>>;
/// A value as it is read.
type Read = As<Tagged, Value>;

/// Returns a value as it is written, if it can be read again.
fn any(value: &Value) -> Result<Any<'_>, Unwritable> {
    if value.is_within(limits::VALUE_LEVELS) { Ok(As::new(Cow::Borrowed(value))) } else { Err(Unwritable::TooDeep) }
}

/// A message as it is written.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) properties: String,
    pub(crate) body: Bytes,
}

/// Returns properties and body of a message for a row.
pub(crate) fn write(message: &Message) -> Result<Written, Unwritable> {
    let (shape, body) = body::write(message.body())?;
    let properties = properties::write(message.properties(), shape)?;
    Ok(Written { properties, body })
}

/// Returns the properties alone, of a message whose body does not change.
pub(crate) fn write_properties(message: &Message, properties: &Properties) -> Result<String, Unwritable> {
    properties::write(properties, body::shape(message.body()))
}

/// Returns the message of a row.
pub(crate) fn read(properties: &str, body: Vec<u8>) -> Result<Message, Unreadable> {
    let (properties, shape) = properties::read(properties)?;
    Ok(Message::from_parts(properties, body::read(shape, body)?))
}

/// The error of a message or a rule that cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unwritable {
    /// A value has more levels than are written.
    TooDeep,
    /// A value or a body is of a type that the core has and this version of the transport cannot write.
    UnknownType,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep => write!(f, "a value has more than {} levels", limits::VALUE_LEVELS),
            Self::UnknownType => f.write_str("a value has a type that this transport does not support"),
        }
    }
}

impl std::error::Error for Unwritable {}

impl From<Unwritable> for SendError {
    fn from(error: Unwritable) -> Self {
        Self::new(consign_core::transport::ErrorKind::Serialization).with_detail(error.to_string()).with_source(error)
    }
}

/// A row that no version of this library has written.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Json(serde_json::Error),
    Rule(InvalidArgument),
    Hexadecimal,
    Sections,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the properties cannot be parsed: {error}"),
            Self::Rule(error) => write!(f, "the properties are invalid: {error}"),
            Self::Hexadecimal => f.write_str("a value is not hexadecimal"),
            Self::Sections => f.write_str("the lengths of the sections do not match the body"),
        }
    }
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl From<InvalidArgument> for Unreadable {
    fn from(error: InvalidArgument) -> Self {
        Self::Rule(error)
    }
}

/// The value of an application property in other JSON.
pub(crate) fn write_value(value: &PropertyValue) -> Result<serde_json::Value, Unwritable> {
    // Known kinds have a form in JSON.
    serde_json::to_value(As::<Tagged, _>::new(value)).map_err(|_| Unwritable::UnknownType)
}

/// Reverses [`write_value`].
pub(crate) fn read_value(value: serde_json::Value) -> Result<PropertyValue, Unreadable> {
    Ok(serde_json::from_value::<As<Tagged, PropertyValue>>(value)?.into_inner())
}

#[cfg(test)]
mod tests;
