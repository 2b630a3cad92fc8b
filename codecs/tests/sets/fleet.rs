//! Producers of several generations on one queue.

use std::collections::BTreeMap;

use bytes::BytesMut;
use consign_codecs::{Bincode, Cbor, Codec, CodecSet, Codecs, Json, MessagePack, Postcard};
use proptest::{prelude::*, string::string_regex};
use serde::{Deserialize, Serialize};

use crate::support::replay;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u32,
    customer: String,
    lines: Vec<(String, u16)>,
    #[serde(default)]
    note: Option<String>,
}

fn order(id: u32) -> Order {
    Order { id, customer: format!("customer {id}"), lines: vec![("nail".to_owned(), 100)], note: None }
}

fn bytes(codec: &impl Codec, value: &impl Serialize) -> BytesMut {
    let mut out = BytesMut::new();
    codec.encode(value, &mut out).unwrap();
    out
}

fn consumer() -> Codecs<impl CodecSet> {
    Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json", "msgpack"]).build().unwrap()
}

/// Rules: P-50.
#[test]
fn a_mixed_fleet() {
    let codecs = consumer();
    let read = |declared, body: &[u8]| {
        let decoded = codecs.decode_traced::<Order>(declared, body).unwrap();
        let trail = decoded.trail().to_string();
        (decoded.value, decoded.by, trail)
    };
    let json = bytes(&Json::default(), &order(1));
    assert_eq!(read(Some("application/json"), &json), (order(1), "json", String::new()));
    let msgpack = bytes(&MessagePack, &order(2));
    assert_eq!(read(Some("application/msgpack"), &msgpack), (order(2), "msgpack", String::new()));
    assert_eq!(read(None, &json), (order(1), "json", String::new()));
    let (value, by, trail) = read(None, &msgpack);
    assert_eq!((value, by), (order(2), "msgpack"));
    assert!(trail.starts_with("json;default;"), "{trail}");

    let noise = b"\xc1\xff\x00 noise";
    let failure = codecs.decode::<Order>(None, noise).unwrap_err();
    assert_eq!(failure.attempts().iter().map(|attempt| attempt.codec).collect::<Vec<_>>(), ["json", "msgpack"]);
    assert_eq!(failure.reason().code(), "DeserializationFailed");
    assert_eq!(failure.to_string().lines().count(), 2);
}

#[test]
fn a_wrong_content_type_is_recovered_only_by_a_chain() {
    let alone = Codecs::builder().with(Json::default()).with(MessagePack).build().unwrap();
    let pairs = [
        ("application/json", bytes(&MessagePack, &order(1)), "msgpack"),
        ("application/msgpack", bytes(&Json::default(), &order(1)), "json"),
    ];
    for (declared, body, by) in pairs {
        assert_eq!(alone.decode::<Order>(Some(declared), &body).unwrap_err().attempts().len(), 1);
        let decoded = consumer().decode_traced::<Order>(Some(declared), &body).unwrap();
        assert_eq!((decoded.value, decoded.by, decoded.attempts.len()), (order(1), by, 1));
    }
}

#[test]
fn the_declared_type_wins() {
    let codecs = consumer();
    assert_eq!(codecs.decode::<u8>(Some("application/json"), b"1").unwrap(), 1);
    assert_eq!(codecs.decode::<u8>(Some("application/msgpack"), b"1").unwrap(), 0x31);
    assert_eq!(codecs.decode_traced::<u8>(None, b"1").unwrap().by, "json");
}

#[test]
fn other_charsets() {
    for (charset, body) in [("utf-16", &b"1\0"[..]), ("ibm037", b"\xf1"), ("utf-32", b"\0\0\x001")] {
        let declared = format!("application/json;charset={charset}");
        let failure = Codecs::json().decode::<u8>(Some(&declared), body).unwrap_err();
        assert_eq!(failure.reason().code(), "UnsupportedCharset");
    }
}

#[test]
fn a_suffix_with_a_body_of_another_type() {
    let failure = Codecs::json().decode::<Order>(Some("application/cloudevents+json"), b"{\"id\":1}").unwrap_err();
    assert_eq!(failure.trail().entries()[0].code(), "Type");
    assert_eq!(failure.reason().code(), "DeserializationFailed");
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only whether it is read counts")]
struct Point {
    x: f64,
    y: f64,
}

/// JSON whose shape is none of the asked type's, so that whoever accepts it took it for something else.
fn documents() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        string_regex("[ -~]{0,12}").unwrap().prop_map(serde_json::Value::from),
    ];
    let value = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map(string_regex("[a-w]{1,6}").unwrap(), inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    });
    prop::collection::btree_map(string_regex("[a-w]{1,6}").unwrap(), value, 1..5)
        .prop_map(|map: BTreeMap<String, _>| map.into_iter().collect::<serde_json::Map<_, _>>().into())
}

#[test]
fn feature_6_no_binary_codec_takes_json_for_its_own() {
    let mut replay = replay("feature_6_no_binary_codec_takes_json_for_its_own");
    // Each case is twelve decodings.
    replay.cases /= 12;
    let with = |positional: bool| {
        let base = Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).with(Postcard);
        let chain = ["json", "msgpack", "cbor", "postcard"];
        base.fallback(chain.into_iter().take(if positional { 4 } else { 3 }))
            .allow_positional("postcard")
            .build()
            .unwrap()
    };
    let bincode = Codecs::builder()
        .with(Json::default())
        .with(Bincode::default())
        .fallback(["json", "bincode"])
        .allow_positional("bincode")
        .build()
        .unwrap();
    let (chained, postcard) = (with(false), with(true));
    let result = replay.runner().run(&documents(), |document| {
        let body = serde_json::to_vec(&document).unwrap();
        for declared in [None, Some("application/json"), Some("application/x-unknown")] {
            prop_assert!(chained.decode::<Point>(declared, &body).is_err());
            prop_assert!(chained.decode::<Vec<u64>>(declared, &body).is_err());
            // Any 16 bytes are two floats to a positional codec: why it does not read unasked.
            let two_floats = body.len() == 16;
            prop_assert_eq!(postcard.decode::<Point>(declared, &body).is_ok(), two_floats);
            prop_assert_eq!(bincode.decode::<Point>(declared, &body).is_ok(), two_floats);
        }
        Ok(())
    });
    result.unwrap();
}
