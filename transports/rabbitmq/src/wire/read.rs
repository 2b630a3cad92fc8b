use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use consign_amqp::{codec::Decoder, message::Annotations};
use consign_core::{
    Message,
    message::{MessageBody, Properties, PropertyValue, Value},
    time::Timestamp,
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};

use super::{
    body, made_id,
    malformed::{Cause, Malformed},
    names, nested, property, value,
};
use crate::{numbers::Numbers, reply_to};

/// Facts of a delivery beside the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The number that the sender assigned; 0 from another publisher.
    pub(crate) number: u64,
    pub(crate) enqueued: Timestamp,
    /// Whether a sender of this crate set that time.
    pub(crate) is_stamped: bool,
    /// How many deliveries have failed.
    pub(crate) failed: u32,
    pub(crate) expires_at: Option<Timestamp>,
    /// Whether the broker dead-lettered the message because it expired.
    pub(crate) is_expired: bool,
    /// Whether there were more headers than a message may have, and some of them were not read.
    pub(crate) exceeds_limits: bool,
}

/// Reads what AMQP 0-9-1 has a property for, but the time and the expiration.
fn read_properties(raw: &BasicProperties, properties: &mut Properties) {
    if let Some(value) = set(raw.content_type().as_ref()) {
        properties.set_content_type(owned(value));
    }
    if let Some(value) = raw.correlation_id() {
        properties.set_correlation_id(owned(value));
    }
    if let Some(value) = set(raw.kind().as_ref()) {
        properties.set_subject(owned(value));
    }
    if let Some(value) = set(raw.reply_to().as_ref()) {
        properties.set_reply_to(reply_to::path(value.as_str()).unwrap_or_else(|| owned(value)));
    }
    if let Some(value) = set(raw.message_id().as_ref())
        && properties.set_message_id(owned(value)).is_err()
    {
        properties.application_properties_mut().insert(names::LONG_MESSAGE_ID, value.as_str());
    }
    if let Some(value) = raw.app_id() {
        properties.application_properties_mut().insert(names::APP_ID, value.as_str());
    }
    if let Some(value) = raw.user_id() {
        properties.pass_through_mut().user_id = Some(Bytes::copy_from_slice(value.as_str().as_bytes()));
    }
    if let Some(value) = raw.content_encoding() {
        properties.pass_through_mut().content_encoding = Some(owned(value).into());
    }
    if let Some(priority) = raw.priority() {
        properties.pass_through_mut().priority = Some(*priority);
    }
}

/// Reads a message from a delivery. Parts that are not understood are left out. A payload that does not match its header is a
/// body of bytes. Both are reported.
pub(crate) fn read(raw: &BasicProperties, payload: Bytes, mut report: impl FnMut(Malformed)) -> (Message, Facts) {
    let none = FieldTable::default();
    let headers = raw.headers().as_ref().unwrap_or(&none);
    let mut properties = Properties::new();
    let mut facts = Facts { enqueued: seconds(raw), ..Facts::default() };

    read_properties(raw, &mut properties);
    let mut ttl = raw.expiration().as_ref().and_then(|text| text.as_str().parse().ok()).map(Duration::from_millis);
    let mut is_encoded = false;
    // An id that does not fit has a made one in its place.
    let made = raw.message_id().as_ref().and_then(|id| made_id::number(id.as_str()));
    let mut is_stamped = made.is_some() && !headers.contains_key(names::MESSAGE_ID);
    let mut number = made;
    let mut nested = Vec::new();
    let types = headers.inner().get(names::TYPES).and_then(|header| {
        let types = match header {
            AMQPValue::FieldTable(types) => Some(types.inner()),
            _ => None,
        };
        or_reported(types, names::TYPES, "a table", &mut report)
    });
    for (name, value) in headers {
        let name = name.as_str();
        if names::is_read(name) {
            let kind = types.and_then(|types| text(types.get(name)?)).and_then(property::Type::from_name);
            if let Some(value) = property::read(value, kind) {
                let name = names::escaped(name).unwrap_or(name);
                properties.application_properties_mut().insert(name, value);
            } else if let Some(value) = nested::read(value) {
                nested.push((name, value));
            }
            continue;
        }
        match name {
            names::ENQUEUED_TIME => {
                if let Some(at) = or_reported(time(value), names::ENQUEUED_TIME, "a time", &mut report) {
                    (facts.enqueued, facts.is_stamped) = (at, true);
                }
            }
            names::SEQUENCE_NUMBER => {
                let own = integer(value).map(i64::cast_unsigned);
                number = or_reported(own, names::SEQUENCE_NUMBER, "an integer", &mut report).or(number);
            }
            names::FAILED_DELIVERIES => {
                let count = integer(value).and_then(|count| count.try_into().ok());
                let count: Option<u32> = or_reported(count, names::FAILED_DELIVERIES, "a count", &mut report);
                // The maximum leaves one more.
                facts.failed = count.map_or(0, |count| count.min(u32::MAX - 1));
            }
            names::TIME_TO_LIVE => {
                let own = integer(value).and_then(|millis| millis.try_into().ok()).map(Duration::from_millis);
                ttl = or_reported(own, names::TIME_TO_LIVE, "a number of milliseconds", &mut report).or(ttl);
            }
            names::MESSAGE_ID_STAMPED => {
                let own = or_reported(truth(value), names::MESSAGE_ID_STAMPED, "a boolean", &mut report);
                is_stamped = own == Some(true);
            }
            names::BODY => {
                let encoding = text(value).filter(|encoding| *encoding == body::SECTIONS);
                is_encoded = or_reported(encoding, names::BODY, "a known encoding", &mut report).is_some();
            }
            names::TYPES => {}
            "x-death" => facts.is_expired = has_expired(value),
            _ if is_said_by_property(name, raw) => {}
            names::ANNOTATIONS | names::FOOTER => read_pairs(name, value, &mut properties, &mut report),
            _ => {
                if let Err(cause) = read_header(name, value, &mut properties) {
                    report(Malformed { part: names::of_property(name), cause });
                }
            }
        }
    }
    if let Some(number) = number.filter(|number| *number != 0) {
        facts.number = number;
        if !facts.is_stamped {
            (facts.enqueued, facts.is_stamped) = (Numbers::time_of(number), true);
        }
    }
    if is_stamped && let Some(id) = properties.message_id().map(str::to_owned) {
        // It was taken a moment ago.
        let _ = properties.stamp_message_id(id);
    }
    for (name, value) in nested {
        annotate(name, value, &mut properties);
    }
    if let (Some(_), false) = (raw.timestamp(), facts.is_stamped) {
        properties.pass_through_mut().creation_time.get_or_insert(facts.enqueued);
    }
    if let Some(ttl) = ttl.filter(|ttl| !ttl.is_zero()) {
        let _ = properties.set_time_to_live(ttl);
        facts.expires_at = Some(facts.enqueued.saturating_add(ttl));
    }
    facts.exceeds_limits = properties.fit();
    let body = match is_encoded.then(|| body::decode(payload.clone())) {
        Some(Ok(body)) => body,
        Some(Err(cause)) => {
            report(Malformed { part: names::BODY, cause });
            MessageBody::from(payload)
        }
        None => MessageBody::from(payload),
    };
    (Message::from_parts(properties, body), facts)
}

/// Returns whether a property of AMQP 0-9-1 has the value of this header too. The property counts: where they differ, another
/// program has changed it since. The message id is the exception: an id that does not fit there has a random one in its place.
fn is_said_by_property(name: &str, raw: &BasicProperties) -> bool {
    match name {
        names::CONTENT_TYPE => set(raw.content_type().as_ref()).is_some(),
        names::CORRELATION_ID => raw.correlation_id().is_some(),
        names::SUBJECT => set(raw.kind().as_ref()).is_some(),
        names::REPLY_TO => set(raw.reply_to().as_ref()).is_some(),
        names::CONTENT_ENCODING => raw.content_encoding().is_some(),
        names::USER_ID => raw.user_id().is_some(),
        _ => false,
    }
}

/// Reports a header whose value is not of its kind. It is left out.
fn or_reported<T>(
    value: Option<T>,
    part: &'static str,
    kind: &'static str,
    report: &mut impl FnMut(Malformed),
) -> Option<T> {
    if value.is_none() {
        report(Malformed { part, cause: Cause::Expected(kind) });
    }
    value
}

/// An annotation that the header was written from stays as it is.
fn annotate(name: &str, value: Value, properties: &mut Properties) {
    let annotations = &mut properties.pass_through_mut().annotations;
    match annotations.iter_mut().find(|(key, _)| *key == name) {
        Some((_, present))
            if nested::write(present).and_then(|header| nested::read(&header)).as_ref() == Some(&value) => {}
        Some((_, present)) => *present = value,
        None => annotations.push((name.to_owned().into(), value)),
    }
}

/// Reads annotations or the footer.
fn read_pairs(name: &str, header: &AMQPValue, properties: &mut Properties, report: &mut impl FnMut(Malformed)) {
    let is_footer = name == names::FOOTER;
    match pairs(header) {
        Ok(pairs) if is_footer => properties.pass_through_mut().footer = pairs,
        Ok(pairs) => properties.pass_through_mut().annotations = pairs,
        Err(cause) => report(Malformed { part: if is_footer { names::FOOTER } else { names::ANNOTATIONS }, cause }),
    }
}

/// Reads a header of this crate. Another publisher may have given it any type and any value.
fn read_header(name: &str, value: &AMQPValue, properties: &mut Properties) -> Result<(), Cause> {
    let string = || text(value).map(str::to_owned).ok_or(Cause::Expected("a text"));
    let at = || time(value).ok_or(Cause::Expected("a time"));
    let flag = || truth(value).ok_or(Cause::Expected("a boolean"));
    match name {
        names::CONTENT_TYPE => drop(properties.set_content_type(string()?)),
        names::CORRELATION_ID => drop(properties.set_correlation_id(string()?)),
        names::SUBJECT => drop(properties.set_subject(string()?)),
        names::REPLY_TO => drop(properties.set_reply_to(string()?)),
        names::MESSAGE_ID => drop(properties.set_message_id(string()?)?),
        names::SESSION_ID => drop(properties.set_session_id(string()?)?),
        names::REPLY_TO_SESSION_ID => drop(properties.set_reply_to_session_id(string()?)?),
        names::PARTITION_KEY => drop(properties.set_partition_key(string()?)?),
        names::TRANSACTION_PARTITION_KEY => drop(properties.set_transaction_partition_key(string()?)?),
        names::TO => drop(properties.set_to(string()?)),
        names::SCHEDULED_TIME => drop(properties.set_scheduled_enqueue_time(at()?)),
        names::CONTENT_ENCODING => properties.pass_through_mut().content_encoding = Some(string()?.into()),
        names::USER_ID => {
            properties.pass_through_mut().user_id = Some(bytes(value).ok_or(Cause::Expected("bytes"))?);
        }
        names::GROUP_SEQUENCE => {
            let number = integer(value).and_then(|value| value.try_into().ok());
            properties.pass_through_mut().group_sequence =
                Some(number.ok_or(Cause::Expected("an integer of 32 bits"))?);
        }
        names::CREATION_TIME => properties.pass_through_mut().creation_time = Some(at()?),
        names::DURABLE => properties.pass_through_mut().durable = Some(flag()?),
        names::FIRST_ACQUIRER => properties.pass_through_mut().first_acquirer = Some(flag()?),
        names::FORCE_PERSISTENCE => properties.pass_through_mut().force_persistence = flag()?,
        _ => {}
    }
    Ok(())
}

/// An empty text is that of a client that sets every property.
fn set(text: Option<&ShortString>) -> Option<&ShortString> {
    text.filter(|text| !text.as_str().is_empty())
}

fn owned(text: &ShortString) -> String {
    text.as_str().to_owned()
}

fn text(value: &AMQPValue) -> Option<&str> {
    match value {
        AMQPValue::LongString(text) => str::from_utf8(text.as_bytes()).ok(),
        AMQPValue::ShortString(text) => Some(text.as_str()),
        _ => None,
    }
}

/// Any integer: other publishers may have written another type.
pub(crate) fn integer(value: &AMQPValue) -> Option<i64> {
    match property::read(value, None)? {
        PropertyValue::I64(value) => Some(value),
        PropertyValue::I32(value) => Some(value.into()),
        PropertyValue::U32(value) => Some(value.into()),
        PropertyValue::I16(value) => Some(value.into()),
        PropertyValue::U16(value) => Some(value.into()),
        PropertyValue::I8(value) => Some(value.into()),
        PropertyValue::U8(value) => Some(value.into()),
        _ => None,
    }
}

fn time(value: &AMQPValue) -> Option<Timestamp> {
    integer(value).map(Timestamp::from_millis)
}

fn truth(value: &AMQPValue) -> Option<bool> {
    match value {
        AMQPValue::Boolean(value) => Some(*value),
        _ => None,
    }
}

fn bytes(value: &AMQPValue) -> Option<Bytes> {
    match value {
        AMQPValue::ByteArray(value) => Some(Bytes::copy_from_slice(value.as_slice())),
        _ => None,
    }
}

fn pairs(header: &AMQPValue) -> Result<Vec<(Cow<'static, str>, Value)>, Cause> {
    let bytes = bytes(header).ok_or(Cause::Header)?;
    let mut decoder = Decoder::with_limits(&bytes, value::decoding(bytes.len()));
    let pairs: Annotations = decoder.decode()?;
    decoder.finish()?;
    pairs.0.into_iter().map(|(name, value)| Ok((name.as_str().to_owned().into(), value::from_amqp(value)?))).collect()
}

/// Returns the time of a message in seconds, as AMQP 0-9-1 has it, or in milliseconds, as many programs in JavaScript write it:
/// such a number of seconds is a time after the year 5000.
fn seconds(raw: &BasicProperties) -> Timestamp {
    const MOST_SECONDS: u64 = 100_000_000_000;
    let time = raw.timestamp().unwrap_or(0);
    let millis = if time > MOST_SECONDS { time } else { time * 1_000 };
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// Whether the newest entry of `x-death` has the reason `expired`. RabbitMQ: Dead Letter Exchanges.
fn has_expired(deaths: &AMQPValue) -> bool {
    let AMQPValue::FieldArray(deaths) = deaths else { return false };
    match deaths.as_slice().first() {
        Some(AMQPValue::FieldTable(death)) => death.inner().get("reason").and_then(text) == Some("expired"),
        _ => false,
    }
}
