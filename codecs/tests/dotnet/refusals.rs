use std::collections::BTreeMap;

use consign_codecs::{DecodeError, DecodeErrorKind as Kind, ValueKind as Found};
use serde::{Deserialize, de::DeserializeOwned};
use serde_bytes::ByteBuf;

use crate::support::{CONTRACT, SERIALIZATION, binary, element, start, text};

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only the refusal counts")]
enum State {
    Open,
    Moved(u8),
}

#[derive(Debug, Deserialize)]
struct Of<T> {
    #[serde(rename = "v")]
    _v: T,
}

/// A value in both encodings, as a member.
fn refused<T: DeserializeOwned>(record: &[u8], inside: &str) -> [DecodeError; 2] {
    let in_binary = [start("O", CONTRACT), element("v"), record.to_vec(), vec![1]].concat();
    let in_text = format!("<O xmlns=\"{CONTRACT}\"><v>{inside}</v></O>");
    let errors = [binary::<Of<T>>(&in_binary).err(), text::<Of<T>>(in_text.as_bytes()).err()];
    errors.map(|error| error.unwrap_or_else(|| panic!("{inside} was read")))
}

/// Rules: P-122.
#[test]
fn a_refusal_has_what_was_expected_and_found() {
    const TEXT: &[u8] = b"\x99\x06CANARY";
    let rows = [
        ("u8", refused::<u8>(TEXT, "CANARY"), Some(Found::Text)),
        ("f64", refused::<f64>(TEXT, "CANARY"), Some(Found::Text)),
        ("f32", refused::<f32>(TEXT, "CANARY"), Some(Found::Text)),
        ("a boolean", refused::<bool>(TEXT, "CANARY"), Some(Found::Text)),
        ("a character", refused::<char>(TEXT, "CANARY"), Some(Found::Text)),
        ("a map", refused::<BTreeMap<u8, u8>>(TEXT, "CANARY"), Some(Found::Text)),
        ("unit", refused::<()>(TEXT, "CANARY"), Some(Found::Text)),
        ("`Open` or `Moved`", refused::<State>(TEXT, "CANARY"), None),
    ];
    for (expected, errors, found) in rows {
        for error in errors {
            assert_eq!((error.kind(), error.path()), (Kind::Type, Some("v")), "{error}");
            assert_eq!((error.expected(), error.found()), (Some(expected), found), "{error}");
            assert!(error.position().is_some() && !format!("{error:?}{error}").contains("CANARY"), "{error:?}");
        }
    }
    for error in refused::<u8>(b"\x8b\x2c\x01", "300") {
        assert_eq!((error.expected(), error.found()), (Some("u8"), Some(Found::Integer)), "{error}");
    }
    for error in refused::<Vec<u8>>(b"\x99\x02a-", "a-") {
        assert_eq!((error.expected(), error.found()), (Some("a sequence"), Some(Found::Text)), "{error}");
    }
    for error in refused::<ByteBuf>(b"\x99\x02a-", "a-") {
        // The type takes text as bytes too, but text is base64 here.
        assert_eq!((error.expected(), error.found()), (Some("byte array"), Some(Found::Text)), "{error}");
    }
    for error in refused::<f32>(&[&[0x93][..], &1e300_f64.to_le_bytes()].concat(), "1e300") {
        assert_eq!((error.kind(), error.path()), (Kind::Type, Some("v")), "{error}");
    }
    for error in refused::<u64>(&[&[0x93][..], &1.5_f64.to_le_bytes()].concat(), "1.5") {
        assert_eq!(error.expected(), Some("u64"), "{error}");
    }
    for error in refused::<State>(b"\x99\x05Moved", "Moved") {
        assert_eq!(error.path(), Some("v.Moved"), "{error}");
    }
    for error in refused::<String>(&[&element("a")[..], &[1, 1]].concat(), "<a/>") {
        assert_eq!((error.expected(), error.found()), (Some("a string"), Some(Found::Map)), "{error}");
    }
}

/// Rules: P-122.
#[test]
fn a_member_twice_and_a_missing_one_are_refused() {
    let member = [&element("v")[..], &[0x81]].concat();
    let twice = [&start("O", CONTRACT)[..], &member, &member, &[1]].concat();
    let error = binary::<Of<u8>>(&twice).unwrap_err();
    assert_eq!((error.kind(), error.detail()), (Kind::DuplicateKey, Some("duplicate field `v`")));
    let error = binary::<Of<u8>>(&[&start("O", CONTRACT)[..], &[1]].concat()).unwrap_err();
    assert_eq!(error.detail(), Some("missing field `v`"));
    let error = binary::<(u8,)>(&[&start("ints", CONTRACT)[..], &member, &member, &[1]].concat()).unwrap_err();
    assert_eq!(error.detail(), Some("the type did not read the whole value"));
}

/// Rules: P-62.
#[test]
fn a_variant_with_a_value_is_an_element_of_its_name() {
    let body = [&start("O", CONTRACT)[..], &element("v"), &element("Moved"), &[0x89, 7, 1, 1]].concat();
    assert!(matches!(binary::<Of<State>>(&body), Ok(Of { _v: State::Moved(7) })));
}

/// Rules: P-62, P-103.
#[test]
fn bytes_are_a_sequence_of_u8_and_of_nothing_else() {
    const BYTES: &[u8] = b"\x9f\x04\0\0\xc0\x3f";
    const BASE64: &str = "AADAPw==";
    for error in refused::<Vec<f32>>(BYTES, BASE64) {
        assert_eq!((error.kind(), error.path(), error.expected()), (Kind::Type, Some("v[0]"), Some("f32")), "{error}");
    }
    for errors in [refused::<Vec<u16>>(BYTES, BASE64), refused::<Vec<i8>>(BYTES, BASE64)] {
        assert_eq!(errors.map(|error| error.kind()), [Kind::Type; 2]);
    }
    for errors in [refused::<[u8; 3]>(BYTES, BASE64), refused::<(u8, u8)>(BYTES, BASE64)] {
        for error in errors {
            assert_eq!(error.detail(), Some("the type did not read the whole value"), "{error}");
        }
    }
}

/// Rules: P-62.
#[test]
fn numbers_and_booleans_are_not_bytes() {
    // The digits of 1234, and the letters of true, are base64 as well.
    let start = start("int", SERIALIZATION);
    for record in [&[0x8b, 0xd2, 0x04][..], &[0x87], &[0x85], &[0x81], &[0xb5, 1]] {
        let body = [&start[..], record].concat();
        assert_eq!(binary::<Vec<u8>>(&body).unwrap_err().kind(), Kind::Type, "{record:x?}");
        assert_eq!(binary::<ByteBuf>(&body).unwrap_err().kind(), Kind::Type, "{record:x?}");
    }
    let body = [&start[..], &[0x8b, 0xd2, 0x04]].concat();
    assert_eq!(binary::<u32>(&body), Ok(1234));
    // One digit of base64 has a record of its own, also as a part of a longer text.
    let body = [&start[..], &[0x82], &[0x99, 3], b"234"].concat();
    assert_eq!(binary::<Vec<u8>>(&body).as_deref(), Ok(&[0xd7, 0x6d, 0xf8][..]));
    assert_eq!(binary::<Vec<u8>>(&[&start[..], &[0xa9]].concat()), Ok(vec![]));
}
