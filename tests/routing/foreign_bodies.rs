//! One queue and one router for the bodies of producers of different kinds: .NET's serializers, AMQP values, JSON and MessagePack.

use std::sync::Arc;

use consign::{
    Message,
    amqp_value::to_body,
    codecs::{CodecSet, Codecs, DataContractBinary, DataContractXml, Json, MessagePack, TrailEntry},
    dead_letters::{DeadLetterFilter, DeadLetters},
    message::{MessageBody, MessageBuilder, SequenceNumber, Value},
    routing::{Body, Router, State},
    testing::TestBroker,
};
use serde::{Deserialize, Serialize};

use crate::support::{Seen, note, taken};

/// What all of them send. Each has more members.
#[derive(Serialize, Deserialize)]
struct Order {
    #[serde(alias = "Id")]
    id: i64,
    #[serde(alias = "Customer")]
    customer: Option<String>,
}

async fn order(State(seen): State<Seen>, Body(order): Body<Order>) {
    note(&seen, format!("{} of {}", order.id, order.customer.as_deref().unwrap_or("nobody")));
}

fn codecs() -> Codecs<impl CodecSet> {
    Codecs::builder()
        .with(Json::default())
        .with(MessagePack)
        .with(DataContractBinary::default())
        .with(DataContractXml::default())
        .fallback(["json", "msgpack", "datacontract-binary", "datacontract-xml"])
        .build()
        .unwrap()
}

/// A body that the serializer of .NET has written.
fn dotnet(file: &str) -> Vec<u8> {
    let path = format!("{}/codecs/tests/vectors/dotnet/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn map(pairs: Vec<(&str, Value)>) -> MessageBody {
    Value::Map(pairs.into_iter().map(|(name, value)| (Value::from(name), value)).collect()).into()
}

/// A message with its id, for which a declared ContentType is optional.
fn sent(id: &'static str, content_type: Option<&'static str>, body: impl Into<MessageBody>) -> Message {
    let builder = Message::builder().message_id(id);
    let builder = content_type.into_iter().fold(builder, MessageBuilder::content_type);
    builder.build(body).unwrap()
}

/// Rules: P-44, P-56, P-58, P-67, L-01.
#[tokio::test(start_paused = true)]
async fn every_body_decodes_or_is_a_dead_letter_that_says_why() {
    const JSON: Option<&str> = Some("application/json");
    const MSGPACK: Option<&str> = Some("application/msgpack");
    let value = Order { id: 4, customer: Some("Grace".into()) };
    let msgpack = rmp_serde::to_vec_named(&value).unwrap();
    let (binary, text) = (dotnet("order.bin"), dotnet("order.xml"));
    let half = |body: &[u8]| body[..body.len() / 2].to_vec();
    let good = [
        (sent("json", JSON, r#"{"id":1,"customer":"Tim"}"#), "1 of Tim"),
        (sent("json without a ContentType", None, r#"{"id":2}"#), "2 of nobody"),
        (sent("msgpack", MSGPACK, msgpack.clone()), "4 of Grace"),
        (sent("msgpack without a ContentType", None, msgpack.clone()), "4 of Grace"),
        // Older .NET clients declare none.
        (sent("binary XML", None, binary.clone()), "7 of Ada \u{d8}"),
        (sent("text XML", Some("application/xml"), text.clone()), "7 of Ada \u{d8}"),
        (sent("map", None, map(vec![("id", 5_u8.into()), ("customer", "Jean".into())])), "5 of Jean"),
        (sent("list", None, Value::List(vec![6.into(), "Alan".into()])), "6 of Alan"),
        (sent("value of a struct", None, to_body(&value).unwrap()), "4 of Grace"),
    ];
    // The codec that each reason names first, and a part of the reason.
    let bad = [
        (sent("json of another type", JSON, r#"{"id":"canary"}"#), "json", "expected i64, found text at `id`"),
        (sent("json that ends early", JSON, r#"{"id":1,"customer":"canary"#), "json", "json"),
        (sent("msgpack that ends early", MSGPACK, half(&msgpack)), "msgpack", "msgpack"),
        (sent("binary XML that ends early", None, half(&binary)), "json", "datacontract-binary"),
        (
            sent("text XML that ends early", Some("application/xml"), half(&text)),
            "datacontract-xml",
            "datacontract-xml",
        ),
        (
            sent("map of another type", None, map(vec![("id", "canary".into())])),
            "amqp-value",
            "expected i64, found text at `id`",
        ),
        (sent("map without a member", None, map(vec![("number", 7.into())])), "amqp-value", "amqp-value"),
        (sent("nothing that is known", None, &b"\xc1\xfe\x00canary"[..]), "json", "json"),
    ];
    let broker = TestBroker::new();
    let queue = broker.queue("orders");
    let mut expected: Vec<_> = good.iter().map(|(_, text)| (*text).to_owned()).collect();
    // By turns, so that no body affects the next one.
    let (mut good, mut broken) =
        (good.into_iter().map(|(message, _)| message), bad.iter().map(|(bad, ..)| bad.clone()));
    loop {
        let (good, bad) = (good.next(), broken.next());
        if good.is_none() && bad.is_none() {
            break;
        }
        good.into_iter().chain(bad).for_each(|message| queue.send_message(message));
    }

    let seen = Seen::default();
    let router = Router::with_state(codecs(), Arc::clone(&seen)).fallback(order).build().unwrap();
    queue.run(router).await;

    let mut handled = taken(&seen);
    handled.sort_unstable();
    expected.sort_unstable();
    assert_eq!(handled, expected);
    let letters = DeadLetters::new(queue.dead_letter());
    let letters = letters.list(&DeadLetterFilter::all(), SequenceNumber::new(0), 100).await.unwrap();
    assert_eq!(letters.len(), bad.len());
    for (letter, (message, codec, text)) in letters.iter().zip(&bad) {
        let id = message.message_id().unwrap();
        assert_eq!(letter.message().message_id(), Some(id));
        assert_eq!(letter.reason(), Some("DeserializationFailed"), "{id}: {letter}");
        let tried: Vec<_> = letter.attempts().iter().map(TrailEntry::codec).collect();
        let description = letter.description().unwrap();
        assert!(
            tried.first() == Some(codec) && tried.contains(&description.split(':').next().unwrap()),
            "{id}: {letter}"
        );
        assert!(description.contains(text) && !letter.to_string().contains("canary"), "{id}: {letter}");
    }
}
