use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use consign_codecs::{ContentType, MalformedContentType as Why};

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

#[test]
fn p_01_a_type_and_a_subtype() {
    let json = parse("application/json");
    assert_eq!(json.essence(), Some("application/json"));
    assert_eq!((json.suffix(), json.charset(), json.parameters().count()), (None, None, 0));
    assert_eq!(json.mime(), Some(&mime::APPLICATION_JSON));
}

#[test]
fn p_02_names_and_charsets_compare_without_case() {
    assert_same("Application/JSON; Charset=UTF-8", "application/json;charset=utf-8");
    assert_same("text/plain;A=1", "text/plain;a=1");
    assert_same("text/plain;a=1;b=2", "text/plain; b=2; a=1");
    for other in ["text/plain;a=x", "text/plain", "text/plain;a=X;b=1", "text/plain;b=X", "text/html;a=X"] {
        assert_ne!(parse("text/plain;a=X"), parse(other), "{other}");
    }
}

#[test]
fn p_03_quotes_do_not_count() {
    assert_same("application/json;charset=\"utf-8\"", "application/json;charset=utf-8");
    assert_eq!(parse("application/json;charset=\"Utf-8\"").charset(), Some("utf-8"));
}

#[test]
fn p_04_values_are_unescaped() {
    let quote = parse(r#"text/plain; a="x\"y""#);
    assert_eq!(quote.parameter("A"), Some("x\"y"));
    assert_eq!(quote.to_string(), r#"text/plain;a="x\"y""#);
    assert_eq!(quote.mime(), None);
    let backslash = parse(r#"text/plain; a="x\\y""#);
    assert_eq!(backslash.parameter("a"), Some(r"x\y"));
    assert_eq!(parse(r#"text/plain; a="""#).parameter("a"), Some(""));
    assert_eq!(parse(r#"text/plain; a="b;c=d""#).parameter("a"), Some("b;c=d"));
}

#[test]
fn p_05_the_suffix() {
    let declared = parse("application/vnd.Acme.order+JSON;v=2");
    assert_eq!(declared.suffix(), Some("json"));
    assert_eq!(declared.essence(), Some("application/vnd.acme.order+json"));
    assert_eq!(declared.parameter("v"), Some("2"));
    assert_eq!(parse("a/b+c+d").suffix(), Some("d"));
    assert_eq!(parse("a+b/c").suffix(), None);
    assert_eq!(parse(r#"application/vnd.x+json; profile="a;b=c""#).suffix(), Some("json"));
}

#[test]
fn p_06_empty_parameters_are_read_and_never_written() {
    for text in ["application/json;", "application/json ; ;", "application/json;; ; "] {
        assert_eq!(parse(text).to_string(), "application/json", "{text}");
    }
    assert_same("text/plain;;charset=utf-8", "text/plain;charset=utf-8");
}

#[test]
fn p_07_malformed_is_kept() {
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
        ("text/plain (comment)", Why::InvalidName),
        ("text/pl\u{e4}in", Why::NotAscii),
        ("text/plain;a=\"\u{e4}\"", Why::NotAscii),
        ("text/plain; charset = utf-8", Why::InvalidParameter),
        ("text/plain; charset =utf-8", Why::InvalidParameter),
        ("text/plain; charset= utf-8", Why::InvalidParameter),
        ("text/plain; charset=", Why::InvalidParameter),
        ("text/plain; charset", Why::InvalidParameter),
        ("text/plain; =utf-8", Why::InvalidParameter),
        ("text/plain; a=1 b=2", Why::InvalidParameter),
        ("text/plain; a=\"1\"2", Why::InvalidParameter),
        ("text/plain; a=1 (comment)", Why::InvalidParameter),
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

#[test]
fn p_08_a_wildcard_names_no_type() {
    for text in ["*/*", "application/*", "*/json", "text/* ; charset=utf-8"] {
        assert_eq!(why(text), Some(Why::Wildcard), "{text}");
    }
}

#[test]
fn p_09_the_first_of_two_parameters_counts() {
    let declared = parse("text/plain;charset=utf-16;Charset=utf-8;a=1");
    assert_eq!(declared.charset(), Some("utf-16"));
    assert!(declared.has_duplicate_parameter());
    assert!(!parse("text/plain;charset=utf-8;a=1").has_duplicate_parameter());
    assert_eq!(declared.to_string(), "text/plain;charset=utf-16;a=1");
}

#[test]
fn p_10_the_written_form() {
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
fn what_mime_holds_means_the_same() {
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
fn e_5_length_and_parameters_are_bounded() {
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
fn e_6_white_space_and_quotes() {
    assert_same("APPLICATION/JSON ; Charset=\"UTF-8\"", "application/json;charset=utf-8");
}

#[test]
fn e_7_control_characters_are_malformed() {
    for text in
        ["text/plain\r\n", "text/plain\n", "\0text/plain", "text/plain;a=\"\r\"", "text/plain;a=\u{7f}", "a/\u{1b}b"]
    {
        assert_eq!(why(text), Some(Why::ControlCharacter), "{text:?}");
    }
    assert_eq!(parse("text/plain;a=\"\t\"").parameter("a"), Some("\t"));
}
