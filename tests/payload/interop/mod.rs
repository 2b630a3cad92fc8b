//! MassTransit and NServiceBus; messages of the shape that they document are in `foreign`.

mod foreign;

use std::sync::{Arc, Mutex};

use consign::{
    Disposition, Message,
    message::{MessageBody, PropertyValue, Value},
    middleware::interop::{InteropError, MassTransitLayer, NServiceBusLayer},
    settlement::{DeadLetterReason, IntoDisposition},
    time::{ManualClock, Timestamp},
};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

/// All members that MassTransit 8 writes.
const ENVELOPE: &str = r#"{
  "messageId": "5e1c0000-5d3b-0015-9a2f-08dcb1f0a3c4",
  "requestId": null,
  "correlationId": "0f8fad5b-d9cb-469f-a165-70867728950e",
  "conversationId": "5e1c0000-5d3b-0015-b1ac-08dcb1f0a3c4",
  "initiatorId": null,
  "sourceAddress": "rabbitmq://broker/shop_bus_x1?temporary=true",
  "destinationAddress": "rabbitmq://broker/Shop.Contracts:OrderSubmitted",
  "responseAddress": null,
  "faultAddress": null,
  "messageType": [
    "urn:message:Shop.Contracts:OrderSubmitted",
    "urn:message:Shop.Contracts:IEvent"
  ],
  "message": { "orderId": 7,  "total": 12.50 },
  "expirationTime": null,
  "sentTime": "2026-02-03T04:05:06.789Z",
  "headers": { "Tenant": "acme", "Attempt": 2, "Dry": false, "Ratio": 0.5, "Tags": ["a", "b"], "Nothing": null },
  "host": { "machineName": "m", "processName": "shop", "processId": 427, "massTransitVersion": "8.2.0.0" }
}"#;

fn enveloped(body: &str) -> Message {
    Message::builder().content_type("application/vnd.masstransit+json").build(body.to_owned()).unwrap()
}

/// What a handler gets, or what settles the message without it.
async fn received(message: Message) -> Result<Message, Disposition> {
    handled(message, MassTransitLayer::new(), NServiceBusLayer::new()).await
}

async fn handled(
    message: Message,
    masstransit: MassTransitLayer,
    nservicebus: NServiceBusLayer,
) -> Result<Message, Disposition> {
    let seen = Arc::new(Mutex::new(None));
    let handler = service_fn({
        let seen = Arc::clone(&seen);
        move |message: Message| {
            *seen.lock().unwrap() = Some(message);
            async { Ok::<_, BoxError>(Disposition::Complete) }
        }
    });
    let stack = ServiceBuilder::new().layer(masstransit).layer(nservicebus).service(handler);
    let disposition = stack.oneshot(message).await.unwrap();
    let seen = seen.lock().unwrap().take();
    seen.ok_or(disposition)
}

async fn refused(message: Message) -> String {
    match received(message).await {
        Err(Disposition::DeadLetter(letter)) => {
            assert_eq!(letter.reason, DeadLetterReason::DeserializationFailed);
            letter.description.into()
        }
        other => panic!("it was not refused: {other:?}"),
    }
}

fn text(message: &Message, name: &str) -> Option<String> {
    message.application_properties().get(name).and_then(PropertyValue::as_str).map(Into::into)
}

/// Rules: H-80.
#[tokio::test]
async fn an_envelope_of_masstransit_is_opened() {
    let message = received(enveloped(ENVELOPE)).await.unwrap();
    assert_eq!(message.payload(), Some(&br#"{ "orderId": 7,  "total": 12.50 }"#[..]), "to the byte");
    assert_eq!(message.content_type(), Some("application/json"));
    assert_eq!(message.subject(), Some("Shop.Contracts:OrderSubmitted"));
    assert_eq!(message.message_id(), Some("5e1c0000-5d3b-0015-9a2f-08dcb1f0a3c4"));
    assert_eq!(message.correlation_id(), Some("0f8fad5b-d9cb-469f-a165-70867728950e"));
    assert_eq!(message.reply_to(), None);
}

/// Rules: H-81.
#[tokio::test]
async fn members_of_an_envelope_are_properties() {
    let message = received(enveloped(ENVELOPE)).await.unwrap();
    let types = "urn:message:Shop.Contracts:OrderSubmitted;urn:message:Shop.Contracts:IEvent";
    assert_eq!(text(&message, "MT-MessageType").as_deref(), Some(types));
    assert_eq!(text(&message, "ConversationId").as_deref(), Some("5e1c0000-5d3b-0015-b1ac-08dcb1f0a3c4"));
    assert_eq!(text(&message, "MT-Source-Address").as_deref(), Some("rabbitmq://broker/shop_bus_x1?temporary=true"));
    assert_eq!(text(&message, "MT-Response-Address"), None);
    let property = |name| message.application_properties().get(name).cloned();
    assert_eq!(property("Tenant"), Some("acme".into()));
    assert_eq!(property("Attempt"), Some(PropertyValue::I64(2)));
    assert_eq!(property("Dry"), Some(PropertyValue::Bool(false)));
    assert_eq!(property("Ratio"), Some(PropertyValue::F64(0.5)));
    assert_eq!(property("Tags"), Some(r#"["a", "b"]"#.into()));
    assert_eq!(property("Nothing"), None);
}

/// Rules: H-82.
/// Attacks: 36.
#[tokio::test]
async fn properties_of_the_broker_are_not_overwritten() {
    let message = Message::builder()
        .content_type("Application/vnd.MassTransit+JSON; charset=utf-8")
        .message_id("own")
        .subject("own subject")
        .property("Tenant", "own tenant")
        .build(r#"{"messageId":"x","requestId":"r","correlationId":"c","messageType":["urn:message:A:B"],"message":1,"headers":{"Tenant":"x"}}"#)
        .unwrap();
    let message = received(message).await.unwrap();
    assert_eq!((message.message_id(), message.subject()), (Some("own"), Some("own subject")));
    assert_eq!(message.correlation_id(), Some("r"), "a request goes before a correlation");
    assert_eq!(text(&message, "Tenant").as_deref(), Some("own tenant"));
}

/// Rules: H-83.
#[tokio::test]
async fn transport_headers_without_an_envelope_are_read() {
    let message = Message::builder()
        .content_type("application/json")
        .property("MT-MessageType", "urn:message:MassTransit:Fault[[Shop:Order]];urn:message:MassTransit:Fault")
        .property("CorrelationId", "c")
        .build("{}")
        .unwrap();
    let message = received(message).await.unwrap();
    assert_eq!(message.subject(), Some("MassTransit:Fault[[Shop:Order]]"));
    assert_eq!((message.message_id(), message.correlation_id()), (None, Some("c")));
    assert_eq!(message.payload(), Some(&b"{}"[..]));
}

/// Rules: H-81.
#[tokio::test]
async fn members_may_begin_with_a_capital() {
    let body = r#"{"MessageId":"m","MessageType":["urn:message:A:B"],"Message":{"Id":7},"Headers":{"Tenant":"a","tenant":"b"},"Host":{"MachineName":"h"},"ExpirationTime":null}"#;
    let message = received(enveloped(body)).await.unwrap();
    assert_eq!((message.message_id(), message.subject()), (Some("m"), Some("A:B")));
    assert_eq!(message.payload(), Some(&br#"{"Id":7}"#[..]));
    for (name, value) in [("Tenant", "a"), ("tenant", "b"), ("MT-Host-MachineName", "h")] {
        assert_eq!(text(&message, name).as_deref(), Some(value), "{name}");
    }
}

/// Rules: H-84.
#[tokio::test]
async fn an_invalid_envelope_is_a_dead_letter() {
    for (body, detail, column) in [
        ("", "", 0),
        ("[]", "", 0),
        ("{", "", 1),
        (r#"{"messageType":["urn:message:A:B"]}"#, ": no member `message`", 35),
        (r#"{"message":{}}"#, ": no member `messageType`", 14),
        (r#"{"messageType":"no member `message`","message":{}}"#, "", 36),
        (r#"{"messageType":["a"],"message":1,"message":2}"#, ": a member occurs twice", 42),
        (r#"{"messageType":["a"],"message":1,"Message":2}"#, ": a member occurs twice", 42),
        (r#"{"messageType":["a"],"message":{}} x"#, "", 36),
    ] {
        let description = refused(enveloped(body)).await;
        assert_eq!(description, format!("the body is not an envelope{detail}, at line 1 column {column}"), "{body}");
    }
    // How deep it may be is the codec's to say, and nothing here recurses.
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!(r#"{{"messageType":["a"],"message":{deep},"headers":{{"deep":{deep}}}}}"#);
    assert!(text(&received(enveloped(&body)).await.unwrap(), "deep").unwrap().starts_with("[["));
    let opened = received(enveloped(&format!(r#"{{"messageType":["a"],"message":{deep}}}"#))).await.unwrap();
    assert_eq!(opened.payload(), Some(deep.as_bytes()));
    for types in ["[]", r#"[""]"#, r#"["urn:message:"]"#, r#"["", "a"]"#] {
        let description = refused(enveloped(&format!(r#"{{"messageType":{types},"message":{{}}}}"#))).await;
        assert_eq!(description, "the envelope names no type", "{types}");
    }
    let value = Message::builder()
        .content_type("application/vnd.masstransit+json")
        .build(MessageBody::Value(Box::new(7.into())))
        .unwrap();
    assert_eq!(refused(value).await, "the body is an AMQP value or sequence, and an envelope is expected");
    let number = Message::builder().property("MT-MessageType", 1).build("{}").unwrap();
    assert_eq!(refused(number).await, "the property `MT-MessageType` is not text");
}

/// Rules: H-09.
#[tokio::test]
async fn a_compressed_body_is_a_dead_letter() {
    let mut wrapped =
        Message::builder().property("NServiceBus.Transport.Encoding", "wcf/byte-array").build("x").unwrap();
    wrapped.properties_mut().pass_through_mut().content_encoding = Some("br".into());
    let mut envelope = enveloped(ENVELOPE);
    envelope.properties_mut().pass_through_mut().content_encoding = Some("zstd".into());
    for (message, expected) in [
        (wrapped, "the content encoding `br` is not supported"),
        (envelope, "the content encoding `zstd` needs a `DecompressLayer` (feature `zstd` of consign)"),
    ] {
        let Err(Disposition::DeadLetter(letter)) = received(message).await else { panic!("a dead letter") };
        assert_eq!((letter.reason, &*letter.description), (DeadLetterReason::UnsupportedEncoding, expected));
    }
}

/// Rules: H-80, H-82.
#[tokio::test]
async fn members_of_an_envelope_go_before_its_headers() {
    let message = enveloped(
        r#"{"headers":{"MT-MessageType":"urn:message:Shop:B","MessageId":"b","MT-Host-MachineName":"b","MT-Reason":null},
        "messageType":["urn:message:Shop:A"],"messageId":"a","host":{"machineName":"a"},"message":{},
        "expirationTime":"2001-01-01T00:00:00Z"}"#,
    );
    let Err(Disposition::DeadLetter(letter)) = received(message.clone()).await else { panic!("a dead letter") };
    assert_eq!(letter.reason, DeadLetterReason::TtlExpired);
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let read = handled(message, MassTransitLayer::with_clock(clock), NServiceBusLayer::new()).await.unwrap();
    assert_eq!((read.subject(), read.message_id()), (Some("Shop:A"), Some("a")));
    assert_eq!(text(&read, "MT-MessageType").as_deref(), Some("urn:message:Shop:A"));
    assert_eq!(text(&read, "MT-Host-MachineName").as_deref(), Some("a"));
    assert_eq!(read.application_properties().get("MT-Reason"), None);
}

/// Rules: H-85.
#[tokio::test]
async fn an_envelope_with_too_many_members_is_a_dead_letter_on_any_message() {
    let expected = "the envelope has a value that is not valid in a message: the properties are more than 1024";
    let members = (0..2_000).map(|n| format!(r#""m{n}":{n},"#)).collect::<Vec<_>>().concat();
    let entries = |count: usize| (0..count).map(|n| format!(r#""e{n}":0,"#)).collect::<Vec<_>>().concat();
    for body in [
        format!(r#"{{{members}"messageType":["a"],"message":{{}}}}"#),
        format!(r#"{{"headers":{{{}"e":1}},"messageType":["a"],"message":{{}}}}"#, entries(1_024)),
        format!(r#"{{"host":{{{}"e":1}},"messageType":["a"],"message":{{}}}}"#, entries(1_024)),
    ] {
        let mut message = enveloped(&body);
        assert_eq!(refused(message.clone()).await, expected);
        // A transport may deliver more than can be sent.
        message.properties_mut().application_properties_mut().insert("long", "x".repeat(40_000));
        assert_eq!(refused(message).await, expected);
    }
    let nulls =
        format!(r#"{{"headers":{{{}"e":1}},"messageType":["a"],"message":{{}}}}"#, r#""e":null,"#.repeat(2_000));
    let read = received(enveloped(&nulls)).await.unwrap();
    assert_eq!(read.application_properties().get("e"), Some(&PropertyValue::I64(1)));
}

/// Rules: H-85.
#[tokio::test]
async fn an_envelope_beyond_the_limits_of_a_message_is_a_dead_letter() {
    let headers: Vec<String> = (0..2_000).map(|n| format!(r#""h{n}":{n}"#)).collect();
    let body = format!(r#"{{"messageType":["a"],"message":{{}},"headers":{{{}}}}}"#, headers.join(","));
    assert!(refused(enveloped(&body)).await.starts_with("the envelope has a value that is not valid in a message: "));
    let long = format!(r#"{{"messageId":"{}","messageType":["a"],"message":{{}}}}"#, "x".repeat(129));
    let description = refused(enveloped(&long)).await;
    assert!(description.contains("MessageId"), "{description}");
}

fn headers(types: &str) -> Message {
    Message::builder()
        .property("NServiceBus.MessageId", "5b1a1c86-2f0c-4f4e-a4f3-ac6500e46715")
        .property("NServiceBus.CorrelationId", "9e0d2f01-e903-481a-b272-ac6500e46715")
        .property("NServiceBus.ConversationId", "9ad0a8b2-3c28-4a2f-8d0a-ac6500e46701")
        .property("NServiceBus.MessageIntent", "Publish")
        .property("NServiceBus.ReplyToAddress", "Shop.Sales")
        .property("NServiceBus.ContentType", "application/json; charset=utf-8")
        .property("NServiceBus.EnclosedMessageTypes", types)
        .property("NServiceBus.TimeSent", "2026-02-03 04:05:06:789123 Z")
        .property("NServiceBus.Version", "9.0.0")
        .property("NServiceBus.Transport.Encoding", "application/octect-stream")
        .build(r#"{"OrderId":7}"#)
        .unwrap()
}

/// Rules: H-86.
/// Attacks: 35.
#[tokio::test]
async fn headers_of_nservicebus_are_read() {
    let types = "Shop.Contracts.OrderPlaced, Shop.Contracts, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null;\
        Shop.Contracts.IEvent, Shop.Contracts, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null";
    let message = received(headers(types)).await.unwrap();
    assert_eq!(message.subject(), Some("Shop.Contracts.OrderPlaced"));
    assert_eq!(message.content_type(), Some("application/json; charset=utf-8"));
    assert_eq!(message.message_id(), Some("5b1a1c86-2f0c-4f4e-a4f3-ac6500e46715"));
    assert_eq!(message.correlation_id(), Some("9e0d2f01-e903-481a-b272-ac6500e46715"));
    assert_eq!(message.reply_to(), None);
    assert_eq!(message.payload(), Some(&br#"{"OrderId":7}"#[..]));
    assert_eq!(message.application_properties(), headers(types).application_properties(), "all of it stays");

    for (types, name) in [
        ("Shop.OrderPlaced", "Shop.OrderPlaced"),
        ("Shop.OrderPlaced;Shop.IEvent", "Shop.OrderPlaced"),
        ("Shop.Of`1[[Shop.Order, Shop, Version=1.0.0.0]], Shop", "Shop.Of`1[[Shop.Order, Shop, Version=1.0.0.0]]"),
        ("Shop.Outer+Inner, Shop", "Shop.Outer+Inner"),
        ("]Shop, A", "]Shop"),
        ("[Shop, A", "[Shop, A"),
    ] {
        assert_eq!(received(headers(types)).await.unwrap().subject(), Some(name), "{types}");
    }
    let mut message = headers("Shop.OrderPlaced");
    message.properties_mut().set_subject("own").set_content_type("application/msgpack");
    let message = received(message).await.unwrap();
    assert_eq!((message.subject(), message.content_type()), (Some("own"), Some("application/msgpack")));
}

/// Rules: B-270.
#[tokio::test]
async fn a_binary_and_a_string_value_are_bytes() {
    let binary = |text: &str| Value::from(bytes::Bytes::from(text.to_owned()));
    let expected = received(enveloped(ENVELOPE)).await.unwrap();
    for body in [binary(ENVELOPE), Value::from(ENVELOPE)] {
        let opened = received(enveloped("").with_body(body)).await.unwrap();
        assert_eq!((opened.body(), opened.properties()), (expected.body(), expected.properties()));
    }
    // JSON with a byte order mark, and bytes of .NET in bytes.
    let mut marked = headers("Shop.OrderPlaced").with_body(binary("\u{feff}{}"));
    marked.properties_mut().set_content_type("application/json");
    assert_eq!(received(marked).await.unwrap().payload(), Some(&b"{}"[..]));
    let wrapped = b"\x40\x0cbase64Binary\x08\x33http://schemas.microsoft.com/2003/10/Serialization/\x9f\x02{}";
    let body = Value::from(bytes::Bytes::from_static(wrapped));
    let message = Message::builder().property("NServiceBus.Transport.Encoding", "wcf/byte-array").build(body).unwrap();
    assert_eq!(received(message).await.unwrap().payload(), Some(&b"{}"[..]));
}

/// Rules: H-87.
#[tokio::test]
async fn headers_that_cannot_be_read_make_a_dead_letter() {
    for types in [",", " , Shop", ";Shop"] {
        assert_eq!(refused(headers(types)).await, "the envelope names no type", "{types}");
    }
    let number = Message::builder().property("NServiceBus.MessageId", 7).build("{}").unwrap();
    assert_eq!(refused(number).await, "the property `NServiceBus.MessageId` is not text");
    let wrapped = Message::builder().property("NServiceBus.Transport.Encoding", "wcf/byte-array").build("x").unwrap();
    assert_eq!(
        refused(wrapped).await,
        "the body is declared as `wcf/byte-array`: not well-formed: expected a record that starts an element at byte 0"
    );
    let value = MessageBody::Value(Box::new(7.into()));
    let value = Message::builder().property("NServiceBus.Transport.Encoding", "wcf/byte-array").build(value).unwrap();
    assert!(refused(value).await.starts_with("the body is an AMQP value"));
    let long = Message::builder().property("NServiceBus.MessageId", "x".repeat(129)).build("{}").unwrap();
    assert!(refused(long).await.contains("MessageId"));
}

/// Rules: P-59.
#[tokio::test]
async fn a_body_in_a_byte_array_of_dotnet_is_unwrapped() {
    let wrapped = |pieces: &[u8]| {
        let start = b"\x40\x0cbase64Binary\x08\x33http://schemas.microsoft.com/2003/10/Serialization/";
        let mut message = headers("Shop.OrderPlaced").with_body([&start[..], pieces].concat());
        let properties = message.properties_mut().application_properties_mut();
        properties.insert("NServiceBus.Transport.Encoding", "wcf/byte-array");
        message
    };
    // In one record, and in two as .NET writes a length that three does not divide; a byte order mark is dropped.
    for pieces in
        [&b"\x9f\x0d{\"OrderId\":7}"[..], b"\x9e\x0c{\"OrderId\":7\x9f\x01}", b"\x9f\x10\xef\xbb\xbf{\"OrderId\":7}"]
    {
        let message = received(wrapped(pieces)).await.unwrap();
        assert_eq!(message.payload(), Some(&br#"{"OrderId":7}"#[..]));
        assert_eq!(message.content_type(), Some("application/json; charset=utf-8"));
        assert_eq!(message.subject(), Some("Shop.OrderPlaced"));
        assert!(message.application_properties().get("NServiceBus.Transport.Encoding").is_none());
        let again = received(message.clone()).await.unwrap();
        assert_eq!((again.properties(), again.body()), (message.properties(), message.body()), "a second layer");
    }
    let cut = refused(wrapped(b"\x9f\x0d{\"Order")).await;
    assert_eq!(cut, "the body is declared as `wcf/byte-array`: the body ends inside the value at byte 69");
}

/// Rules: H-88.
#[tokio::test]
async fn other_messages_pass_as_they_are() {
    for message in [
        Message::new("plain"),
        Message::builder().content_type("application/vnd.masstransit+bson").build("x").unwrap(),
        Message::builder()
            .content_type("application/json")
            .subject("s")
            .property("CorrelationId", 7)
            .build("{}")
            .unwrap(),
        Message::builder().property("NServiceBus.TimeSent", 7).build("{}").unwrap(),
        Message::new(MessageBody::Value(Box::new("value".into()))),
    ] {
        let passed = received(message.clone()).await.unwrap();
        assert_eq!((passed.properties(), passed.body()), (message.properties(), message.body()));
    }
    let error = InteropError::NoType;
    assert!(matches!(error.into_disposition(), Disposition::DeadLetter(_)));
}
