//! Messages for tests, with everything that a message can hold.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use consign_core::{
    message::{ApplicationProperties, Message, MessageBody, PassThrough, Properties, PropertyValue, Stored, Value},
    time::Timestamp,
};
use fastrand::Rng;

pub(super) const SIXTEEN: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x7f, 0x80, 0xff];

/// Returns a random generator from the seed of the test, or another seed each time; prints the command that replays
/// it.
pub(super) fn random(test: &str) -> Rng {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    eprintln!("SEED={seed} cargo test -p consign-broker --features durable --lib {test}");
    Rng::with_seed(seed)
}

/// One of each kind of simple value, in the order of the type, with what is at the edge of its range.
pub(super) fn every_simple_value() -> Vec<PropertyValue> {
    vec![
        PropertyValue::Null,
        true.into(),
        u8::MAX.into(),
        u16::MAX.into(),
        u32::MAX.into(),
        u64::MAX.into(),
        i8::MIN.into(),
        i16::MIN.into(),
        i32::MIN.into(),
        i64::MIN.into(),
        (-0.0_f32).into(),
        f64::MIN_POSITIVE.into(),
        '\u{10ffff}'.into(),
        "a \"text\" of\n\u{0}€ characters".into(),
        PropertyValue::Decimal(SIXTEEN),
        PropertyValue::Uuid(SIXTEEN),
        Timestamp::from_millis(1_700_000_000_123).into(),
        PropertyValue::DateTimeOffset(638_000_000_000_000_001),
        PropertyValue::TimeSpan(-1),
        PropertyValue::Uri("amqp://host/é".into()),
        Bytes::from_static(&[0, 0x80, 0xff]).into(),
    ]
}

/// Both ends of each range, and floating-point numbers that are not finite or not equal to themselves.
pub(super) fn extremes() -> Vec<PropertyValue> {
    let mut values = vec![false.into(), u8::MIN.into(), u16::MIN.into(), u32::MIN.into(), u64::MIN.into()];
    values.extend([i8::MAX.into(), i16::MAX.into(), i32::MAX.into(), 0_i64.into(), i64::MAX.into()]);
    values.extend(
        [0x7fc0_0000, 0xffa0_0001, 0x7f80_0000, 0xff80_0000, 1, 0x7f7f_ffff].map(|bits| f32::from_bits(bits).into()),
    );
    values.extend(
        [0x7ff8 << 48, 0xfff4_0000_0000_0001, 0x7ff0 << 48, 0xfff0 << 48, 1 << 63, 1, 0x7fef_ffff_ffff_ffff]
            .map(|bits| f64::from_bits(bits).into()),
    );
    values.extend(['\0', 'é'].map(PropertyValue::from));
    values.extend(["", "0x10", "null"].map(PropertyValue::from));
    values.extend([i64::MIN, -1, i64::MAX].map(|millis| Timestamp::from_millis(millis).into()));
    values.extend([i64::MIN, i64::MAX].map(PropertyValue::DateTimeOffset));
    values.extend([i64::MIN, i64::MAX].map(PropertyValue::TimeSpan));
    values.extend([PropertyValue::Uri("".into()), Bytes::new().into(), PropertyValue::Uuid([0; 16])]);
    values
}

pub(super) fn every_value() -> Vec<Value> {
    let simple: Vec<Value> = every_simple_value().into_iter().map(Value::Simple).collect();
    vec![
        Value::Symbol("a:symbol".into()),
        Value::List(simple.clone()),
        Value::List(vec![]),
        Value::Map(simple.iter().map(|value| (value.clone(), Value::Symbol("".into()))).collect()),
        Value::Array(vec![1.into(), 2.into()]),
        Value::Described(Box::new((Value::Symbol("d".into()), Value::List(simple)))),
    ]
}

pub(super) fn every_body() -> Vec<MessageBody> {
    let mut bodies = vec![
        MessageBody::empty(),
        MessageBody::from("text"),
        MessageBody::from(&[0, 0xff, 0x80]),
        MessageBody::sections(vec![Bytes::from_static(b"a"), Bytes::new(), Bytes::from_static(&[0xff])]),
        MessageBody::Sequence([].into()),
        MessageBody::Sequence([vec![], every_value()].into()),
    ];
    bodies.extend(every_value().into_iter().map(MessageBody::from));
    bodies.extend(every_simple_value().into_iter().map(|value| MessageBody::from(Value::Simple(value))));
    bodies
}

pub(super) fn every_property() -> Properties {
    let mut properties = Properties::new();
    properties.set_content_type("application/json").set_correlation_id("c").set_subject("s").set_reply_to("r");
    properties.set_to("t").set_scheduled_enqueue_time(Timestamp::from_millis(-1));
    properties.set_message_id("m").unwrap().set_session_id("").unwrap().set_reply_to_session_id("é").unwrap();
    properties.set_partition_key("").unwrap().set_transaction_partition_key("p").unwrap();
    properties.set_time_to_live(Duration::new(3, 500_000_001)).unwrap();
    let values = every_simple_value().into_iter().enumerate();
    *properties.application_properties_mut() = values.map(|(index, value)| (format!("key {index}"), value)).collect();
    *properties.pass_through_mut() = {
        let mut value = PassThrough::default();
        value.user_id = Some(Bytes::from_static(&[0xff]));
        value.content_encoding = Some("gzip".into());
        value.group_sequence = Some(u32::MAX);
        value.creation_time = Some(Timestamp::MAX);
        value.durable = Some(true);
        value.priority = Some(9);
        value.first_acquirer = Some(false);
        value.force_persistence = true;
        value.annotations = every_value().into_iter().map(|value| ("x-opt-a".into(), value)).collect();
        value.footer = vec![("f".into(), Value::from(1))];
        value
    };
    properties
}

pub(super) fn random_message(random: &mut Rng) -> Stored {
    let mut message = Stored::new(Message::from_parts(random_properties(random), random_body(random)));
    if let Some(path) = maybe(random, text) {
        message.set_dead_letter_source(&path);
    }
    message
}

fn maybe<T>(random: &mut Rng, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    random.bool().then(|| make(random))
}

pub(super) fn some<T>(random: &mut Rng, mut make: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    (0..random.usize(0..4)).map(|_| make(random)).collect()
}

pub(super) fn text(random: &mut Rng) -> String {
    (0..random.usize(0..20)).map(|_| if random.bool() { random.alphanumeric() } else { random.char(..) }).collect()
}

fn short_text(random: &mut Rng) -> String {
    let any = text(random);
    if any.is_empty() { "x".to_owned() } else { any }
}

pub(super) fn bytes(random: &mut Rng) -> Bytes {
    (0..random.usize(0..300)).map(|_| random.u8(..)).collect()
}

/// Of any magnitude.
pub(super) fn number(random: &mut Rng) -> u64 {
    random.u64(..) >> random.u32(0..64)
}

pub(super) fn instant(random: &mut Rng) -> Timestamp {
    Timestamp::from_millis(number(random).cast_signed())
}

fn random_properties(random: &mut Rng) -> Properties {
    let mut properties = Properties::new();
    let mut chosen = |properties: &mut Properties, set: fn(&mut Properties, String)| {
        if let Some(text) = maybe(random, short_text) {
            set(properties, text);
        }
    };
    chosen(&mut properties, |it, text| _ = it.set_content_type(text));
    chosen(&mut properties, |it, text| _ = it.set_correlation_id(text));
    chosen(&mut properties, |it, text| _ = it.set_message_id(text).unwrap());
    chosen(&mut properties, |it, text| _ = it.stamp_message_id(text).unwrap());
    chosen(&mut properties, |it, text| _ = it.set_subject(text));
    chosen(&mut properties, |it, text| _ = it.set_reply_to(text));
    chosen(&mut properties, |it, text| _ = it.set_partition_key(text).unwrap());
    chosen(&mut properties, |it, text| _ = it.set_session_id(text).unwrap());
    chosen(&mut properties, |it, text| _ = it.set_reply_to_session_id(text).unwrap());
    chosen(&mut properties, |it, text| _ = it.set_transaction_partition_key(text).unwrap());
    chosen(&mut properties, |it, text| _ = it.set_to(text));
    if let Some(millis) = maybe(random, number) {
        properties.set_time_to_live(Duration::from_millis(millis.max(1))).unwrap();
    }
    if let Some(instant) = maybe(random, instant) {
        properties.set_scheduled_enqueue_time(instant);
    }
    let application: ApplicationProperties =
        some(random, |random| (text(random), simple_value(random))).into_iter().collect();
    *properties.application_properties_mut() = application;
    if let Some(rest) = maybe(random, pass_through) {
        *properties.pass_through_mut() = rest;
    }
    properties
}

fn pass_through(random: &mut Rng) -> PassThrough {
    let pairs = |random: &mut Rng| some(random, |random| (Cow::Owned(text(random)), value(random, 2)));
    {
        let mut value = PassThrough::default();
        value.user_id = maybe(random, bytes);
        value.content_encoding = maybe(random, text).map(Cow::Owned);
        value.group_sequence = maybe(random, |random| random.u32(..));
        value.creation_time = maybe(random, instant);
        value.durable = maybe(random, Rng::bool);
        value.priority = maybe(random, |random| random.u8(..));
        value.first_acquirer = maybe(random, Rng::bool);
        value.force_persistence = random.bool();
        value.annotations = pairs(random);
        value.footer = pairs(random);
        value
    }
}

pub(super) fn random_body(random: &mut Rng) -> MessageBody {
    match random.u8(0..4) {
        0 => bytes(random).into(),
        1 => MessageBody::sections(some(random, bytes)),
        2 => value(random, 4).into(),
        _ => MessageBody::Sequence(some(random, |random| some(random, |random| value(random, 3))).into()),
    }
}

pub(super) fn simple_value(random: &mut Rng) -> PropertyValue {
    match random.u8(0..21) {
        0 => PropertyValue::Null,
        1 => random.bool().into(),
        2 => random.u8(..).into(),
        3 => random.u16(..).into(),
        4 => random.u32(..).into(),
        5 => number(random).into(),
        6 => random.i8(..).into(),
        7 => random.i16(..).into(),
        8 => random.i32(..).into(),
        9 => number(random).cast_signed().into(),
        10 => Some(f32::from_bits(random.u32(..))).filter(|float| !float.is_nan()).unwrap_or(0.5).into(),
        11 => Some(f64::from_bits(random.u64(..))).filter(|float| !float.is_nan()).unwrap_or(0.5).into(),
        12 => random.char(..).into(),
        13 => text(random).into(),
        14 => PropertyValue::Decimal(random.u128(..).to_le_bytes()),
        15 => PropertyValue::Uuid(random.u128(..).to_le_bytes()),
        16 => instant(random).into(),
        17 => PropertyValue::DateTimeOffset(random.i64(..)),
        18 => PropertyValue::TimeSpan(number(random).cast_signed()),
        19 => PropertyValue::Uri(text(random).into()),
        _ => bytes(random).into(),
    }
}

fn value(random: &mut Rng, depth: usize) -> Value {
    let inner = |random: &mut Rng| value(random, depth - 1);
    match if depth == 0 { 0 } else { random.u8(0..7) } {
        0 | 1 => simple_value(random).into(),
        2 => Value::Symbol(text(random).into()),
        3 => Value::List(some(random, inner)),
        4 => Value::Array(some(random, inner)),
        5 => Value::Map(some(random, |random| (inner(random), inner(random)))),
        _ => Value::Described(Box::new((inner(random), inner(random)))),
    }
}
