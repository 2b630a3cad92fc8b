//! Random messages, for tests that write a message and read it again.

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Message,
    message::{MessageBody, PropertyValue, Value},
    time::Timestamp,
};
use fastrand::Rng;

use super::samples;

/// Returns a random message without a time to live, a scheduled time and numbers that are not equal to themselves.
///
/// # Panics
///
/// Never: it is valid.
#[must_use]
pub fn message(random: &mut Rng) -> Message {
    let mut message = Message::from_parts(Message::new("").properties().clone(), body(random));
    let properties = message.properties_mut();
    if random.bool() {
        assert!(properties.set_message_id(format!("id {}", text(random))).is_ok(), "a valid id");
    }
    if random.bool() {
        let session = format!("session {}", text(random));
        let set = [
            properties.set_session_id(session.clone()).is_ok(),
            properties.set_partition_key(session.clone()).is_ok(),
            properties.set_reply_to_session_id(session).is_ok(),
        ];
        assert_eq!(set, [true; 3], "valid ids");
    }
    if random.bool() {
        properties.set_content_type(text(random)).set_correlation_id(text(random));
    }
    if random.bool() {
        properties.set_subject(text(random)).set_to(text(random));
    }
    if random.bool() {
        properties.set_reply_to(format!("replies/{}", random.u32(..)));
    }
    for _ in 0..random.usize(..6) {
        let (name, value) = (format!("{}{}", random.choice(NAMES).unwrap_or(&""), text(random)), simple(random));
        properties.application_properties_mut().insert(name, value);
    }
    if random.bool() {
        let rest = properties.pass_through_mut();
        rest.user_id = random.bool().then(|| Bytes::from(text(random)));
        rest.content_encoding = random.bool().then(|| text(random).into());
        // Fields that are all empty are read as none.
        rest.group_sequence = Some(random.u32(..));
        rest.creation_time = random.bool().then(|| Timestamp::from_millis(random.i64(..)));
        (rest.durable, rest.first_acquirer) =
            (random.bool().then(|| random.bool()), random.bool().then(|| random.bool()));
        (rest.priority, rest.force_persistence) = (random.bool().then(|| random.u8(..)), random.bool());
        rest.annotations = (0..random.usize(..4)).map(|nth| (format!("x-opt-{nth}").into(), value(random))).collect();
        rest.footer = (0..random.usize(..2)).map(|nth| (format!("f{nth}").into(), value(random))).collect();
    }
    message
}

/// Returns a random time to live, of whole milliseconds as the formats have it.
#[must_use]
pub fn time_to_live(random: &mut Rng) -> Duration {
    Duration::from_millis(random.u32(1..).into())
}

/// Beginnings of names that have a meaning in a format.
const NAMES: &[&str] =
    &["", "sb-", "Sb-P-", "x-death", "x-delivery-count", "CC", "ce-", "X-", "app_id", "sb-property-"];

fn text(random: &mut Rng) -> String {
    let characters = ['a', 'Z', '0', ' ', '%', '=', '"', '\\', '.', '\t', '\u{7f}', 'é', '€', '🦀'];
    (0..random.usize(..12)).map(|_| *random.choice(&characters).unwrap_or(&'a')).collect()
}

fn simple(random: &mut Rng) -> PropertyValue {
    let all = samples::every_simple_value();
    let value = all[random.usize(..all.len())].clone();
    // A number that is not equal to itself proves nothing.
    if value == value.clone() { value } else { PropertyValue::Null }
}

fn value(random: &mut Rng) -> Value {
    match random.u8(..5) {
        0 => Value::List((0..random.usize(..3)).map(|_| simple(random).into()).collect()),
        1 => Value::Map((0..random.usize(..3)).map(|nth| (format!("k{nth}").into(), simple(random).into())).collect()),
        2 => Value::Symbol("a-symbol".into()),
        _ => simple(random).into(),
    }
}

fn body(random: &mut Rng) -> MessageBody {
    let bytes = |random: &mut Rng| {
        let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
        Bytes::from(bytes)
    };
    match random.u8(..6) {
        0 => MessageBody::sections((0..random.usize(2..4)).map(|_| bytes(random)).collect()),
        1 => value(random).into(),
        2 => MessageBody::Sequence((0..random.usize(1..3)).map(|_| vec![value(random)]).collect()),
        _ => bytes(random).into(),
    }
}
