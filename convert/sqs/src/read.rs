use std::collections::BTreeMap;

use aws_sdk_sqs::types::{self, MessageAttributeValue, MessageSystemAttributeName as System};
use consign_core::{
    Message,
    message::{Properties, Received, SequenceNumber},
    settlement::{DeadLetter, UnreadableMessage},
    time::Timestamp,
    wire::fields,
};

use crate::{
    attribute, body,
    names::{self, Meaning, meaning},
};

/// What was expected of an attribute.
type Expected = &'static str;

/// Returns the message of one that was received. Request its attributes by [`with_attributes`](crate::with_attributes).
///
/// Its [`Received`] has the number of the delivery, which is approximate as SQS counts it, and the time when the message was
/// sent. The sequence number is 0: that of a FIFO queue has 128 bits, see [`sequence_number`]. Without `ApproximateReceiveCount`
/// there is no `Received`.
///
/// A message without a MessageId has that of SQS, which is the same at each delivery. The SessionId of a message without one is
/// its `MessageGroupId`.
///
/// # Errors
///
/// An [`UnreadableMessage`] with the reason `MalformedHeader`, if an attribute has a value that its name or its data type does
/// not permit, or `HeaderSizeExceeded`, if the attributes exceed the limits of a message. Its message has the unreadable
/// attributes as application properties, unchanged. A body that cannot be decoded is its text.
pub fn from_sqs(received: &types::Message) -> Result<Message, UnreadableMessage> {
    let Read { message, dead_letter, .. } = read(received);
    match dead_letter {
        Some(dead_letter) => Err(UnreadableMessage::new(message, dead_letter)),
        None => Ok(message),
    }
}

/// Returns the sequence number that a FIFO queue gave to a message. It has 128 bits, so it is not that of a
/// [`Received`].
#[must_use]
pub fn sequence_number(received: &types::Message) -> Option<u128> {
    system(received, &System::SequenceNumber)?.parse().ok()
}

pub(crate) fn system<'m>(received: &'m types::Message, name: &System) -> Option<&'m str> {
    received.attributes()?.get(name).map(String::as_str)
}

/// A message, and what was wrong with its attributes.
pub(crate) struct Read {
    pub(crate) message: Message,
    /// The attributes and the members of the packed one that cannot be read.
    pub(crate) unreadable: Vec<String>,
    pub(crate) dead_letter: Option<DeadLetter>,
}

pub(crate) fn read(received: &types::Message) -> Read {
    let mut reader = Reader::default();
    for (name, text) in packed(received).unwrap_or_default() {
        if let Err(expected) = reader.text(&name, &text) {
            reader.refuse(&name, text.into(), expected);
        }
    }
    // The order in which they are read, and the first that cannot be, is the same each time.
    let attributes: BTreeMap<_, _> = received.message_attributes().into_iter().flatten().collect();
    for (name, value) in attributes {
        if let Err(expected) = reader.attribute(name, value) {
            let raw = value.string_value().map(Into::into);
            reader.refuse(name, raw.or_else(|| attribute::read(value).ok()).unwrap_or_else(|| "".into()), expected);
        }
    }
    let text = received.body().unwrap_or_default();
    let (kind, sections) = (reader.kind.take(), reader.sections.take());
    let body = body::read(text, kind.as_deref(), sections.as_deref()).unwrap_or_else(|(name, expected)| {
        let value = if name == names::BODY { &kind } else { &sections };
        reader.refuse(name, value.as_deref().unwrap_or_default().into(), expected);
        text.to_owned().into()
    });
    let facts = reader.facts(received);
    let Reader { mut properties, is_stamped, unreadable, mut dead_letter, .. } = reader;
    if is_stamped {
        fields::stamp(&mut properties);
    }
    if properties.fit() {
        dead_letter.get_or_insert_with(DeadLetter::header_size_exceeded);
    }
    if let (None, Some(id)) = (properties.message_id(), received.message_id()) {
        // SQS gives ids of 100 characters at most.
        let _ = properties.stamp_message_id(id.to_owned());
    }
    let mut message = Message::from_parts(properties, body);
    if let Some(facts) = facts {
        message = message.with_received(facts);
    }
    if let Some(source) = system(received, &System::DeadLetterQueueSourceArn) {
        message = message.with_dead_letter_source(source.rsplit(':').next().unwrap_or(source));
    }
    Read { message, unreadable, dead_letter }
}

/// The members of the packed attribute, unless it cannot be read.
pub(crate) fn packed(received: &types::Message) -> Option<BTreeMap<String, String>> {
    serde_json::from_str(received.message_attributes()?.get(names::PACKED)?.string_value()?).ok()
}

#[derive(Default)]
struct Reader {
    properties: Properties,
    is_stamped: bool,
    kind: Option<String>,
    sections: Option<String>,
    unreadable: Vec<String>,
    dead_letter: Option<DeadLetter>,
}

impl Reader {
    fn attribute(&mut self, name: &str, value: &MessageAttributeValue) -> Result<(), Expected> {
        match meaning(name) {
            Meaning::Property => {
                let value = attribute::read(value)?;
                self.properties.application_properties_mut().insert(name, value);
                Ok(())
            }
            Meaning::Own if name == names::PACKED => {
                let json = value.string_value().unwrap_or_default();
                let is_read = serde_json::from_str::<BTreeMap<String, String>>(json).is_ok();
                is_read.then_some(()).ok_or("a JSON object of texts")
            }
            _ => self.text(name, value.string_value().ok_or("a String")?),
        }
    }

    /// Sets the property of a text: an attribute of this crate, or a member of the packed one.
    fn text(&mut self, name: &str, text: &str) -> Result<(), Expected> {
        let to = &mut self.properties;
        match meaning(name) {
            Meaning::ContentType => drop(to.set_content_type(text.to_owned())),
            Meaning::ContentEncoding => to.pass_through_mut().content_encoding = Some(text.to_owned().into()),
            Meaning::Typed(key) => fields::set_property(to, key, text)?,
            Meaning::Property => {}
            Meaning::Own => match name {
                fields::MESSAGE_ID_STAMPED => self.is_stamped = true,
                names::BODY => self.kind = Some(text.to_owned()),
                names::SECTIONS => self.sections = Some(text.to_owned()),
                names::SCHEDULED => {
                    let millis = text.parse().map_err(|_| "milliseconds since 1970")?;
                    to.set_scheduled_enqueue_time(Timestamp::from_millis(millis));
                }
                fields::PASS_THROUGH => {
                    let rest = fields::Rest::read(&mut serde_json::Deserializer::from_str(text));
                    let mut rest = rest.map_err(|_| "the fields of PassThrough in JSON")?;
                    let encoding = to.pass_through_mut().content_encoding.take();
                    rest.content_encoding = encoding.or(rest.content_encoding);
                    *to.pass_through_mut() = rest;
                }
                name => fields::set(to, name, text)?,
            },
        }
        Ok(())
    }

    /// Makes a property of an attribute that cannot be read.
    fn refuse(&mut self, name: &str, value: consign_core::message::PropertyValue, expected: Expected) {
        self.properties.application_properties_mut().insert(name, value);
        self.unreadable.push(name.to_owned());
        self.dead_letter.get_or_insert_with(|| fields::unreadable(name, expected));
    }

    /// What SQS has set.
    fn facts(&mut self, received: &types::Message) -> Option<Received> {
        if let (None, Some(group)) = (self.properties.session_id(), system(received, &System::MessageGroupId)) {
            // A group has 128 characters at most.
            let _ = self.properties.set_session_id(group.to_owned());
        }
        let mut number = |name: System| {
            let text = system(received, &name)?;
            let number = text.parse::<u64>().ok();
            if number.is_none() {
                self.refuse(name.as_str(), text.into(), "a whole number");
            }
            number
        };
        let sent = number(System::SentTimestamp).and_then(|millis| i64::try_from(millis).ok());
        let count = u32::try_from(number(System::ApproximateReceiveCount)?).unwrap_or(u32::MAX);
        let sent = sent.map_or(Timestamp::EPOCH, Timestamp::from_millis);
        Some(Received::new(SequenceNumber::new(0), sent, count))
    }
}
