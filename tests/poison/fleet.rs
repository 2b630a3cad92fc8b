//! Producers of several generations on one queue, one by one and in batches.

use std::sync::{Arc, Mutex};

use consign::{
    Message,
    codecs::{
        Bincode, Cbor, Codec, CodecSet, Codecs, DecodeOwned, Decoded, EncodeError, Encoded, Json, MessagePack,
        Postcard, Raw, Text,
    },
    message::MessageBody,
    routing::{Router, State},
    transport::{Batch, Sender},
};
use serde::{Deserialize, Serialize};

use crate::{
    attacks::{EMPTY, JSON_WRONG_TYPE, NOISE},
    support::{consume, dead_letters, queue, reason, send, trail},
};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    sku: String,
}

/// What a handler got: the value, the codec, the attempts before.
type Log<T> = Arc<Mutex<Vec<(T, &'static str, String)>>>;

/// What became of the messages.
struct Outcome<T> {
    handled: Vec<(T, &'static str, String)>,
    dead: Vec<Message>,
}

async fn run<T, C>(codecs: Codecs<C>, messages: impl IntoIterator<Item = Message>) -> Outcome<T>
where
    T: DecodeOwned + Send + 'static,
    C: CodecSet,
{
    let queue = queue();
    send(&queue, messages).await;
    let log: Log<T> = Arc::default();
    let router = Router::with_state(codecs, Arc::clone(&log)).fallback(keep::<T>).build().unwrap();
    consume(&queue, router).await;
    let handled = std::mem::take(&mut *log.lock().unwrap());
    Outcome { handled, dead: dead_letters(&queue).await }
}

async fn keep<T>(State(log): State<Log<T>>, decoded: Decoded<T>) {
    let trail = decoded.trail().to_string();
    log.lock().unwrap().push((decoded.value, decoded.by, trail));
}

impl<T> Outcome<T> {
    /// The codec and the attempts before it, of each message that was handled.
    fn by(&self) -> Vec<(&str, &str)> {
        self.handled.iter().map(|(_, by, trail)| (*by, trail.as_str())).collect()
    }

    /// The reason and the attempts, of each message that was not.
    fn refused(&self) -> Vec<(&str, Option<&str>)> {
        self.dead.iter().map(|dead| (reason(dead), trail(dead))).collect()
    }
}

fn chain() -> Codecs<impl CodecSet> {
    Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json", "msgpack"]).build().unwrap()
}

fn order(id: u64) -> Order {
    Order { id, sku: format!("nail {id}") }
}

fn encoded(codec: impl Codec, value: &impl Serialize) -> Encoded {
    Codecs::builder().with(codec).build().unwrap().encode(value).unwrap()
}

/// A message as its producer labels it.
fn labelled(content_type: Option<&'static str>, body: impl Into<MessageBody>) -> Message {
    let builder = Message::builder();
    match content_type {
        Some(content_type) => builder.content_type(content_type),
        None => builder,
    }
    .build(body)
    .unwrap()
}

fn four_generations() -> [Message; 5] {
    let (json, msgpack) = (encoded(Json::default(), &order(1)).body, encoded(MessagePack, &order(2)).body);
    [
        labelled(Some("application/json"), json.clone()),
        labelled(Some("application/msgpack"), msgpack.clone()),
        labelled(None, json),
        labelled(None, NOISE),
        labelled(Some("application/json"), msgpack),
    ]
}

fn assert_four_generations(outcome: &Outcome<Order>) {
    let values: Vec<_> = outcome.handled.iter().map(|(value, ..)| value.id).collect();
    assert_eq!(values, [1, 2, 1, 2]);
    assert_eq!(outcome.by(), [("json", ""), ("msgpack", ""), ("json", ""), ("msgpack", "json;exact;Utf8;1:1")]);
    let two = "json;default;Utf8;1:1,msgpack;fallback;Syntax;0";
    assert_eq!(outcome.refused(), [("DeserializationFailed", Some(two))]);
}

/// Rules: P-50.
#[tokio::test(start_paused = true)]
async fn a_mixed_fleet() {
    assert_four_generations(&run(chain(), four_generations()).await);
}

/// Rules: P-50.
#[tokio::test(start_paused = true)]
async fn a_mixed_fleet_in_one_batch() {
    let queue = queue();
    queue.sender().unwrap().send_batch(Batch::from(four_generations())).await.unwrap();
    let log: Log<Order> = Arc::default();
    let router = Router::with_state(chain(), Arc::clone(&log)).fallback(keep::<Order>).build().unwrap();
    consume(&queue, router).await;
    let handled = std::mem::take(&mut *log.lock().unwrap());
    assert_four_generations(&Outcome { handled, dead: dead_letters(&queue).await });
}

/// Rules: P-15, P-16.
#[tokio::test(start_paused = true)]
async fn missing_is_the_first_codec_then_the_chain() {
    let (json, msgpack) = (encoded(Json::default(), &order(1)).body, encoded(MessagePack, &order(2)).body);
    for missing in [None, Some(""), Some(" \t ")] {
        let messages = [labelled(missing, json.clone()), labelled(missing, msgpack.clone())];
        let outcome = run::<Order, _>(chain(), messages.clone()).await;
        assert_eq!(outcome.by(), [("json", ""), ("msgpack", "json;default;Utf8;1:1")], "{missing:?}");
        let outcome = run::<Order, _>(Codecs::json(), messages).await;
        assert_eq!(outcome.by(), [("json", "")], "{missing:?}");
        assert_eq!(outcome.refused(), [("DeserializationFailed", Some("json;default;Utf8;1:1"))], "{missing:?}");
    }
}

/// Rules: P-17.
#[tokio::test(start_paused = true)]
async fn json_in_another_charset_goes_to_the_next_codec() {
    let (json, msgpack) = (encoded(Json::default(), &order(1)).body, encoded(MessagePack, &order(2)).body);
    let utf_16: Vec<u8> = json.iter().flat_map(|&byte| [0, byte]).collect();
    let marked = [b"\xef\xbb\xbf".as_slice(), &json].concat();
    let outcome = run::<Order, _>(
        chain(),
        [
            labelled(Some("application/json;charset=utf-8"), marked),
            labelled(Some("application/json; charset=US-ASCII"), json.clone()),
            labelled(Some("application/json;charset=utf-16"), msgpack),
            labelled(Some("application/json;charset=utf-16"), utf_16),
            labelled(Some("application/json;charset=utf-16"), json),
        ],
    )
    .await;
    let charset = "json;exact;UnsupportedCharset;";
    assert_eq!(outcome.by(), [("json", ""), ("json", ""), ("msgpack", charset), ("json", "")]);
    let refused = "json;exact;UnsupportedCharset;,msgpack;fallback;Trailing;1";
    assert_eq!(outcome.refused(), [("UnsupportedCharset", Some(refused))]);
}

/// Rules: P-20.
#[tokio::test(start_paused = true)]
async fn an_empty_body_is_none_or_unit_and_no_object() {
    let types = [None, Some("application/json"), Some("application/msgpack")];
    let messages = || types.map(|content_type| labelled(content_type, EMPTY));
    let outcome = run::<Option<Order>, _>(chain(), messages()).await;
    assert!(outcome.handled.iter().all(|(order, ..)| order.is_none()));
    assert_eq!(outcome.by(), [("json", ""), ("json", ""), ("msgpack", "")]);
    assert_eq!(run::<(), _>(chain(), messages()).await.handled.len(), 3);

    let outcome = run::<Order, _>(chain(), messages()).await;
    assert!(outcome.handled.is_empty());
    assert!(outcome.refused().iter().all(|(reason, _)| *reason == "DeserializationFailed"));
    assert_eq!(trail(&outcome.dead[2]), Some("msgpack;exact;EmptyBody;,json;fallback;EmptyBody;"));
}

/// Attacks: 37.
#[tokio::test(start_paused = true)]
async fn a_wrong_content_type_is_recovered_only_by_a_chain() {
    let (json, msgpack) = (encoded(Json::default(), &order(1)).body, encoded(MessagePack, &order(2)).body);
    let messages = [labelled(Some("application/msgpack"), json), labelled(Some("application/json"), msgpack)];
    let outcome = run::<Order, _>(chain(), messages.clone()).await;
    assert_eq!(outcome.by(), [("json", "msgpack;exact;Trailing;1"), ("msgpack", "json;exact;Utf8;1:1")]);

    let alone = Codecs::builder().with(Json::default()).with(MessagePack).build().unwrap();
    let trails = ["msgpack;exact;Trailing;1", "json;exact;Utf8;1:1"];
    assert_eq!(
        run::<Order, _>(alone, messages).await.refused(),
        trails.map(|trail| ("DeserializationFailed", Some(trail)))
    );
}

/// Attacks: 38.
/// The byte is the number 1 in JSON and the number 49 in `MessagePack`.
#[tokio::test(start_paused = true)]
async fn the_declared_type_wins() {
    let types = [Some("application/json"), Some("application/msgpack"), None];
    let outcome = run::<u8, _>(chain(), types.map(|content_type| labelled(content_type, b"1"))).await;
    let values: Vec<_> = outcome.handled.iter().map(|(value, ..)| *value).collect();
    assert_eq!(values, [1, 49, 1]);
}

#[tokio::test(start_paused = true)]
async fn unusual_but_valid_bodies_are_read() {
    let types = [
        "APPLICATION/JSON ; Charset=\"UTF-8\"",
        "application/json;",
        "application/json;charset=utf-8;charset=utf-7",
        "text/json",
        "application/vnd.acme.order+json;v=2",
    ];
    let json = encoded(Json::default(), &order(1)).body;
    let outcome = run::<Order, _>(Codecs::json(), types.map(|text| labelled(Some(text), json.clone()))).await;
    assert_eq!(outcome.by(), [("json", ""); 5]);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_type_goes_to_the_chain_as_it_is() {
    let json = encoded(Json::default(), &order(1)).body;
    let types = ["application/json\r\nX-Admin: 1", "application/json\0", "json", "*/*"];
    let outcome = run::<Order, _>(chain(), types.map(|text| labelled(Some(text), json.clone()))).await;
    assert_eq!(outcome.by(), [("json", ""); 4]);
    let outcome = run::<Order, _>(chain(), types.map(|text| labelled(Some(text), JSON_WRONG_TYPE))).await;
    let kept: Vec<_> = outcome.dead.iter().map(|dead| dead.content_type().unwrap()).collect();
    assert_eq!(kept, types);
}

fn every_format() -> Codecs<impl CodecSet> {
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).with(Postcard);
    codecs.with(Bincode::default()).with(Text).with(Raw).build().unwrap()
}

/// Sends one value under each of the media types; all are read by the codec.
async fn assert_reads<T>(codec: impl Codec, value: T, types: &[&'static str])
where
    T: Serialize + DecodeOwned + PartialEq + Send + 'static,
{
    let name = codec.name();
    let Encoded { content_type, body, .. } = encoded(codec, &value);
    let messages = types.iter().chain([&content_type]).map(|text| labelled(Some(text), body.clone()));
    let outcome = run::<T, _>(every_format(), messages).await;
    assert_eq!(outcome.handled.len(), types.len() + 1, "{types:?}");
    assert!(
        outcome.handled.iter().all(|(read, by, trail)| *read == value && *by == name && trail.is_empty()),
        "{name}"
    );
}

/// Rules: P-30.
#[tokio::test(start_paused = true)]
async fn media_types_of_json() {
    let types = ["application/json", "text/json", "application/vnd.a+json", "application/json;charset=utf-8"];
    assert_reads(Json::default(), order(1), &types).await;
}

/// Rules: P-31.
#[tokio::test(start_paused = true)]
async fn media_types_of_message_pack() {
    let types =
        ["application/msgpack", "application/x-msgpack", "application/vnd.msgpack", "application/vnd.a+msgpack"];
    assert_reads(MessagePack, order(1), &types).await;
}

/// Rules: P-32.
#[tokio::test(start_paused = true)]
async fn media_types_of_bincode() {
    assert_reads(Bincode::fixint(), order(1), &["application/x-bincode"]).await;
    assert_reads(Bincode::varint(), order(1), &["application/x-bincode;encoding=varint"]).await;
}

/// Rules: P-33, P-34.
#[tokio::test(start_paused = true)]
async fn media_types_of_text_and_bytes() {
    assert_reads(Text, "sold out".to_owned(), &["text/plain", "text/plain;charset=us-ascii"]).await;
    assert_reads(Raw, b"\x00\xff".to_vec(), &["application/octet-stream"]).await;
}

/// Rules: P-36.
#[tokio::test(start_paused = true)]
async fn media_types_of_cbor() {
    assert_reads(Cbor, order(1), &["application/cbor", "application/vnd.a+cbor"]).await;
}

/// Rules: P-37.
#[tokio::test(start_paused = true)]
async fn media_types_of_postcard() {
    assert_reads(Postcard, order(1), &["application/x-postcard"]).await;
}

/// A value that no format can hold.
struct Unspeakable;

impl Serialize for Unspeakable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("there are no words"))
    }
}

#[test]
fn a_failed_encode_gives_nothing_to_send() {
    let error: EncodeError = every_format().encode(&Unspeakable).unwrap_err();
    assert_eq!(error.to_string(), "the value could not be serialized");
}
