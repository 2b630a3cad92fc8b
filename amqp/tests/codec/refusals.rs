use std::thread;

use DecodeErrorKind::{
    Ascii, Count, Depth, Descriptor, FormatCode, Invalid, Missing, Size, Trailing, Truncated, Type, Utf8,
};
use consign_amqp::{
    codec::{self, DecodeErrorKind, Decoder, EncodeError, Limits},
    message::EncodedMessage,
    value::{Described, List, Str, Value},
};

use crate::{decode, hex};

fn refused(digits: &str) -> (DecodeErrorKind, usize) {
    let error = decode::<Value>(digits).expect_err(digits);
    (error.kind(), error.offset())
}

/// Attacks: 19.
#[test]
fn a_malformed_value_is_refused_with_its_reason_and_offset() {
    let cases = [
        ("", Truncated, 0),
        ("70 0000", Truncated, 1),
        ("40 40", Trailing, 1),
        ("3f", FormatCode, 0),
        ("01", FormatCode, 0),
        ("57 00", FormatCode, 0),
        ("56 02", Invalid, 1),
        ("73 0000d800", Invalid, 1),
        ("73 00110000", Invalid, 1),
        ("a1 03 6161ff", Utf8, 4),
        ("a3 02 6180", Ascii, 3),
        ("a1 05 61", Size, 1),
        ("c0 02 02 40", Count, 3),
        ("c0 03 01 40 40", Trailing, 4),
        ("c1 02 01 40", Count, 1),
        ("c0 00", Truncated, 2),
        ("e0 01 00", Truncated, 3),
        ("e0 03 01 ff 00", FormatCode, 3),
        ("e0 03 01 5f 00", FormatCode, 3),
        ("e0 05 02 70 00000000", Count, 4),
        ("00 a3 01 64", Truncated, 4),
    ];
    for (digits, kind, offset) in cases {
        assert_eq!(refused(digits), (kind, offset), "{digits}");
    }
}

/// Rules: A-47.
/// Attacks: 16, 17, 19.
#[test]
fn sizes_and_counts_beyond_the_input_are_refused() {
    for code in ["b0", "b1", "b3", "d0", "d1", "f0"] {
        assert_eq!(refused(&format!("{code} ffffffff 00000000")), (Size, 1), "{code}");
    }
    for code in ["d0", "d1"] {
        assert_eq!(refused(&format!("{code} 00000005 ffffffff 40")).0, Count, "{code}");
    }
    for element in ["40", "41", "43", "44", "45", "50", "70", "98", "a0", "b1", "c0", "d0"] {
        assert_eq!(refused(&format!("f0 00000005 ffffffff {element}")).0, Count, "{element}");
    }
}

/// Rules: A-47.
/// Attacks: 17.
#[test]
fn an_array_of_elements_without_bytes_has_at_most_1024() {
    let array = |count: u32| format!("f0 00000005 {count:08x} 41");
    assert!(decode::<Value>(&array(Limits::ZERO_WIDTH_ELEMENTS)).is_ok());
    assert_eq!(refused(&array(Limits::ZERO_WIDTH_ELEMENTS + 1)).0, Count);
}

/// Rules: A-47.
#[test]
fn the_elements_of_all_collections_together_are_limited() {
    let limited = |digits: &str, elements| {
        let input = hex(digits);
        Decoder::with_limits(&input, Limits::default().elements(elements)).value().map_err(|error| error.kind())
    };
    let nested = "c0 09 02 c0 05 04 40 40 40 40 40";
    assert!(limited(nested, 6).is_ok());
    assert_eq!(limited(nested, 5), Err(Count));
    assert_eq!(limited("e0 05 03 50 010203", 2), Err(Count));
    assert_eq!(limited("c1 03 02 40 40", 1), Err(Count));
    assert!(limited("00 40 40", 2).is_ok());
    assert_eq!(limited("00 40 40", 1), Err(Count));
    assert_eq!(limited("e0 06 01 00 5301 50 01", 1), Err(Count));
}

/// `levels` of a nesting, the innermost of which is null.
fn nested(levels: usize, wrap: fn(Vec<u8>) -> Vec<u8>) -> String {
    nested_around(levels, &[0x40], wrap)
}

fn nested_around(levels: usize, innermost: &[u8], wrap: fn(Vec<u8>) -> Vec<u8>) -> String {
    crate::to_hex(&(0..levels).fold(innermost.to_vec(), |value, _| wrap(value)))
}

fn in_list(value: Vec<u8>) -> Vec<u8> {
    [[0xc0, u8::try_from(value.len() + 1).unwrap(), 1].to_vec(), value].concat()
}

fn in_array(value: Vec<u8>) -> Vec<u8> {
    let content = if value == [0x40] { vec![0x40] } else { value };
    // The first byte of the content is the constructor, the rest is the element.
    [[0xe0, u8::try_from(content.len() + 1).unwrap(), 1].to_vec(), content].concat()
}

fn describe(value: Vec<u8>) -> Vec<u8> {
    [[0x00, 0x53, 1].to_vec(), value].concat()
}

/// Rules: A-47.
/// Attacks: 8.
#[test]
fn nesting_is_limited_to_32_levels() {
    for (wrap, name) in [(in_list as fn(_) -> _, "lists"), (in_array, "arrays"), (describe, "described values")] {
        assert!(decode::<Value>(&nested(32, wrap)).is_ok(), "{name}");
        assert_eq!(refused(&nested(33, wrap)).0, Depth, "{name}");
    }
    // Descriptors of descriptors, and of elements of an array.
    assert_eq!(refused(&"00".repeat(10_000)).0, Depth);
    let descriptors = "00 5301".repeat(40);
    assert_eq!(refused(&format!("e0 7a 00 {descriptors} 40")).0, Depth);
}

/// Lists of 32-bit sizes inside one another, each the only element of the one around it.
fn lists(levels: u32) -> Vec<u8> {
    let heads = (1..=levels).rev().flat_map(|level| {
        let size = (4 + (level - 1) * 9 + 1).to_be_bytes();
        [&[0xd0][..], &size, &[0, 0, 0, 1]].concat()
    });
    heads.chain([0x40]).collect()
}

/// Rules: A-47.
/// Attacks: 6, 7, 8.
/// On half of the stack that a worker of tokio has.
#[test]
fn sections_that_are_nested_too_deeply_are_refused() {
    let check = || {
        let described = [&b"\x00\x53\x70".repeat(80_000)[..], &[0x40]].concat();
        let few = [&b"\x00\x53\x70".repeat(10_000)[..], &[0x40]].concat();
        for nested in [lists(5_000), few, described] {
            let value = [&[0x00, 0x53, 0x77][..], &nested].concat();
            let refusal = match EncodedMessage::split(value.into()) {
                Ok(message) => message.value().unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(refusal.kind(), Depth);
            for section in [0x71, 0x72] {
                let content = [&[0xa3, 1, b'a'][..], &nested].concat();
                let size = u32::try_from(content.len() + 4).unwrap().to_be_bytes();
                let map = [&[0x00, 0x53, section, 0xd1][..], &size, &[0, 0, 0, 2], &content].concat();
                let message = EncodedMessage::split([&map[..], &[0x00, 0x53, 0x77, 0x40]].concat().into());
                let refusal = match message {
                    Ok(message) if section == 0x71 => message.delivery_annotations().unwrap_err(),
                    Ok(message) => message.message_annotations().unwrap_err(),
                    Err(error) => error,
                };
                assert_eq!(refusal.kind(), Depth, "{section:#x}");
            }
        }
    };
    thread::Builder::new().stack_size(1 << 20).spawn(check).unwrap().join().unwrap();
}

/// Rules: A-47.
/// Attacks: 18.
#[test]
fn a_size_that_does_not_include_the_count_is_refused() {
    for size in 0..4 {
        for code in ["d0", "d1", "f0"] {
            let (kind, _) = refused(&format!("{code} 0000000{size} 00000000"));
            assert!(matches!(kind, Truncated | Size), "{code} {size}: {kind:?}");
        }
    }
    for code in ["c0", "c1", "e0"] {
        let (kind, _) = refused(&format!("{code} 00 00"));
        assert!(matches!(kind, Truncated | Size), "{code}: {kind:?}");
    }
}

/// Attacks: 60.
/// If each element were looked at for each other one, this would not end.
#[test]
fn an_array_takes_time_by_its_length() {
    let count: u32 = 1_000_000;
    let size = (count + 5).to_be_bytes();
    let bytes = [&[0xf0][..], &size, &count.to_be_bytes(), &[0x51], &vec![7; count as usize]].concat();
    let bytes = bytes::Bytes::from(bytes);
    let value = Decoder::with_limits(&bytes, Limits::default().elements(count)).value().unwrap();
    assert!(matches!(value, Value::Array(_)));
}

/// Rules: A-47.
/// The elements of an array of empty lists are written in an encoding with a size.
#[test]
fn an_empty_list_is_a_level_in_every_encoding() {
    for list in ["45", "c0 01 00", "d0 00000004 00000000"] {
        let in_lists = |levels| hex(&nested_around(levels, &hex(list), in_list));
        assert!(codec::decode::<Value>(&in_lists(31)).is_ok(), "{list}");
        assert_eq!(codec::decode::<Value>(&in_lists(32)).map_err(|error| error.kind()), Err(Depth), "{list}");
    }
    let limits = Limits::default().depth(1);
    let empty_lists = hex("e0 02 03 45");
    assert_eq!(Decoder::with_limits(&empty_lists, limits).value().map_err(|error| error.kind()), Err(Depth));
}

/// Rules: A-47.
/// Attacks: 8.
#[test]
fn skipping_is_limited_too() {
    let skip = |digits: &str| {
        let input = hex(digits);
        Decoder::new(&input).skip().map_err(|error| error.kind())
    };
    assert_eq!(skip(&"00".repeat(10_000)), Err(Depth));
    assert_eq!(skip("b0 ffffffff"), Err(Size));
    assert_eq!(skip("70 00"), Err(Truncated));
    assert_eq!(skip("1f"), Err(FormatCode));
    assert_eq!(skip("00 5324 d0 00000004 00000000"), Ok(()));
    // As many described values side by side as inside one another, and more of both than levels.
    let tree = |levels| (0..levels).fold("40".to_owned(), |value, _: u8| format!("00 {value} {value}"));
    assert_eq!(skip(&tree(6)), Ok(()));
    assert!(decode::<Value>(&tree(6)).is_ok());
    assert_eq!(skip(&format!("00 {} {}", "00 5301".repeat(31) + "40", "00 5301".repeat(32) + "40")), Err(Depth));
    assert_eq!(skip(&format!("00 {0} {0}", "00 5301".repeat(31) + "40")), Ok(()));
}

#[test]
fn sizes_counts_and_depth_are_limits_and_other_refusals_are_not() {
    for kind in [Size, Count, Depth] {
        assert!(kind.is_limit(), "{kind:?}");
    }
    for kind in [Truncated, Trailing, Type, FormatCode, Descriptor, Utf8, Ascii, Invalid, Missing] {
        assert!(!kind.is_limit(), "{kind:?}");
    }
}

#[test]
fn values_that_are_too_deep_are_not_encoded() {
    let deep = |levels: u8| (0..levels).fold(Value::Null, |value, _| List(vec![value]).into());
    assert!(codec::encode(&deep(Limits::MAX_DEPTH)).is_ok());
    let empty = |levels: u8| (0..levels).fold(List::default().into(), |value: Value, _| List(vec![value]).into());
    assert!(codec::encode(&empty(Limits::MAX_DEPTH - 1)).is_ok());
    assert_eq!(codec::encode(&empty(Limits::MAX_DEPTH)), Err(EncodeError::TooDeep));
    let mut out = b"before".to_vec();
    assert_eq!(codec::encode_into(&deep(Limits::MAX_DEPTH + 1), &mut out), Err(EncodeError::TooDeep));
    assert_eq!(out, b"before");
    let described = (0..70).fold(Value::Null, |value, _| Described { descriptor: 1_u64.into(), value }.into());
    assert_eq!(codec::encode(&described), Err(EncodeError::TooDeep));
}

#[test]
fn an_error_names_the_field_the_expected_type_and_the_found_code() {
    use consign_amqp::types::{Flow, Performative};
    // The window of a flow is a string.
    let error = decode::<Flow>("00 5313 c0 07 04 40 a1 01 61 43 43").unwrap_err();
    assert_eq!((error.kind(), error.offset()), (Type, 7));
    assert_eq!((error.field(), error.expected_type()), (Some("Flow.incoming_window"), Some("uint")));
    assert_eq!(error.found_code(), Some(0xa1));
    // It is missing, by null and by a short list.
    for digits in ["00 5313 c0 05 04 40 40 43 43", "00 5313 c0 02 01 40", "00 5313 45"] {
        let error = decode::<Flow>(digits).unwrap_err();
        assert_eq!((error.kind(), error.field()), (Missing, Some("Flow.incoming_window")), "{digits}");
    }
    for digits in ["00 5399 45", "00 a3 03 616161 45", "00 8001 00000000000013 45", "00 5213 45"] {
        assert_eq!(decode::<Performative>(digits).unwrap_err().kind(), Descriptor, "{digits}");
    }
    assert_eq!(decode::<Str>("52 01").unwrap_err().to_string().lines().count(), 1);
}
