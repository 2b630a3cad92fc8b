use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
};

use consign_codecs::{DecodeError, DecodeErrorKind as Kind, Position, ValueKind as Found};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::support::{CBOR, Fixint, JSON, MSGPACK, POSITIONAL, POSTCARD, SELF_DESCRIBING, Varint, Which};

#[derive(Debug, Deserialize)]
#[allow(dead_code)]
struct Cart {
    id: u64,
    lines: Vec<Line>,
    address: Option<Address>,
    #[serde(default)]
    prices: BTreeMap<u32, (f64, bool)>,
    #[serde(default)]
    shape: Option<Shape>,
    #[serde(default, rename = "unit price;cents")]
    odd: u8,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code)]
struct Line {
    sku: String,
    #[serde(alias = "cost")]
    price: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Address {
    street: String,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code)]
enum Shape {
    Point,
    Circle { radius: u32 },
    Line(u32, u32),
    Named(String),
}

fn cart() -> Value {
    json!({
        "id": 7,
        "lines": [{"sku": "a", "price": 1.5}, {"sku": "b", "price": 2.5}],
        "address": {"street": "s"},
    })
}

fn refused<T: DeserializeOwned>(codec: Which, value: &impl Serialize) -> DecodeError {
    match codec.decode::<T>(&codec.encode(value).unwrap()) {
        Ok(_) => panic!("{codec:?} took it"),
        Err(error) => error,
    }
}

/// Each row: what is wrong, the body, and what is said of it: path, detail, expected, found.
type Row<'r> = (&'r str, Value, Option<&'r str>, Option<&'r str>, Option<&'r str>, Option<Found>);

/// Rules: P-121, P-122.
#[test]
#[allow(clippy::too_many_lines, reason = "most of it is a table")]
fn every_self_describing_format_says_where_and_what() {
    let with = |key: &str, value: Value| {
        let mut cart = cart();
        cart[key] = value;
        cart
    };
    let line = |line: Value| with("lines", json!([{"sku": "a", "price": 1.5}, line]));
    let rows: [Row<'_>; 21] = [
        ("no map", json!([true]), None, None, None, None),
        ("text for a number", with("id", json!("CANARY")), Some("id"), None, Some("u64"), Some(Found::Text)),
        (
            "too large",
            with("unit price;cents", json!(300)),
            Some("[\"unit price;cents\"]"),
            Some("invalid value"),
            Some("u8"),
            Some(Found::Integer),
        ),
        ("null", with("id", Value::Null), Some("id"), None, Some("u64"), Some(Found::Null)),
        ("a list", with("id", json!([1])), Some("id"), None, Some("u64"), Some(Found::Array)),
        ("a map", with("id", json!({"CANARY": 1})), Some("id"), None, Some("u64"), Some(Found::Map)),
        ("a float", with("id", json!(1.5)), Some("id"), None, Some("u64"), Some(Found::Float)),
        ("no list", with("lines", json!("CANARY")), Some("lines"), None, Some("a sequence"), Some(Found::Text)),
        (
            "in a list",
            line(json!({"sku": "a", "price": "CANARY"})),
            Some("lines[1].price"),
            None,
            Some("f64"),
            Some(Found::Text),
        ),
        (
            "by an alias",
            line(json!({"sku": "a", "cost": "CANARY"})),
            Some("lines[1].cost"),
            None,
            Some("f64"),
            Some(Found::Text),
        ),
        (
            "a boolean",
            line(json!({"sku": true, "price": 1.5})),
            Some("lines[1].sku"),
            None,
            Some("a string"),
            Some(Found::Boolean),
        ),
        ("missing", line(json!({"sku": "a"})), Some("lines[1]"), Some("missing field `price`"), None, None),
        (
            "an unknown field",
            with("address", json!({"CANARY": 1})),
            Some("address"),
            Some("unknown field"),
            Some("`street`"),
            None,
        ),
        (
            "an entry",
            with("prices", json!({"1": [1.5, true], "2": [1.5, 7]})),
            Some("prices{1}[1]"),
            None,
            Some("a boolean"),
            Some(Found::Integer),
        ),
        (
            "an unknown variant",
            with("shape", json!("CANARY")),
            Some("shape"),
            Some("unknown variant"),
            Some("one of `Point`, `Circle`, `Line`, `Named`"),
            None,
        ),
        (
            "in a variant",
            with("shape", json!({"Circle": {"radius": "CANARY"}})),
            Some("shape.Circle.radius"),
            None,
            Some("u32"),
            Some(Found::Text),
        ),
        (
            "in a tuple variant",
            with("shape", json!({"Line": [1, "CANARY"]})),
            Some("shape.Line[1]"),
            None,
            Some("u32"),
            Some(Found::Text),
        ),
        (
            "in a newtype variant",
            with("shape", json!({"Named": 7})),
            Some("shape.Named"),
            None,
            Some("a string"),
            Some(Found::Integer),
        ),
        ("without data", with("shape", json!("Circle")), Some("shape.Circle"), None, None, None),
        (
            "too short",
            with("shape", json!({"Line": [1]})),
            Some("shape.Line"),
            Some("invalid length"),
            Some("tuple variant Shape::Line with 2 elements"),
            None,
        ),
        (
            "in a struct without names",
            json!([7, [["a", 1.5], ["b", "CANARY"]], null]),
            Some("lines[1][1]"),
            None,
            Some("f64"),
            Some(Found::Text),
        ),
    ];
    for codec in SELF_DESCRIBING {
        for (what, body, path, detail, expected, found) in &rows {
            // A key of an integer is text in JSON alone.
            let error = match *what {
                "an entry" if !matches!(codec, Which::Json | Which::Strict) => {
                    let prices = BTreeMap::from([(1, json!([1.5, true])), (2, json!([1.5, 7]))]);
                    refused_prices(codec, &prices)
                }
                // Its structs have names.
                "in a struct without names" if codec == CBOR => continue,
                _ => refused::<Cart>(codec, body),
            };
            let said = format!("{codec:?}: {what}: {error}");
            assert_eq!(error.kind(), Kind::Type, "{said}");
            assert!(!said.contains("CANARY") && !format!("{error:?}").contains("CANARY"), "{said}");
            if *what == "no map" {
                continue;
            }
            if *what == "without data" {
                assert!(error.path().is_some_and(|path| path.starts_with("shape")), "{said}");
                continue;
            }
            assert_eq!(error.path(), *path, "{said}");
            assert_eq!(error.expected(), *expected, "{said}");
            // A reader may refuse a value by itself.
            let is_own = matches!(error.detail(), Some("a number out of range" | "an array of another length"));
            assert!(is_own || error.detail() == *detail, "{said}");
            assert_eq!(error.found(), *found, "{said}");
        }
    }
}

#[derive(Serialize)]
struct WithPrices<'p> {
    id: u64,
    lines: [u8; 0],
    prices: &'p BTreeMap<u32, Value>,
}

fn refused_prices(codec: Which, prices: &BTreeMap<u32, Value>) -> DecodeError {
    refused::<Cart>(codec, &WithPrices { id: 7, lines: [], prices })
}

/// Rules: P-121.
#[test]
fn a_key_of_a_map_is_a_number_in_the_path() {
    let body = json!({"1": 1, "CANARY": 2});
    for codec in [JSON, Which::Strict] {
        let error = refused::<HashMap<u32, u32>>(codec, &body);
        assert_eq!(error.path(), Some("{1:key}"), "{codec:?}");
    }
    let error = refused::<HashMap<u32, u32>>(MSGPACK, &body);
    assert_eq!((error.path(), error.position()), (Some("{0:key}"), Some(Position::Offset(1))));
    assert_eq!(refused::<HashMap<u32, u32>>(CBOR, &body).path(), Some("{0:key}"));
}

/// Rules: P-121.
#[test]
fn positional_formats_say_where() {
    #[derive(Debug, Deserialize, Serialize)]
    struct Inner {
        name: String,
        kind: u32,
    }
    #[derive(Debug, Deserialize)]
    enum Kinds {
        _A,
        _B,
    }
    #[derive(Debug, Deserialize)]
    struct Narrow {
        #[serde(rename = "name")]
        _name: String,
        #[serde(rename = "kind")]
        _kind: Kinds,
    }
    #[derive(Debug, Deserialize)]
    struct Outer<I> {
        #[serde(rename = "first")]
        _first: u8,
        #[serde(rename = "all")]
        _all: Vec<I>,
        #[serde(rename = "last", default)]
        _last: u8,
    }
    #[derive(Debug, Deserialize)]
    struct Aliased {
        #[serde(rename = "name", alias = "title")]
        _name: String,
        #[serde(rename = "kind")]
        _kind: Kinds,
    }
    let inner = |kind| Inner { name: "n".into(), kind };
    let value = (1_u8, vec![inner(1), inner(7)], 9_u8);
    for codec in POSITIONAL {
        let error = refused::<Outer<Narrow>>(codec, &value);
        assert_eq!(error.path(), Some("all[1].kind"), "{codec:?}: {error}");
        assert_eq!(error.expected(), Some("variant index 0 <= i < 2"), "{codec:?}: {error}");
        assert_eq!(error.found(), Some(Found::Integer), "{codec:?}: {error}");
        // With an alias the names are not those of the places, so the place has its number.
        assert_eq!(refused::<Outer<Aliased>>(codec, &value).path(), Some("all[1][1]"), "{codec:?}");
        // What the reader refuses by itself has a path too.
        let body = codec.encode(&value).unwrap();
        let cut = codec.decode::<Outer<Inner>>(&body[..body.len() - 1]).unwrap_err();
        assert_eq!((cut.kind(), cut.path()), (Kind::Truncated, Some("last")), "{codec:?}");
        assert!(cut.position().is_some(), "{codec:?}");
    }
    let error = Fixint.decode::<Outer<bool>>(&[1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 7]).unwrap_err();
    assert_eq!((error.kind(), error.path()), (Kind::Syntax, Some("all[1]")));
}

/// Rules: P-121.
#[test]
fn the_position_of_message_pack_is_that_of_the_value() {
    let at = |body: &[u8]| {
        let error = MSGPACK.decode::<Cart>(body).unwrap_err();
        (error.path().map(str::to_owned), error.position(), error.found())
    };
    // {"id": "x"}, {"lines": [1]} behind an extension in a field that is ignored, an array for the outermost value.
    assert_eq!(at(b"\x81\xa2id\xa1x"), (Some("id".into()), Some(Position::Offset(4)), Some(Found::Text)));
    let body = b"\x83\xa1x\xc7\x02\x05ab\xa1y\xd4\x01\x02\xa5lines\x91\x01";
    assert_eq!(at(body), (Some("lines[0]".into()), Some(Position::Offset(20)), Some(Found::Integer)));
    assert_eq!(at(b"\x07"), (None, Some(Position::Offset(0)), Some(Found::Integer)));
    // A variant's name, and what it holds.
    let shape = |body: &[u8]| MSGPACK.decode::<Shape>(body).unwrap_err().position();
    assert_eq!(shape(b"\xa1x"), Some(Position::Offset(0)));
    assert_eq!(shape(b"\x81\xa5Named\x07"), Some(Position::Offset(7)));
    // A variant is in a map of one entry.
    let error = MSGPACK.decode::<Shape>(b"\x82\xa1x\x01\xa1y\x02").unwrap_err();
    assert_eq!((error.detail(), error.position()), (Some("a map of another length"), Some(Position::Offset(0))));
}

/// Rules: P-121.
#[test]
fn buffered_values_have_a_partial_path_and_no_wrong_one() {
    #[derive(Debug, Deserialize)]
    #[serde(tag = "type")]
    enum Tagged {
        Circle {
            #[serde(rename = "radius")]
            _radius: u32,
        },
    }
    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        _A(#[allow(dead_code)] u32),
        _B(#[allow(dead_code)] Vec<u32>),
    }
    #[derive(Debug, Deserialize)]
    struct Rest {
        #[serde(rename = "size")]
        _size: u32,
    }
    #[derive(Debug, Deserialize)]
    struct Flat {
        #[serde(rename = "id")]
        _id: u32,
        #[serde(flatten)]
        _rest: Rest,
    }
    for codec in SELF_DESCRIBING {
        let error = refused::<Vec<Tagged>>(codec, &json!([{"type": "Circle", "radius": "CANARY"}]));
        assert_eq!((error.path(), error.expected(), error.found()), (Some("[0]"), Some("u32"), Some(Found::Text)));
        let error = refused::<Vec<Untagged>>(codec, &json!([[1, "CANARY"]]));
        assert_eq!(error.path(), Some("[0]"), "{codec:?}");
        assert_eq!(error.detail(), Some("data did not match any variant of untagged enum Untagged"));
        let error = refused::<Vec<Flat>>(codec, &json!([{"id": 1, "size": "CANARY"}]));
        assert_eq!((error.path(), error.found()), (Some("[0]"), Some(Found::Text)), "{codec:?}");
        let error = refused::<Vec<Flat>>(codec, &json!([{"id": "CANARY", "size": 1}]));
        assert_eq!((error.path(), error.expected()), (Some("[0]{0}"), Some("u32")), "{codec:?}");
    }
}

/// A value, or nothing if it is of another type.
#[derive(Debug)]
struct Lenient;

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The reader has to be past the value, as after a buffer.
        let value = Value::deserialize(deserializer)?;
        let _ = u32::deserialize(value);
        Ok(Self)
    }
}

thread_local! {
    static READS: Cell<u32> = const { Cell::new(0) };
}

/// A type that refuses what it reads for the first time.
#[derive(Debug)]
struct Fickle;

impl<'de> Deserialize<'de> for Fickle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u32::deserialize(deserializer)?;
        READS.set(READS.get() + 1);
        if READS.get() == 1 { Err(serde::de::Error::missing_field("first")) } else { Ok(Self) }
    }
}

/// Rules: P-121.
#[test]
fn ignored_values_and_values_read_once_are_not_in_the_path() {
    for codec in [JSON, MSGPACK, CBOR] {
        let error = refused::<(Lenient, Lenient, u8)>(codec, &json!(["x", "y", true]));
        assert_eq!((error.path(), error.expected()), (Some("[2]"), Some("u8")), "{codec:?}");
    }
    for codec in [JSON, MSGPACK, CBOR, Fixint, Varint, POSTCARD] {
        READS.set(0);
        let error = refused::<Vec<Fickle>>(codec, &vec![1_u32]);
        assert_eq!((error.kind(), error.path()), (Kind::Type, None), "{codec:?}");
        // A body that is read is read once.
        READS.set(1);
        codec.decode::<Vec<Fickle>>(&codec.encode(&vec![1_u32]).unwrap()).unwrap();
        assert_eq!(READS.get(), 2, "{codec:?}");
    }
}

/// Rules: P-121.
#[test]
fn a_limit_has_a_path() {
    #[derive(Debug, Deserialize)]
    struct Units {
        #[serde(rename = "units")]
        _units: Vec<()>,
    }
    let deep = "[".repeat(70);
    let deep: Value = serde_json::from_str(&format!("{deep}{}", "]".repeat(70))).unwrap();
    for codec in SELF_DESCRIBING {
        // The walk before the reading knows no type.
        let error = codec.decode::<Value>(&codec.encode(&deep).unwrap()).unwrap_err();
        assert_eq!((error.kind(), error.path()), (Kind::Depth, None), "{codec:?}");
    }
    let error = POSTCARD.decode::<Units>(&[0xff, 0xff, 0xff, 0x03]).unwrap_err();
    // To follow the path would take as many steps as there are elements.
    assert_eq!((error.kind(), error.path()), (Kind::Count, None));
    for codec in POSITIONAL {
        let body = codec.encode(&vec![crate::support::Node::chain(70)]).unwrap();
        let error = codec.decode::<Vec<crate::support::Node>>(&body).unwrap_err();
        assert_eq!(error.kind(), Kind::Depth, "{codec:?}");
        assert!(error.path().is_some_and(|path| path.ends_with(".next.next")), "{codec:?}: {error}");
    }
}

/// Rules: P-122.
#[test]
fn text_and_bytes_say_what_was_expected() {
    let error = Which::Text.decode::<u32>(b"CANARY").unwrap_err();
    assert_eq!((error.expected(), error.found()), (Some("u32"), Some(Found::Text)));
    let error = Which::Text.decode::<std::net::Ipv4Addr>(b"CANARY").unwrap_err();
    assert_eq!((error.detail(), error.expected()), (Some("the type refused the value"), None));
    let error = Which::Raw.decode::<String>(b"CANARY").unwrap_err();
    assert_eq!((error.expected(), error.found()), (Some("a string"), Some(Found::Bytes)));
}

/// Rules: P-121.
#[test]
fn a_deep_path_fits_a_small_stack_and_is_bounded() {
    #[derive(Debug, Deserialize)]
    struct Chain {
        #[serde(rename = "next_of_a_long_name")]
        _next: Option<Box<Chain>>,
    }
    crate::support::on_a_small_stack(|| {
        let limits = consign_codecs::Limits::default().depth(1_000);
        let mut value = json!({"next_of_a_long_name": 7});
        for _ in 1..120 {
            value = json!({ "next_of_a_long_name": value });
        }
        for codec in SELF_DESCRIBING {
            let body = codec.encode(&value).unwrap();
            let error = codec.decode_within::<Chain>(&body, &limits).unwrap_err();
            let path = error.path().unwrap();
            assert!(path.starts_with("...next") && path.len() <= DecodeError::MAX_TEXT, "{codec:?}: {path}");
        }
    });
}
