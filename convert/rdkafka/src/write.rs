use bytes::Bytes;
use consign_core::{
    Message,
    message::{MessageBody, PassThrough, PropertyValue, Value, limits},
    transport::{Capability, ErrorKind, SendError, Unsupported},
    wire::{
        fields,
        json::{As, Text},
    },
};

use crate::{
    Record,
    names::{self, KEY},
};

/// Returns the record of a message.
///
/// Its key is the SessionId, or else the partition key. Its timestamp is the
/// [creation time](PassThrough::creation_time), if that is after 1970. Kafka deletes records by this time, so an old one may
/// be deleted early: clear the [`Record::timestamp`] to have the time at which the producer sends it.
///
/// A message without a body is a tombstone: one with the annotation [`PassThrough::NO_BODY`]. A body of no bytes is an empty
/// payload.
///
/// # Errors
///
/// [`NotSupported`](ErrorKind::NotSupported) for a message with a time to live or a scheduled time, which Kafka does not have;
/// [`Serialization`](ErrorKind::Serialization) for a value of a type that this version does not support; those of
/// [`Message::check`]. The size is not checked: the producer knows the limit, and [`confirmed`](crate::confirmed) has its answer.
pub fn to_rdkafka(message: &Message) -> Result<Record, SendError> {
    message.check()?;
    if message.time_to_live().is_some() {
        return Err(Unsupported::new(Capability::TimeToLive).into());
    }
    if message.scheduled_enqueue_time().is_some() {
        return Err(Unsupported::new(Capability::Scheduling).into());
    }
    let mut record = Record::default();
    if let Some(value) = message.content_type() {
        record.header(names::CONTENT_TYPE, Some(value.as_bytes()));
    }
    record.key = key(message);
    for (name, value) in fields::texts(message.properties()) {
        let is_elsewhere = match name {
            "Sb-Content-Type" => true,
            "Sb-Partition-Key" => message.session_id().is_none(),
            _ => false,
        };
        if !is_elsewhere {
            record.header(name, Some(value.as_bytes()));
        }
    }
    for (name, value) in message.application_properties().iter() {
        if name != KEY || bytes_of_key(message).is_none() {
            record.property(name, value);
        }
    }
    let is_tombstone = is_tombstone(message);
    if let Some(rest) = message.pass_through() {
        pass_through(rest, is_tombstone, &mut record)?;
    }
    let payload = body(message.body(), &mut record).ok_or_else(unknown)?;
    record.payload = (!is_tombstone).then_some(payload);
    Ok(record)
}

fn unknown() -> SendError {
    SendError::new(ErrorKind::Serialization).with_detail("a value has a type that this conversion does not support")
}

fn key(message: &Message) -> Option<Bytes> {
    let text = message.session_id().or(message.partition_key());
    text.map(|key| Bytes::copy_from_slice(key.as_bytes())).or_else(|| bytes_of_key(message))
}

/// The key of a record that was read and cannot be a partition key.
fn bytes_of_key(message: &Message) -> Option<Bytes> {
    if message.session_id().or(message.partition_key()).is_some() {
        return None;
    }
    match message.application_properties().get(KEY)? {
        PropertyValue::Bytes(bytes) if std::str::from_utf8(bytes).is_err() => Some(bytes.clone()),
        PropertyValue::String(text) if limits::is_longer_than(text, limits::ID) => {
            Some(Bytes::copy_from_slice(text.as_bytes()))
        }
        _ => None,
    }
}

fn is_no_body(name: &str, value: &Value) -> bool {
    name == PassThrough::NO_BODY && *value == Value::Simple(PropertyValue::Null)
}

fn is_tombstone(message: &Message) -> bool {
    let is_empty = matches!(message.body(), MessageBody::Data(data) if data.joined().is_empty());
    let is_noted = |rest: &PassThrough| rest.annotations.iter().any(|(name, value)| is_no_body(name, value));
    is_empty && message.pass_through().is_some_and(is_noted)
}

fn pass_through(rest: &PassThrough, is_tombstone: bool, record: &mut Record) -> Result<(), SendError> {
    if let Some(encoding) = &rest.content_encoding {
        record.header(names::CONTENT_ENCODING, Some(encoding.as_bytes()));
    }
    // librdkafka takes 0 for the present time.
    record.timestamp = rest.creation_time.map(consign_core::time::Timestamp::as_millis).filter(|millis| *millis > 0);
    let mut others = rest.clone();
    others.content_encoding = None;
    if is_tombstone {
        others.annotations.retain(|(name, value)| !is_no_body(name, value));
    }
    if others != PassThrough::default() {
        let json = serde_json::to_vec(&fields::Rest::new(&others)).map_err(|_| unknown())?;
        record.header(fields::PASS_THROUGH, Some(&json));
    }
    Ok(())
}

fn body(body: &MessageBody, record: &mut Record) -> Option<Bytes> {
    Some(match body {
        MessageBody::Data(data) => {
            if let sections @ ([] | [_, _, ..]) = data.sections() {
                let lengths: Vec<_> = sections.iter().map(|section| section.len().to_string()).collect();
                record.header(names::SECTIONS, Some(lengths.join(",").as_bytes()));
            }
            data.joined().clone()
        }
        MessageBody::Value(value) => {
            record.header(names::BODY, Some(b"value"));
            serde_json::to_vec(&As::<Text, _>::new(&**value)).ok()?.into()
        }
        MessageBody::Sequence(sections) => {
            record.header(names::BODY, Some(b"sequence"));
            let sections: Vec<Vec<_>> =
                sections.iter().map(|values| values.iter().map(As::<Text, _>::new).collect()).collect();
            serde_json::to_vec(&sections).ok()?.into()
        }
    })
}
