//! `BrokerProperties`: the properties of a message in JSON.

use std::time::Duration;

use consign_core::{
    Message,
    message::{LockToken, MessageState, Properties, Received, SequenceNumber},
    time::Timestamp,
};
use http::HeaderValue;
use serde_json::{Map, Number, Value};

use super::{MessageError, MessageErrorKind, date, exact::ascii};

const NAME: &str = "BrokerProperties";

/// From this many seconds on a time to live is unlimited.
const UNLIMITED: f64 = 1e11;
/// The longest time of .NET, which the service writes for one that is unlimited.
const UNLIMITED_WRITTEN: f64 = 922_337_203_685.477_5;

/// Reads a header.
pub(super) fn parse(value: &HeaderValue) -> Result<Map<String, Value>, MessageError> {
    serde_json::from_slice(value.as_bytes()).map_err(|_| MessageError::header(NAME))
}

/// Writes a header.
pub(super) fn header(properties: Map<String, Value>) -> HeaderValue {
    let text = Value::Object(properties).to_string();
    // JSON in US-ASCII has no character that a header cannot have.
    HeaderValue::from_str(&ascii(&text)).unwrap_or(HeaderValue::from_static("{}"))
}

fn invalid(key: &str) -> MessageError {
    MessageError::new(MessageErrorKind::BrokerProperty, key)
}

fn text<'v>(properties: &'v Map<String, Value>, key: &str) -> Result<Option<&'v str>, MessageError> {
    match properties.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(key)),
    }
}

fn number(properties: &Map<String, Value>, key: &str) -> Result<Option<u64>, MessageError> {
    match properties.get(key) {
        None | Some(Value::Null) => Ok(None),
        // A number from 2^63 on is negative to some.
        Some(value) => {
            let signed = || value.as_i64().map(i64::cast_unsigned);
            value.as_u64().or_else(signed).map(Some).ok_or_else(|| invalid(key))
        }
    }
}

fn time(properties: &Map<String, Value>, key: &str) -> Result<Option<Timestamp>, MessageError> {
    let Some(text) = text(properties, key)? else { return Ok(None) };
    date::read(text).map(Some).ok_or_else(|| invalid(key))
}

/// Reads what a sender sets. Other keys are ignored.
pub(super) fn read_sent(properties: &Map<String, Value>) -> Result<Properties, MessageError> {
    let mut read = Properties::new();
    let owned = |key| text(properties, key).map(|text| text.map(str::to_owned));
    if let Some(id) = owned("MessageId")? {
        read.set_message_id(id)?;
    }
    if let Some(id) = owned("SessionId")? {
        read.set_session_id(id)?;
    }
    if let Some(key) = owned("PartitionKey")? {
        read.set_partition_key(key)?;
    }
    if let Some(key) = owned("ViaPartitionKey")? {
        read.set_transaction_partition_key(key)?;
    }
    if let Some(id) = owned("ReplyToSessionId")? {
        read.set_reply_to_session_id(id)?;
    }
    if let Some(id) = owned("CorrelationId")? {
        read.set_correlation_id(id);
    }
    if let Some(subject) = owned("Label")? {
        read.set_subject(subject);
    }
    if let Some(path) = owned("ReplyTo")? {
        read.set_reply_to(path);
    }
    if let Some(path) = owned("To")? {
        read.set_to(path);
    }
    if let Some(content_type) = owned("ContentType")? {
        read.set_content_type(content_type);
    }
    if let Some(time_to_live) = time_to_live(properties)? {
        read.set_time_to_live(time_to_live)?;
    }
    if let Some(at) = time(properties, "ScheduledEnqueueTimeUtc")? {
        read.set_scheduled_enqueue_time(at);
    }
    Ok(read)
}

fn time_to_live(properties: &Map<String, Value>) -> Result<Option<Duration>, MessageError> {
    let (key, in_span) = ("TimeToLive", "TimeToLiveTimeSpan");
    let seconds = match properties.get(key) {
        None | Some(Value::Null) => match text(properties, in_span)? {
            None => return Ok(None),
            Some(text) => span(text).ok_or_else(|| invalid(in_span))?,
        },
        Some(value) => value.as_f64().filter(|seconds| *seconds >= 0.0).ok_or_else(|| invalid(key))?,
    };
    if seconds >= UNLIMITED {
        return Ok(None);
    }
    // The nearest millisecond: a fraction of two is not exact.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 10^14")]
    Ok(Some(Duration::from_millis((seconds * 1_000.0).round() as u64)))
}

/// Reads a time span of .NET, `[d.]hh:mm:ss[.fffffff]`, in seconds.
fn span(text: &str) -> Option<f64> {
    let mut parts = text.trim().split(':');
    let (Some(hours), Some(minutes), Some(seconds), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let digits = |text: &str, most: usize| -> Option<u32> {
        let is_number = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten()
    };
    let below = |text: &str, limit: u32| digits(text, 2).filter(|number| *number < limit);
    let (days, hours) = hours.split_once('.').unwrap_or(("0", hours));
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let whole = f64::from(digits(days, 8)?) * 86_400.0
        + f64::from(below(hours, 24)? * 3_600 + below(minutes, 60)? * 60 + below(seconds, 60)?);
    let ticks = digits(fraction, 7)?;
    let places = i32::try_from(fraction.len()).ok()?;
    Some(whole + f64::from(ticks) / 10_f64.powi(places))
}

/// Writes what a sender sets.
pub(super) fn write_sent(properties: &Properties) -> Map<String, Value> {
    let mut written = Map::new();
    let mut set = |key: &str, text: Option<&str>| {
        if let Some(text) = text {
            written.insert(key.to_owned(), text.into());
        }
    };
    set("MessageId", properties.message_id());
    set("SessionId", properties.session_id());
    set("PartitionKey", properties.partition_key());
    set("ViaPartitionKey", properties.transaction_partition_key());
    set("ReplyToSessionId", properties.reply_to_session_id());
    set("CorrelationId", properties.correlation_id());
    set("Label", properties.subject());
    set("ReplyTo", properties.reply_to());
    set("To", properties.to());
    // What the header `Content-Type` cannot carry.
    set("ContentType", properties.content_type().filter(|text| !is_in_header(text)));
    let scheduled = properties.scheduled_enqueue_time().and_then(date::write);
    set("ScheduledEnqueueTimeUtc", scheduled.as_deref());
    if let Some(time_to_live) = properties.time_to_live().and_then(|time| seconds(time.as_millis())) {
        written.insert("TimeToLive".to_owned(), time_to_live);
    }
    written
}

/// Whether the header `Content-Type` carries a ContentType unchanged. White space at its ends would be removed.
pub(super) fn is_in_header(content_type: &str) -> bool {
    let is_printable = content_type.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    is_printable && !content_type.is_empty() && content_type.trim_ascii() == content_type
}

/// Whole seconds as an integer.
fn seconds(millis: u128) -> Option<Value> {
    let millis = u64::try_from(millis).ok()?;
    if millis.is_multiple_of(1_000) {
        return Some((millis / 1_000).into());
    }
    #[expect(clippy::cast_precision_loss, reason = "that of the format")]
    Number::from_f64(millis as f64 / 1_000.0).map(Value::Number)
}

/// Writes all that a receiver gets.
pub(super) fn write_received(message: &Message, token: Option<LockToken>) -> Map<String, Value> {
    let mut written = write_sent(message.properties());
    if !written.contains_key("TimeToLive")
        && let Some(unlimited) = Number::from_f64(UNLIMITED_WRITTEN)
    {
        written.insert("TimeToLive".to_owned(), Value::Number(unlimited));
    }
    let mut set = |key: &str, value: Value| {
        written.insert(key.to_owned(), value);
    };
    if let Some(token) = token {
        set("LockToken", token.to_string().into());
    }
    if let Some(source) = message.dead_letter_source() {
        set("DeadLetterSource", source.into());
    }
    let Some(received) = message.received() else { return written };
    set("SequenceNumber", received.sequence_number.get().into());
    if received.enqueued_sequence_number.get() > 0 {
        set("EnqueuedSequenceNumber", received.enqueued_sequence_number.get().into());
    }
    set("DeliveryCount", received.delivery_count.into());
    let state = match received.state {
        MessageState::Active => "Active",
        MessageState::Deferred => "Deferred",
        MessageState::Scheduled => "Scheduled",
    };
    set("State", state.into());
    let times = [
        ("EnqueuedTimeUtc", Some(received.enqueued_time)),
        ("LockedUntilUtc", received.locked_until.filter(|_| token.is_some())),
    ];
    for (key, at) in times {
        if let Some(at) = at.and_then(date::write) {
            set(key, at.into());
        }
    }
    written
}

/// Reads what the broker has set. None without a sequence number.
pub(super) fn read_received(properties: &Map<String, Value>) -> Result<Option<Received>, MessageError> {
    let Some(sequence_number) = number(properties, "SequenceNumber")? else { return Ok(None) };
    let enqueued = time(properties, "EnqueuedTimeUtc")?.unwrap_or(Timestamp::EPOCH);
    let count = number(properties, "DeliveryCount")?.unwrap_or(1);
    let count = u32::try_from(count).map_err(|_| invalid("DeliveryCount"))?;
    let mut received = Received::new(SequenceNumber::new(sequence_number), enqueued, count);
    let enqueued_sequence_number = number(properties, "EnqueuedSequenceNumber")?.unwrap_or(0);
    received.enqueued_sequence_number = SequenceNumber::new(enqueued_sequence_number);
    received.locked_until = time(properties, "LockedUntilUtc")?;
    received.state = match text(properties, "State")? {
        None | Some("Active") => MessageState::Active,
        Some("Deferred") => MessageState::Deferred,
        Some("Scheduled") => MessageState::Scheduled,
        Some(_) => return Err(invalid("State")),
    };
    if let Some(time_to_live) = time_to_live(properties)? {
        received.expires_at = enqueued.saturating_add(time_to_live);
    }
    Ok(Some(received))
}

/// Reads the path of the entity where the message was dead-lettered.
pub(super) fn dead_letter_source(properties: &Map<String, Value>) -> Result<Option<&str>, MessageError> {
    text(properties, "DeadLetterSource")
}

/// Reads the lock token.
pub(super) fn lock_token(properties: &Map<String, Value>) -> Result<Option<LockToken>, MessageError> {
    let Some(token) = text(properties, "LockToken")? else { return Ok(None) };
    let token = uuid::Uuid::parse_str(token).map_err(|_| invalid("LockToken"))?;
    Ok(Some(LockToken::from_bytes(token.into_bytes())))
}
