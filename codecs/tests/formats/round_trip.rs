use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;

use consign_codecs::Position;
use proptest::{
    collection::{btree_map, btree_set, hash_map, vec},
    option,
    prelude::*,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_bytes::ByteBuf;

use crate::support::{Node, Order, POSITIONAL, SELF_DESCRIBING, Which, explain, runner};

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Unit;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Newtype(String);

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Pair(i32, String);

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Nested {
    order: Order,
    tags: BTreeMap<String, Vec<Option<u32>>>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
enum Event {
    Stopped,
    Moved(i64),
    Split(u8, String),
    Placed { id: u64, note: Option<String> },
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type")]
enum Tagged {
    Placed { id: u64 },
    Shipped { by: String },
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "t", content = "c")]
enum Adjacent {
    Moved(i64),
    Split { a: u8, b: String },
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
enum Untagged {
    Number(i64),
    Text(String),
    Many(Vec<u32>),
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Flat {
    id: u64,
    #[serde(flatten)]
    rest: BTreeMap<String, String>,
}

fn orders() -> impl Strategy<Value = Order> {
    (any::<u64>(), ".{0,12}", any::<u32>(), option::of(".{0,8}")).prop_map(|(id, sku, qty, note)| Order {
        id,
        sku,
        qty,
        note,
    })
}

/// Every finite float by its bits. JSON writes others as null.
fn floats() -> impl Strategy<Value = f64> {
    any::<u64>().prop_map(f64::from_bits).prop_filter("a finite number", |float| float.is_finite())
}

fn short_floats() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(f32::from_bits).prop_filter("a finite number", |float| float.is_finite())
}

fn check<T: Clone + Debug + DeserializeOwned + PartialEq + Serialize>(
    codecs: &[Which],
    values: impl Strategy<Value = T>,
    test: &str,
) {
    let result = runner(64).run(&values, |value| {
        for &codec in codecs {
            let body = codec.encode(&value).map_err(|error| TestCaseError::fail(format!("{codec:?}: {error}")))?;
            let read = codec.decode::<T>(&body);
            prop_assert_eq!(read.as_ref(), Ok(&value), "{:?} {:x?}", codec, &body[..]);
        }
        Ok(())
    });
    explain(result, test);
}

/// A test for each shape, in every codec that is to hold it.
macro_rules! shapes {
    ($($codecs:ident { $($name:ident: $type:ty = $values:expr;)* })*) => {$($(
        #[test]
        fn $name() {
            check::<$type>(&$codecs(), $values, stringify!($name));
        }
    )*)*};
}

fn all() -> Vec<Which> {
    [&SELF_DESCRIBING[..], &POSITIONAL[..]].concat()
}

fn self_describing() -> Vec<Which> {
    SELF_DESCRIBING.to_vec()
}

fn positional() -> Vec<Which> {
    POSITIONAL.to_vec()
}

fn text() -> Vec<Which> {
    vec![Which::Text]
}

fn raw() -> Vec<Which> {
    vec![Which::Raw]
}

shapes! {
    all {
        bools: bool = any::<bool>();
        bytes_8: u8 = any::<u8>();
        signed_8: i8 = any::<i8>();
        unsigned_16: u16 = any::<u16>();
        unsigned_32: u32 = any::<u32>();
        unsigned_64: u64 = any::<u64>();
        signed_16: i16 = any::<i16>();
        signed_32: i32 = any::<i32>();
        signed_64: i64 = any::<i64>();
        float_32: f32 = short_floats();
        float_64: f64 = floats();
        chars: char = any::<char>();
        strings: String = any::<String>();
        units: () = Just(());
        unit_structs: Unit = Just(Unit);
        newtypes: Newtype = any::<String>().prop_map(Newtype);
        tuples: (u8, String, bool) = any::<(u8, String, bool)>();
        tuple_structs: Pair = any::<(i32, String)>().prop_map(|(a, b)| Pair(a, b));
        arrays: [u16; 5] = any::<[u16; 5]>();
        options: Option<u32> = option::of(any::<u32>());
        vectors: Vec<i64> = vec(any::<i64>(), 0..20);
        vectors_of_vectors: Vec<Vec<String>> = vec(vec(any::<String>(), 0..4), 0..4);
        byte_strings: ByteBuf = vec(any::<u8>(), 0..40).prop_map(ByteBuf::from);
        vectors_of_bytes: Vec<u8> = vec(any::<u8>(), 0..40);
        string_maps: BTreeMap<String, u32> = btree_map(any::<String>(), any::<u32>(), 0..8);
        number_maps: HashMap<u32, String> = hash_map(any::<u32>(), any::<String>(), 0..8);
        sets: BTreeSet<i32> = btree_set(any::<i32>(), 0..8);
        structs: Order = orders();
        nested_structs: Nested = (orders(), btree_map(".{0,4}", vec(option::of(any::<u32>()), 0..4), 0..4))
            .prop_map(|(order, tags)| Nested { order, tags });
        enums: Event = prop_oneof![
            Just(Event::Stopped),
            any::<i64>().prop_map(Event::Moved),
            any::<(u8, String)>().prop_map(|(a, b)| Event::Split(a, b)),
            any::<(u64, Option<String>)>().prop_map(|(id, note)| Event::Placed { id, note }),
        ];
        recursive: Node = (1_usize..=60).prop_map(Node::chain);
        results: Result<u32, String> = any::<Result<u32, String>>();
    }
    self_describing {
        adjacently_tagged_enums: Adjacent = prop_oneof![
            any::<i64>().prop_map(Adjacent::Moved),
            any::<(u8, String)>().prop_map(|(a, b)| Adjacent::Split { a, b }),
        ];
        internally_tagged_enums: Tagged = prop_oneof![
            any::<u64>().prop_map(|id| Tagged::Placed { id }),
            any::<String>().prop_map(|by| Tagged::Shipped { by }),
        ];
        untagged_enums: Untagged = prop_oneof![
            any::<i64>().prop_map(Untagged::Number),
            any::<String>().prop_map(Untagged::Text),
            vec(any::<u32>(), 0..5).prop_map(Untagged::Many),
        ];
        flattened: Flat = (any::<u64>(), btree_map("[a-h]{1,4}", any::<String>(), 0..4))
            .prop_map(|(id, rest)| Flat { id, rest });
    }
    positional {
        options_of_options: Option<Option<u8>> = option::of(option::of(any::<u8>()));
        signed_128: i128 = any::<i128>();
        any_float: u64 = any::<f64>().prop_map(f64::to_bits);
    }
    text {
        text_strings: String = any::<String>().prop_filter("a byte order mark is dropped", |text| !text.starts_with('\u{feff}'));
        text_newtypes: Newtype = "[a-z]{0,9}".prop_map(Newtype);
    }
    raw {
        raw_vectors: Vec<u8> = vec(any::<u8>(), 0..300);
        raw_byte_strings: ByteBuf = vec(any::<u8>(), 0..300).prop_map(ByteBuf::from);
    }
}

/// Rules: P-120.
#[test]
fn floats_are_read_with_the_bits_that_were_written() {
    let test = "floats_are_read_with_the_bits_that_were_written";
    let between_0_and_1 = (0_u64..1 << 52).prop_map(|bits| f64::from_bits(1.0_f64.to_bits() | bits) - 1.0);
    let long = prop_oneof![floats(), between_0_and_1, any::<i32>().prop_map(|cents| f64::from(cents) / 100.0)];
    let result = runner(20_000).run(&(long, short_floats()), |(long, short)| {
        for codec in SELF_DESCRIBING {
            let read: f64 = codec.decode(&codec.encode(&long).unwrap()).unwrap();
            prop_assert_eq!(read.to_bits(), long.to_bits(), "{:?}", codec);
            let read: f32 = codec.decode(&codec.encode(&short).unwrap()).unwrap();
            prop_assert_eq!(read.to_bits(), short.to_bits(), "{:?}", codec);
        }
        Ok(())
    });
    explain(result, test);
    // What was one unit in the last place off.
    assert_eq!(Which::Json.decode::<f64>(b"434.59000000000003"), Ok(434.590_000_000_000_03));
}

/// Rules: P-31.
#[test]
fn message_pack_writes_names_and_reads_both_forms() {
    let order = crate::support::order();
    let named = Which::MessagePack.encode(&order).unwrap();
    assert!(named.windows(3).any(|window| window == b"sku"));
    assert_eq!(Which::MessagePack.decode::<Order>(&rmp_serde::to_vec(&order).unwrap()), Ok(order));
}

#[test]
fn strings_and_bytes_borrow_from_the_body() {
    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    struct Borrowed<'a> {
        text: &'a str,
        #[serde(with = "serde_bytes")]
        bytes: &'a [u8],
    }
    let value = Borrowed { text: "text", bytes: &[1, 2, 3] };
    for codec in [Which::MessagePack, Which::Cbor, Which::Fixint, Which::Varint, Which::Postcard] {
        let body = codec.encode(&value).unwrap();
        let read: Borrowed<'_> = codec.decode(&body).unwrap();
        assert_eq!(read, value, "{codec:?}");
        assert!(body.as_ptr_range().contains(&read.text.as_ptr()), "{codec:?}");
    }
    let text: &str = Which::Json.decode(b"\"text\"").unwrap();
    assert_eq!(text, "text");
}

#[test]
fn a_cbor_body_may_say_that_it_is_cbor() {
    let body = [&[0xd9, 0xd9, 0xf7][..], &Which::Cbor.encode(&7_u32).unwrap()].concat();
    assert_eq!(Which::Cbor.decode::<u32>(&body), Ok(7));
}

/// Rules: P-17.
#[test]
fn a_byte_order_mark_is_no_json() {
    assert_eq!(Which::Json.decode::<u32>(b"\xef\xbb\xbf7"), Ok(7));
    assert_eq!(Which::Json.decode::<Option<u32>>(b"\xef\xbb\xbf"), Ok(None));
    // It is three bytes of its line, and of no other.
    for codec in [Which::Json, Which::Strict] {
        for (body, line, column) in [
            (&b"\xef\xbb\xbf\"7\""[..], 1, 6),
            (b"\xef\xbb\xbf[1,\n\"7\"]", 2, 3),
            (b"\xef\xbb\xbf\"\xff\"", 1, 5),
            (b"\xef\xbb\xbf[1", 1, 5),
        ] {
            let error = codec.decode::<Vec<u32>>(body).unwrap_err();
            assert_eq!(error.position(), Some(Position::Text { line, column }), "{error}");
        }
    }
}

#[test]
fn an_unsupported_value_is_unsupported_and_a_failed_serialize_is_value() {
    use consign_codecs::EncodeErrorKind::{Unsupported, Value};

    struct Refuses;

    impl Serialize for Refuses {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("CANARY"))
        }
    }

    for codec in crate::support::ALL {
        let error = codec.encode(&Refuses).unwrap_err();
        assert_eq!(error.kind(), Value, "{codec:?}");
        assert!(!error.to_string().contains("CANARY"), "{codec:?}");
        assert!(std::error::Error::source(&error).is_some(), "{codec:?}");
    }
    let by_pair = BTreeMap::from([((1, 2), 3)]);
    assert_eq!(Which::Json.encode(&by_pair).unwrap_err().kind(), Unsupported);
}
