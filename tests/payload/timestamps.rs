//! Instants in bodies. The bytes of MessagePack and CBOR come from the encoders that the tests name.

use std::{collections::BTreeMap, fmt::Debug};

use consign::{
    codecs::{
        Avro, AvroSchema, Bincode, Cbor, CodecSet, Codecs, DecodeErrorKind as Kind, Json, MessagePack, Postcard, Text,
    },
    time::Timestamp,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

const JSON: &str = "application/json";
const MSGPACK: &str = "application/msgpack";
const CBOR: &str = "application/cbor";
const FORMATS: [&str; 5] = [JSON, MSGPACK, CBOR, "application/x-bincode", "application/x-postcard"];

fn codecs() -> Codecs<impl CodecSet> {
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).with(Text);
    codecs.with(Bincode::fixint()).with(Postcard).build().unwrap()
}

fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn decode<T: DeserializeOwned>(content_type: &str, body: &[u8]) -> Result<T, Kind> {
    codecs().decode(Some(content_type), body).map_err(|failure| failure.attempts()[0].error.kind())
}

#[track_caller]
fn reads<T: Debug + DeserializeOwned + PartialEq>(content_type: &str, digits: &str, expected: &T) {
    assert_eq!(decode::<T>(content_type, &bytes(digits)).as_ref(), Ok(expected), "{digits}");
}

const fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type")]
enum Tagged {
    Placed { at: Timestamp },
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
enum Untagged {
    Placed { at: Option<Timestamp> },
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Flat {
    #[serde(flatten)]
    times: BTreeMap<String, Timestamp>,
}

/// Rules: P-110.
#[test]
fn from_text_and_from_milliseconds() {
    let text = "2023-11-14T22:13:20.123Z";
    let whole = at(1_700_000_000_123);
    for (content_type, body) in [
        (JSON, format!("\"{text}\"").into_bytes()),
        (JSON, b"\"2023-11-14T23:13:20.123999+01:00\"".to_vec()),
        (JSON, b"1700000000123".to_vec()),
        (JSON, b"1700000000123.0".to_vec()),
        (JSON, b"1.700000000123e12".to_vec()),
        ("text/plain", text.into()),
        // Date.now() by @msgpack/msgpack, and by msgpackr; text by ormsgpack.
        (MSGPACK, bytes("cf0000018bcfe5687b")),
        (MSGPACK, bytes("cb4278bcfe5687b000")),
        (MSGPACK, bytes("d920323032332d31312d31345432323a31333a32302e3132333030302b30303a3030")),
        // By cborg, by cbor-x; text by cbor2.
        (CBOR, bytes("1b0000018bcfe5687b")),
        (CBOR, bytes("fb4278bcfe5687b000")),
        (CBOR, bytes("c0781b323032332d31312d31345432323a31333a32302e3132333030305a")),
        (CBOR, bytes("781b323032332d31312d31345432323a31333a32302e3132333030305a")),
    ] {
        assert_eq!(decode(content_type, &body), Ok(whole), "{content_type} {body:x?}");
        assert_eq!(decode(content_type, &body), Ok(Some(whole)), "{content_type} {body:x?}");
    }
    assert_eq!(decode(JSON, b"-1"), Ok(at(-1)));
    assert_eq!(decode(JSON, b"18446744073709551615"), Ok(Timestamp::MAX));
    // A small number is milliseconds too.
    assert_eq!(decode(JSON, b"1700000000"), Ok(at(1_700_000_000)));
    for body in ["1.5", "true", "\"yesterday\"", "[-1,[0,0,0,0]]", "{}", "[]"] {
        assert_eq!(decode::<Timestamp>(JSON, body.as_bytes()), Err(Kind::Type), "{body}");
    }
}

/// Rules: P-110.
#[test]
fn from_the_timestamp_extension_of_message_pack() {
    // A Date by msgpackr and @msgpack/msgpack, a datetime by msgpack; one without a fraction; one before 1970.
    reads(MSGPACK, "d7ff1d5353006553f100", &at(1_700_000_000_123));
    reads(MSGPACK, "d6ff6553f100", &at(1_700_000_000_000));
    reads(MSGPACK, "c70cff 3b9ac9ff ffffffffffffffff", &at(-1));
    reads(MSGPACK, "c70cff 00000000 7fffffffffffffff", &Timestamp::MAX);
    // Beyond 32 bits of seconds, and the fraction that is cut off.
    reads(MSGPACK, "d7ff ee6b27ff 6553f100", &at(0x3_6553_f100 * 1_000 + 999));
    reads(MSGPACK, "92 d6ff6553f100 c0", &vec![Some(at(1_700_000_000_000)), None]);
    reads(MSGPACK, "91 d6ff6553f100", &(at(1_700_000_000_000),));
    for (what, digits) in [
        ("another type", "d6016553f100"),
        ("another length", "d5ff6553"),
        ("a second of nanoseconds", "c70cff 3b9aca00 0000000000000000"),
        ("a Date of msgpack-lite", "c7090d cb4278bcfe5687b000"),
        ("bytes", "c4046553f100"),
    ] {
        assert_eq!(decode::<Timestamp>(MSGPACK, &bytes(digits)), Err(Kind::Type), "{what}");
    }
}

/// Rules: P-110.
#[test]
fn from_the_tags_of_cbor() {
    // A Date by cbor-x and cbor; one without a fraction; a datetime by cbor2, which has it as a timestamp.
    reads(CBOR, "c1fb41d954fc4007df3b", &at(1_700_000_000_123));
    reads(CBOR, "c11a6553f100", &at(1_700_000_000_000));
    reads(CBOR, "d9d9f7 c1 1b000000006553f100", &at(1_700_000_000_000));
    reads(CBOR, "82 c11a6553f100 f6", &vec![Some(at(1_700_000_000_000)), None]);
    reads(CBOR, "c120", &at(-1_000));
    reads(CBOR, "c1fbbfd0000000000000", &at(-250));
    reads(CBOR, "c1f90000", &at(0));
    reads(CBOR, "c11b00000fffffffffff", &Timestamp::MAX);
    // Tag 1 marks the number that it is around, and no other.
    reads(CBOR, "82 c11a6553f100 1a6553f100", &vec![at(1_700_000_000_000), at(1_700_000_000)]);
    for digits in ["c1f97e00", "c1f6", "c1fb7e37e43c8800759c", "c11bffffffffffffffff", "c16161", "fb3ff8000000000000"] {
        assert_eq!(decode::<Timestamp>(CBOR, &bytes(digits)), Err(Kind::Type), "{digits}");
    }
}

/// Rules: P-111.
#[test]
fn timestamps_that_serde_reads_twice() {
    let (placed, time) = (at(1_700_000_000_000), "6174");
    for (content_type, at, tagged) in [
        (MSGPACK, "d6ff6553f100", "82 a474797065 a6506c61636564 a2"),
        (MSGPACK, "cf0000018bcfe56800", "82 a474797065 a6506c61636564 a2"),
        (CBOR, "c11a6553f100", "a2 6474797065 66506c61636564 62"),
        (CBOR, "c1fb41d954fc40000000", "a2 6474797065 66506c61636564 62"),
        (CBOR, "c074323032332d31312d31345432323a31333a32305a", "a2 6474797065 66506c61636564 62"),
        (CBOR, "1b0000018bcfe56800", "a2 6474797065 66506c61636564 62"),
    ] {
        reads(content_type, &format!("{tagged} {time} {at}"), &Tagged::Placed { at: placed });
        let head = if content_type == CBOR { "a1 62" } else { "81 a2" };
        reads(content_type, &format!("{head} {time} {at}"), &Untagged::Placed { at: Some(placed) });
        let times = BTreeMap::from([("at".to_owned(), placed)]);
        reads(content_type, &format!("{head} {time} {at}"), &Flat { times });
    }
}

/// Rules: P-112.
#[test]
fn a_timestamp_comes_back_from_each_format() {
    let all = [0, 1, -1, 1_700_000_000_123, -62_167_219_200_000, -62_167_219_200_001, i64::MIN, i64::MAX].map(at);
    for content_type in FORMATS {
        for at in all {
            let body = codecs().encode_as(&at, content_type).unwrap().body;
            assert_eq!(decode(content_type, &body), Ok(at), "{content_type} {at:?}");
        }
        let body = codecs().encode_as(&all, content_type).unwrap().body;
        assert_eq!(decode(content_type, &body), Ok(all), "{content_type}");
    }
    for content_type in [JSON, MSGPACK, CBOR] {
        let tagged = Tagged::Placed { at: at(1_700_000_000_123) };
        let body = codecs().encode_as(&tagged, content_type).unwrap().body;
        assert_eq!(decode(content_type, &body), Ok(tagged), "{content_type}");
    }
    let encoded = |at, content_type| codecs().encode_as(&at, content_type).unwrap().body;
    assert_eq!(encoded(at(1_700_000_000_123), JSON), &b"\"2023-11-14T22:13:20.123Z\""[..]);
    assert_eq!(encoded(at(1_700_000_000_123), "text/plain"), &b"2023-11-14T22:13:20.123Z"[..]);
    assert_eq!(encoded(at(1_700_000_000_123), MSGPACK), bytes("cf0000018bcfe5687b"));
    assert_eq!(encoded(at(1_700_000_000_123), CBOR), bytes("1b0000018bcfe5687b"));
    let by_time = BTreeMap::from([(at(0), 1)]);
    let body = codecs().encode_as(&by_time, JSON).unwrap().body;
    assert_eq!(body, &b"{\"1970-01-01T00:00:00.000Z\":1}"[..]);
    assert_eq!(decode(JSON, &body), Ok(by_time));
}

/// Rules: P-102.
#[test]
fn days_of_cbor_are_their_beginning() {
    // datetime.date(2024, 3, 1) and datetime.date(1969, 12, 31) by cbor2.
    reads(CBOR, "d864194d47", &at(1_709_251_200_000));
    reads(CBOR, "d86420", &at(-86_400_000));
    reads(CBOR, "d864194d47", &19_783);
    assert_eq!(decode::<Timestamp>(CBOR, &bytes("d8641b7fffffffffffffff")), Err(Kind::Type));
}

/// Rules: P-112.
#[test]
fn avro_has_a_timestamp_in_the_unit_of_its_schema() {
    for (unit, scale) in [("millis", 1), ("micros", 1_000), ("nanos", 1_000_000)] {
        let schema = AvroSchema::parse(&format!(r#"{{"type": "long", "logicalType": "timestamp-{unit}"}}"#)).unwrap();
        let codecs = Codecs::builder().with(Avro::new(schema)).build().unwrap();
        for millis in [0, -1, 1_700_000_000_123] {
            let body = codecs.encode(&at(millis)).unwrap().body;
            // As an integer it is what is written.
            assert_eq!(codecs.decode::<i64>(None, &body).unwrap(), millis * scale, "{unit}");
            assert_eq!(codecs.decode::<Timestamp>(None, &body).unwrap(), at(millis), "{unit}");
        }
    }
}

/// Rules: P-112.
#[test]
fn avro_has_no_timestamp_in_a_day_or_a_local_time() {
    for (number, logical) in [
        ("int", "date"),
        ("int", "time-millis"),
        ("long", "time-micros"),
        ("long", "local-timestamp-millis"),
        ("long", "local-timestamp-micros"),
    ] {
        let schema = format!(r#"{{"type": "{number}", "logicalType": "{logical}"}}"#);
        for schema in [schema.clone(), format!(r#"["null", {schema}]"#)] {
            let codecs = avro(&schema);
            let body = codecs.encode(&19_783).unwrap().body;
            assert_eq!(codecs.decode::<i64>(None, &body).unwrap(), 19_783, "{schema}");
            let refused = codecs.decode::<Timestamp>(None, &body).unwrap_err();
            assert_eq!(refused.attempts()[0].error.kind(), Kind::Type, "{schema}");
            assert!(codecs.encode(&at(0)).is_err(), "{schema}");
        }
    }
}

/// Rules: P-112.
#[test]
fn versions_of_avro_that_differ_in_the_unit_of_an_instant_are_refused() {
    let schema = |name: &str, unit: &str| {
        let at = format!(r#"{{"type": "long", "logicalType": "timestamp-{unit}"}}"#);
        let record = format!(r#"{{"type": "record", "name": "{name}", "fields": [{{"name": "at", "type": {at}}}]}}"#);
        AvroSchema::parse(&record).unwrap()
    };
    let (before, after) = (schema("Placed", "millis"), schema("Placed", "micros"));
    assert_eq!(before.fingerprint(), after.fingerprint());
    let both = |after: AvroSchema| Codecs::builder().with(Avro::new(after).reads(before.clone())).build().unwrap();
    let body = [b"\xc3\x01", &before.fingerprint().to_le_bytes()[..], b"\xf6\xa1\xab\xfe\xf9\x62"].concat();
    let refused = both(after).decode::<BTreeMap<String, Timestamp>>(None, &body).unwrap_err();
    assert!(refused.to_string().contains("other units of time"), "{refused}");
    for after in [before.clone(), schema("PlacedV2", "micros")] {
        let read = both(after).decode::<BTreeMap<String, Timestamp>>(None, &body).unwrap();
        assert_eq!(read["at"], at(1_700_000_000_123));
    }
}

/// Reads and writes with one schema of Avro.
fn avro(schema: &str) -> Codecs<impl CodecSet + use<>> {
    Codecs::builder().with(Avro::new(AvroSchema::parse(schema).unwrap())).build().unwrap()
}

/// Rules: P-111, P-112.
#[test]
fn an_instant_of_avro_keeps_its_unit_where_serde_reads_it_twice() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Flat {
        #[serde(flatten)]
        rest: Times,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Times {
        at: Timestamp,
        until: Option<Timestamp>,
        // A number has the unit of the schema.
        number: i64,
    }

    let millis = 1_700_000_000_123;
    for (unit, scale) in [("millis", 1), ("micros", 1_000), ("nanos", 1_000_000)] {
        let long = format!(r#"{{"type":"long","logicalType":"timestamp-{unit}"}}"#);
        let record =
            |name: &str, fields: &str| avro(&format!(r#"{{"type":"record","name":"{name}","fields":[{fields}]}}"#));
        let number = millis * scale;
        let times = record(
            "Times",
            &format!(
                r#"{{"name":"at","type":{long}}},{{"name":"until","type":["null",{long}]}},{{"name":"number","type":{long}}}"#
            ),
        );
        let body = times.encode(&json!({"at": number, "until": number, "number": number})).unwrap().body;
        let rest = Times { at: at(millis), until: Some(at(millis)), number };
        assert_eq!(times.decode(None, &body), Ok(Flat { rest }), "{unit}");

        let placed = record("Placed", &format!(r#"{{"name":"type","type":"string"}},{{"name":"at","type":{long}}}"#));
        let body = placed.encode(&json!({"type": "Placed", "at": number})).unwrap().body;
        assert_eq!(placed.decode(None, &body), Ok(Tagged::Placed { at: at(millis) }), "{unit}");
        assert_eq!(placed.decode(None, &body), Ok(Untagged::Placed { at: Some(at(millis)) }), "{unit}");
    }
    // Beyond the years of RFC 3339.
    let far = avro(
        r#"{"type":"record","name":"Far","fields":[{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}}]}"#,
    );
    let body = far.encode(&json!({"at": i64::MAX})).unwrap().body;
    assert_eq!(far.decode(None, &body), Ok(Untagged::Placed { at: Some(at(i64::MAX / 1_000)) }));
}
