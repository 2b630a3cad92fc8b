use consign_codecs::DecodeErrorKind;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use crate::support::{CONTRACT, SERIALIZATION, binary, element, golden, start, string};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Values {
    guid: String,
    span: String,
    id: String,
    list: String,
    prefixed: String,
    spans: Vec<String>,
    guids: Vec<String>,
}

/// Rules: P-61.
#[test]
fn records_that_the_serializer_does_not_choose_are_read() {
    let read: Values = binary(&golden("records.bin")).unwrap();
    let guid = "00112233-4455-6677-8899-aabbccddeeff";
    assert_eq!((read.guid.as_str(), read.id), (guid, format!("urn:uuid:{guid}")));
    assert_eq!((read.span.as_str(), read.list.as_str()), ("P1DT2H3M4.5S", "1 two true"));
    assert_eq!(read.prefixed, "first, second");
    assert_eq!(read.spans, ["PT1S", "PT0S"]);
    assert_eq!(read.guids, ["00000000-0000-0000-0000-000000000000"]);
}

/// Rules: P-61.
#[test]
fn every_text_record_is_read_with_and_without_the_end_of_its_element() {
    let decimal = [&[0, 0, 2, 0x80][..], &[0; 4], &150_u64.to_le_bytes()].concat();
    let guid: Vec<u8> = (0..16).collect();
    let time = ((1_u64 << 62) + 621_355_968_000_000_000).to_le_bytes();
    let rows: [(u8, &[u8], &str); 25] = [
        (0x80, &[], "0"),
        (0x82, &[], "1"),
        (0x84, &[], "false"),
        (0x86, &[], "true"),
        (0x88, &[0xff], "-1"),
        (0x8a, &[0x2c, 1], "300"),
        (0x8c, &[0, 0, 1, 0], "65536"),
        (0x8e, &[0, 0, 0, 0, 0, 0, 0, 0x80], "-9223372036854775808"),
        (0x90, &[0, 0, 0xc0, 0x3f], "1.5"),
        (0x92, &[0, 0, 0, 0, 0, 0, 0xf0, 0x7f], "INF"),
        (0x94, &decimal, "-1.50"),
        (0x96, &time, "1970-01-01T00:00:00Z"),
        (0x98, b"\x02ab", "ab"),
        (0x9a, b"\x02\0ab", "ab"),
        (0x9c, b"\x02\0\0\0ab", "ab"),
        (0x9e, b"\x01f", "Zg=="),
        (0xa0, b"\x02\0fo", "Zm8="),
        (0xa2, b"\x03\0\0\0foo", "Zm9v"),
        (0xa8, &[], ""),
        (0xac, &guid, "urn:uuid:03020100-0504-0706-0809-0a0b0c0d0e0f"),
        (0xae, &[0x80, 0x96, 0x98, 0, 0, 0, 0, 0], "PT1S"),
        (0xb0, &guid, "03020100-0504-0706-0809-0a0b0c0d0e0f"),
        (0xb2, &[0xff; 8], "18446744073709551615"),
        (0xb4, &[1], "true"),
        (0xb6, &[2, 0xac, 0x20], "\u{20ac}"),
    ];
    for (record, value, expected) in rows {
        let start = start("string", SERIALIZATION);
        let without = [&start[..], &[record], value, &[0x01]].concat();
        let with = [&start[..], &[record | 1], value].concat();
        for body in [without, with] {
            assert_eq!(binary::<String>(&body).as_deref(), Ok(expected), "{record:#x}");
            assert!(binary::<IgnoredAny>(&body).is_ok());
            assert_eq!(
                binary::<IgnoredAny>(&[&body[..], &[1]].concat()).unwrap_err().kind(),
                DecodeErrorKind::Trailing
            );
        }
    }
    for (record, width) in [(0xb8, 2), (0xba, 4)] {
        let len = &4_u32.to_le_bytes()[..width];
        let body = [&start("string", SERIALIZATION)[..], &[record | 1], len, &[0x3d, 0xd8, 0, 0xde]].concat();
        assert_eq!(binary::<String>(&body).as_deref(), Ok("\u{1f600}"));
    }
}

/// Rules: P-61.
#[test]
fn numbers_of_a_dictionary_are_refused() {
    let error = binary::<IgnoredAny>(&golden("dictionary-numbers.bin")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the value is not of the expected type: numbers of a dictionary are not supported, \
        expected a record with its text at byte 0"
    );
    let start = start("string", SERIALIZATION);
    let name = element("a");
    for record in [0x06, 0x07, 0x0a, 0x0b, 0x0c, 0x25, 0x42, 0x43, 0x44, 0x5d, 0xaa, 0xab, 0xbc, 0xbd] {
        let body = [&start[..], &[record, 1, b'a', 0]].concat();
        let error = binary::<IgnoredAny>(&body).unwrap_err();
        assert_eq!(error.kind(), DecodeErrorKind::Type, "{record:#x}: {error}");
        assert_eq!(error.detail(), Some("numbers of a dictionary are not supported"), "{record:#x}");
    }
    assert!(binary::<IgnoredAny>(&[&start[..], &name, &[1, 1]].concat()).is_ok());
}

/// Rules: P-61.
#[test]
fn records_outside_of_the_format_are_refused_with_their_place() {
    let start = start("Order", CONTRACT);
    let at = start.len();
    let rows: [(&[u8], DecodeErrorKind, &str); 16] = [
        (&[0x00], DecodeErrorKind::Syntax, "a record of .NET binary XML"),
        (&[0x78], DecodeErrorKind::Syntax, "a record of .NET binary XML"),
        (&[0xa5], DecodeErrorKind::Syntax, "a record of .NET binary XML"),
        (&[0xbe], DecodeErrorKind::Syntax, "a record of .NET binary XML"),
        (&[0xff], DecodeErrorKind::Syntax, "a record of .NET binary XML"),
        (&[0xb5, 2], DecodeErrorKind::Syntax, "0 or 1"),
        (&[0x95, 0, 0, 29, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], DecodeErrorKind::Syntax, "a decimal"),
        (
            &[0x97, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f],
            DecodeErrorKind::Syntax,
            "a time of the years 1 to 9999",
        ),
        (&[0x5e, 1, b'b', 1], DecodeErrorKind::Syntax, ""),
        (&[0x40, 0], DecodeErrorKind::Syntax, "a name"),
        (&[0x40, 1, b' '], DecodeErrorKind::Syntax, "a name"),
        (&[0x99, 1, 0xff], DecodeErrorKind::Utf8, ""),
        (&[0xb7, 2, 0, 0xd8], DecodeErrorKind::Utf8, ""),
        (&[0xb7, 1, 0], DecodeErrorKind::Utf8, ""),
        (&[0x26, 1, b'b', 0x81], DecodeErrorKind::Syntax, "a record of .NET binary XML"),
        (&[0x9d, 0xff, 0xff, 0xff, 0xff], DecodeErrorKind::Length, ""),
    ];
    for (record, kind, expected) in rows {
        let error = binary::<IgnoredAny>(&[&start[..], record].concat()).unwrap_err();
        assert_eq!((error.kind(), error.expected().unwrap_or_default()), (kind, expected), "{record:x?}: {error}");
        let Some(consign_codecs::Position::Offset(offset)) = error.position() else { panic!("{record:x?}: {error}") };
        assert!((at..=at + record.len()).contains(&offset), "{record:x?}: {offset}");
    }
    for first in [0x01, 0x03, 0x08, 0x80, 0x99, 0x7b, b'[', 0x00] {
        let error = binary::<Value>(&[first, 1, b'a', 1]).unwrap_err();
        let is_element = first == b'[';
        assert!(is_element || error.expected() == Some("a record that starts an element"), "{first:#x}: {error}");
    }
}

/// Rules: P-61.
#[test]
fn an_attribute_is_refused_where_no_element_has_started() {
    let body = [&start("string", SERIALIZATION)[..], &[0x98, 1, b'a', 0x04], &string("b"), &[0x86, 0x01]].concat();
    let error = binary::<String>(&body).unwrap_err();
    assert_eq!(
        (error.kind(), error.detail()),
        (DecodeErrorKind::Syntax, Some("an attribute after the start of an element"))
    );
}
