//! The encodings of values and bodies are in `golden.txt`: messages in queues have them, whatever the version of the sender.

use std::fmt::Write as _;

use bytes::Bytes;
use consign_amqp::codec::Decoder;
use consign_core::{
    Message,
    message::{MessageBody, PropertyValue, Value, limits},
    time::Timestamp,
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};

use super::{body, names, read, tests::stamp, value, write};

const GOLDEN: &str = include_str!("golden.txt");
/// Sizes around those at which AMQP 1.0 has another encoding.
const SIZES: [usize; 8] = [0, 1, 254, 255, 256, 257, 65_535, 65_536];

fn simple() -> Vec<PropertyValue> {
    let mut all = vec![PropertyValue::Null, true.into(), false.into()];
    all.extend([0, 1, 127, 128, u8::MAX].map(PropertyValue::from));
    all.extend([0, 1, 255, 256, u16::MAX].map(PropertyValue::from));
    all.extend([0, 1, 127, 128, 255, 256, 65_535, 65_536, u32::MAX].map(PropertyValue::from));
    all.extend([0, 1, 127, 128, 255, 256, 65_536, 1 << 32, u64::MAX].map(PropertyValue::from));
    all.extend([i8::MIN, -1, 0, 1, i8::MAX].map(PropertyValue::from));
    all.extend([i16::MIN, -129, -128, -1, 0, 127, 128, i16::MAX].map(PropertyValue::from));
    all.extend([i32::MIN, -129, -128, -1, 0, 1, 127, 128, i32::MAX].map(PropertyValue::from));
    all.extend([i64::MIN, -129, -128, -1, 0, 1, 127, 128, i64::MAX].map(PropertyValue::from));
    all.extend([0.0, -0.0, 1.5, f32::MAX, f32::INFINITY, f32::NAN].map(PropertyValue::from));
    all.extend([0.0, -0.0, 1.5, f64::MAX, f64::NEG_INFINITY, f64::NAN].map(PropertyValue::from));
    all.extend(['\0', 'a', 'é', '語', '🦀', char::MAX].map(PropertyValue::from));
    all.extend([PropertyValue::Decimal([0; 16]), PropertyValue::Decimal(*b"0123456789abcdef")]);
    all.extend([PropertyValue::Uuid([0; 16]), PropertyValue::Uuid(*b"0123456789abcdef")]);
    for number in [i64::MIN, -1, 0, 1, 127, 128, 1_700_000_000_123, i64::MAX] {
        all.push(Timestamp::from_millis(number).into());
        all.extend([PropertyValue::DateTimeOffset(number), PropertyValue::TimeSpan(number)]);
    }
    for size in SIZES {
        let text = "a".repeat(size);
        all.extend([PropertyValue::Uri(text.clone().into()), Bytes::from(text.clone()).into(), text.into()]);
    }
    all.extend(["é語🦀\0".into(), PropertyValue::Uri("é:語".into()), Bytes::from_static(b"\xff\0").into()]);
    all
}

fn described(descriptor: Value, value: Value) -> Value {
    Value::Described(Box::new((descriptor, value)))
}

fn symbol(text: &str) -> Value {
    Value::Symbol(text.into())
}

fn values() -> Vec<Value> {
    let mut all: Vec<Value> = simple().into_iter().map(Value::from).collect();
    all.extend(SIZES.map(|size| symbol(&"s".repeat(size))));
    // AMQP 1.0 has only ASCII in symbols. The names of headers of other publishers are symbols here.
    all.push(symbol("größe"));
    let one = Value::from(1_u8);
    for size in [0, 1, 2, 124, 125, 126, 127, 128, 255, 256] {
        let values = vec![one.clone(); size];
        all.push(Value::Map(values.iter().cloned().map(|value| (value, PropertyValue::Null.into())).collect()));
        all.extend([Value::Array(values.clone()), Value::List(values)]);
    }
    let mixed = vec![one.clone(), Value::from("two"), Value::List(vec![]), Value::Array(vec![]), Value::Map(vec![])];
    all.extend([Value::Array(mixed.clone()), Value::List(mixed.clone())]);
    let list = Value::List(mixed);
    all.push(Value::Map(vec![(list.clone(), list.clone()), (symbol("k"), one.clone()), (symbol("k"), list.clone())]));
    let descriptors = [Value::from(0_u64), Value::from(0x70_u64), Value::from(u64::MAX), symbol("d"), list.clone()];
    all.extend(descriptors.map(|descriptor| described(descriptor, list.clone())));
    // Of the names of this library and of .NET, with values of other types.
    for name in ["consign:array", "com.microsoft:datetime-offset", "com.microsoft:timespan", "com.microsoft:uri"] {
        all.extend([described(symbol(name), one.clone()), described(Value::from(name), list.clone())]);
    }
    all.push(Value::Array(vec![described(symbol("d"), one), described(symbol("e"), list)]));
    all.extend(deepest());
    all
}

/// A value of each kind with as many levels as a message may have.
fn deepest() -> [Value; 4] {
    let wrap: [fn(Value) -> Value; 4] = [
        |inner| Value::List(vec![inner]),
        |inner| Value::Array(vec![inner]),
        |inner| Value::Map(vec![(Value::from("k"), inner)]),
        |inner| described(symbol("d"), inner),
    ];
    let uri = || Value::from(PropertyValue::Uri("a:b".into()));
    wrap.map(|wrap| (1..limits::VALUE_LEVELS).fold(uri(), |inner, _| wrap(inner)))
}

fn bodies() -> Vec<MessageBody> {
    let bytes = |size: usize| Bytes::from("b".repeat(size));
    let mut all = vec![
        MessageBody::sections(vec![bytes(0), bytes(1), bytes(255), bytes(256), bytes(65_536)]),
        MessageBody::Sequence([vec![], vec![Value::from(1_u32)], vec![Value::from("two"); 256]].into()),
        MessageBody::Sequence([deepest().to_vec()].into()),
    ];
    all.extend(simple().into_iter().take(8).map(|value| MessageBody::from(Value::from(value))));
    all.extend(deepest().map(MessageBody::from));
    all
}

fn annotated() -> Message {
    let mut message = Message::builder().message_id("m").build("").unwrap();
    let rest = message.properties_mut().pass_through_mut();
    rest.annotations = [("x-opt-a".into(), Value::from(1_i64)), ("größe".into(), Value::from("g"))].into();
    rest.annotations.extend(deepest().map(|value| ("deep".into(), value)));
    rest.footer = vec![("f".into(), Value::from(false)), ("".into(), Value::Array(vec![]))];
    message
}

/// The headers of annotations and of a footer.
fn annotations() -> [Bytes; 2] {
    let written = write(&annotated(), &stamp()).unwrap();
    let headers = written.properties.headers().clone().unwrap();
    [names::ANNOTATIONS, names::FOOTER].map(|name| match headers.inner().get(name) {
        Some(AMQPValue::ByteArray(bytes)) => Bytes::copy_from_slice(bytes.as_slice()),
        other => panic!("{other:?}"),
    })
}

/// Hexadecimal; `61*256` is 256 bytes 0x61.
fn notation(bytes: &[u8]) -> String {
    let mut out = String::new();
    for run in bytes.chunk_by(|one, other| one == other) {
        match run {
            [first, ..] if run.len() > 4 => write!(out, " {first:02x}*{}", run.len()).unwrap(),
            _ => run.iter().for_each(|byte| write!(out, " {byte:02x}").unwrap()),
        }
    }
    out.trim_start().to_owned()
}

fn bytes_of(line: &str) -> Bytes {
    let runs = line.split_whitespace().flat_map(|run| {
        let (byte, count) = run.split_once('*').unwrap_or((run, "1"));
        std::iter::repeat_n(u8::from_str_radix(byte, 16).unwrap(), count.parse().unwrap())
    });
    runs.collect()
}

fn encode(value: &Value) -> Bytes {
    value::encode(&[value::to_amqp(value)]).unwrap()
}

fn decode(bytes: &Bytes) -> Value {
    let mut decoder = Decoder::with_limits(bytes, value::decoding(bytes.len()));
    let value = decoder.value().unwrap();
    decoder.finish().unwrap();
    value::from_amqp(value).unwrap()
}

fn all() -> Vec<Bytes> {
    let values = values();
    let bodies = bodies();
    let bodies = bodies.iter().map(|body| body::encode(body).unwrap().0);
    values.iter().map(encode).chain(bodies).chain(annotations()).collect()
}

/// Rules: K-118.
#[test]
fn the_encoding_does_not_change() {
    let all = all();
    assert_eq!(all.len(), GOLDEN.lines().count());
    for (number, (bytes, line)) in all.iter().zip(GOLDEN.lines()).enumerate() {
        assert!(*bytes == bytes_of(line), "line {}: {} instead of {line}", number + 1, notation(bytes));
    }
}

/// Rules: K-116, K-118.
#[test]
fn every_stored_encoding_is_read() {
    let mut lines = GOLDEN.lines();
    for value in values() {
        let line = lines.next().unwrap();
        let back = decode(&bytes_of(line));
        // A float that is not a number is not equal to itself.
        assert!(back == value || encode(&back) == encode(&value), "{line}");
    }
    for body in bodies() {
        let line = lines.next().unwrap();
        assert!(body::decode(bytes_of(line)).unwrap() == body, "{line}");
    }
    let mut headers = FieldTable::default();
    for name in [names::ANNOTATIONS, names::FOOTER] {
        headers.insert(name.into(), AMQPValue::ByteArray(bytes_of(lines.next().unwrap())[..].into()));
    }
    let raw = BasicProperties::default().with_headers(headers);
    let (message, _) = read(&raw, Bytes::new(), |malformed| panic!("{malformed:?}"));
    let (read, written) = (message.pass_through().unwrap(), annotated());
    let written = written.pass_through().unwrap();
    assert!(read.annotations == written.annotations && read.footer == written.footer);
}
