//! Headers and a payload from a message.

use std::borrow::Cow;

use async_nats::{HeaderMap, HeaderName};
use bytes::Bytes;
use consign_core::{
    Message,
    message::{MessageBody, PassThrough, Value},
    transport::{ErrorKind, SendError},
    wire::{
        self,
        json::{As, Text},
    },
};
use serde_json::json;

use super::{
    MAX_HEADERS, ROOM_FOR_OWN, name, plain, size,
    text::{escape, token},
};

/// Returns the headers and the payload of a message. A body of one data section is the payload unchanged.
pub(crate) fn encode(message: &Message) -> Result<(HeaderMap, Bytes), SendError> {
    encode_copy(message, &HeaderMap::new())
}

/// Returns the same for a copy of a message with these original headers. An application property with the value of such a
/// header is written as that header, and not in this transport's own form.
pub(crate) fn encode_copy(message: &Message, came: &HeaderMap) -> Result<(HeaderMap, Bytes), SendError> {
    let (mut headers, payload) = encode_own(message, came, false)?;
    plain::write(message, came, &mut headers);
    if size(&headers) + ROOM_FOR_OWN > MAX_HEADERS {
        // There is no space to write a value twice.
        return encode_own(message, came, false);
    }
    Ok((headers, payload))
}

/// Returns the same with each value once.
pub(crate) fn encode_short(message: &Message, came: &HeaderMap) -> Result<(HeaderMap, Bytes), SendError> {
    encode_own(message, came, true)
}

fn encode_own(message: &Message, came: &HeaderMap, any_spelling: bool) -> Result<(HeaderMap, Bytes), SendError> {
    let mut headers = HeaderMap::new();
    let content_type = plain::content_type(came, message, any_spelling);
    let is_content_type_kept = !content_type.is_empty();
    for (name, values) in content_type.into_iter().chain(plain::content_encoding(came, message, any_spelling)) {
        for value in values {
            headers.append(name.clone(), value);
        }
    }
    let mut put = |name: HeaderName, value: Option<&str>| {
        if let Some(value) = value {
            headers.insert(name, &*escape(value));
        }
    };
    put(name::CONTENT_TYPE, message.content_type().filter(|_| !is_content_type_kept));
    put(name::CORRELATION_ID, message.correlation_id());
    put(name::MESSAGE_ID, message.message_id());
    put(name::MESSAGE_ID_STAMPED, message.is_message_id_stamped().then_some("1"));
    put(name::SUBJECT, message.subject());
    put(name::REPLY_TO, message.reply_to());
    put(name::SESSION_ID, message.session_id());
    put(name::REPLY_TO_SESSION_ID, message.reply_to_session_id());
    put(name::PARTITION_KEY, message.partition_key());
    put(name::TRANSACTION_PARTITION_KEY, message.transaction_partition_key());
    put(name::TO, message.to());
    for (key, value) in message.application_properties().iter() {
        let kept = plain::kept(came, key, value, any_spelling);
        if !kept.is_empty() {
            for (name, values) in kept {
                for value in values {
                    headers.append(name.clone(), value);
                }
            }
            continue;
        }
        let text = wire::text::write(value);
        headers.insert(format!("{}{}", name::PROPERTY, token(key)), &*escape(&text));
    }
    if let Some(rest) = message.pass_through() {
        headers.insert(name::PASS_THROUGH, &*escape(&pass_through(rest).ok_or_else(unknown)?));
    }
    let payload = body(message.body(), &mut headers).ok_or_else(unknown)?;
    Ok((headers, payload))
}

fn unknown() -> SendError {
    SendError::new(ErrorKind::Serialization).with_detail("a value has a type that this transport does not support")
}

fn body(body: &MessageBody, headers: &mut HeaderMap) -> Option<Bytes> {
    Some(match body {
        MessageBody::Data(data) => {
            if let sections @ ([] | [_, _, ..]) = data.sections() {
                let lengths: Vec<_> = sections.iter().map(|section| section.len().to_string()).collect();
                headers.insert(name::SECTIONS, &*lengths.join(","));
            }
            data.joined().clone()
        }
        MessageBody::Value(value) => {
            headers.insert(name::BODY, "value");
            serde_json::to_string(&As::<Text, _>::new(&**value)).ok()?.into()
        }
        MessageBody::Sequence(sections) => {
            headers.insert(name::BODY, "sequence");
            let sections: Vec<Vec<_>> =
                sections.iter().map(|values| values.iter().map(As::<Text, _>::new).collect()).collect();
            serde_json::to_string(&sections).ok()?.into()
        }
    })
}

fn pass_through(rest: &PassThrough) -> Option<String> {
    let pairs = |pairs: &[(Cow<'static, str>, Value)]| {
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (&**key, As::<Text, _>::new(value))).collect();
        serde_json::to_value(pairs).ok()
    };
    let all = json!({
        "user_id": rest.user_id.as_ref().map(|id| wire::hex(id).to_uppercase()),
        "content_encoding": rest.content_encoding.as_deref(),
        "group_sequence": rest.group_sequence,
        "creation_time": rest.creation_time.map(consign_core::time::Timestamp::as_millis),
        "durable": rest.durable,
        "priority": rest.priority,
        "first_acquirer": rest.first_acquirer,
        "force_persistence": rest.force_persistence,
        "annotations": pairs(&rest.annotations)?,
        "footer": pairs(&rest.footer)?,
    });
    Some(all.to_string())
}
