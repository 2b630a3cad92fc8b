//! A message as Service Bus delivers it, for both libraries.

use bytes::Bytes;
use consign_amqp::{
    codec,
    message::{
        Annotations, ApplicationProperties, Body, DeliveryAnnotations, EncodedMessage, Header, MessageAnnotations,
        Properties, Sections,
    },
    value::{Str, Symbol, Timestamp, Uuid, Value},
};
use fe2o3_amqp_types::messaging::{
    Body as PeerBody, Message,
    message::{__private::Serializable, DecodeIntoMessage},
};
use serde_amqp::{Value as PeerValue, read::SliceReader};

pub(crate) type PeerMessage = Message<PeerBody<PeerValue>>;

/// Every section of it, decoded.
pub(crate) fn decode(bytes: &Bytes) -> Sections {
    let message = EncodedMessage::split(bytes.clone()).expect("a message");
    Sections::decode(&message).expect("a message")
}

pub(crate) fn peer_decode(bytes: &[u8]) -> PeerMessage {
    PeerBody::decode_message_from_reader(SliceReader::new(bytes)).expect("a message")
}

/// As its sender does.
pub(crate) fn peer_encode(message: &PeerMessage) -> Vec<u8> {
    serde_amqp::to_vec(&Serializable(message)).expect("a message")
}

/// The message in its encoding.
pub(crate) fn encoded() -> Bytes {
    codec::encode(&sections()).expect("a message")
}

/// The message as a client sends it: without what only a broker adds, which the plugin of RabbitMQ does not read from a client.
pub(crate) fn sent() -> Sections {
    Sections { delivery_annotations: None, message_annotations: None, ..sections() }
}

pub(crate) fn sections() -> Sections {
    let symbol = Symbol::from_static;
    let now = Timestamp(1_700_000_000_123);
    let lock_token = Annotations(vec![(symbol("x-opt-lock-token"), Uuid([7; 16]).into())]);
    let annotations = Annotations(vec![
        (symbol("x-opt-enqueued-time"), now.into()),
        (symbol("x-opt-sequence-number"), 72_057_594_037_927_936_i64.into()),
        (symbol("x-opt-partition-id"), 3_i16.into()),
        (symbol("x-opt-locked-until"), Timestamp(now.0 + 60_000).into()),
    ]);
    let application: [(&'static str, Value); 5] = [
        ("tenant", "contoso".into()),
        ("order-id", 4_711_000_i64.into()),
        ("attempt", 2_i32.into()),
        ("express", true.into()),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
    ];
    Sections {
        header: Some(Header { durable: true, ttl: Some(3_600_000), ..Header::default() }),
        delivery_annotations: Some(DeliveryAnnotations(lock_token)),
        message_annotations: Some(MessageAnnotations(annotations)),
        properties: Some(Properties {
            message_id: Some("8c9a6f2e5b0d4c9f9d1f3f1b7a2e6d55".into()),
            subject: Some("order-placed".into()),
            reply_to: Some("replies".into()),
            correlation_id: Some("b1d0c7c2f0e84e3a".into()),
            content_type: Some(symbol("application/json")),
            absolute_expiry_time: Some(Timestamp(now.0 + 3_600_000)),
            creation_time: Some(now),
            group_id: Some("customer-17".into()),
            ..Properties::default()
        }),
        application_properties: Some(ApplicationProperties(
            application.into_iter().map(|(name, value)| (Str::from_static(name), value)).collect(),
        )),
        body: Body::Data(vec![vec![b'x'; 1_024].into()]),
        footer: None,
    }
}
