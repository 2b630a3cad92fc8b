use bytes::BytesMut;
use consign_codecs::{
    Bincode, Cbor, Codec, CodecSet, Codecs, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Format, Json,
    Limits, Losses, MediaType, MessagePack, Policy, TranscodeError,
};
use proptest::{collection::vec, prelude::*};
use serde::{Deserialize, Serialize, Serializer};

use crate::support::replay;

const JSON: &str = "application/json";
const MSGPACK: &str = "application/msgpack";
const CBOR: &str = "application/cbor";
const ALL: [&str; 3] = [JSON, MSGPACK, CBOR];

fn codecs() -> Codecs<impl CodecSet> {
    Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).with(Bincode::fixint()).build().unwrap()
}

fn transcode(from: &str, body: &[u8], to: &str) -> Result<Vec<u8>, TranscodeError> {
    let encoded = codecs().transcode(Some(from), body, to)?;
    assert_eq!(encoded.content_type, to);
    Ok(encoded.body.to_vec())
}

/// The limits and the permitted types are those of received bodies.
/// Rules: H-70.
#[test]
fn a_larger_body_of_a_type_that_is_not_received_is_written() {
    let limits = Limits::default().bytes(100);
    let codecs =
        Codecs::builder().with(Json::default()).with(MessagePack).limits(limits).allow([JSON]).build().unwrap();
    let body = [&b"["[..], &b"1.5,".repeat(24), b"1]"].concat();
    let there = codecs.transcode(Some(JSON), &body, MSGPACK).unwrap();
    assert!(there.body.len() > 100, "floats have 9 bytes");
    let back = Codecs::builder().with(Json::default()).with(MessagePack).build().unwrap();
    assert_eq!(back.transcode(Some(MSGPACK), &there.body, JSON).unwrap().body, body);
}

/// Whatever all three formats hold.
#[derive(Clone, Debug)]
enum Tree {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Unsigned(value) => serializer.serialize_u64(*value),
            Self::Signed(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(values) => serializer.collect_seq(values),
            Self::Map(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, value))),
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        any::<u64>().prop_map(Tree::Unsigned),
        any::<i64>().prop_map(Tree::Signed),
        any::<u64>().prop_map(f64::from_bits).prop_filter("a finite number", |f| f.is_finite()).prop_map(Tree::Float),
        ".{0,8}".prop_map(Tree::Text),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let map = prop::collection::btree_map(".{0,6}", inner.clone(), 0..4);
        prop_oneof![vec(inner, 0..4).prop_map(Tree::List), map.prop_map(|map| Tree::Map(map.into_iter().collect()))]
    })
}

/// Rules: H-70.
#[test]
fn common_values_are_converted_to_each_format_and_back() {
    let mut replay = replay("common_values_are_converted_to_each_format_and_back");
    replay.cases /= 50;
    let result = replay.runner().run(&tree(), |tree| {
        for from in ALL {
            let body = codecs().encode_as(&tree, from).unwrap().body;
            for to in ALL {
                let there = transcode(from, &body, to).unwrap();
                prop_assert_eq!(&there[..], &codecs().encode_as(&tree, to).unwrap().body[..], "{} to {}", from, to);
                prop_assert_eq!(&transcode(to, &there, from).unwrap()[..], &body[..], "{} to {} and back", from, to);
            }
        }
        Ok(())
    });
    result.unwrap();
}

/// Rules: P-120.
#[test]
fn no_finite_float_is_lossy_in_json() {
    let replay = replay("no_finite_float_is_lossy_in_json");
    let mut random = fastrand::Rng::with_seed(replay.seed);
    let codecs = codecs();
    let mut lossy = 0;
    for _ in 0..replay.cases {
        let (long, short) = (f64::from_bits(random.u64(..)), f32::from_bits(random.u32(..)));
        let bodies = [
            [&[0xfb][..], &long.to_be_bytes()].concat(),
            [&[0xfb][..], &random.f64().to_be_bytes()].concat(),
            [&[0xfa][..], &short.to_be_bytes()].concat(),
        ];
        let finite = [long.is_finite(), true, short.is_finite()];
        for (body, _) in bodies.iter().zip(finite).filter(|(_, is_finite)| *is_finite) {
            lossy += usize::from(codecs.transcode(Some(CBOR), body, JSON).is_err());
        }
    }
    assert_eq!(lossy, 0, "of {} floats of each kind", replay.cases);
}

/// Rules: H-71.
/// Each row: what, as MessagePack, what JSON makes of it at best, and what that costs.
#[test]
fn each_loss_into_json_is_refused_or_declared() {
    let of = |bytes, keys, numbers| {
        let mut losses = Losses::default();
        (losses.bytes, losses.keys, losses.numbers) = (bytes, keys, numbers);
        losses
    };
    for (what, body, json, losses) in [
        ("bytes", &b"\xc4\x03foo"[..], r#""Zm9v""#, of(1, 0, 0)),
        ("a number as a key", b"\x81\x01\xc3", r#"{"1":true}"#, of(0, 1, 0)),
        ("a negative one", b"\x81\xff\xc3", r#"{"-1":true}"#, of(0, 1, 0)),
        ("a truth value as a key", b"\x81\xc3\x01", r#"{"true":1}"#, of(0, 1, 0)),
        ("null as a key", b"\x81\xc0\x01", r#"{"null":1}"#, of(0, 1, 0)),
        ("a float as a key", b"\x81\xcb\x3f\xf8\0\0\0\0\0\0\x01", r#"{"1.5":1}"#, of(0, 1, 0)),
        ("bytes as a key", b"\x81\xc4\x03foo\x01", r#"{"Zm9v":1}"#, of(0, 1, 0)),
        ("not a number", b"\xcb\x7f\xf8\0\0\0\0\0\0", "null", of(0, 0, 1)),
        ("infinite", b"\xcb\x7f\xf0\0\0\0\0\0\0", "null", of(0, 0, 1)),
        ("infinite, of 32 bits", b"\xca\xff\x80\0\0", "null", of(0, 0, 1)),
        ("all of it", b"\x92\x81\x01\xc4\x01f\xcb\x7f\xf8\0\0\0\0\0\0", r#"[{"1":"Zg=="},null]"#, of(1, 1, 1)),
    ] {
        let refused = transcode(MSGPACK, body, JSON).unwrap_err();
        assert!(matches!(refused, TranscodeError::Lossy | TranscodeError::Unencodable(_)), "{what}: {refused:?}");
        let (encoded, lost) = codecs().transcode_lossy(Some(MSGPACK), body, JSON).expect(what);
        assert_eq!((std::str::from_utf8(&encoded.body), lost), (Ok(json), losses), "{what}");
        // The other two hold it, and give it back.
        let cbor = transcode(MSGPACK, body, CBOR).expect(what);
        assert_eq!(transcode(CBOR, &cbor, MSGPACK).unwrap(), body, "{what}");
        let (_, lost) = codecs().transcode_lossy(Some(MSGPACK), body, CBOR).unwrap();
        assert_eq!(lost, Losses::default(), "{what}");
    }
}

/// Rules: H-72.
#[test]
fn values_without_an_equivalent_are_refused_in_both_modes() {
    for (what, body) in [
        ("two keys that become one", &b"\x82\x01\x01\xa11\x02"[..]),
        ("a list as a key", b"\x81\x91\x01\x02"),
        ("a map as a key", b"\x81\x81\x01\x02\x03"),
    ] {
        transcode(MSGPACK, body, JSON).expect_err(what);
        codecs().transcode_lossy(Some(MSGPACK), body, JSON).expect_err(what);
    }
    for to in ["application/x-bincode", "application/x-unknown"] {
        transcode(JSON, b"{}", to).expect_err(to);
        codecs().transcode_lossy(Some(JSON), b"{}", to).expect_err(to);
    }
    for (what, from, body) in [
        ("a positional format", "application/x-bincode", &b"\x01\0\0\0"[..]),
        ("a key twice", JSON, br#"{"a":1,"a":2}"#),
        ("an extension", MSGPACK, b"\xd4\x01\x00"),
        ("a tag", CBOR, b"\xc1\x07"),
        ("no JSON", JSON, b"{,"),
    ] {
        let refused = transcode(from, body, CBOR).expect_err(what);
        assert!(matches!(refused, TranscodeError::Undecodable(_)), "{what}: {refused:?}");
    }
}

/// Rules: L-24.
#[test]
fn a_key_that_occurs_twice_is_named() {
    for (from, body) in
        [(JSON, &br#"{"a":1,"a":2}"#[..]), (MSGPACK, b"\x82\xa1a\x01\xa1a\x02"), (CBOR, b"\xa2\x61a\x01\x61a\x02")]
    {
        let Err(TranscodeError::Undecodable(failure)) = transcode(from, body, CBOR) else { panic!("{from}") };
        assert_eq!(failure.trail().entries()[0].kind(), Some(DecodeErrorKind::DuplicateKey), "{from}: {failure}");
        assert!(failure.to_string().contains("a key occurs twice"), "{failure}");
    }
}

/// Writes what it does not read.
struct WriteOnly;

impl Codec for WriteOnly {
    fn name(&self) -> &'static str {
        "write-only"
    }

    fn media_types(&self) -> &'static [MediaType] {
        const { &[MediaType::exact("application/x-write-only")] }
    }

    fn format(&self) -> Format {
        Format::SelfDescribing
    }

    fn decode<'de, T: Deserialize<'de>>(&self, _: &'de [u8], _: &DecodeContext<'_>) -> Result<T, DecodeError> {
        Err(DecodeError::new(DecodeErrorKind::Syntax))
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        Json::default().encode(value, out)
    }
}

/// Rules: H-72.
#[test]
fn output_that_only_a_fallback_reads_is_refused() {
    let codecs = Codecs::builder().with(Json::default()).with(WriteOnly).fallback(["json"]);
    let codecs = codecs.on_failed(Policy::Chain).build().unwrap();
    let body = codecs.encode_as(&7, "application/x-write-only").unwrap().body;
    assert_eq!(codecs.decode::<u8>(Some("application/x-write-only"), &body).unwrap(), 7);
    let refused = codecs.transcode(Some(JSON), b"7", "application/x-write-only").unwrap_err();
    assert!(matches!(refused, TranscodeError::Lossy), "{refused:?}");
}

/// Rules: H-73.
/// Each row: what is read, and all that is left of it.
#[test]
fn losses_of_reading_are_in_the_table() {
    for (what, from, body, left) in [
        ("digits beyond a float", JSON, &b"0.1234567890123456789"[..], "0.12345678901234568"),
        ("an integer beyond 64 bits", JSON, b"36893488147419103232", "3.6893488147419103e+19"),
        ("white space and escapes", JSON, b" [ \"\\u0061\" , 1e2 ] ", "[\"a\",100.0]"),
        ("the width of a number", MSGPACK, b"\xcd\x00\x07", "7"),
        ("the sign of a width", MSGPACK, b"\xd0\x07", "7"),
        ("a float of 32 bits", MSGPACK, b"\xca\x3f\x80\0\0", "1.0"),
        ("another, by its shortest digits", MSGPACK, b"\xca\x3f\x8c\xcc\xcd", "1.1"),
        ("undefined", CBOR, b"\xf7", "null"),
        ("a length that was not said", CBOR, b"\x9f\x01\xff", "[1]"),
    ] {
        let json = transcode(from, body, JSON).expect(what);
        assert_eq!(String::from_utf8(json).unwrap(), left, "{what}");
    }
}
