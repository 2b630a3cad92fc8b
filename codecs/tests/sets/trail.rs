use consign_codecs::{
    Chosen, Codecs, DecodeErrorKind as Kind, Json, MessagePack, OwnFormat, Position, Trail, TrailError, ValueKind,
};
use proptest::{prelude::*, string::string_regex};
use serde::Deserialize;

use crate::support::{A, B, Does, nine, replay};

#[derive(Debug, Deserialize)]
struct Order {
    #[expect(dead_code, reason = "never read")]
    id: u32,
}

#[test]
fn feature_7_byte_for_byte() {
    let codecs =
        Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json", "msgpack"]).build().unwrap();
    let trail = |declared, body: &[u8]| {
        let failure = codecs.decode::<Order>(declared, body).unwrap_err();
        failure.trail().to_string()
    };
    assert_eq!(trail(Some("application/json"), b"{\"id\":"), "json;exact;Truncated;1:6;id,msgpack;fallback;Trailing;1");
    let line = b"{\"id\":\"seven\"}";
    assert_eq!(trail(Some("application/json"), line), "json;exact;Type;1:13;id;u32;text,msgpack;fallback;Trailing;1");
    assert_eq!(trail(None, b"\n{]"), "json;default;Syntax;2:2,msgpack;fallback;Trailing;1");
    assert_eq!(trail(Some("application/x-msgpack"), b""), "msgpack;alias;EmptyBody;,json;fallback;EmptyBody;");
}

/// Rules: P-123.
#[test]
fn a_trail_is_read_back() {
    let text = "json;exact;Syntax;1:5,msgpack;fallback;Trailing;17,raw;suffix;Type;,p;range;Count;0,d;default;Utf8;9:1";
    let trail: Trail = text.parse().unwrap();
    assert_eq!(trail.to_string(), text);
    let entry = &trail.entries()[0];
    assert_eq!((entry.codec(), entry.chosen(), entry.code()), ("json", Chosen::Exact, "Syntax"));
    assert_eq!((entry.kind(), entry.position()), (Some(Kind::Syntax), Some(Position::Text { line: 1, column: 5 })));
    assert_eq!(trail.entries()[1].position(), Some(Position::Offset(17)));
    assert_eq!(trail.entries()[2].position(), None);
    let text = "json;exact;Type;1:9;[\"a%3Bb\"];one of `a`%2C `b`;text,raw;exact;Type;;;;null,p;exact;Type;;x,q;exact;Type;;;u8";
    let trail: Trail = text.parse().unwrap();
    assert_eq!(trail.to_string(), text);
    let [first, second, third, fourth] = trail.entries() else { panic!("{trail:?}") };
    assert_eq!((first.path(), first.expected()), (Some("[\"a;b\"]"), Some("one of `a`, `b`")));
    assert_eq!((second.path(), second.expected(), second.found()), (None, None, Some(ValueKind::Null)));
    assert_eq!((third.path(), third.expected()), (Some("x"), None));
    assert_eq!((fourth.path(), fourth.expected()), (None, Some("u8")));
    assert!("".parse::<Trail>().unwrap().is_empty());
    let later: Trail = "json;exact;Checksum;".parse().unwrap();
    assert_eq!((later.entries()[0].code(), later.entries()[0].kind()), ("Checksum", None));
}

/// Rules: P-123.
#[test]
fn other_texts_are_refused() {
    for text in [
        "json",
        ",",
        "json;exact;Syntax",
        "json;exact;Syntax;1:5;",
        "json;exact;Syntax;1:5,",
        "json;Exact;Syntax;",
        "json;guessed;Syntax;",
        ";exact;Syntax;",
        "js on;exact;Syntax;",
        "json;exact;;",
        "json;exact;Syntax;-1",
        "json;exact;Syntax;01",
        "json;exact;Syntax;1:",
        "json;exact;Syntax;1:2:3",
        "json;exact;Syntax;99999999999999999999999",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa;exact;Syntax;",
        "json;exact;Syntax;\n",
        "json;exact;Type;;;",
        "json;exact;Type;;;;",
        "json;exact;Type;;a;",
        "json;exact;Type;;;;words",
        "json;exact;Type;;;;text;",
        "json;exact;Type;;;;text;more",
        "json;exact;Type;;a%2fb",
        "json;exact;Type;;a%2",
        "json;exact;Type;;\u{e9}",
    ] {
        assert_eq!(text.parse::<Trail>(), Err(TrailError::InvalidEntry), "{text}");
    }
    assert_eq!(format!("json;exact;Type;;{}", "a".repeat(97)).parse::<Trail>(), Err(TrailError::InvalidEntry));
    let entries = |count| vec!["json;exact;Syntax;"; count].join(",");
    assert_eq!(entries(8).parse::<Trail>().unwrap().entries().len(), 8);
    assert_eq!(entries(9).parse::<Trail>(), Err(TrailError::TooManyEntries));
}

#[test]
fn a_trail_has_at_most_8_attempts() {
    let codecs = nine().fallback(["c8", "c7", "c6", "c5", "c4", "c3", "c2"]).max_fallbacks(8).build().unwrap();
    let failure = codecs.decode::<String>(Some("c/0+s"), b"").unwrap_err();
    assert_eq!(failure.attempts().len(), 9);
    let codecs: Vec<_> = failure.trail().entries().iter().map(|entry| entry.codec().to_owned()).collect();
    assert_eq!(codecs, ["c0", "c1", "c8", "c7", "c6", "c5", "c4", "c3"]);
}

#[test]
fn a_name_that_no_set_checked_cannot_break_it() {
    let codecs = Codecs::builder().with(A).build().unwrap();
    for (name, written) in [("a;b,c\n", "a_b_c_"), ("", "_"), ("\u{e9}", "_")] {
        let format = OwnFormat::new(name, &[]);
        let refuse = |_: &[u8], _: &consign_codecs::DecodeContext<'_>| {
            Err::<(), _>(consign_codecs::DecodeError::new(Kind::Syntax))
        };
        let failure = codecs.decode_own(&format, None, b"", refuse).unwrap_err();
        let trail = failure.trail();
        assert_eq!(trail.to_string(), format!("{written};default;Syntax;"));
        assert_eq!(trail.to_string().parse(), Ok(trail));
    }
}

#[test]
fn every_kind_has_its_code() {
    for kind in [
        Kind::Syntax,
        Kind::Truncated,
        Kind::Trailing,
        Kind::Type,
        Kind::DuplicateKey,
        Kind::Utf8,
        Kind::EmptyBody,
        Kind::UnsupportedCharset,
        Kind::UnsupportedParameter,
        Kind::Size,
        Kind::Depth,
        Kind::Length,
        Kind::Count,
        Kind::Panic,
    ] {
        let codecs = Codecs::builder().with(A.does(Does::Refuse(kind))).with(B).build().unwrap();
        let trail = codecs.decode::<String>(Some("application/a"), b"").unwrap_err().trail();
        assert_eq!(trail.entries()[0].kind(), Some(kind));
    }
}

/// Rules: P-123.
#[test]
fn a_parsed_trail_is_written_again_unchanged() {
    let replay = replay("a_parsed_trail_is_written_again_unchanged");
    let entry = r"[a-z0-9._-]{1,8};(exact|alias|suffix|range|default|fallback);[A-Z][a-z]{1,8};([0-9]{0,3}|[0-9]{1,3}:[0-9]{1,3})(;[a-z.%0-9]{0,3}(;[a-z%2BC]{0,4}(;(text|null)?)?)?)?";
    let entry = string_regex(entry).unwrap();
    let text = prop::collection::vec(entry, 0..10).prop_map(|entries| entries.join(","));
    let read = std::cell::Cell::new(0);
    let result = replay.runner().run(&text, |text| {
        if let Ok(trail) = text.parse::<Trail>() {
            prop_assert_eq!(trail.to_string(), text);
            read.set(read.get() + 1);
        }
        Ok(())
    });
    result.unwrap();
    assert!(read.get() > 0, "none of the texts is a trail");
}

/// Rules: P-123.
#[test]
fn texts_of_types_cannot_break_it() {
    #[derive(Debug, Deserialize)]
    struct Odd {
        #[serde(rename = "a;b,c%\n\u{e9}")]
        _odd: u32,
    }
    #[derive(Debug, Deserialize)]
    enum Many {
        #[serde(rename = "a name that takes forty characters or more")]
        _A,
        #[serde(rename = "another one that takes forty characters too")]
        _B,
        #[serde(rename = "one; more")]
        _C,
    }
    #[derive(Debug, Deserialize)]
    struct Long {
        #[serde(rename = "a_name_that_takes_forty_characters_or_more")]
        _next: Option<Box<Long>>,
    }
    let codecs = Codecs::json();
    let trail = |failure: consign_codecs::DecodeFailure| {
        let text = failure.trail().to_string();
        assert_eq!(text.parse(), Ok(failure.trail()), "{text}");
        assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text}");
        text
    };
    let body = "{\"a;b,c%\\n\u{e9}\":true}";
    let odd = trail(codecs.decode::<Odd>(None, body.as_bytes()).unwrap_err());
    assert_eq!(odd, "json;default;Type;1:18;[\"a%3Bb%2Cc%25\\n%C3%A9\"];u32;boolean");
    let many = trail(codecs.decode::<Many>(None, b"\"d\"").unwrap_err());
    let (_, expected) = many.rsplit_once(';').unwrap();
    assert!(expected.starts_with("one of `a name") && expected.ends_with(".."), "{expected}");
    assert!(expected.len() <= Trail::MAX_TEXT, "{expected}");
    let name = "a_name_that_takes_forty_characters_or_more";
    let body = (0..5).fold("7".to_owned(), |inner, _| format!("{{\"{name}\":{inner}}}"));
    let long = trail(codecs.decode::<Long>(None, body.as_bytes()).unwrap_err());
    let path = long.split(';').nth(4).unwrap();
    assert!(path.starts_with("..") && path.ends_with(name) && path.len() == Trail::MAX_TEXT, "{path}");
}
