use std::collections::BTreeMap;

use consign_codecs::{Codec, DataContractBinary, DataContractXml, DecodeContext, DecodeErrorKind, Limits};
use serde::{Deserialize, de::IgnoredAny};

use crate::support::{binary, both, golden, text};

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
enum State {
    Open,
    Closed,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Line {
    sku: Option<String>,
    quantity: u32,
    price: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase")]
struct Seen {
    date_time: String,
    offset_minutes: i16,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Order {
    id: i32,
    number: i64,
    weight: f64,
    ratio: f32,
    total: String,
    paid: bool,
    placed: String,
    due: String,
    window: String,
    key: String,
    customer: Option<String>,
    grade: char,
    state: State,
    photo: Option<Vec<u8>>,
    large: u64,
    first: Option<Line>,
    lines: Option<Vec<Option<Line>>>,
    tags: Option<Vec<Option<String>>>,
    codes: Option<Vec<i32>>,
    stock: Option<BTreeMap<String, u32>>,
    note: Option<String>,
    discount: Option<i32>,
    bonus: Option<i32>,
    anything: Option<u64>,
    link: Option<String>,
    seen: Seen,
    empty: Option<Vec<String>>,
}

fn order() -> Order {
    let nails = Line { sku: Some("nail".into()), quantity: 100, price: "0.05".into() };
    let saw = Line { sku: Some("s\u{e4}ge".into()), quantity: 1, price: "12.50".into() };
    Order {
        id: 7,
        number: 5_000_000_000,
        weight: 1.1,
        ratio: 0.5,
        total: "1234.5600".into(),
        paid: true,
        placed: "2024-02-29T12:34:56.789Z".into(),
        due: "2024-03-01T00:00:00".into(),
        window: "P1DT2H3M4.5S".into(),
        key: "00112233-4455-6677-8899-aabbccddeeff".into(),
        customer: Some("Ada \u{d8}".into()),
        grade: 'A',
        state: State::Closed,
        photo: Some(vec![0, 7, 14, 21, 28]),
        large: u64::MAX,
        first: Some(nails.clone()),
        lines: Some(vec![Some(nails), None, Some(saw)]),
        tags: Some(vec![Some("new".into()), Some(String::new()), None, Some("1".into())]),
        codes: Some(vec![1, 200, 70_000, -1]),
        stock: Some(BTreeMap::from([("nail".into(), 100), ("saw".into(), 0)])),
        note: None,
        discount: None,
        bonus: Some(300),
        anything: Some(42),
        link: Some("https://example.com/a?b=c&d".into()),
        seen: Seen { date_time: "2024-02-29T12:00:00Z".into(), offset_minutes: 60 },
        empty: Some(vec![]),
    }
}

/// Rules: P-55, P-62.
#[test]
fn an_object_with_members_of_all_types_is_read() {
    assert_eq!(both::<Order>("order"), [order(), order()]);
    assert_eq!(both::<Option<Order>>("order-null"), [None, None]);
    for read in both::<Order>("order-defaults") {
        assert_eq!((read.id, read.paid, read.grade, read.state), (0, false, '\0', State::Open));
        assert_eq!((read.placed.as_str(), read.window.as_str()), ("0001-01-01T00:00:00", "PT0S"));
        assert!(read.customer.is_none() && read.photo.is_none() && read.lines.is_none() && read.stock.is_none());
    }
    assert!(both::<Vec<Line>>("lines").into_iter().all(|lines| lines[0].quantity == 2));
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase")]
struct Numbers {
    zero: u8,
    one: u8,
    minus: i8,
    short: i16,
    int: u32,
    long: i64,
    least: i64,
    most: u64,
    whole: f64,
    third: f64,
    not_a_number: f64,
    infinite: f64,
    small: f64,
    largest: String,
    zero_text: String,
    one_text: String,
    byte: u8,
    #[serde(rename = "SByte")]
    signed_byte: i8,
    #[serde(rename = "UInt")]
    unsigned: u32,
}

/// Rules: P-62.
/// .NET writes a number in the smallest record that holds it, so a float may be an integer record.
#[test]
#[allow(clippy::float_cmp, reason = "the same bits are expected")]
fn numbers_are_read_from_records_of_any_width() {
    for read in both::<Numbers>("numbers") {
        assert!(read.not_a_number.is_nan());
        let expected = Numbers {
            zero: 0,
            one: 1,
            minus: -1,
            short: 300,
            int: 70_000,
            long: 5_000_000_000,
            least: i64::MIN,
            most: u64::MAX,
            whole: 3.0,
            third: 1.0 / 3.0,
            not_a_number: 0.0,
            infinite: f64::NEG_INFINITY,
            small: -0.000_001,
            largest: "79228162514264337593543950335".into(),
            zero_text: "0".into(),
            one_text: "1".into(),
            byte: 255,
            signed_byte: -128,
            unsigned: u32::MAX,
        };
        assert_eq!(Numbers { not_a_number: 0.0, ..read }, expected);
    }
}

#[derive(Debug, Deserialize, PartialEq)]
struct Shipment {
    id: String,
    weights: Vec<f64>,
    days: Vec<String>,
    flags: Vec<bool>,
}

/// Rules: P-58.
#[test]
fn a_contract_with_a_namespace_of_its_own_is_read_if_it_is_listed() {
    const ROOTS: &[(&str, &str)] = &[("shipment", "urn:example:shipping")];
    const OTHERS: &[(&str, &str)] = &[("Shipment", "urn:example:shipping"), ("shipment", "urn:example")];
    let limits = Limits::default();
    let cx = DecodeContext::new(&limits);
    let (binary, text) = (golden("shipment.bin"), golden("shipment.xml"));
    let expected = || Shipment {
        id: "00112233-4455-6677-8899-aabbccddeeff".into(),
        weights: vec![1.5, 2.0, -0.25],
        days: vec!["2024-02-29T00:00:00Z".into(), "0001-01-01T00:00:00".into()],
        flags: vec![true, false, true],
    };
    assert_eq!(DataContractBinary::with_roots(ROOTS).decode(&binary, &cx), Ok(expected()));
    assert_eq!(DataContractXml::with_roots(ROOTS).decode(&text, &cx), Ok(expected()));
    for roots in [&[], OTHERS] {
        let errors = [
            DataContractBinary::with_roots(roots).decode::<Shipment>(&binary, &cx).unwrap_err(),
            DataContractXml::with_roots(roots).decode::<Shipment>(&text, &cx).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), DecodeErrorKind::Type);
            assert_eq!(error.detail(), Some("not the element of a data contract"), "{error}");
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Pair<L, R> {
    left: L,
    #[serde(rename = "Right")]
    _right: R,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Person {
    name: String,
    friend: Option<Box<Person>>,
}

/// Rules: P-62.
#[test]
fn a_reference_is_refused_where_its_object_is_needed() {
    let (in_binary, in_text) = (golden("pair-references.bin"), golden("pair-references.xml"));
    for pair in [binary::<Pair<Person, IgnoredAny>>(&in_binary), text(&in_text)] {
        let pair = pair.unwrap();
        assert!(pair.left.name == "Ada" && pair.left.friend.is_none());
    }
    for error in [binary::<Pair<Person, Person>>(&in_binary), text(&in_text)].map(Result::unwrap_err) {
        assert_eq!(error.detail(), Some("references to other objects are not supported"));
        assert_eq!(error.path(), Some("Right"));
    }
}
