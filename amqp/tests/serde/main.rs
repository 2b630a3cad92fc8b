//! Values as a serde format.
#![cfg(feature = "serde")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use consign_amqp::{
    serde::{from_value, from_value_within, to_value},
    value::{
        Array, Binary, Decimal32, Decimal64, Decimal128, Described, List, Map, Str, Symbol, Timestamp, Uuid, Value,
        ValueType,
    },
};
use consign_codecs::{DecodeErrorKind, EncodeErrorKind, Limits, ValueKind};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Order {
    id: u64,
    customer: Option<String>,
    items: Vec<Item>,
    state: State,
    pair: (i8, f64),
    letter: char,
    nothing: (),
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Item {
    price: f64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
enum State {
    Open,
    Paid(u32),
    Sent(u8, u8),
    Returned { reason: String },
}

#[derive(Debug, Deserialize)]
struct Items {
    #[expect(dead_code, reason = "it is read")]
    items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
struct Node(#[expect(dead_code, reason = "it is read")] Option<Box<Node2>>);

#[derive(Debug, Deserialize)]
struct Node2(#[expect(dead_code, reason = "it is read")] (Option<Box<Node2>>,));

#[derive(Serialize)]
struct Chain(Option<Box<Chain>>, u8);

#[derive(Serialize)]
enum Link {
    End,
    Next(Box<Link>),
}

fn order(state: State) -> Order {
    Order {
        id: 7,
        customer: None,
        items: vec![Item { price: 1.5 }, Item { price: -2.0 }],
        state,
        pair: (-1, 0.25),
        letter: 'ß',
        nothing: (),
    }
}

fn list(values: impl IntoIterator<Item = Value>) -> Value {
    values.into_iter().collect::<List>().into()
}

fn map(pairs: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    pairs.into_iter().map(|(name, value)| (name.into(), value)).collect::<Map>().into()
}

fn described(value: Value) -> Value {
    Described { descriptor: 7_u64.into(), value }.into()
}

fn same<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, expected: &Value) {
    assert_eq!(&to_value(value).unwrap(), expected);
    assert_eq!(&from_value::<T>(expected).unwrap(), value);
}

/// Rules: P-67.
#[test]
fn a_struct_is_a_map_and_read_from_one() {
    for state in [State::Open, State::Paid(3), State::Sent(1, 2), State::Returned { reason: "broken".into() }] {
        let value = to_value(&order(state.clone())).unwrap();
        assert_eq!(from_value::<Order>(&value).unwrap(), order(state));
    }
    let value = map([("price", 1.5_f64.into()), ("more", list([true.into()]))]);
    assert_eq!(from_value::<Item>(&value).unwrap(), Item { price: 1.5 });
    let symbols: Map = [(Symbol::from_static("price").into(), 2_u32.into())].into_iter().collect();
    assert_eq!(from_value::<Item>(&symbols.into()).unwrap(), Item { price: 2.0 });
}

/// Rules: P-67.
#[test]
fn a_list_is_read_by_position() {
    let value = list([list([2_u8.into()]), list([described(3.5_f32.into())])]);
    assert_eq!(from_value::<Vec<Item>>(&value).unwrap(), [Item { price: 2.0 }, Item { price: 3.5 }]);
    assert_eq!(from_value::<(Item, (f32,))>(&value).unwrap(), (Item { price: 2.0 }, (3.5,)));
    let array = Array::new(ValueType::Ushort, vec![1_u16.into(), 2_u16.into()]).unwrap();
    assert_eq!(from_value::<Vec<u64>>(&array.into()).unwrap(), [1, 2]);
}

/// Rules: P-67.
#[test]
fn each_rust_type_is_the_amqp_type_of_the_same_width() {
    same(&true, &true.into());
    same(&1_u8, &1_u8.into());
    same(&1_u16, &1_u16.into());
    same(&1_u32, &1_u32.into());
    same(&u64::MAX, &u64::MAX.into());
    same(&-1_i8, &(-1_i8).into());
    same(&-1_i16, &(-1_i16).into());
    same(&-1_i32, &(-1_i32).into());
    same(&i64::MIN, &i64::MIN.into());
    same(&1.5_f32, &1.5_f32.into());
    same(&1.5_f64, &1.5_f64.into());
    same(&'ß', &'ß'.into());
    same(&"text".to_owned(), &"text".into());
    same(&(), &Value::Null);
    same(&None::<u8>, &Value::Null);
    same(&Some(7_u8), &7_u8.into());
    same(&vec![1_u8, 2], &list([1_u8.into(), 2_u8.into()]));
    same(&BTreeMap::from([(-1_i32, true)]), &[((-1_i32).into(), true.into())].into_iter().collect::<Map>().into());
    assert_eq!(to_value(&7_u128).unwrap(), 7_u64.into());
    assert_eq!(to_value(&-7_i128).unwrap(), (-7_i64).into());
    assert_eq!(to_value(&u128::MAX).unwrap_err().kind(), EncodeErrorKind::Unsupported);
}

/// Rules: P-67.
#[test]
fn the_types_of_this_crate_keep_theirs() {
    same(&Uuid([0xab; 16]), &Uuid([0xab; 16]).into());
    same(&Timestamp(-1), &Timestamp(-1).into());
    same(&Decimal32([1; 4]), &Decimal32([1; 4]).into());
    same(&Decimal64([1; 8]), &Decimal64([1; 8]).into());
    same(&Decimal128([1; 16]), &Decimal128([1; 16]).into());
    same(&Symbol::from_static("name"), &Symbol::from_static("name").into());
    same(&Str::from("größe"), &"größe".into());
    // In another format they are bytes, a number and text.
    let json = serde_json::to_string(&(Timestamp(5), Symbol::from_static("s"), Decimal32([1; 4]))).unwrap();
    assert_eq!(json, r#"[5,"s",[1,1,1,1]]"#);
    let back: (Timestamp, Symbol, Decimal32) = serde_json::from_str(&json).unwrap();
    assert_eq!(back, (Timestamp(5), Symbol::from_static("s"), Decimal32([1; 4])));
}

#[test]
fn a_uuid_is_text_or_bytes_as_the_type_has_it() {
    let uuid = Value::from(Uuid([0xab; 16]));
    assert_eq!(from_value::<String>(&uuid).unwrap(), "abababab-abab-abab-abab-abababababab");
    assert_eq!(from_value::<[u8; 16]>(&uuid).unwrap(), [0xab; 16]);
    assert_eq!(from_value::<Uuid>(&Value::Binary(Binary::from(vec![1; 16]))).unwrap(), Uuid([1; 16]));
    assert_eq!(from_value::<i64>(&Timestamp(5).into()).unwrap(), 5);
    assert_eq!(from_value::<[u8; 4]>(&Decimal32([1, 2, 3, 4]).into()).unwrap(), [1, 2, 3, 4]);
    let error = from_value::<Uuid>(&Value::Binary(Binary::from(vec![1; 15]))).unwrap_err();
    assert_eq!((error.kind(), error.expected()), (DecodeErrorKind::Type, Some("a UUID of 16 bytes")));
}

#[test]
fn a_net_instant_with_an_offset_is_a_timestamp() {
    let ticks = 621_355_968_000_000_000_i64 + 12_345;
    let name = Symbol::from_static("com.microsoft:datetime-offset").into();
    let value = Value::from(Described { descriptor: name, value: ticks.into() });
    assert_eq!(from_value::<Timestamp>(&value).unwrap(), Timestamp(1));
}

#[test]
fn text_and_bytes_are_borrowed() {
    let value = list(["text".into(), Value::Binary(Binary::from(vec![1, 2]))]);
    let (text, bytes): (&str, &[u8]) = from_value(&value).unwrap();
    assert_eq!((text, bytes), ("text", &[1, 2][..]));
}

/// Rules: P-121, P-122.
#[test]
fn an_error_has_the_path_and_no_value() {
    let item = |price: Value| map([("price", price)]);
    let items = list([item(1.5_f64.into()), item("canary".into())]);
    let error = from_value::<Items>(&map([("items", items.clone())])).unwrap_err();
    assert_eq!((error.kind(), error.path()), (DecodeErrorKind::Type, Some("items[1].price")));
    assert_eq!((error.expected(), error.found()), (Some("f64"), Some(ValueKind::Text)));
    assert!(!format!("{error} {error:?}").contains("canary"));

    let error = from_value::<Items>(&map([("items", list([map([])]))])).unwrap_err();
    assert_eq!((error.path(), error.detail()), (Some("items[0]"), Some("missing field `price`")));
    let error = from_value::<BTreeMap<String, u8>>(&map([("a", 1_u8.into()), ("b", 300_u16.into())])).unwrap_err();
    assert_eq!((error.path(), error.found()), (Some("{1}"), Some(ValueKind::Integer)));
    let error = from_value::<State>(&map([("Paid", "x".into()), ("Open", Value::Null)])).unwrap_err();
    assert_eq!(error.expected(), Some("a map with one entry"));
}

#[test]
fn limits_are_checked() {
    let nested = |levels| (0..levels).fold(Value::Null, |value, _| list([value]));
    let limits = Limits::default().depth(8);
    assert!(from_value_within::<Node>(&nested(8), &limits).is_ok());
    assert_eq!(from_value_within::<Node>(&nested(9), &limits).unwrap_err().kind(), DecodeErrorKind::Depth);
    let described = (0..9).fold(Value::from(1_u8), |value, _| described(value));
    assert_eq!(from_value_within::<u8>(&described, &limits).unwrap_err().kind(), DecodeErrorKind::Depth);
    assert_eq!(from_value_within::<u8>(&described, &limits.depth(9)).unwrap(), 1);

    let limits = Limits::default().elements(3);
    assert!(from_value_within::<Vec<u8>>(&list(vec![1_u8.into(); 3]), &limits).is_ok());
    let error = from_value_within::<Vec<u8>>(&list(vec![1_u8.into(); 4]), &limits).unwrap_err();
    assert_eq!(error.kind(), DecodeErrorKind::Count);

    let chain = |levels| (0..levels).fold(Chain(None, 1), |chain, _| Chain(Some(Box::new(chain)), 1));
    let variants = |levels| (0..levels).fold(Link::End, |link, _| Link::Next(Box::new(link)));
    assert!(to_value(&variants(128)).is_ok());
    assert_eq!(to_value(&variants(129)).unwrap_err().kind(), EncodeErrorKind::Unsupported);
    assert!(to_value(&chain(127)).is_ok());
    assert_eq!(to_value(&chain(128)).unwrap_err().kind(), EncodeErrorKind::Unsupported);
}

/// Rules: P-67.
#[test]
fn a_value_that_the_type_does_not_read_whole_is_refused() {
    fn refused<T: DeserializeOwned + std::fmt::Debug>(value: &Value) {
        let error = from_value::<T>(value).unwrap_err();
        assert_eq!(error.kind(), DecodeErrorKind::Type, "{value:?}: {error}");
    }
    let numbers = list([1_u8.into(), 2_u8.into(), 3_u8.into()]);
    refused::<(u8, u8)>(&numbers);
    refused::<[u8; 2]>(&numbers);
    refused::<[u8; 2]>(&Binary::from(&b"abcd"[..]).into());
    refused::<[u8; 4]>(&Uuid([7; 16]).into());
    // A struct of one field.
    refused::<Item>(&list([1.5_f64.into(), 2_u8.into()]));
    let error = from_value::<State>(&map([("Sent", numbers.clone())])).unwrap_err();
    assert_eq!((error.detail(), error.path()), (Some("the type did not read the whole value"), Some("Sent")));
    assert_eq!(from_value::<(u8, u8, u8)>(&numbers), Ok((1, 2, 3)));
    assert_eq!(from_value::<[u8; 16]>(&Uuid([7; 16]).into()), Ok([7; 16]));
}

/// Rules: P-67.
#[test]
fn a_key_or_a_variant_that_is_not_text_is_no_name() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Id {
        #[serde(default)]
        id: u64,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        #[serde(default)]
        #[expect(dead_code, reason = "the key is refused")]
        id: u64,
    }

    for key in [Value::from(0_u8), (-1_i8).into(), true.into(), Value::Null, list([0_u8.into()])] {
        let order: Value = [(key, 7_u8.into())].into_iter().collect::<Map>().into();
        assert_eq!(from_value::<Id>(&order), Ok(Id { id: 0 }), "{order:?}");
        let error = from_value::<Strict>(&order).unwrap_err();
        assert_eq!((error.detail(), error.expected()), (Some("unknown field"), Some("`id`")), "{order:?}");
        let error = from_value::<State>(&order).unwrap_err();
        assert_eq!(error.expected(), Some("variant identifier"), "{order:?}");
    }
    let bytes: Map = [(Binary::from(&b"id"[..]).into(), 7_u8.into())].into_iter().collect();
    assert_eq!(from_value::<Id>(&bytes.into()), Ok(Id { id: 7 }));
    let numbers: Map = [(5_u8.into(), 7_u8.into())].into_iter().collect();
    assert_eq!(from_value::<BTreeMap<u64, u64>>(&numbers.into()), Ok(BTreeMap::from([(5, 7)])));
}

/// Rules: P-67.
#[test]
fn a_described_null_is_none() {
    assert_eq!(from_value::<Option<u8>>(&described(described(Value::Null))), Ok(None));
    assert_eq!(from_value::<Option<u8>>(&described(7_u8.into())), Ok(Some(7)));
    assert_eq!(from_value::<(Option<u8>, ())>(&list([described(Value::Null), described(Value::Null)])), Ok((None, ())));
}

/// Rules: P-67.
#[test]
fn a_double_beyond_the_floats_of_32_bits_is_refused() {
    let error = from_value::<f32>(&1e300_f64.into()).unwrap_err();
    assert_eq!(error.expected(), Some("a number in the range of f32"));
    assert_eq!(from_value(&0.1_f64.into()), Ok(0.1_f32));
    assert_eq!(from_value(&f64::INFINITY.into()), Ok(f32::INFINITY));
    assert_eq!(from_value(&7_u8.into()), Ok(7.0_f32));
}
