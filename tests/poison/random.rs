//! Messages of every shape, dead-lettered: nothing of them changes.

use std::env;

use bytes::Bytes;
use consign::{
    Message,
    administration::QueueSettings,
    broker::Broker,
    codecs::Codecs,
    message::{MessageBody, PropertyValue, Value},
    routing::{self, Router},
    time::Timestamp,
};
use fastrand::Rng;
use serde::{Deserialize, Deserializer, de::Error};

use crate::support::{consume, dead_letters, hash, reason, send, sent_properties};

/// What no body is.
struct Never;

impl<'de> Deserialize<'de> for Never {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("never"))
    }
}

async fn never(_: routing::Body<Never>) {
    unreachable!("no body is a `Never`")
}

/// Rules: P-43, P-44.
#[tokio::test(start_paused = true)]
async fn random_messages_are_kept_to_the_byte() {
    let number = |name, default| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seed, cases) = (number("SEED", 7), number("CONSIGN_CASES", 1_000));
    let replay = format!("SEED={seed} CONSIGN_CASES={cases} cargo test --features full --test poison random_messages");

    let mut rng = Rng::with_seed(seed);
    let sent: Vec<_> = (0..cases).map(|number| message(&mut rng, number)).collect();
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    send(&queue, sent.iter().cloned()).await;
    let router = Router::new(Codecs::json()).fallback(never).route("no-body", |_: routing::SessionId| async {});
    let stats = consume(&queue, router.build().unwrap()).await;
    assert_eq!((stats.handled(), stats.dead_lettered()), (cases, cases), "{replay}");

    let dead = dead_letters(&queue).await;
    assert_eq!(dead.len(), sent.len(), "{replay}");
    for (number, (dead, sent)) in dead.iter().zip(&sent).enumerate() {
        assert_eq!(dead.received().map(|received| received.delivery_count), Some(1), "{number}: {replay}");
        assert_eq!(hash(dead.body()), hash(sent.body()), "{number}: {replay}");
        assert_eq!(dead.body(), sent.body(), "{number}: {replay}");
        assert_eq!(&sent_properties(dead), sent.properties(), "{number}: {replay}");
        assert!(!reason(dead).is_empty(), "{number}: {replay}");
    }
}

/// Some without what their handler needs, the others of a type that they are not.
fn message(rng: &mut Rng, number: u64) -> Message {
    const TYPES: [&str; 7] =
        ["application/json", "text/json; Charset=\"UTF-8\"", "application/vnd.a+json", "json", "", "a/b", "\u{1b}[0m"];
    let mut builder = Message::builder().message_id(format!("{number} {}", text(rng)));
    if rng.bool() {
        builder = builder.content_type(*rng.choice(&TYPES).unwrap());
    }
    builder = if rng.bool() { builder.subject("no-body") } else { builder.subject(text(rng)).session_id(text(rng)) };
    if rng.bool() {
        builder = builder.correlation_id(text(rng)).reply_to(text(rng)).reply_to_session_id(text(rng));
    }
    if rng.bool() {
        builder = builder.to(text(rng)).transaction_partition_key(text(rng));
        builder = builder.scheduled_enqueue_time(Timestamp::from_millis(rng.i64(0..1_000_000)));
    }
    for key in 0..rng.usize(0..20) {
        builder = builder.property(format!("{key} {}", text(rng)), property(rng));
    }
    let mut message = builder.build(body(rng)).unwrap();
    if rng.u8(0..4) == 0 {
        let rest = message.properties_mut().pass_through_mut();
        rest.content_encoding = Some(text(rng).into());
        rest.user_id = Some(bytes(rng).into());
        rest.priority = Some(rng.u8(..));
        rest.annotations.push(("x-opt-mine".into(), value(rng, 2)));
        rest.footer.push(("crc".into(), Value::Symbol(text(rng).into())));
    }
    message
}

fn body(rng: &mut Rng) -> MessageBody {
    match rng.u8(0..8) {
        0 => MessageBody::empty(),
        1 => MessageBody::sections((0..rng.usize(0..4)).map(|_| Bytes::from(bytes(rng))).collect()),
        2 => MessageBody::from(value(rng, 3)),
        3 => MessageBody::Sequence(vec![vec![value(rng, 2), value(rng, 2)]].into()),
        4 => MessageBody::from(format!(r#"{{"text":{:?}}}"#, text(rng))),
        _ => MessageBody::from(bytes(rng)),
    }
}

fn value(rng: &mut Rng, depth: usize) -> Value {
    match rng.u8(..) % if depth == 0 { 2 } else { 5 } {
        0 => Value::Simple(property(rng)),
        1 => Value::Symbol(text(rng).into()),
        2 => Value::List((0..rng.usize(0..4)).map(|_| value(rng, depth - 1)).collect()),
        3 => Value::Map((0..rng.usize(0..4)).map(|_| (value(rng, 0), value(rng, depth - 1))).collect()),
        _ => Value::Described(Box::new((Value::Symbol("a:b".into()), value(rng, depth - 1)))),
    }
}

fn property(rng: &mut Rng) -> PropertyValue {
    match rng.u8(0..12) {
        0 => PropertyValue::Null,
        1 => PropertyValue::Bool(rng.bool()),
        2 => PropertyValue::U64(rng.u64(..)),
        3 => PropertyValue::I64(rng.i64(..)),
        4 => PropertyValue::F64(rng.f64() * -1e300),
        5 => PropertyValue::Char(rng.char(..)),
        6 => PropertyValue::Uuid(rng.u128(..).to_be_bytes()),
        7 => PropertyValue::DateTime(Timestamp::from_millis(rng.i64(0..1 << 40))),
        8 => PropertyValue::TimeSpan(rng.i64(..)),
        9 => PropertyValue::Uri(text(rng).into()),
        10 => PropertyValue::Bytes(bytes(rng).into()),
        _ => PropertyValue::String(text(rng).into()),
    }
}

/// Up to 24 characters, so that an identifier stays under its limit.
fn text(rng: &mut Rng) -> String {
    (0..rng.usize(0..24)).map(|_| if rng.bool() { rng.char(' '..='~') } else { rng.char(..) }).collect()
}

fn bytes(rng: &mut Rng) -> Vec<u8> {
    let len = rng.usize(0..400);
    std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
}
