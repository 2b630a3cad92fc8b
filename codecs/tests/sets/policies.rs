//! Every case with every policy: which codec reads, or what the failure says.

use consign_codecs::{Chosen, Codecs, CodecsBuilder, Declared, Json, Policy};

use crate::support::{A, B, C, Told, told};

const CASES: [Declared; 5] =
    [Declared::Missing, Declared::Unknown, Declared::Malformed, Declared::Known, Declared::NotAllowed];

fn declared_as(case: Declared) -> Option<&'static str> {
    match case {
        Declared::Missing => None,
        Declared::Unknown => Some("application/xml"),
        Declared::Malformed => Some("xml"),
        Declared::Known => Some("application/a"),
        Declared::NotAllowed => Some("application/b"),
    }
}

/// `a` refuses everything, so that a declared `application/a` is the case *known but failed*.
fn builder() -> CodecsBuilder<impl consign_codecs::CodecSet> {
    let base = Codecs::builder().with(Told::refuses(A)).with(B).with(C);
    base.allow(["application/a", "application/c", "application/xml", "text/*"])
}

fn set(case: Declared, policy: Policy) -> Codecs<impl consign_codecs::CodecSet> {
    let builder = builder().fallback(["c", "a"]);
    match case {
        Declared::Missing => builder.on_missing(policy),
        Declared::Unknown => builder.on_unknown(policy),
        Declared::Malformed => builder.on_malformed(policy),
        Declared::Known => builder.on_failed(policy),
        Declared::NotAllowed => builder.on_not_allowed(policy),
    }
    .build()
    .unwrap()
}

#[test]
fn reject_says_why() {
    let expected = [
        ("", "UnsupportedContentType", "no ContentType is declared, and none is assumed"),
        ("", "UnsupportedContentType", "no codec reads the ContentType `application/xml`"),
        ("", "MalformedContentType", "the ContentType `xml` is malformed: it has no `/` between type and subtype"),
        ("a;exact;Syntax;", "DeserializationFailed", "a: not well-formed"),
        ("", "ContentTypeNotAllowed", "the ContentType `application/b` is not allowed here"),
    ];
    for (case, (trail, reason, text)) in CASES.into_iter().zip(expected) {
        let failure = set(case, Policy::Reject).decode::<String>(declared_as(case), b"").unwrap_err();
        assert_eq!(failure.declared(), case);
        assert_eq!(told(&failure), (trail.to_owned(), reason));
        assert_eq!(failure.to_string(), text);
    }
}

#[test]
fn a_codec_reads() {
    for case in CASES {
        let decoded = set(case, Policy::Codec("b")).decode_traced::<String>(declared_as(case), b"").unwrap();
        assert_eq!((&*decoded.value, decoded.by, decoded.chosen), ("b", "b", Chosen::Default), "{case:?}");
        let before = if case == Declared::Known { "a;exact;Syntax;" } else { "" };
        assert_eq!(decoded.trail().to_string(), before);
    }
}

#[test]
fn the_named_codec_is_the_last_to_try() {
    for case in CASES {
        let failure = set(case, Policy::Codec("a")).decode::<String>(declared_as(case), b"").unwrap_err();
        let trail = if case == Declared::Known { "a;exact;Syntax;" } else { "a;default;Syntax;" };
        assert_eq!(told(&failure), (trail.to_owned(), "DeserializationFailed"), "{case:?}");
        assert_eq!(failure.declared(), case);
    }
}

#[test]
fn the_chain_reads() {
    for case in CASES {
        let decoded = set(case, Policy::Chain).decode_traced::<String>(declared_as(case), b"").unwrap();
        assert_eq!((&*decoded.value, decoded.by, decoded.chosen), ("c", "c", Chosen::Fallback), "{case:?}");
    }
}

#[test]
fn a_codec_then_the_chain() {
    for case in CASES {
        let codecs = set(case, Policy::CodecThenChain("a"));
        let decoded = codecs.decode_traced::<String>(declared_as(case), b"").unwrap();
        assert_eq!((decoded.by, decoded.chosen), ("c", Chosen::Fallback), "{case:?}");
        let before = if case == Declared::Known { "a;exact;Syntax;" } else { "a;default;Syntax;" };
        assert_eq!(decoded.trail().to_string(), before, "{case:?}");
    }
}

#[test]
fn without_a_chain_only_a_missing_type_has_a_default() {
    let codecs = builder().build().unwrap();
    let failure = codecs.decode::<String>(None, b"").unwrap_err();
    assert_eq!(told(&failure), ("a;default;Syntax;".to_owned(), "DeserializationFailed"));
    for case in [Declared::Unknown, Declared::Malformed, Declared::NotAllowed] {
        let failure = codecs.decode::<String>(declared_as(case), b"").unwrap_err();
        assert!(failure.attempts().is_empty(), "{case:?}");
    }
    let failure = codecs.decode::<String>(Some("application/a"), b"").unwrap_err();
    assert_eq!(failure.trail().to_string(), "a;exact;Syntax;");
}

#[test]
fn with_a_chain_every_case_comes_to_it() {
    let codecs = builder().fallback(["b"]).build().unwrap();
    for case in CASES {
        let decoded = codecs.decode_traced::<String>(declared_as(case), b"").unwrap();
        assert_eq!((decoded.by, decoded.chosen), ("b", Chosen::Fallback), "{case:?}");
    }
}

/// Clients set these types for bodies of any format: Bunny, and Dapr on RabbitMQ.
///
/// Rules: P-44.
#[test]
fn a_type_that_says_nothing_is_refused_with_the_policy_that_reads_it() {
    const HINT: &str = "; `on_unknown` can name a codec for it";
    let json = || Codecs::builder().with(Json::default());
    let (reject, read) = (json().build().unwrap(), json().on_unknown(Policy::Codec("json")).build().unwrap());
    for (declared, has_hint) in [
        ("application/octet-stream", true),
        ("text/plain", true),
        ("Text/Plain; charset=utf-8", true),
        ("text/csv", false),
        ("application/xml", false),
    ] {
        let failure = reject.decode::<u32>(Some(declared), b"7").unwrap_err();
        assert_eq!(failure.reason().code(), "UnsupportedContentType");
        assert!(failure.to_string().starts_with("no codec reads the ContentType `"), "{failure}");
        assert_eq!(failure.to_string().ends_with(HINT), has_hint, "{failure}");
        assert_eq!(read.decode::<u32>(Some(declared), b"7").unwrap(), 7);
    }
}
