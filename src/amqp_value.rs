//! Bodies that are AMQP values: [`to_body`] writes a Rust type as one.
//!
//! A message whose body is an AMQP value other than null, a binary or a string has no bytes that a codec of the set could read. The
//! same holds for AMQP sequences. [`MessageExt::decode`](crate::MessageExt::decode), and so a router, reads such a body with the
//! codec `amqp-value`, whatever the ContentType: a map as a struct, a list as a sequence. The table in
//! [`codecs::amqp_value`](crate::codecs::amqp_value) has all types. The elements of several sequences are one list. A body that is
//! not of the type is dead-lettered like one that another codec refuses, with the path in the type.
//!
//! No codec writes AMQP values. Call [`to_body`] for a receiver that requires them:
//!
//! ```
//! use consign::{Message, MessageExt, amqp_value::to_body, codecs::Codecs};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, Deserialize, PartialEq, Serialize)]
//! struct Order {
//!     sku: String,
//!     count: u32,
//! }
//!
//! let order = Order { sku: "sku-7".into(), count: 3 };
//! let message = Message::new(to_body(&order)?);
//! # #[cfg(feature = "json")] {
//! assert_eq!(message.decode_traced::<Order, _>(&Codecs::json())?.by, "amqp-value");
//! assert_eq!(message.decode::<Order, _>(&Codecs::json())?, order);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::slice;

use bytes::Bytes;
use consign_codecs::{
    EncodeError,
    amqp_value::{self, Build, Node, Scalar, View, millis_of_ticks},
};
use serde::Serialize;

use crate::{
    message::{MessageBody, PropertyValue, Value},
    time::Timestamp,
};

/// Writes a value as the body of a message: a struct as a map, a sequence as a list, a number with its type.
///
/// Such a body needs no ContentType.
///
/// # Errors
/// A number beyond 64 bits, over 128 levels, or the type refuses.
pub fn to_body<T: Serialize + ?Sized>(value: &T) -> Result<MessageBody, EncodeError> {
    amqp_value::to_value(value).map(|Built(value)| value.into())
}

/// A body, or a value in one.
#[derive(Clone, Copy)]
pub(crate) enum Content<'m> {
    Value(&'m Value),
    Sequence(&'m [Vec<Value>]),
}

impl<'m> Content<'m> {
    /// The body, unless it is bytes.
    pub(crate) fn of(body: &'m MessageBody) -> Option<Self> {
        match body {
            MessageBody::Data(_) => None,
            MessageBody::Value(value) => Some(Self::Value(value)),
            MessageBody::Sequence(sections) => Some(Self::Sequence(sections)),
        }
    }
}

impl<'m> Node<'m> for Content<'m> {
    type List = Elements<'m>;
    type Map = Pairs<'m>;

    fn view(self) -> View<'m, Self> {
        match self {
            Self::Sequence(sections) => View::List(Elements { values: [].iter(), sections: sections.iter() }),
            Self::Value(Value::Simple(value)) => View::Scalar(scalar(value)),
            Self::Value(Value::Symbol(text)) => View::Scalar(Scalar::Symbol(text)),
            Self::Value(Value::List(values) | Value::Array(values)) => {
                View::List(Elements { values: values.iter(), sections: [].iter() })
            }
            Self::Value(Value::Map(pairs)) => View::Map(Pairs(pairs.iter())),
            Self::Value(Value::Described(pair)) => View::Described(Self::Value(&pair.1)),
        }
    }
}

fn scalar(value: &PropertyValue) -> Scalar<'_> {
    match value {
        PropertyValue::Null => Scalar::Null,
        PropertyValue::Bool(value) => Scalar::Boolean(*value),
        PropertyValue::U8(value) => Scalar::Ubyte(*value),
        PropertyValue::U16(value) => Scalar::Ushort(*value),
        PropertyValue::U32(value) => Scalar::Uint(*value),
        PropertyValue::U64(value) => Scalar::Ulong(*value),
        PropertyValue::I8(value) => Scalar::Byte(*value),
        PropertyValue::I16(value) => Scalar::Short(*value),
        PropertyValue::I32(value) => Scalar::Int(*value),
        PropertyValue::I64(value) | PropertyValue::TimeSpan(value) => Scalar::Long(*value),
        PropertyValue::F32(value) => Scalar::Float(*value),
        PropertyValue::F64(value) => Scalar::Double(*value),
        PropertyValue::Char(value) => Scalar::Char(*value),
        PropertyValue::String(text) | PropertyValue::Uri(text) => Scalar::String(text),
        PropertyValue::Decimal(bytes) => Scalar::Decimal(bytes),
        PropertyValue::Uuid(uuid) => Scalar::Uuid(*uuid),
        PropertyValue::DateTime(at) => Scalar::Timestamp(at.as_millis()),
        PropertyValue::DateTimeOffset(ticks) => Scalar::Timestamp(millis_of_ticks(*ticks)),
        PropertyValue::Bytes(bytes) => Scalar::Binary(bytes),
    }
}

/// The elements of a list, or of all sequences.
#[derive(Clone)]
pub(crate) struct Elements<'m> {
    values: slice::Iter<'m, Value>,
    sections: slice::Iter<'m, Vec<Value>>,
}

impl<'m> Iterator for Elements<'m> {
    type Item = Content<'m>;

    fn next(&mut self) -> Option<Content<'m>> {
        loop {
            if let Some(value) = self.values.next() {
                return Some(Content::Value(value));
            }
            self.values = self.sections.next()?.iter();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.values.len(), None)
    }
}

#[derive(Clone)]
pub(crate) struct Pairs<'m>(slice::Iter<'m, (Value, Value)>);

impl<'m> Iterator for Pairs<'m> {
    type Item = (Content<'m>, Content<'m>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (Content::Value(key), Content::Value(value)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

/// A value that is built.
struct Built(Value);

impl Build for Built {
    fn scalar(scalar: Scalar<'_>) -> Option<Self> {
        Some(Self(match scalar {
            Scalar::Null => PropertyValue::Null.into(),
            Scalar::Boolean(value) => value.into(),
            Scalar::Ubyte(value) => value.into(),
            Scalar::Ushort(value) => value.into(),
            Scalar::Uint(value) => value.into(),
            Scalar::Ulong(value) => value.into(),
            Scalar::Byte(value) => value.into(),
            Scalar::Short(value) => value.into(),
            Scalar::Int(value) => value.into(),
            Scalar::Long(value) => value.into(),
            Scalar::Float(value) => value.into(),
            Scalar::Double(value) => value.into(),
            Scalar::Char(value) => value.into(),
            Scalar::String(text) => text.into(),
            Scalar::Symbol(text) => Value::Symbol(text.into()),
            Scalar::Binary(bytes) => Bytes::copy_from_slice(bytes).into(),
            Scalar::Uuid(uuid) => PropertyValue::Uuid(uuid).into(),
            Scalar::Timestamp(millis) => Timestamp::from_millis(millis).into(),
            // A message has decimals of 16 bytes only.
            Scalar::Decimal(bytes) => PropertyValue::Decimal(bytes.try_into().ok()?).into(),
            _ => return None,
        }))
    }

    fn list(values: Vec<Self>) -> Self {
        Self(Value::List(values.into_iter().map(|Self(value)| value).collect()))
    }

    fn map(pairs: Vec<(Self, Self)>) -> Self {
        Self(Value::Map(pairs.into_iter().map(|(Self(key), Self(value))| (key, value)).collect()))
    }
}
