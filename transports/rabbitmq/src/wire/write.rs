use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use consign_amqp::{codec::EncodeError, message::Annotations, value::Symbol};
use consign_core::{
    Message,
    message::{PassThrough, Properties, PropertyValue, Value},
    settlement::DeadLetter,
    time::Timestamp,
    transport::{ErrorKind, SendError},
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};

use super::{SHORT, body, made_id, names, nested, property, property::text, read, value};
use crate::{numbers::Numbers, reply_to, session};

type Headers = BTreeMap<ShortString, AMQPValue>;

/// The values that the sender adds to a message.
pub(crate) struct Stamp {
    /// The message's sequence number, which a message of another client does not have.
    pub(crate) number: Option<u64>,
    /// When it is accepted, by the clock of this process, if it has one.
    pub(crate) enqueued: Option<Timestamp>,
    /// How many deliveries have failed.
    pub(crate) failed: u32,
    /// The longest that it may wait.
    pub(crate) time_to_live: Option<Duration>,
    /// Whether properties that have a place of their own are repeated as headers, for filters.
    pub(crate) mirrored: bool,
    /// The queue of a delayed message.
    pub(crate) delayed_to: Option<String>,
    pub(crate) expiration: Expiration,
}

impl Stamp {
    /// Returns the stamp of a message that another client publishes.
    pub(crate) fn of_other(expiration: Expiration) -> Self {
        Self {
            number: None,
            enqueued: None,
            failed: 0,
            time_to_live: None,
            mirrored: false,
            delayed_to: None,
            expiration,
        }
    }
}

/// When the broker is to drop the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiration {
    /// When its time to live is over.
    TimeToLive,
    /// After the rest of that time.
    In(Duration),
    /// Never: it is a dead letter, or it is delayed and does not grow older meanwhile.
    Never,
}

/// A message as it is published.
pub(crate) struct Written {
    pub(crate) properties: BasicProperties,
    pub(crate) payload: Bytes,
}

/// The largest `expiration`: RabbitMQ, Time-To-Live and Expiration, has timers of 32 bits.
const MAX_EXPIRATION: u128 = u32::MAX as u128;
const PERSISTENT: u8 = 2;
/// Bytes of headers that a message has at most: RabbitMQ's frames have 128 KiB, and the other parts are in the same frame. With a
/// larger one RabbitMQ closes the connection.
const MAX_HEADERS: usize = 124 << 10;

pub(crate) fn write(message: &Message, stamp: &Stamp) -> Result<Written, SendError> {
    message.check().map_err(SendError::from)?;
    let properties = message.properties();
    let mut headers = Headers::new();
    let mut out = BasicProperties::default().with_delivery_mode(PERSISTENT);

    let is_mirrored = stamp.mirrored;
    let mut place = |value: Option<&str>, header: &'static str| {
        let value = value?;
        // Readers take an empty property as absent.
        let short = short(value).filter(|_| !(value.is_empty() && names::NEVER_EMPTY.contains(&header)));
        if is_mirrored || short.is_none() {
            insert(&mut headers, header, text(value));
        }
        short
    };
    if let Some(value) = place(properties.content_type(), names::CONTENT_TYPE) {
        out = out.with_content_type(value);
    }
    if let Some(value) = place(properties.correlation_id(), names::CORRELATION_ID) {
        out = out.with_correlation_id(value);
    }
    if let Some(value) = place(properties.subject(), names::SUBJECT) {
        out = out.with_type(value);
    }
    let direct = properties.reply_to().and_then(reply_to::address);
    if let Some(value) = place(direct.as_deref().or(properties.reply_to()), names::REPLY_TO) {
        out = out.with_reply_to(value);
    }
    // Every message of a sender has one, because it distinguishes returned messages.
    let of_sender = || stamp.number.map(|number| made_id::make(number).into());
    let id = place(properties.message_id(), names::MESSAGE_ID).or_else(of_sender);
    let has_made = properties.message_id().is_none() || properties.is_message_id_stamped();
    // The number that the id has.
    let of_id = id.as_ref().filter(|_| has_made).and_then(|id| made_id::number(id.as_str()));
    if let Some(id) = id {
        // A reader takes an id that looks like a made one as such.
        let is_taken_as_made = properties.message_id().is_none_or(|own| made_id::number(own).is_some());
        if has_made != is_taken_as_made {
            insert(&mut headers, names::MESSAGE_ID_STAMPED, AMQPValue::Boolean(has_made));
        }
        out = out.with_message_id(id);
    }
    let created = || properties.pass_through().and_then(|rest| rest.creation_time);
    if let Some(at) = stamp.enqueued.or_else(created) {
        out = out.with_timestamp(u64::try_from(at.as_millis() / 1_000).unwrap_or(0));
    }

    write_rare(properties, is_mirrored, &mut headers);
    if let Some(ttl) = shorter(properties.time_to_live(), stamp.time_to_live) {
        insert(&mut headers, names::TIME_TO_LIVE, long(ttl.as_millis().try_into().unwrap_or(i64::MAX)));
        let left = match stamp.expiration {
            Expiration::TimeToLive => Some(ttl),
            Expiration::In(left) => Some(left),
            Expiration::Never => None,
        };
        if let Some(left) = left.map(|left| left.as_millis()).filter(|left| *left <= MAX_EXPIRATION) {
            out = out.with_expiration(left.to_string().into());
        }
    }
    if let Some(queue) = &stamp.delayed_to {
        insert(&mut headers, names::DESTINATION, text(queue));
    }
    let number = stamp.number.unwrap_or_default();
    if let Some(at) = stamp.enqueued.filter(|at| number == 0 || Numbers::time_of(number) != *at) {
        insert(&mut headers, names::ENQUEUED_TIME, long(at.as_millis()));
    }
    if of_id.unwrap_or_default() != number {
        insert(&mut headers, names::SEQUENCE_NUMBER, long(number.cast_signed()));
    }
    if stamp.failed > 0 {
        insert(&mut headers, names::FAILED_DELIVERIES, long(stamp.failed.into()));
    }
    if let Some(rest) = properties.pass_through() {
        out = write_pass_through(rest, out, &mut headers).map_err(not_encoded)?;
    }
    write_application(properties, &mut headers)?;
    if let Some(id) =
        properties.application_properties().get(names::APP_ID).and_then(PropertyValue::as_str).and_then(short)
    {
        out = out.with_app_id(id);
    }
    if let Some(rest) = properties.pass_through() {
        write_nested(rest, &mut headers);
    }

    let (payload, is_encoded) = body::encode(message.body()).map_err(not_encoded)?;
    if is_encoded {
        insert(&mut headers, names::BODY, text(body::SECTIONS));
    }
    if !headers.is_empty() {
        check_size(&headers)?;
        out = out.with_headers(FieldTable::from(headers));
    }
    Ok(Written { properties: out, payload })
}

/// Returns the size of headers that a frame takes.
pub(super) fn check_size(headers: &Headers) -> Result<usize, SendError> {
    let size = headers.iter().map(|(name, value)| nested::size(name.as_str(), value)).sum();
    if size > MAX_HEADERS {
        let detail = format!("the headers have {size} bytes, and RabbitMQ's frames take {MAX_HEADERS}");
        return Err(SendError::new(ErrorKind::MessageSizeExceeded).with_detail(detail));
    }
    Ok(size)
}

/// The shorter of two times, if there is one.
pub(crate) fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn short(value: &str) -> Option<ShortString> {
    (value.len() <= SHORT).then(|| value.into())
}

fn insert(headers: &mut Headers, name: &str, value: AMQPValue) {
    headers.insert(name.into(), value);
}

fn long(value: i64) -> AMQPValue {
    AMQPValue::LongLongInt(value)
}

fn write_rare(properties: &Properties, is_mirrored: bool, headers: &mut Headers) {
    let texts = [
        (names::SESSION_ID, properties.session_id()),
        (names::REPLY_TO_SESSION_ID, properties.reply_to_session_id()),
        (names::PARTITION_KEY, properties.partition_key()),
        (names::TRANSACTION_PARTITION_KEY, properties.transaction_partition_key()),
        (names::TO, properties.to()),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            insert(headers, name, text(value));
        }
    }
    if is_mirrored && let Some(id) = properties.session_id() {
        insert(headers, names::SESSION_BUCKET, long(session::bucket(id).into()));
    }
    if let Some(at) = properties.scheduled_enqueue_time() {
        insert(headers, names::SCHEDULED_TIME, long(at.as_millis()));
    }
}

fn not_encoded(error: EncodeError) -> SendError {
    SendError::new(ErrorKind::Serialization).with_detail(error.to_string()).with_source(error)
}

fn write_pass_through(
    rest: &PassThrough,
    mut out: BasicProperties,
    headers: &mut Headers,
) -> Result<BasicProperties, EncodeError> {
    match rest.content_encoding.as_deref() {
        Some(encoding) if encoding.len() <= SHORT => out = out.with_content_encoding(encoding.into()),
        Some(encoding) => insert(headers, names::CONTENT_ENCODING, text(encoding)),
        None => {}
    }
    if let Some(priority) = rest.priority {
        out = out.with_priority(priority);
    }
    // Never as the property: RabbitMQ compares that with the login.
    if let Some(user) = &rest.user_id {
        insert(headers, names::USER_ID, AMQPValue::ByteArray(user[..].into()));
    }
    if let Some(sequence) = rest.group_sequence {
        insert(headers, names::GROUP_SEQUENCE, long(sequence.into()));
    }
    if let Some(at) = rest.creation_time {
        insert(headers, names::CREATION_TIME, long(at.as_millis()));
    }
    for (name, value) in [(names::DURABLE, rest.durable), (names::FIRST_ACQUIRER, rest.first_acquirer)] {
        if let Some(value) = value {
            insert(headers, name, AMQPValue::Boolean(value));
        }
    }
    if rest.force_persistence {
        insert(headers, names::FORCE_PERSISTENCE, AMQPValue::Boolean(true));
    }
    for (name, pairs) in [(names::ANNOTATIONS, &rest.annotations), (names::FOOTER, &rest.footer)] {
        // The history of a message is read-only: that of another message must not be taken as its own.
        let pairs: Vec<_> = pairs.iter().filter(|(key, _)| key != names::DEATHS).collect();
        if !pairs.is_empty() {
            let pairs = pairs.into_iter().map(|(key, value)| (Symbol::from_utf8(&**key), value::to_amqp(value)));
            let bytes = value::encode(&[Annotations(pairs.collect())])?;
            insert(headers, name, AMQPValue::ByteArray(bytes[..].into()));
        }
    }
    Ok(out)
}

fn write_application(properties: &Properties, headers: &mut Headers) -> Result<(), SendError> {
    let mut types = BTreeMap::new();
    for (name, value) in properties.application_properties().iter() {
        let unfit = |why: &str| {
            let detail = format!("the application property {name:.40?} {why}");
            SendError::new(ErrorKind::Serialization).with_detail(detail)
        };
        let header = header_name(name).ok_or_else(|| unfit("has a name of more than 255 bytes"))?;
        let (value, kind) = property::write(value);
        if let Some(kind) = kind {
            types.insert(header.clone(), text(kind.name()));
        }
        headers.insert(header, value);
    }
    if !types.is_empty() {
        insert(headers, names::TYPES, AMQPValue::FieldTable(types.into()));
    }
    Ok(())
}

/// Writes annotations that are lists and maps as headers too, so that other clients read them.
fn write_nested(rest: &PassThrough, headers: &mut Headers) {
    /// They are in the message twice.
    const MOST: usize = 8 << 10;
    let mut left = MOST;
    for (name, value) in &rest.annotations {
        let Some(header) = nested::write(value).filter(|_| !names::is_reserved(name)) else { continue };
        let Ok(short) = ShortString::try_new(name.to_string()) else { continue };
        let size = nested::size(name, &header);
        if size <= left && !headers.contains_key(&short) {
            left -= size;
            headers.insert(short, header);
        }
    }
}

/// Writes a delivered message again, with other properties: unchanged headers stay, read or not.
pub(crate) fn again(
    message: &Message,
    stamp: &Stamp,
    raw: &BasicProperties,
    payload: Bytes,
) -> Result<Written, SendError> {
    let came = raw.headers().as_ref().map(FieldTable::inner);
    // They are not in the message, and show why it was refused.
    let mut unreadable = Vec::new();
    read::read(raw, payload.clone(), |malformed| unreadable.push(malformed.part));
    let is_as_it_came =
        |name: &str, value: &Value| came.and_then(|came| nested::read(came.get(name)?)).as_ref() == Some(value);
    let mut own = message.clone();
    // Those that a sender of this crate has written stay in their order.
    let is_foreign =
        came.is_some_and(|came| !came.contains_key(names::ANNOTATIONS) || unreadable.contains(&names::ANNOTATIONS));
    if is_foreign && message.pass_through().is_some_and(|rest| !rest.annotations.is_empty()) {
        own.properties_mut().pass_through_mut().annotations.retain(|(name, value)| !is_as_it_came(name, value));
    }
    // Those of another publisher whose names are reserved keep them.
    for (name, value) in came.into_iter().flatten().map(|(name, value)| (name.as_str(), value)) {
        if names::is_foreign(name) && own.application_properties().get(name) == property::read(value, None).as_ref() {
            own.properties_mut().application_properties_mut().remove(name);
        }
    }
    let mut written = write(&own, stamp)?;
    let mut headers = written.properties.headers().clone().unwrap_or_default();
    let mut unread = Vec::new();
    for (name, value) in came.into_iter().flatten() {
        if name.as_str() == names::BODY {
            headers.insert(name.clone(), value.clone());
        }
        let is_own = !names::is_read(name.as_str()) || names::escaped(name.as_str()).is_some();
        if is_own && !unreadable.contains(&name.as_str()) {
            continue;
        }
        match message.application_properties().get(name.as_str()) {
            Some(present) if property::read(value, None).as_ref() == Some(present) => {
                headers.insert(name.clone(), value.clone());
            }
            // A dead letter without a description has removed the previous one.
            None if [DeadLetter::REASON, DeadLetter::DESCRIPTION].contains(&name.as_str()) => {}
            None if !headers.contains_key(name.as_str()) => {
                unread.push((nested::size(name.as_str(), value), name, value));
            }
            _ => {}
        }
    }
    // The smallest first: the properties of a message are one frame.
    unread.sort_unstable_by_key(|(size, ..)| *size);
    let mut size = check_size(headers.inner())?;
    for (more, name, value) in unread {
        size += more;
        if size > MAX_HEADERS {
            break;
        }
        headers.insert(name.clone(), value.clone());
    }
    written.properties = written.properties.with_headers(headers);
    if let Some(app) = raw.app_id() {
        written.properties = written.properties.with_app_id(app.clone());
    }
    // The enqueued time of a message of another publisher is a header of its copy.
    if let Some(at) = raw.timestamp() {
        written.properties = written.properties.with_timestamp(*at);
    }
    written.payload = payload;
    Ok(written)
}

fn header_name(name: &str) -> Option<ShortString> {
    let name = if names::is_reserved(name) { format!("{}{name}", names::ESCAPE) } else { name.to_owned() };
    ShortString::try_new(name).ok()
}

/// An application property as a header; `None` if it cannot be one.
pub(crate) fn header(name: &str, value: &PropertyValue) -> Option<(ShortString, AMQPValue)> {
    Some((header_name(name)?, property::write(value).0))
}
