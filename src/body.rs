//! The bytes of a body.

use bytes::Bytes;

use crate::message::{MessageBody, PropertyValue, Value};

/// Returns the bytes that a codec reads, without a copy unless they are text. `None` if the body is not bytes.
pub(crate) fn bytes(body: &MessageBody) -> Option<Bytes> {
    match body {
        MessageBody::Data(data) => Some(data.joined().clone()),
        MessageBody::Value(value) => match &**value {
            Value::Simple(PropertyValue::Bytes(bytes)) => Some(bytes.clone()),
            _ => body.codec_view().map(Bytes::copy_from_slice),
        },
        MessageBody::Sequence(_) => None,
    }
}
