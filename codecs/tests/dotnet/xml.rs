use consign_codecs::{Codec, ContentType, DataContractXml, DecodeContext, DecodeErrorKind as Kind, Limits, Position};
use serde::{Deserialize, de::IgnoredAny};

use crate::support::{CONTRACT, SERIALIZATION, text};

fn string(inside: &str) -> String {
    format!("<string xmlns=\"{SERIALIZATION}\">{inside}</string>")
}

/// Rules: P-60.
#[test]
fn references_sections_and_comments_are_read_as_their_text() {
    for (inside, expected) in [
        ("&lt;&gt;&amp;&quot;&apos;", "<>&\"'"),
        ("&#65;&#x42;&#x1F600;", "AB\u{1f600}"),
        ("a<![CDATA[<b> & ]]>c", "a<b> & c"),
        ("a<!-- <b> -->b<?c d?>e", "abe"),
        ("a\r\nb\rc&#xD;", "a\nb\nc\r"),
        ("  ", "  "),
        (" a > b ", " a > b "),
        ("<![CDATA[]]>", ""),
    ] {
        assert_eq!(text::<String>(string(inside).as_bytes()).as_deref(), Ok(expected), "{inside}");
    }
}

/// Rules: P-60.
#[test]
fn prologs_marks_prefixes_and_quotes_are_read() {
    let inside = string("a");
    for body in [
        format!("\u{feff}{inside}"),
        format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n{inside}\n"),
        format!("<?xml version='1.0' encoding = 'US-ASCII' standalone='yes'?>{inside}"),
        format!("<!-- x --><?y z?> {inside} <!-- x -->"),
        format!("<s:string xmlns:s='{SERIALIZATION}' >a</s:string\n>"),
        format!("<s:string a:b='c' xmlns:a = \"urn:a\" xmlns:s='{SERIALIZATION}'>a</s:string>"),
    ] {
        assert_eq!(text::<String>(body.as_bytes()).as_deref(), Ok("a"), "{body}");
    }
}

/// Rules: P-60.
#[test]
fn text_outside_of_the_format_is_refused_with_its_place() {
    let rows: [(String, Kind, usize); 18] = [
        ("<!DOCTYPE a [<!ENTITY b \"c\">]>".to_owned() + &string("&b;"), Kind::Syntax, 1),
        ("a".to_owned() + &string(""), Kind::Syntax, 1),
        (string("") + "a", Kind::Trailing, 78),
        (string("") + &string(""), Kind::Trailing, 78),
        (string("&b;"), Kind::Syntax, 69),
        (string("&#xD800;"), Kind::Syntax, 69),
        (string("&#+5;"), Kind::Syntax, 69),
        (string("]]>"), Kind::Syntax, 69),
        (string("</a>"), Kind::Syntax, 69),
        (string("<a b></a>"), Kind::Syntax, 73),
        (string("<a b=c></a>"), Kind::Syntax, 74),
        (string("<a b=\"<\"></a>"), Kind::Syntax, 74),
        (string("<a b='1' b='2'/>"), Kind::Syntax, 78),
        (string("<a b='1'c='2'/>"), Kind::Syntax, 77),
        (string("<b:a/>"), Kind::Syntax, 69),
        (string("<1/>"), Kind::Syntax, 70),
        (string("<a/ >"), Kind::Syntax, 72),
        (string("<:a/>"), Kind::Syntax, 70),
    ];
    for (body, kind, column) in rows {
        let error = text::<IgnoredAny>(body.as_bytes()).unwrap_err();
        let expected = (kind, Some(Position::Text { line: 1, column }));
        assert_eq!((error.kind(), error.position()), expected, "{body}: {error}");
    }
    let error = text::<String>(b"<string xmlns=\"\xff").unwrap_err();
    assert_eq!((error.kind(), error.position()), (Kind::Utf8, Some(Position::Text { line: 1, column: 16 })));
    // A byte order mark is three bytes of its line.
    let error = text::<String>(b"\xef\xbb\xbf<string xmlns=\"\xff").unwrap_err();
    assert_eq!((error.kind(), error.position()), (Kind::Utf8, Some(Position::Text { line: 1, column: 19 })));
    let error = text::<IgnoredAny>(format!("\u{feff}{}", string("&b;")).as_bytes()).unwrap_err();
    assert_eq!(error.position(), Some(Position::Text { line: 1, column: 72 }));
}

/// Rules: P-60.
/// A `StringWriter` of .NET declares UTF-16, whatever encodes its text.
#[test]
fn the_encoding_of_the_declaration_has_no_effect_on_utf_8() {
    for encoding in ["utf-16", "iso-8859-1", "x"] {
        let body = format!("<?xml version=\"1.0\" encoding=\"{encoding}\"?>{}", string("\u{e9}"));
        assert_eq!(text::<String>(body.as_bytes()).as_deref(), Ok("\u{e9}"), "{encoding}");
    }
    let utf_16: Vec<_> = string("a").encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert!(text::<String>(&[b"\xfe\xff", &utf_16[..]].concat()).is_err());
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Order {
    id: u32,
    lines: Vec<Line>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    price: f64,
}

/// Rules: P-60.
#[test]
fn white_space_between_elements_is_ignored_and_text_is_refused() {
    let body = |between: &str| {
        format!(
            "<Order xmlns=\"{CONTRACT}\">\n  <Id> 7 </Id>\n  <Lines>\n    <Line><Price>1.5</Price></Line>{between}\n  \
             </Lines>\n</Order>"
        )
    };
    let order: Order = text(body("").as_bytes()).unwrap();
    assert!(order.id == 7 && order.lines[0].price > 1.0);
    let error = text::<Order>(body("x").as_bytes()).unwrap_err();
    assert_eq!(
        (error.kind(), error.detail(), error.path()),
        (Kind::Type, Some("text beside elements"), Some("Lines[1]"))
    );
    assert_eq!(error.position(), Some(Position::Text { line: 3, column: 3 }));
}

/// Rules: P-60.
#[test]
fn a_declared_charset_other_than_utf_8_is_refused() {
    let (limits, body) = (Limits::default(), string("a"));
    for (declared, is_read) in
        [("utf-8", true), ("US-ASCII", true), ("UTF8", true), ("utf-16", false), ("iso-8859-1", false)]
    {
        let content_type = ContentType::parse(&format!("application/xml;charset={declared}"));
        let cx = DecodeContext::new(&limits).with_content_type(&content_type);
        let read = DataContractXml::default().decode::<String>(body.as_bytes(), &cx);
        assert_eq!(read.is_ok(), is_read, "{declared}: {read:?}");
    }
}
