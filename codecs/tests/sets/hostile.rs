//! Texts that nobody should send.

use consign_codecs::{Codecs, Declared, Json, MessagePack, Policy};

fn codecs() -> Codecs<impl consign_codecs::CodecSet> {
    Codecs::builder().with(Json::default()).with(MessagePack).build().unwrap()
}

/// Attacks: 40.
#[test]
fn two_content_types_are_malformed() {
    for text in ["application/json, application/msgpack", "application/json;a=1, text/plain"] {
        let failure = codecs().decode::<u8>(Some(text), b"1").unwrap_err();
        assert_eq!((failure.declared(), failure.reason().code()), (Declared::Malformed, "MalformedContentType"));
    }
}

/// Attacks: 40.
#[test]
fn the_first_of_two_charsets_counts() {
    let read = |text| codecs().decode::<u8>(Some(text), b"\xff").map_err(|failure| failure.trail().to_string());
    assert_eq!(read("application/json;charset=utf-8;charset=utf-16"), Err("json;exact;Utf8;1:1".to_owned()));
    assert_eq!(read("application/json;charset=utf-16;charset=utf-8"), Err("json;exact;UnsupportedCharset;".to_owned()));
}

/// Attacks: 41.
#[test]
fn long_texts_are_malformed_and_cut() {
    let mebibyte = "application/json".repeat(1 << 16);
    let parameters = format!("application/json{}", ";a=1".repeat(10_000));
    for text in [&*mebibyte, &*parameters, "application/json;a=\"b"] {
        let failure = codecs().decode::<u8>(Some(text), b"1").unwrap_err();
        assert_eq!((failure.declared(), failure.reason().code()), (Declared::Malformed, "MalformedContentType"));
        assert!(failure.to_string().len() < 200, "{failure}");
        assert!(format!("{failure:?}").len() < 400);
    }
    let blank = " ".repeat(1 << 20);
    assert_eq!(codecs().decode::<u8>(Some(&blank), b"1").unwrap(), 1);
}

/// Attacks: 42.
#[test]
fn white_space_case_and_quotes() {
    for text in ["APPLICATION/JSON ; Charset=\"UTF-8\"", " application/json", "application/json\t", "application/json;"]
    {
        assert_eq!(codecs().decode::<u8>(Some(text), b"1").unwrap(), 1, "{text}");
    }
}

/// Attacks: 43.
#[test]
fn control_characters_never_reach_a_description() {
    for text in ["application/json\r\nx-evil: 1", "application/json\0", "text/\u{1b}[31m", "text/\u{202e}nosj"] {
        let failure = codecs().decode::<u8>(Some(text), b"1").unwrap_err();
        assert_eq!(failure.declared(), Declared::Malformed);
        for said in [failure.to_string(), format!("{failure:?}")] {
            assert!(said.chars().all(|character| matches!(character, ' '..='~')), "{said:?}");
        }
    }
    let failure = codecs().decode::<u8>(Some("application/json\r\nx"), b"1").unwrap_err();
    assert_eq!(
        failure.to_string(),
        "the ContentType `application/json\\r\\nx` is malformed: it has a control character"
    );
}

#[test]
fn a_part_of_a_name_is_no_match() {
    for text in
        ["application/jsonp", "application/x-jsons", "xapplication/json", "application/json-seq", "application/jso"]
    {
        let failure = codecs().decode::<u8>(Some(text), b"1").unwrap_err();
        assert_eq!((failure.declared(), failure.attempts().len()), (Declared::Unknown, 0), "{text}");
    }
}

/// Attacks: 38.
#[test]
fn missing_can_be_refused() {
    let codecs = Codecs::builder().with(Json::default()).on_missing(Policy::Reject).build().unwrap();
    let failure = codecs.decode::<u8>(None, b"1").unwrap_err();
    assert_eq!((failure.declared(), failure.reason().code()), (Declared::Missing, "UnsupportedContentType"));
}

#[test]
fn no_byte_of_the_body_is_said() {
    const CANARY: &str = "c4n4ry-7f3a";
    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code, reason = "never read")]
    enum Colour {
        Red,
    }
    let codecs =
        Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json", "msgpack"]).build().unwrap();
    let bodies = [format!("\"{CANARY}\""), format!("{{\"{CANARY}\":1}}"), CANARY.to_owned(), format!("\u{ab}{CANARY}")];
    for body in &bodies {
        for declared in [None, Some("application/json"), Some("application/msgpack"), Some("x")] {
            let failure = codecs.decode::<Colour>(declared, body.as_bytes()).unwrap_err();
            for said in [failure.to_string(), format!("{failure:?}"), failure.trail().to_string()] {
                assert!(!said.contains("c4n4ry"), "{said}");
            }
        }
    }
}
