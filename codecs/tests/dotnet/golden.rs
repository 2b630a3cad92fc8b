use std::borrow::Cow;

use consign_codecs::{DataContractBinary, DataContractXml, Limits};
use serde_bytes::ByteBuf;
use serde_json::{Value, json};

use crate::support::{binary, both, golden, text};

/// Rules: P-56, P-60.
#[test]
fn strings_of_every_length_are_read() {
    for (name, expected) in [
        ("string-hello", "Hello"),
        ("string-empty", ""),
        ("string-zero", "0"),
        ("string-one", "1"),
        ("string-unicode", "Gr\u{fc}\u{df}e \u{65e5}\u{672c} \u{1f600} <&>\"'\r\n\t"),
        ("string-json", "{\"id\":7}"),
    ] {
        assert_eq!(both::<String>(name), [expected, expected], "{name}");
        assert_eq!(both::<Option<String>>(name), [Some(expected.to_owned()), Some(expected.to_owned())], "{name}");
    }
    for (letter, len) in [("a", 84), ("b", 300), ("c", 30_000), ("d", 70_000)] {
        let body = golden(&format!("string-{len}.bin"));
        assert_eq!(binary::<&str>(&body).unwrap(), letter.repeat(len));
    }
    assert_eq!(both::<Option<String>>("string-null"), [None, None]);
}

/// Rules: P-56.
/// The bytes that the rule lists.
#[test]
fn a_string_body_begins_with_its_element_and_namespace() {
    let body = golden("string-hello.bin");
    assert_eq!(body[..9], *b"\x40\x06string\x08");
    assert_eq!(body[9], 51);
    assert_eq!(&body[10..61], crate::support::SERIALIZATION.as_bytes());
    assert_eq!(body[61..], *b"\x99\x05Hello");
    let record = |name: &str| golden(name)[61];
    assert_eq!((record("string-84.bin"), record("string-300.bin"), record("string-70000.bin")), (0x99, 0x9a, 0x9c));
}

/// Rules: P-57.
#[test]
fn byte_arrays_of_every_length_are_read() {
    let bytes = |len: usize| (0..len).map(|at| u8::try_from(at * 7 % 256).unwrap()).collect::<Vec<_>>();
    for len in [0, 1, 2, 3, 4, 300] {
        let name = format!("bytes-{len}");
        assert_eq!(both::<Vec<u8>>(&name), [bytes(len), bytes(len)]);
        assert_eq!(both::<ByteBuf>(&name), [bytes(len), bytes(len)]);
    }
    assert_eq!(binary::<Vec<u8>>(&golden("bytes-70000.bin")).unwrap(), bytes(70_000));
    // As text it is base64, as in text XML.
    assert_eq!(both::<String>("bytes-4"), ["AAcOFQ==", "AAcOFQ=="]);
    assert_eq!(binary::<&[u8]>(&golden("bytes-3.bin")).unwrap(), bytes(3));
}

/// Rules: P-57.
/// The serializer writes a rest of one or two bytes as a record of its own.
#[test]
fn a_byte_array_may_be_in_several_records() {
    let body = golden("bytes-4.bin");
    assert_eq!(body[67..], [0x9e, 3, 0, 7, 14, 0x9f, 1, 21]);
    assert_eq!(binary::<Vec<u8>>(&body).unwrap(), [0, 7, 14, 21]);
}

/// Rules: P-59.
#[test]
fn the_contents_of_a_string_or_a_byte_array_are_its_bytes() {
    let limits = Limits::default();
    for name in ["string-json", "string-empty", "string-unicode", "string-one"] {
        let expected = both::<String>(name)[0].clone().into_bytes();
        assert_eq!(*DataContractBinary::contents(&golden(&format!("{name}.bin")), &limits).unwrap(), expected);
        assert_eq!(*DataContractXml::contents(&golden(&format!("{name}.xml")), &limits).unwrap(), expected);
    }
    let body = golden("bytes-3.bin");
    assert!(matches!(DataContractBinary::contents(&body, &limits), Ok(Cow::Borrowed([0, 7, 14]))));
    assert_eq!(*DataContractBinary::contents(&golden("bytes-4.bin"), &limits).unwrap(), [0, 7, 14, 21]);
    assert_eq!(*DataContractXml::contents(&golden("bytes-4.xml"), &limits).unwrap(), [0, 7, 14, 21]);
    for name in ["string-null.bin", "int.bin", "order.bin", "ints.bin"] {
        let error = DataContractBinary::contents(&golden(name), &limits).unwrap_err();
        assert_eq!(error.expected(), Some("one `byte[]` or `string`"), "{name}");
    }
}

/// Rules: P-62.
#[test]
#[allow(clippy::float_cmp, reason = "the same bits are expected")]
fn simple_values_are_read() {
    assert_eq!(both::<u8>("int"), [7, 7]);
    assert_eq!(both::<f64>("int"), [7.0, 7.0]);
    assert_eq!(both::<f64>("double"), [1.1, 1.1]);
    assert_eq!(both::<f32>("double"), [1.1, 1.1]);
    let guid = "00112233-4455-6677-8899-aabbccddeeff";
    assert_eq!(both::<String>("guid"), [guid, guid]);
    let decimal = "79228162514264337593543950335";
    assert_eq!(both::<String>("decimal"), [decimal, decimal]);
    assert_eq!(both::<f64>("decimal"), [79_228_162_514_264_337_593_543_950_335.0; 2]);
    assert_eq!(both::<String>("date-utc"), ["2024-02-29T12:34:56Z"; 2]);
    // Binary XML has the instant of a local time, and no offset.
    assert_eq!(both::<String>("date-local"), ["2024-02-29T11:34:56Z", "2024-02-29T12:34:56+01:00"]);
}

/// Rules: P-62.
#[test]
#[allow(clippy::float_cmp, reason = "the same bits are expected")]
fn lists_and_dictionaries_are_read() {
    assert_eq!(both::<Vec<i32>>("ints"), [[1, 2, 3], [1, 2, 3]]);
    assert_eq!(both::<(u8, u8, u8)>("ints"), [(1, 2, 3), (1, 2, 3)]);
    assert_eq!(both::<Vec<i64>>("longs"), [[1, 5_000_000_000], [1, 5_000_000_000]]);
    assert_eq!(both::<Vec<i32>>("no-ints"), [[0_i32; 0]; 2]);
    let strings = vec![Some("a".to_owned()), Some(String::new()), None, Some("\u{fc}".to_owned())];
    assert_eq!(both::<Vec<Option<String>>>("strings"), [strings.clone(), strings]);
    assert_eq!(both::<Vec<Vec<u8>>>("lists"), [vec![vec![1], vec![], vec![2, 3]], vec![vec![1], vec![], vec![2, 3]]]);
    assert_eq!(both::<Vec<String>>("decimals"), [["1.50", "-2"], ["1.50", "-2"]]);
    assert_eq!(both::<Vec<f32>>("decimals"), [[1.5, -2.0], [1.5, -2.0]]);
    let spans = ["PT1M30S", "-PT0.0000001S", "PT0S"];
    assert_eq!(both::<Vec<String>>("spans"), [spans, spans]);
    let guids = ["00000000-0000-0000-0000-000000000000", "00112233-4455-6677-8899-aabbccddeeff"];
    assert_eq!(both::<Vec<String>>("guids"), [guids, guids]);
    let dictionary = std::collections::BTreeMap::from([("a".to_owned(), Some(1_u8)), ("b".to_owned(), None)]);
    assert_eq!(both::<std::collections::BTreeMap<String, Option<u8>>>("dictionary"), [dictionary.clone(), dictionary]);
}

/// Rules: P-62.
#[test]
fn a_type_that_takes_any_value_sees_lists_objects_and_texts() {
    let read = |name: &str| binary::<Value>(&golden(name)).unwrap();
    assert_eq!(read("string-hello.bin"), "Hello");
    assert_eq!(read("ints.bin"), json!([1, 2, 3]));
    assert_eq!(read("lists.bin"), json!([[1], "", [2, 3]]));
    assert_eq!(read("dictionary.bin"), json!({"a": 1, "b": null}));
    assert_eq!(read("order-null.bin"), Value::Null);
    assert_eq!(read("decimals.bin"), json!(["1.50", "-2"]));
    assert_eq!(text::<Value>(&golden("ints.xml")).unwrap(), json!(["1", "2", "3"]));
    assert_eq!(text::<Value>(&golden("dictionary.xml")).unwrap(), json!({"a": "1", "b": null}));
}
