//! HTTP to AMQP 1.0 and back.

use std::time::Duration;

use consign_amqp::{
    client::{Connection, Options},
    codec,
    engine::SaslCredentials,
    mapping::{self, Direction, InboundMessage},
    message::EncodedMessage,
    types::{Accepted, DeliveryState},
};
use consign_core::{Message, administration::QueueSettings, message::PropertyValue};

use crate::support::Harness;

async fn session(harness: &Harness) -> consign_amqp::client::Session {
    let (client, server) = tokio::io::duplex(1 << 16);
    tokio::spawn(harness.server.serve_stream(server));
    let mut engine = consign_amqp::engine::Options::default();
    engine.sasl_client = Some(SaslCredentials::anonymous());
    let options = Options::new("client").timeout(Duration::from_secs(60)).engine(engine);
    Connection::open(client, options).await.unwrap().begin().await.unwrap()
}

/// Receives one message over AMQP, and sends it on as a client would.
async fn over_amqp(harness: &Harness) -> Message {
    let session = session(harness).await;
    let mut receiver = session.attach_receiver("receiver", "q").await.unwrap();
    receiver.set_automatic_credit(1).unwrap();
    let delivery = receiver.recv().await.unwrap();
    let encoded = EncodedMessage::split(delivery.payload.clone().into_bytes()).unwrap();
    let message = InboundMessage::decode(&encoded, Direction::Deliver).unwrap().message;
    let accepted: DeliveryState = Accepted {}.into();
    receiver.settler().settle_confirmed(delivery.id, &accepted).await.unwrap();
    let sections = mapping::to_sections(&message.clone().without_received(), Direction::Send).unwrap();
    let sender = session.attach_sender("sender", "other").await.unwrap();
    assert_eq!(sender.send(codec::encode(&sections).unwrap()).await.unwrap(), Some(accepted));
    message
}

/// Rules: A-77, HT-18.
#[tokio::test]
async fn a_content_type_that_is_not_ascii_reaches_amqp_with_question_marks() {
    let harness = Harness::new().await;
    harness.broker().create_queue("other", QueueSettings::default()).unwrap();
    let broker = r#"{"ContentType":"text/plain; a=\"\u00fc\""}"#;
    assert_eq!(harness.call("POST", "/q/messages", &[("BrokerProperties", broker)], "body").await.status, 201);
    let received = tokio::time::timeout(Duration::from_secs(10), over_amqp(&harness)).await.expect("it is delivered");
    assert_eq!(received.content_type(), Some("text/plain; a=\"?\""));
}

/// Rules: HT-18, HT-13, HT-14.
#[tokio::test]
async fn every_property_survives_http_amqp_and_http() {
    let harness = Harness::new().await;
    harness.broker().create_queue("other", QueueSettings::default()).unwrap();
    let broker = r#"{"CorrelationId":"c","Label":"l","MessageId":"m\u00fc","PartitionKey":"s","ReplyTo":"r","ReplyToSessionId":"rs","SessionId":"s","TimeToLive":100.5,"To":"t","ViaPartitionKey":"v"}"#;
    let headers = [
        ("BrokerProperties", broker),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("text", "\"a \\\"b\\\" \u{fc}\""),
        ("whole", "-5"),
        ("float", "0.5"),
        ("exponent", "1e300"),
        ("yes", "true"),
        ("at", "\"Sun, 06 Nov 1994 08:49:37 GMT\""),
    ];
    assert_eq!(harness.call("POST", "/q/messages", &headers, "\u{fc}\0body").await.status, 201);
    let native = over_amqp(&harness).await;
    let properties = native.application_properties();
    assert_eq!(properties.get("whole"), Some(&PropertyValue::I64(-5)));
    assert_eq!(properties.get("text"), Some(&"a \"b\" \u{fc}".into()));
    assert!(matches!(properties.get("at"), Some(PropertyValue::DateTime(_))));
    assert_eq!((native.session_id(), native.subject(), native.message_id()), (Some("s"), Some("l"), Some("m\u{fc}")));

    let received = harness.receive("other").await;
    assert_eq!((received.status, &*received.body), (200, "\u{fc}\0body".as_bytes()));
    let mut shown: serde_json::Value = serde_json::from_str(received.header("brokerproperties").unwrap()).unwrap();
    for key in ["SequenceNumber", "DeliveryCount", "State", "EnqueuedTimeUtc"] {
        assert!(shown.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    assert_eq!(shown, serde_json::from_str::<serde_json::Value>(broker).unwrap());
    for (name, value) in &headers[1..] {
        assert_eq!(received.header(name), Some(*value), "{name}");
    }
}

/// Rules: HT-15, HT-18.
#[tokio::test]
async fn types_that_http_lacks_become_text() {
    let harness = Harness::new().await;
    harness.broker().create_queue("other", QueueSettings::default()).unwrap();
    let exact = r#"{"bytes":{"bytes":"AQ=="},"span":{"time_span":10000000},"uri":{"uri":"http://a/"},"uuid":{"uuid":"11111111-1111-1111-1111-111111111111"},"whole":{"u8":5}}"#;
    assert_eq!(harness.call("POST", "/q/messages", &[("x-prop-names", exact)], "").await.status, 201);
    let native = over_amqp(&harness).await;
    assert_eq!(native.application_properties().get("uuid"), Some(&PropertyValue::Uuid([0x11; 16])));
    assert_eq!(native.application_properties().get("whole"), Some(&PropertyValue::U8(5)));
    let received = harness.call("DELETE", "/other/messages/head", &[("x-prop-names", "1")], "").await;
    assert_eq!(received.header("x-prop-names"), Some(exact));
    for (name, text) in [
        ("uuid", "\"11111111-1111-1111-1111-111111111111\""),
        ("span", "\"00:00:01\""),
        ("uri", "\"http://a/\""),
        ("whole", "5"),
    ] {
        assert_eq!(received.header(name), Some(text), "{name}");
    }
}
