//! The encoder with full widths, and symbols of UTF-8.

use bytes::Bytes;
use consign_amqp::{
    codec::{self, DecodeErrorKind, Decoder, Encode, Encoder, Limits},
    message::Data,
    types::Accepted,
    value::{Array, Described, List, Map, Symbol, Value, ValueType},
};

use crate::{decode, hex, to_hex};

fn full(value: &impl Encode) -> Bytes {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out).full_widths();
    encoder.encode(value);
    encoder.finish().unwrap();
    out.into()
}

/// Rules: A-66.
#[test]
fn full_widths_have_all_bytes_of_integers_sizes_and_counts() {
    let array = |element, values: &[Value]| Value::Array(Array::new(element, values.to_vec()).unwrap());
    let list = |values: &[Value]| Value::List(List(values.to_vec()));
    let text = |text: &str| Value::from(text);
    let described = Described { descriptor: 1_u64.into(), value: Symbol::from_static("s").into() };
    let cases: &[(Value, &str)] = &[
        (Value::Null, "40"),
        (true.into(), "41"),
        (0_u8.into(), "50 00"),
        (0_u32.into(), "70 00000000"),
        (1_u64.into(), "80 0000000000000001"),
        ((-1_i32).into(), "71 ffffffff"),
        (0_i64.into(), "81 0000000000000000"),
        (text(""), "b1 00000000"),
        (Value::Binary(b"\x01".as_slice().into()), "b0 00000001 01"),
        (described.into(), "00 80 0000000000000001 b3 00000001 73"),
        (list(&[]), "d0 00000004 00000000"),
        (list(&[list(&[])]), "d0 0000000d 00000001 d0 00000004 00000000"),
        (Map(vec![(Value::Null, true.into())]).into(), "d1 00000006 00000002 40 41"),
        (array(ValueType::Uint, &[1_u32.into()]), "f0 00000009 00000001 70 00000001"),
        (array(ValueType::Boolean, &[true.into()]), "f0 00000006 00000001 56 01"),
        (array(ValueType::Symbol, &[Symbol::from_static("s").into()]), "f0 0000000a 00000001 b3 00000001 73"),
        (array(ValueType::List, &[list(&[])]), "f0 0000000d 00000001 d0 00000004 00000000"),
    ];
    for (value, encoding) in cases {
        assert_eq!(to_hex(&full(value)), encoding.replace(' ', ""), "{value:?}");
        assert_eq!(decode::<Value>(encoding).as_ref(), Ok(value), "{encoding}");
    }
    // The number of a section or of a composite type is part of the type.
    assert_eq!(to_hex(&full(&Data(b"\x01".as_slice().into()))), "005375b00000000101");
    assert_eq!(to_hex(&full(&Accepted {})), "005324d00000000400000000");
}

/// Rules: A-66.
#[test]
fn random_values_of_full_widths_are_read_as_the_same_values() {
    crate::random::for_each_case("random_values_of_full_widths_are_read_as_the_same_values", 20_000, |rng| {
        let value = crate::generate::value(rng, 4);
        let encoding = full(&value);
        assert_eq!(codec::decode::<Value>(&encoding).as_ref(), Ok(&value), "{}", to_hex(&encoding));
        assert!(encoding.len() >= codec::encode(&value).unwrap().len(), "{}", to_hex(&encoding));
    });
}

/// Rules: A-67.
#[test]
fn a_symbol_of_utf_8_is_read_where_the_limits_allow_it() {
    let symbol = Symbol::from_utf8("größe");
    let encoding = codec::encode(&symbol).unwrap();
    assert_eq!(to_hex(&encoding), "a3076772c3b6c39f65");
    let lenient = Limits::default().utf8_symbols(true);
    assert_eq!(Decoder::with_limits(&encoding, lenient).decode::<Symbol>(), Ok(symbol.clone()));
    assert_eq!(Decoder::with_limits(&encoding, lenient).value(), Ok(symbol.into()));
    let refused = codec::decode::<Symbol>(&encoding).unwrap_err();
    assert_eq!((refused.kind(), refused.offset()), (DecodeErrorKind::Ascii, 4));
    let broken = hex("a3 03 61c3 61");
    let refused = Decoder::with_limits(&broken, lenient).decode::<Symbol>().unwrap_err();
    assert_eq!((refused.kind(), refused.offset()), (DecodeErrorKind::Utf8, 3));
}
