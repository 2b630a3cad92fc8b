use bytes::BytesMut;
use consign_codecs::{
    Bincode, Chosen, Codec, Codecs, DecodeErrorKind, Format, Json, Limits, MediaType, MessagePack, Policy, Text,
};

use crate::support::{A, B, C, Does, Told, told};

const ORDER: Told = Told::new("order", &[MediaType::exact("application/vnd.acme.order+b")]);

/// Rules: P-05.
#[test]
fn exact_first_then_the_suffix() {
    let codecs = Codecs::builder().with(B).with(ORDER).build().unwrap();
    let read = |text| codecs.decode_traced::<String>(Some(text), b"").map(|decoded| (decoded.by, decoded.chosen));
    assert_eq!(read("application/vnd.acme.order+b"), Ok(("order", Chosen::Exact)));
    assert_eq!(read("Application/Vnd.Acme.Order+B ; v=2"), Ok(("order", Chosen::Exact)));
    assert_eq!(read("application/vnd.acme.invoice+b;v=2"), Ok(("b", Chosen::Suffix)));
}

/// Rules: P-40.
#[test]
fn exact_then_suffix_then_the_chain() {
    let codecs = Codecs::builder()
        .with(A.refuses())
        .with(B.refuses())
        .with(C.refuses())
        .with(ORDER.refuses())
        .fallback(["b", "c", "a"])
        .build()
        .unwrap();
    let trail = |text| codecs.decode::<String>(Some(text), b"").unwrap_err().trail().to_string();
    let all = "order;exact;Syntax;,b;suffix;Syntax;,c;fallback;Syntax;,a;fallback;Syntax;";
    assert_eq!(trail("application/vnd.acme.order+b"), all);
    assert_eq!(trail("application/vnd.acme.order+b;v=2"), all);
    assert_eq!(trail("text/a"), "a;alias;Syntax;,b;fallback;Syntax;,c;fallback;Syntax;");
    assert_eq!(trail("text/x"), "c;range;Syntax;,b;fallback;Syntax;,a;fallback;Syntax;");
    assert_eq!(trail("text/x+b"), "b;suffix;Syntax;,c;fallback;Syntax;,a;fallback;Syntax;");
}

/// Rules: P-40.
#[test]
fn without_a_chain_the_suffix_still_follows() {
    let codecs = Codecs::builder().with(ORDER.refuses()).with(B).build().unwrap();
    let decoded = codecs.decode_traced::<String>(Some("application/vnd.acme.order+b"), b"").unwrap();
    assert_eq!((decoded.by, decoded.chosen), ("b", Chosen::Suffix));
    assert_eq!(decoded.trail().to_string(), "order;exact;Syntax;");
}

/// Rules: P-15.
#[test]
fn blank_is_missing() {
    let codecs = Codecs::builder().with(A).with(B).build().unwrap();
    for text in [None, Some(""), Some(" "), Some("\t ")] {
        let decoded = codecs.decode_traced::<String>(text, b"").unwrap();
        assert_eq!((decoded.by, decoded.chosen), ("a", Chosen::Default), "{text:?}");
    }
}

/// Rules: P-16.
#[test]
fn missing_is_the_first_codec_then_the_chain() {
    let codecs = Codecs::builder().with(A.refuses()).with(B.refuses()).with(C).fallback(["b", "c"]).build().unwrap();
    let decoded = codecs.decode_traced::<String>(None, b"").unwrap();
    assert_eq!((decoded.by, decoded.chosen), ("c", Chosen::Fallback));
    assert_eq!(decoded.trail().to_string(), "a;default;Syntax;,b;fallback;Syntax;");
}

/// Rules: P-17.
#[test]
fn a_charset_that_json_does_not_read() {
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).fallback(["msgpack"]).build().unwrap();
    let failure =
        codecs.decode::<(u8, u8)>(Some("application/json;charset=utf-16"), b"[\x001\x00,\x002\x00]\x00").unwrap_err();
    assert_eq!(failure.reason().code(), "UnsupportedCharset");
    assert_eq!(failure.trail().to_string().split(',').next(), Some("json;exact;UnsupportedCharset;"));
    assert_eq!(failure.attempts().len(), 2);
    for text in [
        "application/json; Charset=\"UTF-8\"",
        "text/json;charset=us-ascii",
        "application/json",
        "application/json;charset=iso-8859-1",
        "application/x-json;charset=utf-16",
        "text/x-json;charset=\"\"",
    ] {
        assert_eq!(codecs.decode::<(u8, u8)>(Some(text), b"\xef\xbb\xbf[1,2]").unwrap(), (1, 2));
    }
}

/// Rules: P-18.
#[test]
fn text_honours_its_charset() {
    let codecs = Codecs::builder().with(Text).build().unwrap();
    let read = |text, body| codecs.decode::<String>(Some(text), body).unwrap();
    assert_eq!(read("text/plain;charset=iso-8859-1", b"\xe9"), "\u{e9}");
    assert_eq!(read("text/csv ; charset=UTF-16LE", b"a\0"), "a");
    assert_eq!(read("text/plain", "\u{e9}".as_bytes()), "\u{e9}");
}

/// Rules: P-20.
#[test]
fn an_empty_body() {
    let codecs = Codecs::json();
    assert_eq!(codecs.decode::<Option<String>>(Some("application/json"), b"").unwrap(), None);
    assert_eq!(codecs.decode::<()>(None, b""), Ok(()));
    let failure = codecs.decode::<String>(Some("application/json"), b"").unwrap_err();
    assert_eq!(told(&failure), ("json;exact;EmptyBody;".to_owned(), "DeserializationFailed"));
}

/// Rules: P-32.
#[test]
fn the_encoding_of_bincode() {
    let value = ("order", 7_u64);
    for (declared, writer) in [
        ("application/x-bincode", Bincode::fixint()),
        ("application/x-bincode;encoding=varint", Bincode::varint()),
        ("Application/x-bincode; encoding=varint", Bincode::varint()),
    ] {
        let mut body = BytesMut::new();
        writer.encode(&value, &mut body).unwrap();
        for codecs in [Bincode::fixint(), Bincode::varint()].map(|codec| Codecs::builder().with(codec).build().unwrap())
        {
            assert_eq!(codecs.decode::<(&str, u64)>(Some(declared), &body), Ok(value), "{declared}");
        }
    }
    let written = Codecs::builder().with(Bincode::varint()).build().unwrap().encode(&value).unwrap();
    assert_eq!(written.content_type, "application/x-bincode;encoding=varint");
}

/// Rules: P-41.
#[test]
fn a_success_says_what_failed_before() {
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).fallback(["msgpack"]).build().unwrap();
    let decoded = codecs.decode_traced::<(u8, u8)>(Some("application/json"), &[0x92, 1, 2]).unwrap();
    assert_eq!((decoded.value, decoded.by, decoded.chosen), ((1, 2), "msgpack", Chosen::Fallback));
    assert_eq!(decoded.attempts.len(), 1);
    assert_eq!((decoded.attempts[0].codec, decoded.attempts[0].chosen), ("json", Chosen::Exact));
}

/// Rules: P-42.
#[test]
fn trailing_bytes_are_a_failure() {
    let failure = Codecs::json().decode::<u8>(Some("application/json"), b"1 2").unwrap_err();
    assert_eq!(told(&failure), ("json;exact;Trailing;1:3".to_owned(), "DeserializationFailed"));
}

/// Rules: P-44.
#[test]
fn one_line_for_each_attempt() {
    let codecs = Codecs::builder()
        .with(A.refuses())
        .with(B.does(Does::Refuse(DecodeErrorKind::Depth)))
        .fallback(["b"])
        .build()
        .unwrap();
    let failure = codecs.decode::<String>(Some("application/a"), b"").unwrap_err();
    assert_eq!(failure.to_string(), "a: not well-formed\nb: nested deeper than the limit: 64 levels");
}

#[test]
fn the_first_attempt_gives_the_reason() {
    for (kind, reason) in [
        (DecodeErrorKind::Size, "LimitExceeded"),
        (DecodeErrorKind::Depth, "LimitExceeded"),
        (DecodeErrorKind::Length, "LimitExceeded"),
        (DecodeErrorKind::Count, "LimitExceeded"),
        (DecodeErrorKind::UnsupportedCharset, "UnsupportedCharset"),
        (DecodeErrorKind::UnsupportedParameter, "DeserializationFailed"),
        (DecodeErrorKind::Type, "DeserializationFailed"),
        (DecodeErrorKind::Panic, "DeserializationFailed"),
    ] {
        let codecs = Codecs::builder().with(A.does(Does::Refuse(kind))).with(B.refuses()).fallback(["b"]);
        let failure = codecs.build().unwrap().decode::<String>(Some("application/a"), b"").unwrap_err();
        assert_eq!((failure.reason().code(), failure.attempts().len()), (reason, 2), "{kind:?}");
    }
}

/// Rules: P-45.
#[test]
fn a_panic_is_a_failed_attempt() {
    let codecs = Codecs::builder().with(A.does(Does::Panic)).with(B).fallback(["b"]).build().unwrap();
    for text in [Some("application/a"), Some("text/a"), Some("application/a;v=1"), None] {
        let decoded = codecs.decode_traced::<String>(text, b"").unwrap();
        assert_eq!((decoded.by, decoded.attempts[0].error.kind()), ("b", DecodeErrorKind::Panic));
        assert_eq!(codecs.decode::<String>(text, b"").unwrap(), "b");
    }
    let alone = Codecs::builder().with(A.does(Does::Panic)).build().unwrap();
    let failure = alone.decode::<String>(Some("application/a"), b"").unwrap_err();
    assert_eq!(told(&failure), ("a;exact;Panic;".to_owned(), "DeserializationFailed"));
    assert_eq!(failure.to_string(), "a: the decoder panicked");
}

#[test]
fn the_size_is_checked_before_a_codec_sees_the_body() {
    let set = || Codecs::builder().with(A.does(Does::Panic)).with(B.does(Does::Panic)).fallback(["b"]);
    let codecs = set().limits(Limits::default().bytes(4)).build().unwrap();
    for text in [Some("application/a"), Some("application/a;v=1")] {
        let failure = codecs.decode::<String>(text, b"12345").unwrap_err();
        assert_eq!(told(&failure), ("a;exact;Size;,b;fallback;Size;".to_owned(), "LimitExceeded"));
        let failure = codecs.decode::<String>(text, b"1234").unwrap_err();
        assert_eq!(failure.attempts()[0].error.kind(), DecodeErrorKind::Panic);
    }
}

#[test]
fn limits_are_cut_to_their_maximum() {
    let mut limits = Limits::default();
    (limits.bytes, limits.depth, limits.elements) = (usize::MAX, usize::MAX, usize::MAX);
    let codecs = Codecs::builder().with(A).limits(limits).build().unwrap();
    let cut = *codecs.limits();
    assert_eq!((cut.bytes, cut.depth, cut.elements), (Limits::MAX_BYTES, Limits::MAX_DEPTH, Limits::MAX_ELEMENTS));
}

/// Rules: I-30.
#[test]
fn the_declared_type_must_be_allowed() {
    let set = || Codecs::builder().with(A).with(B).with(C);
    let allowed = |entries: &[&str], text| {
        let codecs = set().allow(entries.iter().copied()).build().unwrap();
        codecs.decode::<String>(Some(text), b"").map_err(|failure| failure.reason().code())
    };
    let refused = Err("ContentTypeNotAllowed");
    assert_eq!(allowed(&["application/a"], "application/a"), Ok("a".to_owned()));
    assert_eq!(allowed(&["application/a"], "APPLICATION/A; v=1"), Ok("a".to_owned()));
    assert_eq!(allowed(&["application/a"], "text/a"), refused);
    assert_eq!(allowed(&["Text/A"], "text/a"), Ok("a".to_owned()));
    assert_eq!(allowed(&["Text/A"], "application/a"), refused);
    assert_eq!(allowed(&["*/*+b"], "application/vnd.acme+b"), Ok("b".to_owned()));
    assert_eq!(allowed(&["*/*+b"], "application/b"), refused);
    assert_eq!(allowed(&["text/*"], "text/x"), Ok("c".to_owned()));
    assert_eq!(allowed(&["text/*"], "application/c"), refused);
    assert_eq!(allowed(&["application/a"], "application/xml"), refused);
    assert_eq!(allowed(&["application/xml"], "application/xml"), Err("UnsupportedContentType"));
    assert_eq!(allowed(&["application/a"], "xml"), Err("MalformedContentType"));
}

#[test]
fn the_type_with_more_parameters_wins() {
    const PLAIN: Told = Told::new("plain", &[MediaType::exact("application/x")]);
    const V2: Told = Told::new("v2", &[MediaType::exact("application/x;v=2"), MediaType::exact("application/y")]);
    let codecs = Codecs::builder().with(PLAIN).with(V2).build().unwrap();
    for (text, name) in [
        ("application/x", "plain"),
        ("application/x;v=1", "plain"),
        ("application/x;v=2", "v2"),
        ("application/x; V=\"2\"; a=b", "v2"),
        ("application/y", "v2"),
    ] {
        assert_eq!(codecs.decode::<String>(Some(text), b"").unwrap(), name, "{text}");
        assert_eq!(codecs.codec_for(text), Some(name));
    }
}

#[test]
fn a_positional_codec_may_be_named_for_a_missing_type() {
    const P: Told = Told::new("p", &[MediaType::exact("application/p")]).format(Format::Positional);
    let codecs = Codecs::builder().with(A).with(P).on_missing(Policy::Codec("p")).build().unwrap();
    assert_eq!(codecs.decode::<String>(None, b"").unwrap(), "p");
}

#[test]
fn values_borrow_from_the_body() {
    #[derive(serde::Deserialize)]
    struct Named<'a> {
        name: &'a str,
    }

    let body = br#"{"name":"n"}"#.to_vec();
    let named: Named<'_> = Codecs::json().decode(Some("application/json"), &body).unwrap();
    assert!(body.as_ptr_range().contains(&named.name.as_ptr()));
}

#[test]
fn a_clone_is_the_same_set() {
    let codecs = Codecs::builder().with(A).with(B).build().unwrap();
    assert_eq!(format!("{:?}", codecs.clone()), r#"["a", "b"]"#);
}
