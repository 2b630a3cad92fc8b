//! `MessagePack` as other encoders write it. The bytes come from the encoders that the tests name.

use std::{collections::BTreeMap, fmt::Debug};

use consign_codecs::DecodeErrorKind as Kind;
use serde::{Deserialize, de::DeserializeOwned};
use serde_bytes::ByteBuf;
use serde_json::{Value, json};

use crate::{
    cbor::{Tagged, bytes},
    support::MSGPACK,
};

#[track_caller]
fn reads<T: Debug + DeserializeOwned + PartialEq>(digits: &str, expected: T) {
    assert_eq!(MSGPACK.decode::<T>(&bytes(digits)), Ok(expected), "{digits}");
}

#[track_caller]
fn refuses<T: Debug + DeserializeOwned>(digits: &str) {
    let error = MSGPACK.decode::<T>(&bytes(digits)).unwrap_err();
    assert_eq!(error.kind(), Kind::Type, "{digits}: {error}");
}

#[derive(Debug, Deserialize, PartialEq)]
enum Event {
    Stopped,
    Moved { x: i32, y: i32 },
    At(Vec<Option<(u64,)>>),
}

/// Rules: P-105.
#[test]
fn a_float_that_is_a_whole_number_is_read_into_an_integer() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Order {
        at: u64,
        lines: Vec<Option<i64>>,
    }
    // Date.now() by msgpackr and msgpack-lite.
    reads("cb4278bcfe5687b000", 1_700_000_000_123_u64);
    reads("cb4278bcfe5687b000", 1_700_000_000_123_i64);
    reads("cb4028000000000000", 12_u8);
    reads("ca41400000", 12_i16);
    let order = Order { at: 1_700_000_000_123, lines: vec![Some(-3), None] };
    reads("82 a26174 cb4278bcfe5687b000 a56c696e6573 92 cbc008000000000000 c0", order);
    reads("81 a24174 91 91 cb4278bcfe5687b000", Event::At(vec![Some((1_700_000_000_123,))]));
    for digits in ["cb3ff8000000000000", "cb43f0000000000000", "cbc008000000000000", "cb7ff8000000000000"] {
        refuses::<u64>(digits);
    }
    refuses::<u32>("cb4278bcfe5687b000");
    // What takes anything still sees a float.
    reads("cb4028000000000000", json!(12.0));
}

/// Rules: P-105.
#[test]
fn so_it_is_where_serde_reads_a_value_twice() {
    // Date.now() and 12.5, by msgpackr.
    let paid = Tagged::Paid { at: 1_700_000_000_123, cents: 12.5, rest: Value::Null };
    let head = "84 a474797065 a450616964 a26174";
    reads(&format!("{head} cb4278bcfe5687b000 a563656e7473 cb4029000000000000 a472657374 c0"), paid);
    let paid = Tagged::Paid { at: 12, cents: 12.0, rest: json!([12.0]) };
    reads(&format!("{head} 0c a563656e7473 cb4028000000000000 a472657374 91 cb4028000000000000"), paid);
    refuses::<Tagged>(&format!("{head} cb3ff8000000000000 a563656e7473 cb4028000000000000 a472657374 c0"));
}

/// Rules: P-105.
#[test]
fn the_timestamp_extension_is_read_into_text() {
    // A Date by msgpackr and @msgpack/msgpack, a datetime by msgpack.
    reads("d7ff1d5353006553f100", "2023-11-14T22:13:20.123Z".to_owned());
    reads("91 d6ff6553f100", vec![Some("2023-11-14T22:13:20Z".to_owned())]);
    // A datetime64 of numpy and an Instant of Java: nanoseconds.
    reads("c70cff075bcd15000000006553f100", "2023-11-14T22:13:20.123456789Z".to_owned());
    for digits in ["d6016553f100", "d5ff6553", "c70cff 3b9aca00 0000000000000000", "c70cff 00000000 7fffffffffffffff"] {
        refuses::<String>(digits);
    }
    refuses::<u32>("d6ff6553f100");
}

/// Rules: P-105.
#[test]
fn numbers_are_read_into_floats() {
    reads("0c", 12.0_f64);
    reads("fb", -5.0_f32);
    reads("ca3fc00000", 1.5_f64);
    reads("cb3fb999999999999a", 0.1_f32);
    reads("cb7ff0000000000000", f32::INFINITY);
    assert!(MSGPACK.decode::<f32>(&bytes("cb7ff8000000000000")).unwrap().is_nan());
    refuses::<f32>("cb7e37e43c8800759c");
    refuses::<Vec<Option<f32>>>("91 cb7e37e43c8800759c");
}

/// Rules: P-105.
#[test]
fn integers_of_any_width() {
    // 5n by msgpackr.
    reads("d30000000000000005", 5_u8);
    reads("cf0000000000000005", 5_i8);
    reads("cd00ff", 255_u8);
    refuses::<u8>("cd0100");
}

/// Rules: P-105.
#[test]
fn bytes_are_a_sequence_and_text_may_be_bytes() {
    // bytes by msgpack, a Uint8Array by msgpackr.
    reads("c403010203", vec![1_u8, 2, 3]);
    reads("c403010203", [1_u8, 2, 3]);
    reads("c403010203", ByteBuf::from([1, 2, 3]));
    reads("93010203", ByteBuf::from([1, 2, 3]));
    // Text as bytes, and bytes as text: before 2013 there was one type for both.
    reads("a26162", ByteBuf::from("ab"));
    reads("c4026162", "ab".to_owned());
}

/// Rules: P-103.
#[test]
fn a_byte_string_is_a_sequence_of_u8_and_of_nothing_else() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Octet(u8);
    #[derive(Debug, Deserialize, PartialEq)]
    struct Point {
        x: u8,
        y: u8,
    }
    #[derive(Debug, Deserialize, PartialEq)]
    struct Pair(u8, u8);
    #[derive(Debug, Deserialize, PartialEq)]
    struct Weights<T> {
        w: T,
    }
    #[derive(Debug, Deserialize, PartialEq)]
    enum Shape {
        Line(u8, u8),
        Point { x: u8, y: u8 },
        Raw(Vec<u8>),
    }
    #[derive(Debug, Deserialize, PartialEq)]
    struct Tree {
        children: Vec<Tree>,
    }

    reads("c4020102", (1_u8, Octet(2)));
    reads("c4020102", Pair(1, 2));
    reads("91 c4020102", vec![Some(vec![1_u8, 2])]);
    reads("c400", Vec::<u8>::new());
    // A Float32Array by msgpackr and @msgpack/msgpack: four bytes, which are not four numbers.
    let weights = "81 a177 c404 0000c03f";
    reads(weights, Weights { w: vec![0_u8, 0, 0xc0, 0x3f] });
    reads(weights, Weights { w: Some([0_u8, 0, 0xc0, 0x3f]) });
    reads(weights, Weights { w: (0_u8, 0_u8, 0xc0_u8, 0x3f_u8) });
    refuses::<Weights<Vec<f32>>>(weights);
    refuses::<Weights<Vec<u16>>>(weights);
    refuses::<Weights<Option<Vec<u64>>>>(weights);
    refuses::<Weights<Vec<i8>>>(weights);
    refuses::<Weights<Vec<u128>>>(weights);
    refuses::<Weights<Vec<Value>>>(weights);
    refuses::<Weights<(f32, f32, f32, f32)>>(weights);
    for digits in ["c403010203", "c50003010203", "c600000003010203"] {
        reads(digits, vec![1_u8, 2, 3]);
        for error in [
            MSGPACK.decode::<[u8; 2]>(&bytes(digits)).unwrap_err(),
            MSGPACK.decode::<(u8, u8)>(&bytes(digits)).unwrap_err(),
            MSGPACK.decode::<Pair>(&bytes(digits)).unwrap_err(),
        ] {
            assert_eq!((error.kind(), error.detail()), (Kind::Type, Some("the type did not read the whole value")));
        }
        refuses::<[u8; 4]>(digits);
        refuses::<[u8; 0]>(digits);
        refuses::<Point>(digits);
    }
    refuses::<Point>("c4020102");
    reads("81 a86368696c6472656e 91 91 90", Tree { children: vec![Tree { children: vec![] }] });
    refuses::<Tree>("81 a86368696c6472656e c40100");
    reads("920102", Point { x: 1, y: 2 });
    // The same in variants.
    reads("81 a44c696e65 c4020102", Shape::Line(1, 2));
    reads("81 a3526177 c4020102", Shape::Raw(vec![1, 2]));
    reads("81 a44c696e65 920102", Shape::Line(1, 2));
    reads("81 a5506f696e74 920102", Shape::Point { x: 1, y: 2 });
    refuses::<Shape>("81 a44c696e65 c403010203");
    refuses::<Shape>("81 a5506f696e74 c4020102");
    // The name of a variant without data is no variant with data.
    let line = MSGPACK.decode::<Shape>(&bytes("a44c696e65")).unwrap_err();
    assert_eq!((line.kind(), line.expected()), (Kind::Type, Some("tuple variant")));
    let point = MSGPACK.decode::<Shape>(&bytes("a5506f696e74")).unwrap_err();
    assert_eq!((point.kind(), point.expected()), (Kind::Type, Some("struct variant")));
    // Text that is not UTF-8 is no sequence either, as text is not.
    assert_eq!(MSGPACK.decode::<Vec<u8>>(&bytes("a2 ff01")).unwrap_err().kind(), Kind::Utf8);
    refuses::<Vec<u8>>("a2 6162");
}

/// Rules: P-105.
#[test]
fn variants_by_other_encoders() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Known {
        b: u8,
    }

    // By msgpackr, whose maps have wide heads; by msgpack-lite and @msgpack/msgpack.
    for map in ["de0001", "81"] {
        reads(&format!("{map} a54d6f766564 de0002 a178 01 a179 ff"), Event::Moved { x: 1, y: -1 });
        reads(&format!("{map} a753746f70706564 c0"), Event::Stopped);
    }
    reads("a753746f70706564", Event::Stopped);
    // An extension of another's is skipped in a field that the type ignores, and refused elsewhere.
    reads("de0002 a161 d40000 a162 01", Known { b: 1 });
    refuses::<Value>("d40000");
}

/// Rules: P-105.
#[test]
fn a_timestamp_is_text_where_any_type_is_read() {
    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(tag = "type")]
    enum Event {
        Paid { at: String, cents: f64, count: u8 },
    }

    // {at: new Date(1700000000000)} by @msgpack/msgpack.
    let at = json!("2023-11-14T22:13:20Z");
    reads("81 a26174 d6ff6553f100", BTreeMap::from([("at".to_owned(), at.clone())]));
    reads("81 a26174 d7ff1d5353006553f100", json!({"at": "2023-11-14T22:13:20.123Z"}));
    // A whole float stays one.
    reads("92 d6ff6553f100 cb4028000000000000", json!([at, 12.0]));
    let paid = Event::Paid { at: "2023-11-14T22:13:20Z".into(), cents: 12.0, count: 3 };
    let body = "84 a474797065 a450616964 a26174 d6ff6553f100 a563656e7473 cb4028000000000000 a5636f756e74 ";
    reads(&format!("{body} 03"), paid);
    let paid = Event::Paid { at: "2023-11-14T22:13:20Z".into(), cents: 12.0, count: 3 };
    reads(&format!("{body} cb4008000000000000"), paid);
    // Another extension has no text.
    refuses::<Value>("91 d6016553f100");
}

/// Rules: P-105.
#[test]
fn a_negative_integer_is_no_large_one() {
    refuses::<u128>("ff");
    refuses::<u128>("d3ffffffffffffffff");
    reads("ff", -1_i128);
    reads("7f", 127_u128);
    reads("cfffffffffffffffff", u128::from(u64::MAX));
    for value in [u128::MAX, 1 << 64, 0] {
        assert_eq!(MSGPACK.decode(&MSGPACK.encode(&value).unwrap()), Ok(value));
    }
    for value in [i128::MIN, -1, 0, i128::MAX] {
        assert_eq!(MSGPACK.decode(&MSGPACK.encode(&value).unwrap()), Ok(value));
    }
    // Another number of bytes is no number.
    refuses::<u128>("c403010203");
    refuses::<i128>("a178");
}

/// As msgpackr 2.1 writes them.
///
/// Rules: P-109.
#[test]
fn records_and_objects_of_msgpackr_are_named() {
    let records = "records of msgpackr (extension 114) are not supported; encode with `useRecords: false`".to_owned();
    let objects =
        |kind| format!("objects of msgpackr (extension {kind}) are not supported; encode without `structuredClone`");
    for (digits, expected) in [
        // `{id: 7}`, and `[{id: 7}, {id: 8}]`.
        ("d47240 91 a26964 07", records.clone()),
        ("92 d47240 91 a26964 07 40 08", records),
        // `{a: new Set([1])}`, an error, a regular expression, and an object in itself, with `structuredClone`.
        ("81 a161 d47300 91 01", objects(115)),
        ("d46500 93 a54572726f72 a178 d40000", objects(101)),
        ("d47800 92 a161 a167", objects(120)),
        ("d66900000001 de0001 a473656c66 d67000000001", objects(105)),
    ] {
        let error = MSGPACK.decode::<Value>(&bytes(digits)).unwrap_err();
        assert_eq!((error.kind(), error.detail()), (Kind::Trailing, Some(&*expected)), "{digits}");
    }
    // Without such an extension, further bytes are no more than that.
    for digits in ["40 07", "d6ff00000001 07", "07 c7", "07 d4"] {
        let error = MSGPACK.decode::<Value>(&bytes(digits)).unwrap_err();
        assert_eq!((error.kind(), error.detail()), (Kind::Trailing, None), "{digits}");
    }
}
