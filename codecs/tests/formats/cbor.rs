//! CBOR as other encoders write it. The bytes come from the encoders that the tests name.

use std::{collections::BTreeMap, fmt::Debug};

use consign_codecs::DecodeErrorKind as Kind;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_bytes::ByteBuf;
use serde_json::{Value, json};

use crate::support::CBOR;

/// Bytes from their digits, with spaces between items.
pub(crate) fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[track_caller]
fn reads<T: Debug + DeserializeOwned + PartialEq>(digits: &str, expected: T) {
    assert_eq!(CBOR.decode::<T>(&bytes(digits)), Ok(expected), "{digits}");
}

#[track_caller]
fn refuses<T: Debug + DeserializeOwned>(digits: &str) -> String {
    let error = CBOR.decode::<T>(&bytes(digits)).unwrap_err();
    assert_eq!(error.kind(), Kind::Type, "{digits}: {error}");
    error.to_string()
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
enum Event {
    Stopped,
    Moved { x: i32, y: i32 },
    Split(u8, String),
    Sized(f32),
}

#[derive(Debug, Deserialize, PartialEq)]
struct Pair(i32, String);

/// Rules: P-100.
#[test]
#[allow(clippy::float_cmp)]
fn an_integer_is_read_into_a_float() {
    // 12.0 by cbor-x, cborg, cbor.
    reads("0c", 12.0_f64);
    reads("0c", 12.0_f32);
    reads("24", -5.0_f64);
    reads("1a00011170", 70_000.0_f32);
    reads("1bffffffffffffffff", 18_446_744_073_709_551_615.0_f64);
    reads("3bffffffffffffffff", -18_446_744_073_709_551_616.0_f64);
    reads("c249400000000000000000", 2_f64.powi(70));
    reads("c249400000000000000000", 2_f32.powi(70));
    reads("c349400000000000000000", -(2_f64.powi(70)));
    reads("82 05 c1 1a6553f100", (5.0_f64, 1_700_000_000.0_f64));
}

/// Rules: P-100.
#[test]
fn a_float_is_read_into_a_float_of_another_width() {
    // 1.5 by cborg, cbor2 in canonical form, ciborium; by cbor; by cbor-x.
    for digits in ["f93e00", "fa3fc00000", "fb3ff8000000000000"] {
        reads(digits, 1.5_f64);
        reads(digits, 1.5_f32);
    }
    // 0.1, which no f32 is: the nearest.
    reads("fb3fb999999999999a", 0.1_f32);
    reads("fa3dcccccd", 0.1_f32);
    reads("fa3dcccccd", f64::from(0.1_f32));
    reads("f97c00", f32::INFINITY);
    reads("fb7ff0000000000000", f32::INFINITY);
    for digits in ["f97e00", "fa7fc00000", "fb7ff8000000000000"] {
        assert!(CBOR.decode::<f32>(&bytes(digits)).unwrap().is_nan());
        assert!(CBOR.decode::<f64>(&bytes(digits)).unwrap().is_nan());
    }
    // 1e300, and the first that would be rounded to infinity.
    for digits in ["fb7e37e43c8800759c", "fb47effffff0000000"] {
        assert!(refuses::<f32>(digits).contains("f32"));
    }
    reads("fb47efffffe0000000", f32::MAX);
}

/// Rules: P-100.
#[test]
fn a_float_that_is_a_whole_number_is_read_into_an_integer() {
    // Date.now() by cbor-x.
    reads("fb4278bcfe5687b000", 1_700_000_000_123_i64);
    reads("fb4278bcfe5687b000", 1_700_000_000_123_u64);
    reads("fb4278bcfe5687b000", 1_700_000_000_123_u128);
    // 2^53 by cborg and cbor, 12.0 in 16 bits, -0.0.
    reads("fa5a000000", 1_u64 << 53);
    reads("f94a00", 12_u8);
    reads("f98000", 0_i32);
    reads("fbc008000000000000", -3_i8);
    refuses::<u32>("fb4278bcfe5687b000");
    refuses::<u8>("fbc008000000000000");
    refuses::<i64>("fb3ff8000000000000");
    refuses::<u64>("fb43f0000000000000");
    refuses::<i64>("fb43e0000000000000");
    refuses::<u64>("f97e00");
    refuses::<u64>("f97c00");
}

/// Serde reads an enum that is tagged inside twice, and first without its types.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "type")]
pub(crate) enum Tagged {
    Paid { at: u64, cents: f64, rest: Value },
}

/// Rules: P-100.
#[test]
fn so_it_is_where_serde_reads_a_value_twice() {
    // Date.now() and 12.5, by cbor-x.
    let paid = Tagged::Paid { at: 1_700_000_000_123, cents: 12.5, rest: Value::Null };
    reads("a4 6474797065 6450616964 626174 fb4278bcfe5687b000 6563656e7473 f94a40 6472657374 f6", paid);
    let paid = Tagged::Paid { at: 12, cents: 12.0, rest: json!([12.0]) };
    reads("a4 6474797065 6450616964 626174 0c 6563656e7473 f94a00 6472657374 81 f94a00", paid);
    // What takes anything sees a float.
    reads("82 f94a00 fb4278bcfe5687b000", json!([12.0, 1_700_000_000_123.0]));
    for at in ["f93e00", "fb43f0000000000000", "6161"] {
        let said =
            refuses::<Tagged>(&format!("a4 6474797065 6450616964 626174 {at} 6563656e7473 f94a00 6472657374 f6"));
        assert!(said.contains("u64"), "{said}");
    }
}

/// Rules: P-100.
#[test]
fn a_big_integer_is_read_where_it_fits() {
    reads("c248ffffffffffffffff", u64::MAX);
    reads("c24105", 5_u8);
    reads("c240", 0_u8);
    reads("c254 0000000000000000000000000000000000000000", 0_u8);
    reads("c34104", -5_i16);
    reads("c2 5f 4101 4100 ff", 256_u16);
    reads("c249400000000000000000", 1_u128 << 70);
    reads("c249400000000000000000", 1_i128 << 70);
    reads("c349010000000000000000", -(1_i128 << 64) - 1);
    reads("c250ffffffffffffffffffffffffffffffff", u128::MAX);
    reads("c3507fffffffffffffffffffffffffffffff", i128::MIN);
    reads("d9d9f7c249400000000000000000", 1_u128 << 70);
    refuses::<u64>("c249400000000000000000");
    refuses::<i128>("c250ffffffffffffffffffffffffffffffff");
    refuses::<i128>("c35080000000000000000000000000000000");
    refuses::<u128>("c2510100000000000000000000000000000000");
    refuses::<u128>("c34104");
    // As bytes, for a type of bytes.
    reads("c24105", ByteBuf::from([5]));
}

/// Rules: P-101.
#[test]
fn a_head_may_be_wider_than_it_needs_to_be() {
    // 5n by cbor-x.
    reads("1b0000000000000005", 5_u8);
    reads("1900ff", 255_u8);
    reads("3900ff", -256_i16);
    reads("3a00000000", -1_i8);
    reads("7a00000001 61", "a".to_owned());
    reads("9b0000000000000001 05", vec![5]);
    refuses::<u8>("190100");
}

/// Rules: P-101.
#[test]
fn an_indefinite_length_is_read_into_every_container() {
    reads("9f 01 02 ff", (1, 2));
    reads("9f 01 02 ff", [1, 2]);
    reads("9f 01 6161 ff", Pair(1, "a".into()));
    reads("9f ff", Vec::<u8>::new());
    reads("9f 9f 01 ff 80 ff", vec![vec![1], vec![]]);
    reads("bf 6161 01 6162 02 ff", BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]));
    reads("7f 6161 6162 ff", "ab".to_owned());
    reads("5f 4101 4102 ff", ByteBuf::from([1, 2]));
    reads("5f 4101 4102 ff", vec![1_u8, 2]);
    // The chunks of text are text together.
    reads("7f 61c3 61a9 ff", "é".to_owned());
    refuses::<(u8, u8)>("9f 01 ff");
    refuses::<(u8, u8)>("9f 01 02 03 ff");
    refuses::<[u8; 2]>("9f 01 02 03 ff");
    refuses::<(u8, u8)>("83 01 02 03");
    refuses::<(u8, (u8, u8))>("82 01 9f 02 03 04 ff");
}

/// Rules: P-101.
#[test]
fn a_variant_is_read_from_a_map_of_any_head() {
    // By cborg and cbor; by cbor-x; with a wide count; with an indefinite length.
    for head in ["a1", "b801", "b90001", "ba00000001", "bf"] {
        let end = if head == "bf" { "ff" } else { "" };
        reads(&format!("{head} 654d6f766564 a2 6178 01 6179 20 {end}"), Event::Moved { x: 1, y: -1 });
        reads(&format!("{head} 654d6f766564 bf 6178 01 6179 20 ff {end}"), Event::Moved { x: 1, y: -1 });
        reads(&format!("{head} 6553706c6974 82 07 6161 {end}"), Event::Split(7, "a".into()));
        reads(&format!("{head} 6553697a6564 fb3fb999999999999a {end}"), Event::Sized(0.1));
        reads(&format!("{head} 6753746f70706564 f6 {end}"), Event::Stopped);
        refuses::<Event>(&format!("82 {head} 6753746f70706564 00 {end} 00"));
    }
    reads("a1 6753746f70706564 f7", Event::Stopped);
    reads("6753746f70706564", Event::Stopped);
    reads("c6 6753746f70706564", Event::Stopped);
    reads("c6 a1 6553697a6564 01", Event::Sized(1.0));
    reads("82 6753746f70706564 a1 6553697a6564 01", vec![Event::Stopped, Event::Sized(1.0)]);
    for digits in [
        "a0",
        "bfff",
        "a2 6753746f70706564 f6 6753746f70706564 f6",
        "bf 6753746f70706564 f6 6753746f70706564 f6 ff",
        "a1 6753746f70706564 01",
        "6553697a6564",
        "81 6753746f70706564",
        "00",
    ] {
        refuses::<Event>(digits);
    }
}

/// Rules: P-102.
#[test]
fn tags_are_stepped_over() {
    // By cbor2: a datetime, a date, a UUID, a set, a typed array; by cbor-x: a Date, a Uint8Array, a Map.
    reads("c0 781b323032332d31312d31345432323a31333a32302e3132333030305a", "2023-11-14T22:13:20.123000Z".to_owned());
    reads("d903ec 6a323032332d31312d3134", "2023-11-14".to_owned());
    reads("d825 5000000000000000000000000000000005", ByteBuf::from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]));
    reads("d825 5000000000000000000000000000000005", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5_u8]);
    reads("d90102 81 01", vec![1]);
    reads("d90103 a1 01 6161", BTreeMap::from([(1, "a".to_owned())]));
    reads("d845 44 01000200", ByteBuf::from([1, 0, 2, 0]));
    reads("d840 43 010203", vec![1_u8, 2, 3]);
    reads("c1 1a6553f100", 1_700_000_000_u32);
    reads("c1 fb41d954fc4007df3b", 1_700_000_000.123_f64);
    reads("c1 fb41d954fc40000000", 1_700_000_000_i64);
    for tag in ["c0", "c4", "d5", "d6", "d7", "d818", "d820", "d857", "d903e8", "da00010000", "db0000000100000000"] {
        reads(&format!("{tag} 6161"), "a".to_owned());
        reads(&format!("{tag} d9d9f7 {tag} 6161"), Some("a".to_owned()));
        reads(&format!("a1 6161 {tag} f5"), BTreeMap::from([("a".to_owned(), true)]));
    }
    reads("d820 f6", None::<String>);
    reads("82 d820 f6 01", (None::<String>, 1));
    reads("82 c1 01 02", (1, 2));
    reads("d9d9f7 82 d820 6161 01", json!(["a", 1]));
}

/// Rules: P-102.
#[test]
fn seconds_are_text_where_they_could_be_taken_for_milliseconds() {
    let text = "2023-11-14T22:13:20Z";
    reads("c1 1a6553f100", text.to_owned());
    reads("c1 1a6553f100", json!(text));
    reads("81 c1 fb41d954fc4007df3b", json!(["2023-11-14T22:13:20.123Z"]));
    reads("c1 20", json!("1969-12-31T23:59:59Z"));
    refuses::<Value>("c1 1bffffffffffffffff");
    refuses::<Value>("c1 f97e00");
}

/// Rules: P-102.
#[test]
fn references_inside_a_body_are_refused_by_name() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Known {
        a: u8,
    }

    // By cbor2, with string_referencing and with value_sharing.
    for (digits, tag) in [
        ("d90100 82 6461616161 d81900", 256),
        ("82 6461616161 d819 00", 25),
        ("d81c a1 6161 d81c 820102", 28),
        ("82 01 d81d 00", 29),
    ] {
        let said = refuses::<Value>(digits);
        assert!(said.contains(&format!("tag {tag}")) && said.contains("references"), "{said}");
    }
    // In a field that the type ignores they do no harm.
    reads("a2 6161 01 6162 82 d81900 d81d00", Known { a: 1 });
}

/// Rules: P-103.
#[test]
fn a_byte_string_is_a_sequence_of_u8_and_of_nothing_else() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Octet(u8);

    reads("43 010203", vec![1_u8, 2, 3]);
    reads("43 010203", [1_u8, 2, 3]);
    reads("42 0102", (1_u8, Octet(2)));
    reads("83 010203", vec![1_u8, 2, 3]);
    reads("83 010203", ByteBuf::from([1, 2, 3]));
    // Two numbers of 16 bits, by cbor-x: four bytes, which are not four numbers.
    refuses::<Vec<u16>>("d845 44 01000200");
    refuses::<Vec<f32>>("d855 44 00000000");
    refuses::<[u8; 2]>("43 010203");
    refuses::<[u8; 4]>("43 010203");
    refuses::<Vec<Value>>("43 010203");
    refuses::<Event>("43 010203");
}

/// Rules: P-104.
#[test]
fn simple_values_and_undefined() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Known {
        a: Option<u8>,
    }
    // undefined, by cbor-x.
    reads("b90002 6161 f7 6162 01", Known { a: None });
    reads("a2 6161 01 6162 e0", Known { a: Some(1) });
    reads("a2 6161 01 6162 f8ff", Known { a: Some(1) });
    reads("a3 6161 01 6162 9f bf 01 5f ff ff 82 7f 6161 ff f0 ff 6163 02", Known { a: Some(1) });
    reads("f7", ());
    refuses::<Value>("e0");
    refuses::<bool>("f8ff");
    refuses::<bool>("01");
    refuses::<u8>("f5");
    refuses::<u8>("6131");
    refuses::<String>("01");
    refuses::<Known>("81 01");
}

#[test]
fn an_error_says_where_the_item_begins() {
    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Line {
        sku: String,
        gift: bool,
    }
    let at = |digits: &str| CBOR.decode::<Vec<Line>>(&bytes(digits)).unwrap_err().position().map(|at| at.to_string());
    assert_eq!(at("81 a2 63736b75 6161 6467696674 05").as_deref(), Some("13"));
    assert_eq!(at("81 a2 63736b75 61ff 6467696674 f5").as_deref(), Some("6"));
    assert_eq!(at("d9d9f7 81 a2 63736b75 6161 6467696674 05").as_deref(), Some("16"));
    // A missing field is missing in the map.
    assert_eq!(at("81 a1 63736b75 6161").as_deref(), Some("1"));
    assert_eq!(at("81 bf 63736b75 6161 ff").as_deref(), Some("1"));
    assert_eq!(at("81 81 05").as_deref(), Some("1"));
    assert_eq!(at("81 c1 81 05").as_deref(), Some("2"));
}

#[test]
fn floats_of_every_bit_pattern_come_back() {
    let mut random = fastrand::Rng::with_seed(crate::support::seed());
    for _ in 0..2_000 {
        let (wide, narrow) = (f64::from_bits(random.u64(..)), f32::from_bits(random.u32(..)));
        let read = |value: f64| CBOR.decode::<f64>(&CBOR.encode(&value).unwrap()).unwrap();
        assert!(read(wide).to_bits() == wide.to_bits(), "{wide:?}");
        assert!(read(f64::from(narrow)).to_bits() == f64::from(narrow).to_bits(), "{narrow:?}");
        let read = CBOR.decode::<f32>(&CBOR.encode(&narrow).unwrap()).unwrap();
        assert!(read.to_bits() == narrow.to_bits(), "{narrow:?}");
    }
}

/// As cbor-x 1.6 writes `{id: 7, lines: []}` by default, and with shared structures.
///
/// Rules: P-108.
#[test]
fn records_of_cbor_x_are_refused_for_every_type() {
    for (record, tag) in [("d9dfff 84 19e000 82 626964 656c696e6573 07 80", 57_343), ("d9e000 82 07 80", 57_344)] {
        for said in [
            refuses::<Value>(record),
            refuses::<Vec<Value>>(record),
            refuses::<(u64, Vec<u8>)>(record),
            refuses::<Option<Vec<Value>>>(record),
            refuses::<BTreeMap<String, Value>>(record),
            refuses::<Event>(record),
            refuses::<Vec<Value>>(&format!("81 {record}")),
            refuses::<BTreeMap<String, Vec<Value>>>(&format!("a1 6161 {record}")),
        ] {
            let expected = format!("records of cbor-x (tag {tag}) are not supported; encode with `useRecords: false`");
            assert!(said.contains(&expected), "{said}");
        }
        reads(record, serde::de::IgnoredAny);
    }
    // The tags beside them, which others may use.
    for tag in ["d9dffd", "d9e100"] {
        reads(&format!("{tag} 81 07"), vec![7]);
    }
}
