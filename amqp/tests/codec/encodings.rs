use consign_amqp::{
    codec,
    value::{
        Array, Decimal32, Decimal64, Decimal128, Described, List, Map, Str, Symbol, Timestamp, Uuid, Value, ValueType,
    },
};

use crate::{decode, hex, to_hex};

fn text(text: &str) -> Value {
    text.into()
}

fn symbol(text: &'static str) -> Value {
    Symbol::from_static(text).into()
}

/// The first encoding of each value is the smallest, which the encoder writes; the decoder reads all of them.
fn check(cases: &[(Value, &[&str])]) {
    for (value, encodings) in cases {
        let written = codec::encode(value).unwrap();
        assert_eq!(to_hex(&written), encodings[0].replace(' ', ""), "{value:?}");
        for encoding in *encodings {
            assert_eq!(decode::<Value>(encoding).as_ref(), Ok(value), "{encoding}");
        }
    }
}

/// Rules.
#[test]
fn every_encoding_of_a_scalar_is_read_and_the_smallest_is_written() {
    check(&[
        (Value::Null, &["40"]),
        (true.into(), &["41", "56 01"]),
        (false.into(), &["42", "56 00"]),
        (0_u8.into(), &["50 00"]),
        (0xff_u8.into(), &["50 ff"]),
        (0x1234_u16.into(), &["60 1234"]),
        (0_u32.into(), &["43", "52 00", "70 00000000"]),
        (255_u32.into(), &["52 ff", "70 000000ff"]),
        (256_u32.into(), &["70 00000100"]),
        (0_u64.into(), &["44", "53 00", "80 0000000000000000"]),
        (255_u64.into(), &["53 ff", "80 00000000000000ff"]),
        (256_u64.into(), &["80 0000000000000100"]),
        ((-1_i8).into(), &["51 ff"]),
        ((-2_i16).into(), &["61 fffe"]),
        ((-128_i32).into(), &["54 80", "71 ffffff80"]),
        (127_i32.into(), &["54 7f", "71 0000007f"]),
        (0_i32.into(), &["54 00", "71 00000000"]),
        ((-129_i32).into(), &["71 ffffff7f"]),
        ((-128_i64).into(), &["55 80", "81 ffffffffffffff80"]),
        (128_i64.into(), &["81 0000000000000080"]),
        (1.5_f32.into(), &["72 3fc00000"]),
        ((-2.0_f64).into(), &["82 c000000000000000"]),
        (Decimal32([0x22, 0x40, 0, 1]).into(), &["74 22400001"]),
        (Decimal64([1; 8]).into(), &["84 0101010101010101"]),
        (Decimal128([2; 16]).into(), &["94 02020202020202020202020202020202"]),
        ('\u{1f600}'.into(), &["73 0001f600"]),
        (Timestamp(-1).into(), &["83 ffffffffffffffff"]),
        (Uuid([0xab; 16]).into(), &["98 abababababababababababababababab"]),
    ]);
}

/// Rules.
#[test]
fn every_encoding_of_text_and_bytes_is_read_and_the_smallest_is_written() {
    check(&[
        (Value::Binary(b"".as_slice().into()), &["a0 00", "b0 00000000"]),
        (Value::Binary(hex("00ff").into()), &["a0 02 00ff", "b0 00000002 00ff"]),
        (text("hé"), &["a1 03 68c3a9", "b1 00000003 68c3a9"]),
        (symbol("PLAIN"), &["a3 05 504c41494e", "b3 00000005 504c41494e"]),
        (text(&"x".repeat(255)), &[&format!("a1 ff {}", "78".repeat(255))]),
        (text(&"x".repeat(256)), &[&format!("b1 00000100 {}", "78".repeat(256))]),
        (Symbol::try_from("x".repeat(256)).unwrap().into(), &[&format!("b3 00000100 {}", "78".repeat(256))]),
    ]);
}

/// Rules.
#[test]
fn every_encoding_of_lists_maps_and_described_values_is_read_and_the_smallest_is_written() {
    let list = |values: &[Value]| Value::List(List(values.to_vec()));
    let map = |pairs: &[(Value, Value)]| Value::Map(Map(pairs.to_vec()));
    let described = |descriptor: Value, value: Value| Value::from(Described { descriptor, value });
    check(&[
        (list(&[]), &["45", "c0 01 00", "d0 00000004 00000000"]),
        (list(&[Value::Null]), &["c0 02 01 40", "d0 00000005 00000001 40"]),
        (list(&[text(&"x".repeat(252))]), &[&format!("c0 ff 01 a1 fc {}", "78".repeat(252))]),
        (list(&[text(&"x".repeat(253))]), &[&format!("d0 00000103 00000001 a1 fd {}", "78".repeat(253))]),
        (list(&vec![Value::Null; 256]), &[&format!("d0 00000104 00000100 {}", "40".repeat(256))]),
        (map(&[]), &["c1 01 00", "d1 00000004 00000000"]),
        (map(&[(text("a"), true.into())]), &["c1 05 02 a1 01 61 41", "d1 00000008 00000002 a1 01 61 41"]),
        // The same key twice, and a key of another type: both stay, in their order.
        (map(&[(0_u32.into(), 1_u32.into()), (0_u32.into(), true.into())]), &["c1 06 04 43 5201 43 41"]),
        (described(symbol("d"), 7_u32.into()), &["00 a3 01 64 52 07", "00 b3 00000001 64 70 00000007"]),
        (described(0x24_u64.into(), list(&[])), &["00 53 24 45", "00 80 0000000000000024 c0 01 00"]),
        (described(symbol("o"), described(symbol("i"), Value::Null)), &["00 a3016f 00 a30169 40"]),
    ]);
}

/// Rules.
#[test]
fn every_encoding_of_an_array_is_read_and_the_smallest_is_written() {
    let array = |element, values: &[Value]| Value::Array(Array::new(element, values.to_vec()).unwrap());
    let list = |values: &[Value]| Value::List(List(values.to_vec()));
    let numbers = [0_u32.into(), 255_u32.into()];
    let described = Array::described(vec![symbol("d")], ValueType::Ubyte, vec![1_u8.into(), 2_u8.into()]).unwrap();
    check(&[
        (array(ValueType::Uint, &numbers), &["e0 04 02 52 00ff", "f0 0000000d 00000002 70 00000000 000000ff"]),
        (array(ValueType::Uint, &[0_u32.into(), 0_u32.into()]), &["e0 04 02 52 0000", "e0 02 02 43"]),
        (array(ValueType::Uint, &[256_u32.into()]), &["e0 06 01 70 00000100"]),
        (array(ValueType::Uint, &[]), &["e0 02 00 52", "e0 02 00 43", "f0 00000005 00000000 70"]),
        (array(ValueType::Ulong, &[1_u64.into()]), &["e0 03 01 53 01", "e0 0a 01 80 0000000000000001"]),
        (array(ValueType::Int, &[(-1_i32).into()]), &["e0 03 01 54 ff", "e0 06 01 71 ffffffff"]),
        (array(ValueType::Long, &[(-1_i64).into()]), &["e0 03 01 55 ff", "e0 0a 01 81 ffffffffffffffff"]),
        (array(ValueType::Boolean, &[true.into(), false.into()]), &["e0 04 02 56 0100"]),
        (array(ValueType::Boolean, &[true.into(), true.into()]), &["e0 04 02 56 0101", "e0 02 02 41"]),
        (array(ValueType::Null, &[Value::Null, Value::Null]), &["e0 02 02 40"]),
        (array(ValueType::String, &[text("a"), text("")]), &["e0 05 02 a1 0161 00", "e0 0b 02 b1 0000000161 00000000"]),
        (array(ValueType::Symbol, &[symbol("a")]), &["e0 04 01 a3 0161", "f0 0000000a 00000001 b3 0000000161"]),
        (
            array(ValueType::List, &[list(&[]), list(&[true.into()])]),
            &["e0 07 02 c0 0100 020141", "e0 13 02 d0 00000004 00000000 00000005 00000001 41"],
        ),
        (array(ValueType::List, &[list(&[]), list(&[])]), &["e0 06 02 c0 0100 0100", "e0 02 02 45"]),
        (
            array(ValueType::Array, &[array(ValueType::Ubyte, &[1_u8.into()]), array(ValueType::Null, &[])]),
            &["e0 09 02 e0 03 01 50 01 02 00 40"],
        ),
        (Value::Array(described), &["e0 08 02 00 a30164 50 0102"]),
    ]);
    // Lists of more than 255 bytes in an array have sizes of four bytes, all of them.
    let long = array(ValueType::List, &[list(&[text(&"x".repeat(253))]), list(&[])]);
    let content = format!("00000103 00000001 a1 fd {} 00000004 00000000", "78".repeat(253));
    check(&[(long, &[&format!("f0 00000114 00000002 d0 {content}")])]);
}

/// Levels are counted one inside another, not one after another.
#[test]
fn a_hundred_values_of_every_nesting_beside_one_another_round_trip() {
    let array = Array::described(vec![symbol("d")], ValueType::List, vec![List::default().into()]).unwrap();
    let described = Described { descriptor: symbol("d"), value: List(vec![Value::Null]).into() };
    let map = Map(vec![(Value::Null, List::default().into())]);
    for value in [Value::from(array), described.into(), map.into()] {
        let list = Value::from(List(vec![value; 100]));
        assert_eq!(codec::decode::<Value>(&codec::encode(&list).unwrap()), Ok(list));
    }
}

/// Rules: A-46.
#[test]
fn a_string_is_read_where_a_symbol_is_expected() {
    assert_eq!(decode::<Symbol>("a1 01 61"), Ok(Symbol::from_static("a")));
    assert_eq!(decode::<Symbol>("b1 00000001 61"), Ok(Symbol::from_static("a")));
    assert!(decode::<Symbol>("a1 02 c3a9").is_err());
    assert!(decode::<Str>("a3 01 61").is_err());
}

#[test]
fn not_a_number_keeps_its_bits() {
    for encoding in ["727fc00001", "827ff8000000000001", "72ffc00000"] {
        let value = decode::<Value>(encoding).unwrap();
        assert_eq!(to_hex(&codec::encode(&value).unwrap()), encoding);
    }
}

/// Rules: A-43.
#[test]
fn decoded_text_and_bytes_are_slices_of_the_input() {
    let input = hex("c0 09 02 a1 02 6869 a0 02 0102");
    let Value::List(List(values)) = codec::decode(&input).unwrap() else { panic!("a list") };
    let [Value::String(text), Value::Binary(bytes)] = values.as_slice() else { panic!("text and bytes") };
    assert_eq!(text.as_bytes().as_ptr(), input[5..].as_ptr());
    assert_eq!(bytes.as_ptr(), input[9..].as_ptr());
}

#[test]
fn debug_shows_no_text_and_no_bytes() {
    let map = Map(vec![(text("password"), text("secret")), (0_u8.into(), Value::Binary(b"secret".as_slice().into()))]);
    let shown = format!("{:?} {:?}", Value::from(map.clone()), map);
    assert!(!shown.contains("secret") && !shown.contains("password"), "{shown}");
}
