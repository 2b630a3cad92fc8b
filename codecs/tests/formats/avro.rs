//! Avro as fastavro 1.13 writes it, and what a schema refuses.

use std::collections::BTreeMap;

use bytes::BytesMut;
use consign_codecs::{
    Avro, AvroSchema, AvroSchemaErrorKind, Codec, Codecs, DecodeContext, DecodeError, DecodeErrorKind as Kind,
    EncodeErrorKind, Json, Limits,
};
use proptest::{collection::vec, prelude::*};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_bytes::ByteBuf;
use serde_json::json;

use crate::{
    cbor::bytes,
    support::{explain, on_a_small_stack, runner},
};

const ORDER: &str = r#"{"type": "record", "name": "Order", "namespace": "shop", "doc": "x", "fields": [
    {"name": "id", "type": "long"},
    {"name": "note", "type": ["null", "string"], "default": null},
    {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
        {"name": "sku", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "count", "type": "int", "default": 1}]}}},
    {"name": "first", "type": ["null", "Line"], "default": null},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "CLOSED"]}},
    {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
    {"name": "raw", "type": "bytes"},
    {"name": "weights", "type": {"type": "map", "values": "float"}},
    {"name": "paid", "type": "boolean"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "by", "type": ["string", "long", "Line"]},
    {"name": "nothing", "type": "null"}
]}"#;

const HEADER: &str = "c301 60e702a61e03b87f";
const FIRST: &str = "dfc50802046869040261000000000000f83f06026200000000000002c0010000020001feff0400ff02027800\
    00003f000180898182838985060218";
const SECOND: &str = "828080808080802000000204c3bc9a9999999999b93f02006162636400000001040263000000000000084000";

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Order {
    id: i64,
    note: Option<String>,
    lines: Vec<Line>,
    first: Option<Line>,
    state: State,
    hash: [u8; 4],
    raw: ByteBuf,
    weights: BTreeMap<String, f32>,
    paid: bool,
    at: i64,
    by: By,
    nothing: (),
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Line {
    sku: String,
    price: f64,
    count: i32,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum State {
    Open,
    Closed,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
enum By {
    #[serde(rename = "string")]
    Name(String),
    #[serde(rename = "long")]
    Number(i64),
    Line {
        sku: String,
        price: f64,
        count: i32,
    },
}

fn line(sku: &str, price: f64, count: i32) -> Line {
    Line { sku: sku.into(), price, count }
}

fn orders() -> [Order; 2] {
    [
        Order {
            id: -70_000,
            note: Some("hi".into()),
            lines: vec![line("a", 1.5, 3), line("b", -2.25, -1)],
            first: None,
            state: State::Closed,
            hash: [0, 1, 0xfe, 0xff],
            raw: ByteBuf::from([0, 0xff]),
            weights: BTreeMap::from([("x".into(), 0.5)]),
            paid: true,
            at: 1_700_000_000_123_456,
            by: By::Number(12),
            nothing: (),
        },
        Order {
            id: 9_007_199_254_740_993,
            note: None,
            lines: Vec::new(),
            first: Some(line("ü", 0.1, 1)),
            state: State::Open,
            hash: *b"abcd",
            raw: ByteBuf::new(),
            weights: BTreeMap::new(),
            paid: false,
            at: -1,
            by: By::Line { sku: "c".into(), price: 3.0, count: 0 },
            nothing: (),
        },
    ]
}

fn schema(json: &str) -> AvroSchema {
    AvroSchema::parse(json).unwrap()
}

fn decode<'de, T: Deserialize<'de>>(avro: &Avro, body: &'de [u8]) -> Result<T, DecodeError> {
    avro.decode(body, &DecodeContext::new(&Limits::default()))
}

fn encode<T: Serialize + ?Sized>(avro: &Avro, value: &T) -> Result<BytesMut, String> {
    let mut out = BytesMut::new();
    avro.encode(value, &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

/// A value of this schema in single-object encoding.
fn body(schema: &AvroSchema, value: &[u8]) -> Vec<u8> {
    [b"\xc3\x01", &schema.fingerprint().to_le_bytes()[..], value].concat()
}

/// Rules: P-39.
#[test]
fn values_are_the_bytes_of_fastavro() {
    let avro = Avro::new(schema(ORDER));
    for (order, value) in orders().into_iter().zip([FIRST, SECOND]) {
        let body = [bytes(HEADER), bytes(value)].concat();
        assert_eq!(encode(&avro, &order).unwrap(), body);
        assert_eq!(decode::<Order>(&avro, &body), Ok(order));
        assert_eq!(decode::<IgnoredAny>(&avro, &body), Ok(IgnoredAny));
        for end in 0..body.len() {
            let kind = decode::<Order>(&avro, &body[..end]).unwrap_err().kind();
            assert_eq!(kind, if end == 0 { Kind::EmptyBody } else { Kind::Truncated }, "{end}");
        }
        let trailing = [&body[..], &[0]].concat();
        assert_eq!(decode::<Order>(&avro, &trailing).unwrap_err().kind(), Kind::Trailing);
    }
}

#[test]
fn canonical_forms_and_fingerprints_are_those_of_fastavro() {
    assert_eq!(
        schema(ORDER).canonical_form(),
        r#"{"name":"shop.Order","type":"record","fields":[{"name":"id","type":"long"},{"name":"note","type":["null","string"]},{"name":"lines","type":{"type":"array","items":{"name":"shop.Line","type":"record","fields":[{"name":"sku","type":"string"},{"name":"price","type":"double"},{"name":"count","type":"int"}]}}},{"name":"first","type":["null","shop.Line"]},{"name":"state","type":{"name":"shop.State","type":"enum","symbols":["OPEN","CLOSED"]}},{"name":"hash","type":{"name":"shop.Hash","type":"fixed","size":4}},{"name":"raw","type":"bytes"},{"name":"weights","type":{"type":"map","values":"float"}},{"name":"paid","type":"boolean"},{"name":"at","type":"long"},{"name":"by","type":["string","long","shop.Line"]},{"name":"nothing","type":"null"}]}"#
    );
    for (name, digits) in [
        ("null", "8a8f25cce724dd63"),
        ("boolean", "64f7d4a478fc429f"),
        ("int", "8f5c393f1ad57572"),
        ("long", "b71df49344e154d0"),
        ("float", "90d7a83ecb027c4d"),
        ("double", "7e95ab32c035758e"),
        ("bytes", "651920c3da16c04f"),
        ("string", "c70345637248018f"),
    ] {
        for json in [format!("\"{name}\""), format!("{{\"type\": \"{name}\"}}")] {
            assert_eq!(schema(&json).fingerprint().to_le_bytes()[..], bytes(digits), "{name}");
        }
    }
}

#[test]
fn a_refused_value_has_its_path_and_its_place() {
    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "it is never decoded: the error is what the test is about")]
    struct Other {
        lines: Vec<Priceless>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "it is never decoded: the error is what the test is about")]
    struct Priceless {
        price: String,
    }

    let codecs = Codecs::builder().with(Avro::new(schema(ORDER))).build().unwrap();
    let body = [bytes(HEADER), bytes(FIRST)].concat();
    let failure = codecs.decode::<Other>(Some("application/avro"), &body).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "avro: the value is not of the expected type: expected a string, found float at `lines[0].price`, byte 28"
    );
}

#[test]
fn a_schema_and_a_type_of_different_versions_are_read() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Newer {
        #[serde(default)]
        tags: Vec<String>,
        id: u32,
    }

    let earlier =
        schema(r#"{"type":"record","name":"A","fields":[{"name":"gone","type":"string"},{"name":"id","type":"int"}]}"#);
    let avro = Avro::new(schema(ORDER)).reads(earlier.clone());
    assert_eq!(decode(&avro, &body(&earlier, b"\x02x\x0e")), Ok(Newer { tags: Vec::new(), id: 7 }));
    let missing = decode::<Line>(&avro, &body(&earlier, b"\x02x\x0e")).unwrap_err();
    assert_eq!((missing.kind(), missing.detail()), (Kind::Type, Some("missing field `sku`")));
}

/// Rules: P-39.
#[test]
fn a_body_of_another_schema_or_format_is_refused() {
    let avro = Avro::new(schema("\"long\""));
    let other = body(&schema("\"int\""), b"\x0e");
    let error = decode::<i64>(&avro, &other).unwrap_err();
    assert_eq!(error.to_string(), "not well-formed: written with a schema that the codec does not have at byte 2");
    assert_eq!(decode::<i64>(&avro, b"{\"id\":7}").unwrap_err().kind(), Kind::Syntax);
    let chain = Codecs::builder().with(avro).with(Json::default()).fallback(["avro", "json"]).build().unwrap();
    assert_eq!(chain.decode::<i64>(None, b"7").unwrap(), 7);
}

#[test]
fn the_name_of_a_struct_selects_the_schema() {
    #[derive(Serialize)]
    struct A {
        x: i32,
    }
    #[derive(Serialize)]
    struct B {
        x: i32,
    }
    #[derive(Serialize)]
    struct C {
        x: i32,
    }

    let record = |name: &str| {
        schema(&format!(r#"{{"type":"record","name":"ns.{name}","fields":[{{"name":"x","type":"int"}}]}}"#))
    };
    let (a, b) = (record("A"), record("B"));
    let avro = Avro::new(a.clone()).with(b.clone()).reads(record("C"));
    assert_eq!(encode(&avro, &A { x: 1 }).unwrap(), body(&a, b"\x02"));
    assert_eq!(encode(&avro, &B { x: 1 }).unwrap(), body(&b, b"\x02"));
    let ambiguous =
        "the format cannot represent the value: several types have a place for a struct, and none has its name";
    assert_eq!(encode(&avro, &C { x: 1 }).unwrap_err(), ambiguous);
    assert_eq!(encode(&Avro::new(a.clone()), &C { x: 1 }).unwrap(), body(&a, b"\x02"));
}

#[test]
fn fields_are_written_in_the_order_of_the_schema_with_their_defaults() {
    #[derive(Serialize)]
    struct Shuffled {
        c: u8,
        a: u8,
    }

    let fields = r#"{"type":"record","name":"R","fields":[
        {"name":"a","type":"int"}, {"name":"b","type":"string","default":"é"}, {"name":"c","type":"long"},
        {"name":"d","type":"bytes","default":"\u00ff"}, {"name":"e","type":["null","int"]},
        {"name":"f","type":["int","null"],"default":-1}]}"#;
    let of = schema(fields);
    let avro = Avro::new(of.clone());
    let expected = body(&of, b"\x02\x04\xc3\xa9\x06\x02\xff\x00\x00\x01");
    assert_eq!(encode(&avro, &Shuffled { c: 3, a: 1 }).unwrap(), expected);
    assert_eq!(encode(&avro, &json!({"c": 3, "a": 1})).unwrap(), expected);
    assert_eq!(
        encode(&avro, &json!({"c": 3})).unwrap_err(),
        "the format cannot represent the value: the type has no value for a field at `a`"
    );
}

/// Rules: P-39.
#[test]
fn a_value_without_a_place_in_the_schema_is_refused_by_its_field() {
    let avro = Avro::new(schema(ORDER));
    let refused = |change: fn(&mut serde_json::Value)| {
        let mut order = json!({"id": 1, "lines": [{"sku": "a", "price": 1.0}], "state": "OPEN", "hash": [1, 2, 3, 4],
            "raw": [1], "weights": {}, "paid": true, "at": 0, "by": "me"});
        assert!(encode(&avro, &order).is_ok());
        change(&mut order);
        encode(&avro, &order).unwrap_err().replace("the format cannot represent the value: ", "")
    };
    assert_eq!(refused(|order| order["id"] = json!("x")), "a text in place of long at `id`");
    assert_eq!(refused(|order| order["lines"][0]["price"] = json!("x")), "a text in place of double at `lines.price`");
    assert_eq!(
        refused(|order| order["lines"][0]["count"] = json!(1_u64 << 31)),
        "an integer in place of int at `lines.count`"
    );
    assert_eq!(refused(|order| order["state"] = json!("NEW")), "a text in place of enum at `state`");
    assert_eq!(refused(|order| order["hash"] = json!([1, 2, 3])), "a sequence in place of fixed at `hash`");
    assert_eq!(refused(|order| order["raw"] = json!([256])), "an element that is not a byte at `raw`");
    assert_eq!(refused(|order| order["by"] = json!(true)), "no type has a place for a boolean at `by`");
    assert_eq!(refused(|order| order["CANARY"] = json!(true)), "a key that is not a field of the schema");
    let unknown = Avro::new(schema(r#"{"type":"record","name":"Line","fields":[{"name":"sku","type":"string"}]}"#));
    let mut out = BytesMut::new();
    let error = unknown.encode(&line("a", 1.0, 1), &mut out).unwrap_err();
    assert_eq!(error.kind(), EncodeErrorKind::Unsupported);
    assert!(error.to_string().ends_with("the schema has no such field at `price`"), "{error}");
}

#[test]
fn numbers_are_read_and_written_where_they_are_exact() {
    let double = schema("\"double\"");
    let avro = Avro::new(double.clone());
    assert_eq!(encode(&avro, &7).unwrap(), body(&double, &7_f64.to_le_bytes()));
    assert!(encode(&avro, &((1_u64 << 53) + 1)).is_err());
    let float = Avro::new(schema("\"float\""));
    assert!(encode(&float, &0.5_f64).is_ok() && encode(&float, &f64::NAN).is_ok() && encode(&float, &0.1_f64).is_err());
    let long = schema("\"long\"");
    let avro = Avro::new(long.clone());
    for value in [0, -1, 1, i64::MAX, i64::MIN] {
        let written = encode(&avro, &value).unwrap();
        assert_eq!(decode(&avro, &written), Ok(value));
        assert_eq!(decode::<u64>(&avro, &written).ok(), u64::try_from(value).ok());
    }
    assert_eq!(decode::<Vec<u8>>(&avro, &body(&long, b"\x02")).unwrap_err().kind(), Kind::Type);
    assert!(encode(&avro, &u64::MAX).is_err());
    // Ten bytes whose last has more than the 64th bit.
    let beyond = body(&long, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03");
    assert_eq!(decode::<i64>(&avro, &beyond).unwrap_err().kind(), Kind::Syntax);
}

#[test]
fn blocks_of_other_writers_are_read() {
    let of = schema(r#"{"type":"array","items":"int"}"#);
    let avro = Avro::new(of.clone());
    // Two blocks, the first with its size in bytes.
    let blocks = body(&of, b"\x03\x04\x02\x04\x02\x06\x00");
    assert_eq!(decode::<Vec<i32>>(&avro, &blocks), Ok(vec![1, 2, 3]));
    assert_eq!(decode::<IgnoredAny>(&avro, &blocks), Ok(IgnoredAny));
    assert_eq!(decode::<(i32, i32)>(&avro, &blocks).unwrap_err().kind(), Kind::Type);
}

/// Rules: P-124.
#[test]
fn hostile_lengths_are_limits() {
    let nulls = schema(r#"{"type":"array","items":"null"}"#);
    let avro = Avro::new(nulls.clone());
    let many = body(&nulls, b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00");
    for kind in [decode::<Vec<()>>(&avro, &many).unwrap_err(), decode::<IgnoredAny>(&avro, &many).unwrap_err()] {
        assert_eq!(kind.kind(), Kind::Count);
    }
    let long = body(&schema("\"bytes\""), b"\xfe\xff\xff\xff\x0f");
    assert_eq!(decode::<ByteBuf>(&Avro::new(schema("\"bytes\"")), &long).unwrap_err().kind(), Kind::Length);
    on_a_small_stack(|| {
        let list = schema(r#"{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]}]}"#);
        let avro = Avro::new(list.clone());
        let deep = body(&list, &vec![2; 100_000]);
        for error in
            [decode::<crate::support::Node>(&avro, &deep).unwrap_err(), decode::<IgnoredAny>(&avro, &deep).unwrap_err()]
        {
            assert_eq!(error.kind(), Kind::Depth);
        }
        // A struct of this name is written by it, whatever the type is called.
        let chain = crate::support::Node::chain(64);
        let written = encode(&avro, &chain).unwrap();
        assert_eq!(decode::<crate::support::Node>(&avro, &written), Ok(chain));
        assert!(encode(&avro, &crate::support::Node::chain(200)).unwrap_err().contains("nested deeper"));
    });
}

#[test]
fn random_bytes_panic_nowhere() {
    let avro = Avro::new(schema(ORDER));
    let start = bytes(HEADER);
    let whole = [bytes(HEADER), bytes(FIRST)].concat();
    let changes = (vec(any::<u8>(), 0..64), any::<prop::sample::Index>(), any::<u8>());
    let result = runner(2_000).run(&changes, |(random, at, byte)| {
        let mut changed = whole.clone();
        let at = at.index(changed.len());
        changed[at] = byte;
        for body in [[&start[..], &random].concat(), changed] {
            let _ = decode::<Order>(&avro, &body);
            let _ = decode::<IgnoredAny>(&avro, &body);
            let _ = decode::<serde_json::Value>(&avro, &body);
            let _ = decode::<By>(&avro, &body);
        }
        Ok(())
    });
    explain(result, "random_bytes_panic_nowhere");
}

#[test]
fn a_text_that_is_not_a_schema_is_refused_with_its_path() {
    use AvroSchemaErrorKind::{Attribute, Default, DuplicateName, Name, Syntax, Type, Union, UnknownName};
    for (json, kind, path) in [
        ("{", Syntax, ""),
        ("7", Type, ""),
        ("\"Order\"", UnknownName, ""),
        (r#"{"type":"array"}"#, Attribute, "/items"),
        (r#"{"type":"map","values":["null",["int"]]}"#, Union, "/values/1"),
        (r#"["int","int"]"#, Union, "/1"),
        ("[]", Union, ""),
        (r#"{"type":"record","name":"a b","fields":[]}"#, Name, "/name"),
        (r#"{"type":"record","name":"A"}"#, Attribute, "/fields"),
        (r#"{"type":"record","name":"A","fields":[{"name":"x","type":"Lost"}]}"#, UnknownName, "/fields/0/type"),
        (
            r#"{"type":"record","name":"A","fields":[{"name":"x","type":"int"},{"name":"x","type":"int"}]}"#,
            DuplicateName,
            "/fields/1/name",
        ),
        (r#"{"type":"record","name":"A","fields":[{"name":"x","type":"int","default":"1"}]}"#, Default, "A.x"),
        (r#"["null",{"type":"fixed","name":"A","size":-1}]"#, Attribute, "/1/size"),
        (r#"{"type":"enum","name":"A","symbols":["x","x"]}"#, DuplicateName, "/symbols/1"),
        (r#"[{"type":"enum","name":"A","symbols":[]},{"type":"fixed","name":"A","size":1}]"#, DuplicateName, "/1/name"),
    ] {
        let error = AvroSchema::parse(json).unwrap_err();
        assert_eq!((error.kind(), error.path()), (kind, path), "{json}: {error}");
    }
}
