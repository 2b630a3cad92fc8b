//! The type of an id: a message has the text of it, and an annotation for the type.

use consign_core::{
    message::{PassThrough, Value as CoreValue},
    wire::from_hex,
};

use crate::{
    message::MessageId,
    value::{Str, Uuid},
};

const ULONG: &str = "ulong";
const UUID: &str = "uuid";
const BINARY: &str = "binary";

/// The annotation for the type of an id; none for a string.
pub(super) fn type_annotation(id: &MessageId) -> Option<CoreValue> {
    let name = match id {
        MessageId::Ulong(_) => ULONG,
        MessageId::Uuid(_) => UUID,
        MessageId::Binary(_) => BINARY,
        MessageId::String(_) => return None,
    };
    Some(CoreValue::Symbol(name.into()))
}

/// The id of a text. It has the type of the annotation if the text is one of that type: the id may have been changed since.
pub(super) fn typed(text: &str, rest: Option<&PassThrough>, annotation: &str) -> MessageId {
    let typed = match rest.and_then(|rest| rest.annotation(annotation)) {
        Some(CoreValue::Symbol(name)) => match &**name {
            ULONG => text.parse().ok().map(MessageId::Ulong),
            UUID => uuid(text).map(MessageId::Uuid),
            BINARY => from_hex(text).map(|bytes| MessageId::Binary(bytes.into())),
            _ => None,
        },
        _ => None,
    };
    typed.filter(|id| id.to_string() == text).unwrap_or_else(|| MessageId::String(Str::from(text)))
}

fn uuid(text: &str) -> Option<Uuid> {
    from_hex(&text.replace('-', ""))?.try_into().ok().map(Uuid)
}
