use std::borrow::Cow;

use bytes::Bytes;
use consign_core::{
    Message,
    message::{
        MessageBody, PassThrough, Properties, PropertyValue, Received, SequenceNumber, TraceContext, Value, limits,
    },
    settlement::{DeadLetter, UnreadableMessage},
    time::Timestamp,
    wire::{
        fields,
        json::{As, Text},
    },
};
use rdkafka::message::Headers;

use crate::names::{self, KEY, Meaning, meaning};

/// What was expected of a header.
type Expected = &'static str;

const TEXT: Expected = "text in UTF-8";

/// Returns the message of a record that was received.
///
/// Its [`Received`] has the offset as the sequence number, the partition, and the timestamp of the record as the enqueued time.
/// Its delivery count is 0, because Kafka does not count deliveries: `DeliveryLimitLayer` reads the property that
/// [`abandoned`](crate::abandoned) writes.
///
/// A message without an id has its topic, partition and offset as MessageId, which is the same at each delivery.
///
/// # Panics
///
/// rdkafka panics if the name of a header or of the topic is not UTF-8.
///
/// # Errors
///
/// An [`UnreadableMessage`] with the reason `MalformedHeader`, if a header has a value that its name does not permit, or
/// `HeaderSizeExceeded`, if the headers exceed the limits of a message. Its message has the unreadable headers as application
/// properties, unchanged.
pub fn from_rdkafka<M: rdkafka::Message>(record: &M) -> Result<Message, UnreadableMessage> {
    let Read { message, dead_letter, .. } = read(record);
    match dead_letter {
        Some(dead_letter) => Err(UnreadableMessage::new(message, dead_letter)),
        None => Ok(message),
    }
}

/// A message, and what was wrong with its record.
pub(crate) struct Read {
    pub(crate) message: Message,
    /// The headers that cannot be read.
    pub(crate) unreadable: Vec<String>,
    pub(crate) dead_letter: Option<DeadLetter>,
}

pub(crate) fn read<M: rdkafka::Message>(record: &M) -> Read {
    let mut reader = Reader::default();
    for header in record.headers().into_iter().flat_map(Headers::iter) {
        if let Err(expected) = reader.header(header.key, header.value) {
            reader.refuse(header.key, header.value, expected);
        }
    }
    reader.key(record.key());
    let payload = record.payload().map(Bytes::copy_from_slice);
    let is_tombstone = payload.is_none();
    let body = reader.body(payload.unwrap_or_default());
    let Reader { mut properties, unreadable, mut dead_letter, is_stamped, .. } = reader;
    if is_stamped {
        fields::stamp(&mut properties);
    }
    if is_tombstone {
        let note = (PassThrough::NO_BODY.into(), Value::Simple(PropertyValue::Null));
        properties.pass_through_mut().annotations.push(note);
    }
    if properties.fit() {
        dead_letter.get_or_insert_with(DeadLetter::header_size_exceeded);
    }
    if properties.message_id().is_none() {
        let id = format!("{}-{}-{}", record.topic(), record.partition(), record.offset());
        // A name that is too long for an id has an end that is not.
        let start = id.len().saturating_sub(limits::ID);
        let _ = properties.stamp_message_id(id.get(start..).unwrap_or_default().to_owned());
    }
    let number = SequenceNumber::new(u64::try_from(record.offset()).unwrap_or(0));
    let enqueued = record.timestamp().to_millis().map_or(Timestamp::EPOCH, Timestamp::from_millis);
    let mut received = Received::new(number, enqueued, 0);
    received.partition_id = i16::try_from(record.partition()).ok();
    let message = Message::from_parts(properties, body).with_received(received);
    Read { message, unreadable, dead_letter }
}

#[derive(Default)]
struct Reader {
    properties: Properties,
    is_stamped: bool,
    sections: Option<String>,
    kind: Option<String>,
    unreadable: Vec<String>,
    dead_letter: Option<DeadLetter>,
}

impl Reader {
    fn header(&mut self, name: &str, value: Option<&[u8]>) -> Result<(), Expected> {
        let to = &mut self.properties;
        let text = || value.map(|value| std::str::from_utf8(value).map_err(|_| TEXT)).transpose();
        match meaning(name) {
            Meaning::ContentType => {
                if let Some(text) = text()? {
                    to.set_content_type(text.to_owned());
                }
            }
            Meaning::ContentEncoding => {
                if let Some(text) = text()? {
                    to.pass_through_mut().content_encoding = Some(text.to_owned().into());
                }
            }
            Meaning::Typed(token) => {
                let key = names::untoken(token).ok_or("a name with =XX for each byte of other characters")?;
                fields::set_property(to, key, text()?.unwrap_or_default())?;
            }
            Meaning::Own => {
                let text = text()?.ok_or("a value")?;
                match name {
                    fields::MESSAGE_ID_STAMPED => self.is_stamped = true,
                    names::SECTIONS => self.sections = Some(text.to_owned()),
                    names::BODY => self.kind = Some(text.to_owned()),
                    fields::PASS_THROUGH => {
                        let rest = fields::Rest::read(&mut serde_json::Deserializer::from_str(text));
                        let mut rest = rest.map_err(|_| "the fields of PassThrough in JSON")?;
                        let encoding = to.pass_through_mut().content_encoding.take();
                        rest.content_encoding = encoding.or(rest.content_encoding);
                        *to.pass_through_mut() = rest;
                    }
                    name => fields::set(to, name, text)?,
                }
            }
            Meaning::Property => {
                let value = foreign(to, name, value);
                to.application_properties_mut().insert(name, value);
            }
        }
        Ok(())
    }

    /// Makes a property of a header that cannot be read.
    fn refuse(&mut self, name: &str, value: Option<&[u8]>, expected: Expected) {
        self.properties.application_properties_mut().insert(name, any(value));
        self.unreadable.push(name.to_owned());
        self.dead_letter.get_or_insert_with(|| fields::unreadable(name, expected));
    }

    fn key(&mut self, key: Option<&[u8]>) {
        let Some(key) = key.filter(|_| self.properties.session_id().is_none()) else { return };
        let is_set =
            std::str::from_utf8(key).is_ok_and(|key| self.properties.set_partition_key(key.to_owned()).is_ok());
        if !is_set {
            self.properties.application_properties_mut().insert(KEY, any(Some(key)));
        }
    }

    fn body(&mut self, payload: Bytes) -> MessageBody {
        if let Some(lengths) = self.sections.take() {
            return sections(&lengths, payload.clone()).unwrap_or_else(|| {
                let expected = "the lengths of the sections of the payload, with commas between";
                self.refuse(names::SECTIONS, Some(lengths.as_bytes()), expected);
                payload.into()
            });
        }
        let Some(kind) = self.kind.take() else { return payload.into() };
        let body = match &*kind {
            "value" => serde_json::from_slice::<As<Text, Value>>(&payload).ok().map(|value| value.into_inner().into()),
            "sequence" => {
                let sections: Option<Vec<Vec<As<Text, Value>>>> = serde_json::from_slice(&payload).ok();
                let section = |values: Vec<_>| values.into_iter().map(As::into_inner).collect();
                sections.map(|sections| MessageBody::Sequence(sections.into_iter().map(section).collect()))
            }
            _ => None,
        };
        body.unwrap_or_else(|| {
            let expected = "value or sequence, and a payload of that in JSON";
            self.refuse(names::BODY, Some(kind.as_bytes()), expected);
            payload.into()
        })
    }
}

fn sections(lengths: &str, mut payload: Bytes) -> Option<MessageBody> {
    let mut sections = Vec::new();
    for length in lengths.split(',').filter(|length| !length.is_empty()) {
        let length: usize = length.parse().ok()?;
        if length > payload.len() {
            return None;
        }
        sections.push(payload.split_to(length));
    }
    payload.is_empty().then(|| MessageBody::sections(sections))
}

/// The value of a header of another client. The last header of a name counts, and lists are joined.
fn foreign(to: &Properties, name: &str, value: Option<&[u8]>) -> PropertyValue {
    let value = any(value);
    let earlier =
        to.application_properties().get(name).filter(|_| [TraceContext::TRACESTATE, "baggage"].contains(&name));
    match (earlier.and_then(PropertyValue::as_str), value.as_str()) {
        (Some(earlier), Some(later)) => PropertyValue::String(format!("{earlier}, {later}").into()),
        _ => value,
    }
}

/// Text if it is UTF-8, and otherwise bytes.
fn any(value: Option<&[u8]>) -> PropertyValue {
    let Some(value) = value else { return PropertyValue::Null };
    match String::from_utf8_lossy(value) {
        Cow::Borrowed(text) => text.into(),
        Cow::Owned(_) => Bytes::copy_from_slice(value).into(),
    }
}
