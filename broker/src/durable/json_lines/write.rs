use std::{
    borrow::Cow,
    io::{self, Write},
};

use bytes::Bytes;
use consign_core::{
    message::{ApplicationProperties, MessageBody, MessageState, PassThrough, Received, Value},
    time::Timestamp,
};
use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{
    Line,
    value::{Any, Base64, Simple, typed},
};

/// Writes a message as one line.
///
/// # Errors
///
/// Those of `out`.
pub fn write_message(out: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// The fields of an object; absent fields are left out.
struct Fields<S: Serializer>(S::SerializeMap);

impl<S: Serializer> Fields<S> {
    fn new(serializer: S) -> Result<Self, S::Error> {
        serializer.serialize_map(None).map(Self)
    }

    fn field(&mut self, name: &'static str, value: Option<impl Serialize>) -> Result<(), S::Error> {
        value.map_or(Ok(()), |value| self.0.serialize_entry(name, &value))
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { entity, message } = self;
        let mut fields = Fields::<S>::new(serializer)?;
        fields.field("entity", entity.as_deref())?;
        fields.field("received", message.received().map(Said))?;
        for (name, text) in [
            ("message_id", message.message_id()),
            ("correlation_id", message.correlation_id()),
            ("content_type", message.content_type()),
            ("subject", message.subject()),
            ("reply_to", message.reply_to()),
            ("to", message.to()),
            ("session_id", message.session_id()),
            ("reply_to_session_id", message.reply_to_session_id()),
            ("partition_key", message.partition_key()),
            ("transaction_partition_key", message.transaction_partition_key()),
            ("dead_letter_source", message.dead_letter_source()),
        ] {
            fields.field(name, text)?;
        }
        fields.field("message_id_stamped", message.is_message_id_stamped().then_some(true))?;
        let time_to_live = message.time_to_live().map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        fields.field("time_to_live", time_to_live)?;
        let scheduled = message.scheduled_enqueue_time().map(Timestamp::as_millis);
        fields.field("scheduled_enqueue_time", scheduled)?;
        fields
            .field("properties", Some(message.application_properties()).filter(|it| !it.is_empty()).map(Application))?;
        fields.field("pass_through", message.pass_through().map(Rest))?;
        fields.field("body", Some(Content(message.body())))?;
        fields.end()
    }
}

struct Said<'a>(&'a Received);

impl Serialize for Said<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Received {
            sequence_number,
            enqueued_sequence_number,
            enqueued_time,
            expires_at,
            locked_until,
            delivery_count,
            state,
            dead_lettered,
            partition_id,
            ..
        } = *self.0;
        let state = match state {
            MessageState::Active => "active",
            MessageState::Deferred => "deferred",
            MessageState::Scheduled => "scheduled",
        };
        let mut fields = Fields::<S>::new(serializer)?;
        fields.field("sequence_number", Some(sequence_number.get()))?;
        fields.field("enqueued_sequence_number", Some(enqueued_sequence_number.get()))?;
        fields.field("enqueued_time", Some(enqueued_time.as_millis()))?;
        fields.field("expires_at", Some(expires_at.as_millis()))?;
        fields.field("locked_until", locked_until.map(Timestamp::as_millis))?;
        fields.field("delivery_count", Some(delivery_count))?;
        fields.field("state", Some(state))?;
        fields.field("dead_lettered", Some(dead_lettered))?;
        fields.field("partition_id", partition_id)?;
        fields.end()
    }
}

struct Application<'a>(&'a ApplicationProperties);

impl Serialize for Application<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, Simple::new(value))))
    }
}

struct Rest<'a>(&'a PassThrough);

impl Serialize for Rest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let PassThrough {
            user_id,
            content_encoding,
            group_sequence,
            creation_time,
            durable,
            priority,
            first_acquirer,
            force_persistence,
            annotations,
            footer,
            ..
        } = self.0;
        let mut fields = Fields::<S>::new(serializer)?;
        fields.field("user_id", user_id.as_ref().map(Base64))?;
        fields.field("content_encoding", content_encoding.as_ref())?;
        fields.field("group_sequence", *group_sequence)?;
        fields.field("creation_time", creation_time.map(Timestamp::as_millis))?;
        fields.field("durable", *durable)?;
        fields.field("priority", *priority)?;
        fields.field("first_acquirer", *first_acquirer)?;
        fields.field("force_persistence", force_persistence.then_some(true))?;
        fields.field("annotations", Pairs::new(annotations))?;
        fields.field("footer", Pairs::new(footer))?;
        fields.end()
    }
}

struct Pairs<'a>(&'a [(Cow<'static, str>, Value)]);

impl<'a> Pairs<'a> {
    fn new(pairs: &'a [(Cow<'static, str>, Value)]) -> Option<Self> {
        (!pairs.is_empty()).then_some(Self(pairs))
    }
}

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(key, value)| (key, Any::new(value))))
    }
}

struct Content<'a>(&'a MessageBody);

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            MessageBody::Data(data) => match data.sections() {
                [one] => match text(one) {
                    Some(text) => typed(serializer, "text", text),
                    None => typed(serializer, "bytes", &Base64(one)),
                },
                sections => typed(serializer, "sections", &sections.iter().map(Base64).collect::<Vec<_>>()),
            },
            MessageBody::Value(value) => typed(serializer, "value", &Any::new(value)),
            MessageBody::Sequence(sections) => {
                typed(serializer, "sequence", &sections.iter().map(|values| Values(values)).collect::<Vec<_>>())
            }
        }
    }
}

struct Values<'a>(&'a [Value]);

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Any::new))
    }
}

/// The bytes as text, unless that would need many escapes of six bytes each.
fn text(bytes: &Bytes) -> Option<&str> {
    let is_escaped = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r');
    if bytes.iter().any(is_escaped) { None } else { std::str::from_utf8(bytes).ok() }
}
