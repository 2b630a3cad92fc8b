use std::{collections::BTreeMap, fmt::Debug};

use bytes::Bytes;
use consign_amqp::{
    codec,
    mapping::{self, Direction, InboundMessage},
    message::{Batch, BatchBuilder, Body, EncodedMessage, Section, Sections},
    serde::{from_value, to_value},
    value::{Decimal64, Str, Symbol, Timestamp, Uuid, Value},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::shape;

const DIRECTIONS: [Direction; 3] = [Direction::Send, Direction::Deliver, Direction::Peek];
const SECTIONS: [Section; 7] = [
    Section::Header,
    Section::DeliveryAnnotations,
    Section::MessageAnnotations,
    Section::Properties,
    Section::ApplicationProperties,
    Section::Body,
    Section::Footer,
];
/// The most messages of a batch.
const MAX_MESSAGES: usize = 64;

/// Splits bytes as a message, or as a batch of messages if the first bit of the first byte is set. The rest of that byte is the
/// direction.
///
/// # Panics
/// An accepted message has other sections, or is another message, when it is encoded again.
pub fn message(data: &[u8]) {
    let Some((mode, payload)) = data.split_first() else { return };
    let direction = DIRECTIONS[usize::from(mode & 0x7f) % DIRECTIONS.len()];
    let payload = Bytes::copy_from_slice(payload);
    if *mode >= 0x80 {
        batch(payload, direction);
    } else if let Ok(message) = EncodedMessage::split(payload) {
        sections(&message, direction);
    }
}

fn batch(payload: Bytes, direction: Direction) {
    let Ok(batch) = Batch::split(payload, MAX_MESSAGES) else { return };
    assert!((1..=MAX_MESSAGES).contains(&batch.len()));
    let mut messages = Vec::new();
    for message in batch.messages() {
        let Ok(message) = message else { return };
        sections(&message, direction);
        messages.push(message);
    }
    assert_eq!(messages.len(), batch.len());

    let mut builder = BatchBuilder::new(usize::MAX).force(true);
    for message in &messages {
        if builder.try_add(message).is_err() {
            return;
        }
    }
    let size = builder.size();
    let transfer = builder.build().expect("a batch of messages that were split");
    assert_eq!(transfer.payload.len(), size);
    let again = Batch::split(transfer.payload, MAX_MESSAGES).expect("a batch that was built is split");
    let again: Result<Vec<_>, _> = again.messages().collect();
    // Delivery annotations at the end of a message are for the next node only.
    let sent: Result<Vec<_>, _> =
        messages.iter().map(|message| EncodedMessage::split(message.bytes().clone())).collect();
    assert_eq!(again, Ok(sent.expect("a message is split again")));
}

fn sections(message: &EncodedMessage, direction: Direction) {
    let size: usize = SECTIONS.iter().map(|section| message.encoded(*section).len()).sum();
    assert_eq!(size, message.bytes().len(), "each byte belongs to one section");
    let Ok(sections) = Sections::decode(message) else { return };
    let (encoding, again) = encoded_again(&sections);
    assert_eq!(codec::encode(&again), Ok(encoding), "the sections are the same when they are decoded again");

    values(&sections);
    let Ok(inbound) = InboundMessage::from_sections(sections.clone(), direction) else { return };
    let _ = inbound.lock_token();
    let outbound = mapping::to_sections(&inbound.message, direction).expect("a message that was accepted can be sent");
    same_body(&sections.body, &outbound.body);
    let (encoding, again) = encoded_again(&outbound);
    let inbound = InboundMessage::from_sections(again, direction).expect("a message that was sent is accepted");
    let again = mapping::to_sections(&inbound.message, direction).expect("a message that was accepted can be sent");
    assert_eq!(codec::encode(&again), Ok(encoding), "the message is the same when it is sent again");
}

fn same_body(received: &Body, sent: &Body) {
    let same = |received: &Value, sent: &Value| {
        assert!(shape::same(received, sent) || shape::has_instant(received), "{sent:?} instead of {received:?}");
    };
    match (received, sent) {
        // A message without a body is sent with an empty one.
        (Body::Data(received), Body::Data(_)) if received.is_empty() => {}
        (Body::Data(received), Body::Data(sent)) => assert_eq!(sent, received, "the bytes of a body are kept"),
        (Body::Value(received), Body::Value(sent)) => same(received, sent),
        (Body::Sequence(received), Body::Sequence(sent)) => {
            assert_eq!(received.len(), sent.len());
            for (received, sent) in received.iter().zip(sent) {
                same(&received.clone().into(), &sent.clone().into());
            }
        }
        (received, sent) => panic!("{sent:?} instead of {received:?}"),
    }
}

/// The encoding of sections, and what it is decoded as.
fn encoded_again(sections: &Sections) -> (Bytes, Sections) {
    let encoding = codec::encode(sections).expect("what is decoded is encoded");
    let message = EncodedMessage::split(encoding.clone()).expect("what is encoded is split");
    (encoding, Sections::decode(&message).expect("what is encoded is decoded"))
}

/// A type with a field of every kind.
#[derive(Debug, Deserialize, Serialize)]
struct Order {
    sku: String,
    #[serde(default)]
    count: u32,
    price: Option<f64>,
    placed: Option<Timestamp>,
    #[serde(default)]
    ids: Vec<Uuid>,
    state: Option<State>,
    #[serde(default)]
    labels: BTreeMap<String, i64>,
    parent: Option<Box<Order>>,
}

#[derive(Debug, Deserialize, Serialize)]
enum State {
    Open,
    Rejected(String),
    Shipped { at: i64, by: Option<char> },
    Split(Vec<u8>, bool),
}

/// Any integer, or a text: serde buffers the value to decide.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Id {
    Number(i64),
    Text(String),
    List(Vec<Id>),
}

fn values(sections: &Sections) {
    match &sections.body {
        Body::Value(value) => types(value),
        Body::Sequence(lists) => lists.iter().for_each(|list| list.0.iter().for_each(types)),
        Body::Data(_) => {}
    }
    if let Some(properties) = &sections.application_properties {
        properties.0.iter().for_each(|(_, value)| types(value));
    }
}

fn types(value: &Value) {
    serde::<Order>(value);
    serde::<State>(value);
    serde::<Id>(value);
    serde::<Vec<Option<f32>>>(value);
    serde::<(u8, i16, bool)>(value);
    serde::<BTreeMap<Str, Symbol>>(value);
    serde::<Decimal64>(value);
    let _ = from_value::<serde::de::IgnoredAny>(value);
}

/// What is read as a type is written as a value, and is read and written as the same again.
fn serde<T: DeserializeOwned + Serialize + Debug>(value: &Value) {
    match from_value::<T>(value) {
        Ok(read) => {
            let written = to_value(&read).expect("a type that was read is written");
            let again = from_value::<T>(&written).expect("a type that was written is read");
            let encoding = |value| codec::encode(value).expect("a value of a type is encoded");
            assert_eq!(encoding(&to_value(&again).expect("it was written")), encoding(&written), "{read:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
