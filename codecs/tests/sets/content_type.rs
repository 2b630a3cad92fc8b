use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use consign_codecs::{
    Codecs, ContentType, Json, MalformedContentType as Why, MessagePack,
    mime::{self, Mime},
};

fn parse(text: &str) -> ContentType {
    ContentType::parse(text)
}

fn why(text: &str) -> Option<Why> {
    parse(text).malformed()
}

fn hash(content_type: &ContentType) -> u64 {
    let mut hasher = DefaultHasher::new();
    content_type.hash(&mut hasher);
    hasher.finish()
}

#[track_caller]
fn assert_same(one: &str, other: &str) {
    let (one, other) = (parse(one), parse(other));
    assert_eq!(one, other);
    assert_eq!(hash(&one), hash(&other));
}

/// Rules: P-01.
#[test]
fn a_type_and_a_subtype() {
    let json = parse("application/json");
    assert_eq!(json.essence(), Some("application/json"));
    assert_eq!((json.suffix(), json.charset(), json.parameters().count()), (None, None, 0));
    assert_eq!(json.mime(), Some(&mime::APPLICATION_JSON));
}

/// Rules: P-02.
#[test]
fn names_and_charsets_compare_without_case() {
    assert_same("Application/JSON; Charset=UTF-8", "application/json;charset=utf-8");
    assert_same("text/plain;A=1", "text/plain;a=1");
    assert_same("text/plain;a=1;b=2", "text/plain; b=2; a=1");
    for other in ["text/plain;a=x", "text/plain", "text/plain;a=X;b=1", "text/plain;b=X", "text/html;a=X"] {
        assert_ne!(parse("text/plain;a=X"), parse(other), "{other}");
    }
}

/// Rules: P-03.
#[test]
fn quotes_do_not_count() {
    assert_same("application/json;charset=\"utf-8\"", "application/json;charset=utf-8");
    assert_eq!(parse("application/json;charset=\"Utf-8\"").charset(), Some("utf-8"));
}

/// Rules: P-04.
#[test]
fn values_are_unescaped() {
    let quote = parse(r#"text/plain; a="x\"y""#);
    assert_eq!(quote.parameter("A"), Some("x\"y"));
    assert_eq!(quote.to_string(), r#"text/plain;a="x\"y""#);
    assert_eq!(quote.mime(), None);
    let backslash = parse(r#"text/plain; a="x\\y""#);
    assert_eq!(backslash.parameter("a"), Some(r"x\y"));
    assert_eq!(parse(r#"text/plain; a="""#).parameter("a"), Some(""));
    assert_eq!(parse(r#"text/plain; a="b;c=d""#).parameter("a"), Some("b;c=d"));
}

/// Rules: P-05.
#[test]
fn the_suffix() {
    let declared = parse("application/vnd.Acme.order+JSON;v=2");
    assert_eq!(declared.suffix(), Some("json"));
    assert_eq!(declared.essence(), Some("application/vnd.acme.order+json"));
    assert_eq!(declared.parameter("v"), Some("2"));
    assert_eq!(parse("a/b+c+d").suffix(), Some("d"));
    assert_eq!(parse("a+b/c").suffix(), None);
    assert_eq!(parse(r#"application/vnd.x+json; profile="a;b=c""#).suffix(), Some("json"));
}

/// Rules: P-06.
#[test]
fn empty_parameters_are_read_and_never_written() {
    for text in ["application/json;", "application/json ; ;", "application/json;; ; "] {
        assert_eq!(parse(text).to_string(), "application/json", "{text}");
    }
    assert_same("text/plain;;charset=utf-8", "text/plain;charset=utf-8");
}

/// Rules: P-07.
#[test]
fn malformed_is_kept() {
    for (text, reason) in [
        ("", Why::Empty),
        (" \t", Why::Empty),
        ("app", Why::MissingSlash),
        ("json", Why::MissingSlash),
        ("text/", Why::InvalidName),
        ("application/", Why::InvalidName),
        ("/json", Why::InvalidName),
        ("/", Why::InvalidName),
        ("a/b/c", Why::InvalidName),
        ("application/+json", Why::InvalidName),
        ("+json/json", Why::InvalidName),
        ("application/json+", Why::InvalidName),
        ("application / json", Why::InvalidName),
        ("application/json, text/plain", Why::InvalidName),
        ("text/pl\u{e4}in", Why::NotAscii),
        ("text/plain;a=\u{e4}", Why::NotAscii),
        ("text/plain; charset = utf-8", Why::InvalidParameter),
        ("text/plain; charset =utf-8", Why::InvalidParameter),
        ("text/plain; charset= utf-8", Why::InvalidParameter),
        ("text/plain; =utf-8", Why::InvalidParameter),
        ("text/plain; a=1 b=2", Why::InvalidParameter),
        ("text/plain; a=\"1\"2", Why::InvalidParameter),
        ("text/plain;charset=utf-8, text/html", Why::InvalidParameter),
    ] {
        let declared = parse(text);
        assert_eq!((declared.malformed(), declared.as_str()), (Some(reason), text));
        assert!(declared.is_malformed() && declared.mime().is_none() && declared.essence().is_none());
    }
    assert_eq!(parse("json"), parse("json"));
    assert_ne!(parse("json"), parse("JSON"));
    assert_ne!(parse("json"), parse("text/json"));
}

/// Rules: P-08.
#[test]
fn a_wildcard_names_no_type() {
    for text in ["*/*", "application/*", "*/json", "text/* ; charset=utf-8"] {
        assert_eq!(why(text), Some(Why::Wildcard), "{text}");
    }
}

/// Rules: P-09.
#[test]
fn the_first_of_two_parameters_counts() {
    let declared = parse("text/plain;charset=utf-16;Charset=utf-8;a=1");
    assert_eq!(declared.charset(), Some("utf-16"));
    assert!(declared.has_duplicate_parameter());
    assert!(!parse("text/plain;charset=utf-8;a=1").has_duplicate_parameter());
    assert_eq!(declared.to_string(), "text/plain;charset=utf-16;a=1");
}

/// Rules: P-10.
#[test]
fn the_written_form() {
    for (text, written) in [
        ("APPLICATION/JSON ; Charset=utf-8", "application/json;charset=utf-8"),
        (" \tapplication/json\t ", "application/json"),
        ("Text/Plain ;\tA=\"B c\" ; d=\"e\"", "text/plain;a=\"B c\";d=e"),
        ("text/plain;a=\"\"", "text/plain;a=\"\""),
    ] {
        assert_eq!(parse(text).to_string(), written);
    }
    assert_eq!(parse("a/b\r\nc").to_string(), "a/b\\r\\nc");
}

#[test]
fn a_mime_and_its_content_type_mean_the_same() {
    for text in ["application/vnd.acme+json; v=2 ; charset=UTF-8", "text/plain;a=\"b c\"", "application/json ;"] {
        let declared = parse(text);
        let held = declared.mime().unwrap();
        assert_eq!(held.essence_str(), declared.essence().unwrap());
        assert_eq!(held.suffix().map(|suffix| suffix.as_str()), declared.suffix());
        for (name, value) in declared.parameters() {
            assert_eq!(held.get_param(name).unwrap().as_str(), value);
        }
        assert_eq!(ContentType::from(held.clone()), declared);
    }
}

#[test]
fn length_and_parameters_are_bounded() {
    let text = format!("text/{}", "x".repeat(250));
    assert_eq!((text.len(), why(&text)), (255, None));
    assert_eq!(why(&format!("{text}x")), Some(Why::TooLong));
    assert_eq!(why(&format!("text/plain{}", ";a=1".repeat(10_000))), Some(Why::TooLong));
    assert_eq!(why(&"text/plain;".repeat(1 << 17)), Some(Why::TooLong));
    let parameters = |count: usize| {
        let list = ["", ";a=1", ";b=1", ";c=1", ";d=1", ";e=1", ";f=1", ";g=1", ";h=1", ";i=1"][..=count].concat();
        why(&format!("text/plain{list}"))
    };
    assert_eq!((parameters(8), parameters(9)), (None, Some(Why::TooManyParameters)));
    assert_eq!(why(&format!("text/plain{}", ";a=1".repeat(9))), Some(Why::TooManyParameters));
    for text in ["text/plain;a=\"", "text/plain;a=\"b", "text/plain;a=\"b\\\"", "text/plain;a=\"b\\"] {
        assert_eq!(why(text), Some(Why::UnclosedQuote), "{text}");
    }
}

#[test]
fn white_space_and_quotes() {
    assert_same("APPLICATION/JSON ; Charset=\"UTF-8\"", "application/json;charset=utf-8");
}

/// Attacks: 43.
#[test]
fn control_characters_are_malformed() {
    for text in [
        "text/plain\r\n;a=b",
        "\r\ntext/plain",
        "\0text/plain",
        "text/plain;a=\"\r\"",
        "text/plain;a=\u{7f}",
        "a/\u{1b}b",
    ] {
        assert_eq!(why(text), Some(Why::ControlCharacter), "{text:?}");
    }
    assert_eq!(parse("text/plain;a=\"\t\"").parameter("a"), Some("\t"));
}

/// Rules: P-145.
/// The table on the crate's page.
#[test]
fn differences_between_mime_and_content_type() {
    let mime = |text: &str| text.parse::<Mime>();
    for text in [
        "text/plain; charset=us-ascii (Plain text)",
        "text/plain ;charset=utf-8",
        "text/plain;\tcharset=utf-8",
        "text/plain;charset=utf-8\r\n",
        "text/plain ",
        "text/plain;;charset=utf-8",
        "text/plain;charset",
        "text/plain;a=\"\"",
        r#"text/plain;a="x\"y""#,
    ] {
        assert!(mime(text).is_err(), "{text:?}");
        assert_eq!(why(text), None, "{text:?}");
    }
    let empty = mime("text/plain;charset=").unwrap();
    assert_eq!(empty.get_param("charset").map(|value| value.as_str().to_owned()), Some(String::new()));
    let escaped = r#"text/plain;a="x\y""#;
    assert_eq!(mime(escaped).unwrap().get_param("a").unwrap().as_str(), r"x\y");
    assert_eq!(parse(escaped).parameter("a"), Some("xy"));
    let (quoted, plain) = ("text/plain;charset=\"UTF-8\"", "text/plain;charset=utf-8");
    assert_ne!(mime(quoted).unwrap().to_string(), mime(plain).unwrap().to_string());
    assert_same(quoted, plain);
    for text in ["*/*", "application/*", "application/+json", &format!("text/plain{}", ";a=1".repeat(100_000))] {
        assert!(mime(text).is_ok() && parse(text).is_malformed());
    }
}

/// Rules: P-144.
#[test]
fn a_mime_sets_compares_and_converts() {
    let json = ContentType::from(mime::APPLICATION_JSON);
    assert_eq!(json, mime::APPLICATION_JSON);
    assert_eq!(mime::APPLICATION_JSON, json);
    assert!(parse("Text/Plain; charset=\"UTF-8\"") == mime::TEXT_PLAIN_UTF_8);
    assert!(json != mime::TEXT_PLAIN && parse("*/*") != mime::STAR_STAR);
    assert_eq!(ContentType::from(&mime::TEXT_PLAIN_UTF_8).mime(), Some(&mime::TEXT_PLAIN_UTF_8));

    assert_eq!(std::borrow::Cow::from(parse("A/b ;c=d")), "A/b ;c=d");

    let codecs = Codecs::builder()
        .with(Json::default())
        .with(MessagePack)
        .allow([mime::APPLICATION_JSON, mime::TEXT_STAR, mime::APPLICATION_MSGPACK])
        .build()
        .unwrap();
    assert_eq!(codecs.codec_for(mime::APPLICATION_JSON), Some("json"));
    assert_eq!(codecs.encode_as(&7, mime::APPLICATION_MSGPACK).unwrap().content_type, "application/msgpack");
    assert_eq!(codecs.decode::<u8>(Some(mime::APPLICATION_JSON.as_ref()), b"7").unwrap(), 7);
    assert_eq!(codecs.decode::<u8>(Some("image/png"), b"7").unwrap_err().reason().code(), "ContentTypeNotAllowed");
}

/// Rules: P-140.
#[test]
fn comments_count_as_white_space() {
    for text in [
        "text/plain; charset=us-ascii (Plain text)",
        "text/plain; charset=us-ascii(Plain text)",
        "(a) text/plain (b) ; (c) charset=us-ascii (d) (e)",
        "text/plain; charset=us-ascii (a (b (c) d) e)",
        r"text/plain; charset=us-ascii (\) \( \\)",
        "text/plain (a;b=c, \"d); charset=us-ascii",
        "text/plain; (\u{e9}\u{1F600}) charset=us-ascii ()",
        "text/plain;(a);(b)charset=us-ascii;(c)",
    ] {
        assert_eq!(why(text), None, "{text}");
        assert_same(text, "text/plain;charset=us-ascii");
        assert_eq!(parse(text).to_string(), "text/plain;charset=us-ascii");
    }
    // In a quoted value it is text.
    assert_eq!(parse("text/plain;a=\"(b)\"").parameter("a"), Some("(b)"));
    for text in ["text/plain (", "text/plain ((a)", r"text/plain (\)", "text/plain;a=1 (b", "(", &"(".repeat(255)] {
        assert_eq!(why(text), Some(Why::UnclosedComment), "{text}");
    }
    for (text, reason) in [
        ("()", Why::MissingSlash),
        ("text/pl(a)ain", Why::InvalidName),
        ("text/(a)plain", Why::InvalidName),
        ("text/plain)", Why::InvalidName),
        ("text/plain (a) b", Why::InvalidName),
        ("text/plain;a=(b)c", Why::InvalidParameter),
        ("text/plain;a=b (c) d", Why::InvalidParameter),
        ("text/plain;a=b)", Why::InvalidParameter),
        ("text/plain (\r)", Why::ControlCharacter),
    ] {
        assert_eq!(why(text), Some(reason), "{text}");
    }
    let nested = format!("text/plain {}{}", "(".repeat(120), ")".repeat(120));
    assert_eq!((why(&nested), nested.len()), (None, 251));
}

/// Rules: P-141.
#[test]
fn a_quoted_value_may_be_outside_of_ascii() {
    for character in ('\u{80}'..='\u{ff}').chain(['\u{1F600}']) {
        let text = format!("text/plain;name=\"a{character}\\{character}\"");
        let declared = parse(&text);
        assert_eq!(declared.parameter("name"), Some(&*format!("a{character}{character}")), "{text:?}");
        assert_eq!(parse(&declared.to_string()), declared);
        assert!(format!("{declared:?}").is_ascii());
    }
    assert_eq!(parse("text/plain;name=\"\u{e9}\"").mime().unwrap().get_param("name").unwrap().as_str(), "\u{e9}");
    for text in ["text/plain;a=\u{e9}", "text/plain;\u{e9}=a", "text/plain;a=b\u{e9}", "text/pl\u{e9}in;a=\"b\""] {
        assert_eq!(why(text), Some(Why::NotAscii), "{text}");
    }
}

/// Rules: P-142.
#[test]
fn white_space_and_line_breaks_at_the_end_do_not_count() {
    for end in ["\r\n", "\n", " \t\r\n", "\r\n \r\n", ";\r\n"] {
        assert_same(&format!("text/plain;charset=utf-8{end}"), "text/plain;charset=utf-8");
    }
    // They count neither for the length of the text.
    let blanks = " ".repeat(300);
    assert_same(&format!("{blanks}application/json{blanks}"), "application/json");
    for text in [format!("application/json{blanks}"), format!("{blanks}application/json\r\n"), blanks.clone()] {
        assert_eq!(Codecs::json().decode::<u8>(Some(&text), b"7"), Ok(7));
    }
    for blank in ["\r\n", " \r\n", &blanks] {
        assert_eq!(why(blank), Some(Why::Empty));
        assert_eq!(Codecs::json().decode::<u8>(Some(blank), b"7"), Ok(7));
    }
}

/// Rules: P-143.
#[test]
fn a_parameter_without_a_value_is_ignored() {
    for text in [
        "text/plain; charset=",
        "text/plain; charset",
        "text/plain; charset=;;",
        "text/plain; charset; a ;b= ;; c=(d)",
        &format!("text/plain{}", ";a=".repeat(80)),
    ] {
        assert_same(text, "text/plain");
        assert!(!parse(text).has_duplicate_parameter(), "{text}");
    }
    let declared = parse("text/plain; charset=; charset=utf-16");
    assert_eq!((declared.charset(), declared.has_duplicate_parameter()), (Some("utf-16"), false));
    assert_eq!(parse("text/plain;a=\"\"").parameter("a"), Some(""));
}
