//! Values of Avro where the Rust type is an enum, an instant or buffered by serde, and defaults of a schema.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use bytes::BytesMut;
use consign_codecs::{
    Avro, AvroSchema, AvroSchemaErrorKind, Codec, DecodeContext, DecodeError, DecodeErrorKind, Limits,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Deserialize, PartialEq, Serialize)]
enum By {
    #[serde(rename = "string")]
    Name(String),
    #[serde(rename = "long")]
    Number(i64),
    State(State),
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
enum State {
    Open,
    State,
}

/// Variants without data that have names of types of Avro.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    String,
    Long,
}

fn schema(json: &str) -> AvroSchema {
    AvroSchema::parse(json).unwrap()
}

fn decode<'de, T: Deserialize<'de>>(of: &AvroSchema, body: &'de [u8]) -> Result<T, DecodeError> {
    Avro::new(of.clone()).decode(body, &DecodeContext::new(&Limits::default()))
}

fn encode<T: Serialize + ?Sized>(of: &AvroSchema, value: &T) -> BytesMut {
    let mut out = BytesMut::new();
    Avro::new(of.clone()).encode(value, &mut out).unwrap();
    out
}

/// Rules: P-39.
#[test]
fn a_branch_of_a_union_is_a_variant_and_so_it_is_in_an_option() {
    const STATE: &str = r#"{"type":"enum","name":"State","symbols":["Open","State"]}"#;
    let union = schema(&format!(r#"["null","long","string",{STATE}]"#));
    for by in [
        By::Name("Ada".into()),
        // Text that is the name of another branch.
        By::Name("long".into()),
        By::Name("string".into()),
        By::Number(7),
        By::State(State::Open),
        By::State(State::State),
    ] {
        let body = encode(&union, &by);
        assert_eq!(decode::<Option<By>>(&union, &body).as_ref(), Ok(&Some(by)));
    }
    assert_eq!(decode::<Option<By>>(&union, &encode(&union, &None::<By>)), Ok(None));
    let union = schema(r#"["long","string"]"#);
    assert_eq!(decode(&union, &encode(&union, &By::Name("long".into()))), Ok(By::Name("long".into())));
    // Beside null, a symbol and a text are variants without data.
    let union = schema(&format!(r#"["null",{STATE}]"#));
    for state in [State::Open, State::State] {
        assert_eq!(decode::<Option<State>>(&union, &encode(&union, &state)).as_ref(), Ok(&Some(state)));
    }
    let union = schema(r#"["null","string"]"#);
    for kind in [Kind::String, Kind::Long] {
        assert_eq!(decode::<Option<Kind>>(&union, &encode(&union, &kind)).as_ref(), Ok(&Some(kind)));
    }
}

/// Rules: P-39.
#[test]
fn a_value_of_any_type_has_microseconds_and_nanoseconds_as_text() {
    for (unit, number, text) in [
        ("millis", 1_700_000_000_123_i64, json!(1_700_000_000_123_i64)),
        ("micros", 1_700_000_000_123_456, json!("2023-11-14T22:13:20.123456Z")),
        ("nanos", 1_700_000_000_123_456_789, json!("2023-11-14T22:13:20.123456789Z")),
    ] {
        let long = schema(&format!(r#"{{"type":"long","logicalType":"timestamp-{unit}"}}"#));
        let body = encode(&long, &number);
        assert_eq!(decode::<Value>(&long, &body), Ok(text));
        // A type of numbers has the number.
        assert_eq!(decode(&long, &body), Ok(number));
    }
}

/// Rules: P-39.
/// serde reads the fields of a flattened struct as values of any type first.
#[test]
fn a_flattened_number_is_read_from_an_instant_and_any_type_keeps_its_text() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Outer {
        #[serde(flatten)]
        inner: Inner,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Inner {
        number: i64,
        any: Value,
    }

    let micros = r#"{"type":"long","logicalType":"timestamp-micros"}"#;
    let of = schema(&format!(
        r#"{{"type":"record","name":"R","fields":[{{"name":"number","type":{micros}}},{{"name":"any","type":{micros}}}]}}"#
    ));
    let body = encode(&of, &json!({ "number": 7_000_000, "any": 8_000_000 }));
    let inner = Inner { number: 7_000_000, any: json!("1970-01-01T00:00:08Z") };
    assert_eq!(decode(&of, &body), Ok(Outer { inner }));
}

/// Rules: P-39.
#[test]
fn a_double_beyond_the_floats_of_32_bits_is_refused() {
    let double = schema("\"double\"");
    let error = decode::<f32>(&double, &encode(&double, &1e300)).unwrap_err();
    assert_eq!(error.expected(), Some("a number in the range of f32"));
    assert_eq!(decode(&double, &encode(&double, &0.1)), Ok(0.1_f32));
    assert_eq!(decode(&double, &encode(&double, &f64::INFINITY)), Ok(f32::INFINITY));
}

/// Rules: P-39.
#[test]
fn defaults_of_every_kind_are_written() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct All {
        float: f32,
        large: f32,
        note: Option<String>,
        blob: Option<serde_bytes::ByteBuf>,
        inner: Inner,
        list: Vec<serde_bytes::ByteBuf>,
        map: BTreeMap<String, f32>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Inner {
        raw: serde_bytes::ByteBuf,
        hash: [u8; 2],
        own: u8,
    }

    let all = schema(
        r#"{"type":"record","name":"All","fields":[
            {"name":"float","type":"float","default":0.1},
            {"name":"large","type":"float","default":33554433},
            {"name":"note","type":["string","null"],"default":null},
            {"name":"blob","type":["null","bytes"],"default":"\u00ff"},
            {"name":"inner","default":{"raw":"\u00ff","hash":"ab"},"type":{"type":"record","name":"Inner","fields":[
                {"name":"raw","type":"bytes"},{"name":"hash","type":{"type":"fixed","name":"Hash","size":2}},
                {"name":"own","type":"int","default":7}]}},
            {"name":"list","type":{"type":"array","items":"bytes"},"default":["a","\u0000"]},
            {"name":"map","type":{"type":"map","values":"float"},"default":{"x":0.5}}]}"#,
    );
    let written: All = decode(&all, &encode(&all, &json!({}))).unwrap();
    let inner = Inner { raw: vec![0xff].into(), hash: *b"ab", own: 7 };
    let map = BTreeMap::from([("x".to_owned(), 0.5)]);
    let list = vec![b"a".to_vec().into(), vec![0].into()];
    let blob = Some(vec![0xff].into());
    assert_eq!(written, All { float: 0.1, large: 33_554_432.0, note: None, blob, inner, list, map });
}

#[test]
fn a_default_that_is_no_value_of_the_type_is_refused() {
    for (of, default) in [
        (r#"["string","null"]"#, "7"),
        ("\"float\"", "1e300"),
        ("\"float\"", "\"1\""),
        (r#"{"type":"array","items":"int"}"#, "[\"a\"]"),
        (r#"{"type":"array","items":"int"}"#, "{}"),
        (r#"{"type":"map","values":"int"}"#, "{\"a\":null}"),
        (r#"{"type":"record","name":"B","fields":[{"name":"y","type":"int"}]}"#, "{}"),
        (r#"{"type":"record","name":"B","fields":[{"name":"y","type":"int"}]}"#, "{\"y\":1,\"z\":1}"),
        // A value that would contain itself.
        ("\"A\"", "{}"),
    ] {
        let json = format!(
            r#"{{"type":"record","name":"A","fields":[{{"name":"x","type":{of},"default":{default}}},
                {{"name":"w","type":["null","A"],"default":null}}]}}"#
        );
        let error = AvroSchema::parse(&json).unwrap_err();
        assert_eq!((error.kind(), error.path()), (AvroSchemaErrorKind::Default, "A.x"), "{of} {default}");
    }
    let twice = r#"{"type":"record","name":"A","fields":[
        {"name":"x","type":"A","default":{}},{"name":"y","type":"A","default":{}}]}"#;
    assert_eq!(AvroSchema::parse(twice).unwrap_err().kind(), AvroSchemaErrorKind::Default);
}

/// Rules: P-39.
#[test]
fn a_body_in_another_encoding_of_avro_is_named() {
    let long = schema("\"long\"");
    for (body, expected) in [
        (&b"\x00\x00\x00\x00\x07\x0e"[..], "begins as Confluent's wire format"),
        (b"Obj\x01\x04\x14avro.codec", "begins as a container file of Avro"),
        (b"\x0e", "which begins with C3 01"),
        (b"{\"id\":7}", "which begins with C3 01"),
    ] {
        let error = decode::<i64>(&long, body).unwrap_err();
        assert_eq!(error.kind(), DecodeErrorKind::Syntax);
        assert!(error.to_string().contains(expected), "{error}");
    }
    // Too short to be anything.
    assert_eq!(decode::<i64>(&long, b"\xc3").unwrap_err().detail(), None);
}

/// Rules: P-39.
#[test]
fn an_address_is_text_in_a_string_and_bytes_elsewhere() {
    let local = Ipv4Addr::LOCALHOST;
    for (of, text) in [("\"string\"", "\x12127.0.0.1"), (r#"["null","string"]"#, "\x02\x12127.0.0.1")] {
        let of = schema(of);
        let body = [b"\xc3\x01", &of.fingerprint().to_le_bytes()[..], text.as_bytes()].concat();
        assert_eq!(decode::<Ipv4Addr>(&of, &body), Ok(local));
        assert_eq!(encode(&of, &local), body);
        assert_eq!(decode::<Option<IpAddr>>(&of, &body), Ok(Some(local.into())));
    }
    for of in [r#"{"type":"array","items":"int"}"#, r#"{"type":"map","values":"string"}"#] {
        let of = schema(of);
        let ports = BTreeMap::from([(local, "loopback")]);
        let is_map = of.canonical_form().contains("map");
        let body = if is_map { encode(&of, &ports) } else { encode(&of, &local) };
        if is_map {
            assert_eq!(decode::<BTreeMap<Ipv4Addr, String>>(&of, &body).unwrap()[&local], "loopback");
        } else {
            assert_eq!(decode::<Ipv4Addr>(&of, &body), Ok(local));
        }
    }
}

/// Rules: P-103.
#[test]
fn bytes_are_a_sequence_of_u8_and_of_nothing_else() {
    fn refuses<'de, T: std::fmt::Debug + Deserialize<'de>>(of: &AvroSchema, body: &'de [u8]) {
        let error = decode::<T>(of, body).unwrap_err();
        assert_eq!(error.kind(), DecodeErrorKind::Type, "{error}");
    }
    let numbers = [0_u8, 0, 0xc0, 0x3f];
    for json in [r#""bytes""#, r#"{"type":"fixed","name":"Numbers","size":4}"#] {
        let of = schema(json);
        let body = encode(&of, serde_bytes::Bytes::new(&numbers));
        assert_eq!(decode(&of, &body), Ok(numbers.to_vec()));
        assert_eq!(decode(&of, &body), Ok(Some(numbers)));
        refuses::<Vec<f32>>(&of, &body);
        refuses::<Vec<i64>>(&of, &body);
        refuses::<Vec<Value>>(&of, &body);
        refuses::<(u16, u16, u16, u16)>(&of, &body);
        refuses::<[u8; 3]>(&of, &body);
        refuses::<[u8; 5]>(&of, &body);
    }
}
