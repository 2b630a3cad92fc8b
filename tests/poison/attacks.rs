//! Bodies that attack a decoder, made where they are used. Each that has room for it holds [`CANARY`], which must
//! stand in no text that comes out.

/// What no reason, description, trail, error or log may hold.
pub(crate) const CANARY: &str = "CANARY-7f3a";

pub(crate) const EMPTY: &[u8] = b"";
pub(crate) const BLANK: &[u8] = b" \r\n\t ";

pub(crate) const JSON_SYNTAX: &[u8] = br#"{"id":1,"sku":CANARY-7f3a}"#;
pub(crate) const JSON_TRUNCATED: &[u8] = br#"{"id":1,"sku":"CANARY-7f3a"#;
pub(crate) const JSON_TRAILING: &[u8] = br#"{"id":1,"sku":"CANARY-7f3a"} "CANARY-7f3a""#;
pub(crate) const JSON_WRONG_TYPE: &[u8] = br#"{"id":"CANARY-7f3a","sku":"nail"}"#;
pub(crate) const JSON_MISSING_FIELD: &[u8] = br#"{"sku":"CANARY-7f3a"}"#;
pub(crate) const JSON_DUPLICATE_FIELD: &[u8] = br#"{"id":1,"sku":"CANARY-7f3a","sku":"CANARY-7f3a"}"#;
pub(crate) const JSON_DUPLICATE_KEY: &[u8] = br#"{"CANARY-7f3a":1,"CANARY-7f3a":2}"#;
pub(crate) const JSON_UNKNOWN_VARIANT: &[u8] = br#"{"id":1,"sku":"nail","state":"CANARY-7f3a"}"#;
/// The type's own check quotes what it refuses.
pub(crate) const JSON_REFUSED_BY_THE_TYPE: &[u8] = br#"{"id":1,"sku":"nail","zone":"CANARY-7f3a"}"#;
pub(crate) const JSON_NOT_UTF_8: &[u8] = b"{\"id\":1,\"sku\":\"CANARY-7f3a\xff\xfe\"}";
pub(crate) const JSON_LONE_SURROGATE: &[u8] = br#"{"id":1,"sku":"CANARY-7f3a\ud800"}"#;
pub(crate) const JSON_NAN: &[u8] = br#"{"id":NaN,"sku":"CANARY-7f3a"}"#;
/// How Jackson names a type to load.
pub(crate) const JSON_TYPE_IN_AN_ARRAY: &[u8] = br#"["com.example.CANARY-7f3a",{}]"#;

pub(crate) fn json_arrays(levels: usize) -> Vec<u8> {
    [b"[\"CANARY-7f3a\",".as_slice(), &b"[".repeat(levels)].concat()
}

/// The nesting is in a field that the type ignores.
pub(crate) fn json_ignored_nesting(levels: usize) -> Vec<u8> {
    let inner = [b"{\"a\":".repeat(levels), b"1".to_vec(), b"}".repeat(levels)].concat();
    [br#"{"id":1,"sku":"CANARY-7f3a","more":"#.as_slice(), &inner, b"}"].concat()
}

pub(crate) fn json_elements(count: usize) -> Vec<u8> {
    [b"[\"CANARY-7f3a\"".as_slice(), &b",0".repeat(count - 1), b"]"].concat()
}

pub(crate) fn json_digits(count: usize) -> Vec<u8> {
    [br#"{"sku":"CANARY-7f3a","id":"#.as_slice(), &b"7".repeat(count), b"}"].concat()
}

pub(crate) fn json_of_size(bytes: usize) -> Vec<u8> {
    let (start, end) = (br#"{"id":1,"sku":"CANARY-7f3a"#, br#""}"#);
    [start.as_slice(), &b"x".repeat(bytes - start.len() - end.len()), end].concat()
}

/// `{"id": "CANARY-7f3a"}`: well-formed, of another type.
pub(crate) const MSGPACK_WRONG_TYPE: &[u8] = b"\x81\xa2id\xabCANARY-7f3a";
pub(crate) const MSGPACK_TRUNCATED: &[u8] = b"\x82\xa2id\x01\xa3sku\xacCANARY-7f3a";
pub(crate) const MSGPACK_TRAILING: &[u8] = b"\x82\xa2id\x01\xa3sku\xabCANARY-7f3a\xabCANARY-7f3a";
pub(crate) const MSGPACK_DUPLICATE_FIELD: &[u8] = b"\x82\xa2id\x01\xa2id\xabCANARY-7f3a";
pub(crate) const MSGPACK_NOT_UTF_8: &[u8] = b"\x82\xa2id\x01\xa3sku\xadCANARY-7f3a\xff\xfe";
/// A marker that the format never gave a meaning.
pub(crate) const MSGPACK_RESERVED: &[u8] = b"\xc1CANARY-7f3a";
pub(crate) const MSGPACK_BIN_OF_4_GIB: &[u8] = b"\xc6\xff\xff\xff\xffCANARY-7f3a";
pub(crate) const MSGPACK_STR_OF_4_GIB: &[u8] = b"\xdb\xff\xff\xff\xffCANARY-7f3a";
pub(crate) const MSGPACK_EXT_OF_4_GIB: &[u8] = b"\xc9\xff\xff\xff\xff\x01CANARY-7f3a";
pub(crate) const MSGPACK_ARRAY_OF_4_G: &[u8] = b"\xdd\xff\xff\xff\xffCANARY-7f3a";
pub(crate) const MSGPACK_MAP_OF_4_G: &[u8] = b"\xdf\xff\xff\xff\xffCANARY-7f3a";

pub(crate) fn msgpack_arrays(levels: usize) -> Vec<u8> {
    [b"\x92\xabCANARY-7f3a".as_slice(), &b"\x91".repeat(levels)].concat()
}

pub(crate) const CBOR_WRONG_TYPE: &[u8] = b"\xa1\x62id\x6bCANARY-7f3a";
pub(crate) const CBOR_TRUNCATED: &[u8] = b"\xa2\x62id\x01\x63sku\x6cCANARY-7f3a";
pub(crate) const CBOR_TRAILING: &[u8] = b"\xa2\x62id\x01\x63sku\x6bCANARY-7f3a\x6bCANARY-7f3a";
pub(crate) const CBOR_NOT_UTF_8: &[u8] = b"\xa2\x62id\x01\x63sku\x6dCANARY-7f3a\xff\xfe";
pub(crate) const CBOR_BREAK_ALONE: &[u8] = b"\xffCANARY-7f3a";
pub(crate) const CBOR_BYTES_OF_1_TIB: &[u8] = b"\x5b\x00\x00\x01\x00\x00\x00\x00\x00CANARY-7f3a";
pub(crate) const CBOR_ARRAY_OF_1_T: &[u8] = b"\x9b\x00\x00\x01\x00\x00\x00\x00\x00CANARY-7f3a";

pub(crate) fn cbor_arrays(levels: usize) -> Vec<u8> {
    [b"\x82\x6bCANARY-7f3a".as_slice(), &b"\x81".repeat(levels)].concat()
}

pub(crate) fn cbor_indefinite_arrays(levels: usize) -> Vec<u8> {
    [b"\x82\x6bCANARY-7f3a".as_slice(), &b"\x9f".repeat(levels)].concat()
}

pub(crate) fn cbor_tags(levels: usize) -> Vec<u8> {
    [b"\x82\x6bCANARY-7f3a".as_slice(), &b"\xc6".repeat(levels)].concat()
}

/// A list of 2^40 values of no bytes.
pub(crate) const BINCODE_UNITS: &[u8] = b"\x00\x00\x00\x00\x00\x01\x00\x00CANARY-7f3a";
/// An id, then a string of 2^60 bytes.
pub(crate) const BINCODE_LENGTH: &[u8] = b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10CANARY-7f3a";
pub(crate) const BINCODE_TRUNCATED: &[u8] = b"\x01\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0CANARY-7f3a";
pub(crate) const BINCODE_TRAILING: &[u8] = b"\x01\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0CANARY-7f3a\0\0CANARY-7f3a";
pub(crate) const BINCODE_NOT_UTF_8: &[u8] = b"\x01\0\0\0\0\0\0\0\x0d\0\0\0\0\0\0\0CANARY-7f3a\xff\xfe\0\0";
/// The JSON that makes an unbounded reader ask for exabytes.
pub(crate) const JSON_AS_BINCODE: &[u8] = br#"{"id":1,"sku":"CANARY-7f3a","price":19.9}"#;

pub(crate) const POSTCARD_UNITS: &[u8] = b"\x80\x80\x80\x80\x80\x20CANARY-7f3a";
pub(crate) const POSTCARD_GARBAGE: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xffCANARY-7f3a";
pub(crate) const POSTCARD_LENGTH: &[u8] = b"\x01\xff\xff\xff\xff\x0fCANARY-7f3a";
pub(crate) const POSTCARD_TRAILING: &[u8] = b"\x01\x0bCANARY-7f3a\0\0CANARY-7f3a";

/// A string field that says it is longer than the body.
pub(crate) const PROTOBUF_LENGTH: &[u8] = b"\x12\xff\xff\xff\xff\x0fCANARY-7f3a";
pub(crate) const PROTOBUF_NOT_UTF_8: &[u8] = b"\x12\x0dCANARY-7f3a\xff\xfe";
/// A number where the type has text.
pub(crate) const PROTOBUF_WRONG_TYPE: &[u8] = b"\x12\x0bCANARY-7f3a\x10\x05";
/// Text where the type has a message.
pub(crate) const PROTOBUF_GARBAGE_INSIDE: &[u8] = b"\x12\x0bCANARY-7f3a\x0a\x0bCANARY-7f3a";

/// Groups of a field that the message does not have.
pub(crate) fn protobuf_groups(levels: usize) -> Vec<u8> {
    [b"\x12\x0bCANARY-7f3a".as_slice(), &b"\x7b".repeat(levels)].concat()
}

pub(crate) const TEXT_NOT_UTF_8: &[u8] = b"CANARY-7f3a\xff\xfe";
/// What no self-describing format begins with.
pub(crate) const NOISE: &[u8] = b"\xc1\xff\x00CANARY-7f3a";
