use std::env;

use consign_amqp::{
    mapping::{Direction, annotation},
    message::{
        Annotations, ApplicationProperties, Body, Footer, Header, MessageAnnotations, MessageId, Properties, Sections,
    },
    value::{List, Symbol, Timestamp, Uuid, Value, ValueType},
};
use fastrand::Rng;

use crate::{generate, read, sorted, write};

const LAST: i64 = 253_402_300_799_999;

/// Runs the cases; a failure prints the command that repeats them.
fn for_each_case(test: &str, cases: u64, mut case: impl FnMut(&mut Rng)) {
    let number = |name, otherwise| env::var(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let (seed, cases) = (number("SEED", 7), number("CONSIGN_CASES", cases));
    let mut rng = Rng::with_seed(seed);
    for index in 0..cases {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut rng)));
        if let Err(panic) = outcome {
            let features = "--features message -- --include-ignored";
            eprintln!(
                "case {index}; repeat: SEED={seed} CONSIGN_CASES={cases} cargo test -p consign-amqp {features} {test}"
            );
            std::panic::resume_unwind(panic);
        }
    }
}

fn maybe<T>(rng: &mut Rng, value: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    rng.bool().then(|| value(rng))
}

fn text(rng: &mut Rng) -> String {
    (0..rng.usize(0..20)).map(|_| rng.char(..)).collect()
}

fn symbol(rng: &mut Rng) -> Symbol {
    (0..rng.usize(0..20)).map(|_| rng.alphanumeric()).collect::<String>().try_into().unwrap()
}

fn instant(rng: &mut Rng) -> Timestamp {
    Timestamp(rng.i64(-1_000..LAST))
}

fn id(rng: &mut Rng) -> MessageId {
    match rng.u8(0..4) {
        0 => MessageId::Ulong(rng.u64(..) >> rng.u32(0..64)),
        1 => MessageId::Uuid(Uuid(rng.u128(..).to_be_bytes())),
        2 => MessageId::Binary((0..rng.usize(1..=64)).map(|_| rng.u8(..)).collect::<Vec<_>>().into()),
        _ => MessageId::String(format!("s{}", text(rng)).as_str().into()),
    }
}

/// Timestamps later than the last one saturate.
fn saturated(value: Value) -> Value {
    match value {
        Value::Timestamp(at) => Timestamp(at.0.min(LAST)).into(),
        Value::List(List(values)) => values.into_iter().map(saturated).collect::<List>().into(),
        Value::Map(map) => {
            map.0.into_iter().map(|(k, v)| (saturated(k), saturated(v))).collect::<consign_amqp::value::Map>().into()
        }
        Value::Array(array) => {
            let (element, descriptors) = (array.element_type(), array.descriptors().to_vec());
            let values = array.into_values().into_iter().map(saturated).collect();
            consign_amqp::value::Array::described(descriptors, element, values).unwrap().into()
        }
        Value::Described(pair) => {
            consign_amqp::value::Described { descriptor: saturated(pair.descriptor), value: saturated(pair.value) }
                .into()
        }
        other => other,
    }
}

fn value(rng: &mut Rng) -> Value {
    saturated(generate::value(rng, 3))
}

fn own_annotations(rng: &mut Rng) -> Vec<(Symbol, Value)> {
    (0..rng.usize(0..4)).map(|n| (format!("x-{n}-{}", rng.alphanumeric()).try_into().unwrap(), value(rng))).collect()
}

fn body(rng: &mut Rng) -> Body {
    match rng.u8(0..4) {
        0 => Body::Value(value(rng)),
        1 => Body::Sequence(
            (0..rng.usize(1..4)).map(|_| (0..rng.usize(0..4)).map(|_| value(rng)).collect::<List>()).collect(),
        ),
        _ => {
            let bytes = |rng: &mut Rng| (0..rng.usize(0..20)).map(|_| rng.u8(..)).collect::<Vec<_>>().into();
            Body::Data((0..rng.usize(1..4)).map(|_| bytes(rng)).collect())
        }
    }
}

fn application(rng: &mut Rng) -> ApplicationProperties {
    let mut properties = ApplicationProperties::default();
    for n in 0..rng.usize(1..5) {
        let of_type = generate::SCALARS[rng.usize(..generate::SCALARS.len())];
        if !matches!(of_type, ValueType::Decimal32 | ValueType::Decimal64 | ValueType::Symbol) {
            properties.push(format!("{n}{}", text(rng)), saturated(generate::scalar(rng, of_type)));
        }
    }
    properties
}

/// Sections as they are written for a message.
fn sections(rng: &mut Rng, direction: Direction) -> Sections {
    let is_received = direction != Direction::Send && rng.bool();
    let session = maybe(rng, text);
    let mut annotations = own_annotations(rng);
    let mut push = |name: &'static str, value: Value| annotations.push((Symbol::from_static(name), value));
    if rng.bool() {
        push(annotation::PARTITION_KEY, session.clone().unwrap_or_else(|| text(rng)).into());
    }
    if rng.bool() {
        push(annotation::SCHEDULED_ENQUEUE_TIME, instant(rng).into());
    }
    if is_received {
        push(annotation::SEQUENCE_NUMBER, rng.i64(..).into());
        push(annotation::ENQUEUED_TIME, instant(rng).into());
        if rng.bool() {
            push(annotation::ENQUEUE_SEQUENCE_NUMBER, rng.i64(1..).into());
        }
        if rng.bool() {
            push(annotation::LOCKED_UNTIL, instant(rng).into());
        }
        if direction == Direction::Peek {
            push(annotation::MESSAGE_STATE, rng.i32(0..3).into());
        }
    }
    let properties = Properties {
        message_id: maybe(rng, id),
        user_id: maybe(rng, |rng| vec![rng.u8(..)].into()),
        to: maybe(rng, |rng| text(rng).into()),
        subject: maybe(rng, |rng| text(rng).into()),
        reply_to: maybe(rng, |rng| text(rng).into()),
        correlation_id: maybe(rng, id),
        content_type: maybe(rng, symbol),
        content_encoding: maybe(rng, symbol),
        absolute_expiry_time: if is_received { Some(instant(rng)) } else { maybe(rng, instant) },
        creation_time: maybe(rng, instant),
        group_id: session.map(Into::into),
        group_sequence: maybe(rng, |rng| rng.u32(..)),
        reply_to_group_id: maybe(rng, |rng| text(rng).into()),
    };
    let application = application(rng);
    let footer = own_annotations(rng);
    Sections {
        header: Some(Header {
            durable: rng.bool(),
            priority: rng.u8(..),
            ttl: maybe(rng, |rng| rng.u32(1..)),
            first_acquirer: rng.bool(),
            delivery_count: if is_received { rng.u32(..u32::MAX) } else { 0 },
        }),
        delivery_annotations: None,
        message_annotations: (!annotations.is_empty()).then(|| MessageAnnotations(Annotations(annotations))),
        properties: (properties != Properties::default()).then_some(properties),
        application_properties: (!application.0.is_empty()).then_some(application),
        body: body(rng),
        footer: (!footer.is_empty()).then(|| Footer(Annotations(footer))),
    }
}

fn round_trip(rng: &mut Rng) {
    let direction = [Direction::Send, Direction::Deliver, Direction::Peek][rng.usize(..3)];
    let sections = sections(rng, direction);
    let message = read(&sections, direction).unwrap().message;
    assert_eq!(sorted(write(&message, direction)), sorted(sections), "{direction:?}");
}

/// Rules: U-12, A-03.
#[test]
fn random_messages_have_the_same_sections_behind_a_message() {
    for_each_case("random_messages_have_the_same_sections_behind_a_message", 3_000, round_trip);
}

/// Rules: U-12.
#[test]
#[ignore = "long"]
fn many_random_messages_have_the_same_sections_behind_a_message() {
    for_each_case("many_random_messages_have_the_same_sections_behind_a_message", 100_000, round_trip);
}
