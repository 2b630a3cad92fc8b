//! Requests that cannot be decoded, with a readable address for the reply.

use std::time::Duration;

use consign::{
    Message,
    codecs::{Bincode, Cbor, Codecs, Json, MessagePack},
    consumer::Consumer,
    message::{MessageBody, Value},
    routing::Body,
    rpc::{Fault, FaultCode, Reply, Responder},
};
use tokio::time::Instant;
use tower::ServiceExt;

use crate::{Bench, within};

#[derive(serde::Deserialize)]
struct Order {
    id: u64,
    #[expect(dead_code, reason = "it has to be there")]
    sku: String,
}

async fn order(Body(order): Body<Order>) -> Reply<u64> {
    Reply(order.id)
}

/// A kind of poison, the reason of its dead letter, and the codes of its trail.
type Poison = (&'static str, Message, &'static str, &'static [&'static str]);

fn bytes(content_type: &'static str, body: impl Into<MessageBody>) -> Message {
    Message::builder().content_type(content_type).build(body).unwrap()
}

/// The trail of a list instead of bytes.
const LIST: &[&str] = if cfg!(feature = "amqp-value") { &["Type"] } else { &[] };

fn kinds() -> Vec<Poison> {
    let encoded = {
        let mut message = bytes("application/json", r#"{"id":1,"sku":"nail"}"#);
        message.properties_mut().pass_through_mut().content_encoding = Some("br".into());
        message
    };
    let json = "application/json";
    let failed = "DeserializationFailed";
    vec![
        ("not the format", bytes(json, "<order/>"), failed, &["Syntax"]),
        ("cut off", bytes(json, r#"{"id":1"#), failed, &["Truncated"]),
        ("more behind it", bytes(json, r#"{"id":1,"sku":"nail"} x"#), failed, &["Trailing"]),
        ("another type", bytes(json, r#"{"id":"one","sku":"nail"}"#), failed, &["Type"]),
        ("a field is missing", bytes(json, r#"{"id":1}"#), failed, &["Type"]),
        ("not UTF-8", bytes(json, &b"{\"id\":1,\"sku\":\"\xff\"}"[..]), failed, &["Utf8"]),
        ("empty", bytes(json, ""), failed, &["EmptyBody"]),
        ("too deep", bytes(json, "[".repeat(1_000)), "LimitExceeded", &["Depth"]),
        (
            "a length that lies",
            bytes("application/msgpack", &b"\xdd\xff\xff\xff\xff\x01"[..]),
            "LimitExceeded",
            &["Count"],
        ),
        ("another MessagePack", bytes("application/msgpack", &b"\x93\x01\x02\x03"[..]), failed, &["Type"]),
        ("a reserved byte", bytes("application/cbor", &b"\x1c"[..]), failed, &["Syntax"]),
        ("an unknown format", bytes("application/x-unknown", "x"), "UnsupportedContentType", &[]),
        ("no media type", bytes("json", "{}"), "MalformedContentType", &[]),
        ("an encoding", encoded, "UnsupportedEncoding", &[]),
        ("a list", Message::new(Value::List(Vec::new())), failed, LIST),
    ]
}

/// Rules: R-34.
#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_decoded_is_a_typed_fault_long_before_the_time_is_over() {
    let bench = Bench::new();
    let codecs =
        Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).with(Bincode::fixint()).build().unwrap();
    let responder = Responder::builder(bench.senders()).codecs(codecs).fallback(order).build().unwrap();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
    let requester = bench.requester();
    let kinds = kinds();
    assert!(kinds.len() >= 14);
    for (kind, poison, reason, codes) in kinds {
        let began = Instant::now();
        let reply = within(requester.clone().oneshot(poison)).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(3), "{kind}");
        let fault = Fault::of_reply(&reply).unwrap_or_else(|| panic!("{kind} was answered"));
        assert_eq!((fault.code(), fault.reason()), (&FaultCode::UndecodableRequest, Some(reason)), "{kind}");
        let trail: Vec<_> = fault.trail().entries().iter().map(|entry| entry.code().to_owned()).collect();
        assert_eq!(trail, codes, "{kind}");
    }
    assert_eq!(bench.requests.counts().active, 0);

    let good = Message::builder().content_type("application/json").build(r#"{"id":7,"sku":"nail"}"#).unwrap();
    assert_eq!(within(requester.oneshot(good)).await.unwrap().payload(), Some(&b"7"[..]));
}
