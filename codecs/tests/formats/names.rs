//! Keys and variants that are not text: no number is the place of a field or a variant.

use std::{collections::BTreeMap, fmt::Debug};

use consign_codecs::{DecodeErrorKind as Kind, ValueKind};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    cbor::bytes,
    support::{CBOR, MSGPACK, Which},
};

#[derive(Debug, Deserialize, PartialEq)]
struct Order {
    #[serde(default)]
    id: u64,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Strict {
    #[serde(default)]
    id: u64,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Flat {
    #[serde(flatten)]
    rest: BTreeMap<u64, u64>,
}

#[derive(Debug, Deserialize, PartialEq)]
enum State {
    Open,
    Sent(u8),
    Closed { by: u8 },
}

#[track_caller]
fn refusal<T: Debug + DeserializeOwned>(codec: Which, digits: &str) -> (Option<String>, Option<ValueKind>) {
    let error = codec.decode::<T>(&bytes(digits)).unwrap_err();
    assert_eq!(error.kind(), Kind::Type, "{digits}: {error}");
    (error.expected().map(str::to_owned), error.found())
}

/// Rules: P-104, P-105.
#[test]
fn a_key_that_is_not_text_is_no_field() {
    // 0, -1, true, null, 0.5, [0], {0: 0} and, of CBOR, a big integer.
    let of_cbor = ["00", "20", "f5", "f6", "f93800", "8100", "a10000", "c24100"];
    let of_msgpack = ["00", "ff", "c3", "c0", "ca3f000000", "9100", "810000"];
    let keys = of_cbor.map(|key| (CBOR, "a1", key)).into_iter().chain(of_msgpack.map(|key| (MSGPACK, "81", key)));
    for (codec, map, key) in keys {
        let body = format!("{map} {key} 07");
        assert_eq!(codec.decode::<Order>(&bytes(&body)), Ok(Order { id: 0 }), "{codec:?} {key}");
        let error = codec.decode::<Strict>(&bytes(&body)).unwrap_err();
        assert_eq!((error.detail(), error.expected()), (Some("unknown field"), Some("`id`")), "{codec:?} {key}");
    }
    // Bytes and text are names.
    for (codec, body) in [(CBOR, "a1 426964 07"), (CBOR, "a1 c1 626964 07"), (MSGPACK, "81 c4026964 07")] {
        assert_eq!(codec.decode(&bytes(body)), Ok(Strict { id: 7 }), "{body}");
    }
    // In flattened fields and maps a number is a key.
    for (codec, map) in [(CBOR, "a1"), (MSGPACK, "81")] {
        let body = bytes(&format!("{map} 05 07"));
        assert_eq!(codec.decode(&body), Ok(BTreeMap::from([(5_u64, 7_u64)])));
        assert_eq!(codec.decode(&body), Ok(Flat { rest: BTreeMap::from([(5, 7)]) }));
    }
}

/// Rules: P-101, P-105.
#[test]
fn a_variant_that_is_not_text_is_refused() {
    for digits in ["a1 01 07", "a1 02 a1 626279 07", "a1 f5 07", "a1 20 07", "a1 c24101 07", "a1 8101 07"] {
        let (expected, _) = refusal::<State>(CBOR, digits);
        assert_eq!(expected.as_deref(), Some("variant identifier"), "{digits}");
    }
    for digits in ["00", "ff", "c3", "81 01 07", "81 02 81 a26279 07", "81 c3 07", "81 ff 07"] {
        let (expected, _) = refusal::<State>(MSGPACK, digits);
        assert_eq!(expected.as_deref(), Some("variant identifier"), "{digits}");
    }
    assert_eq!(refusal::<State>(MSGPACK, "00").1, Some(ValueKind::Integer));
    assert_eq!(CBOR.decode(&bytes("a1 6453656e74 07")), Ok(State::Sent(7)));
    assert_eq!(CBOR.decode(&bytes("a1 66436c6f736564 a1 626279 07")), Ok(State::Closed { by: 7 }));
    assert_eq!(CBOR.decode(&bytes("a1 66436c6f736564 a2 00 05 626279 07")), Ok(State::Closed { by: 7 }));
    assert_eq!(MSGPACK.decode(&bytes("81 a453656e74 07")), Ok(State::Sent(7)));
    assert_eq!(MSGPACK.decode(&bytes("81 a6436c6f736564 82 00 05 a26279 07")), Ok(State::Closed { by: 7 }));
}
