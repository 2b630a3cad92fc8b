use bytes::BytesMut;
use consign_codecs::{
    Chosen, CodecSet, Codecs, Declared, Decode, DecodeErrorKind, DecodeOwned, EncodeErrorKind, Json, Limits,
    MessagePack, Policy, Protobuf,
};

use crate::support::told;

fn read_owned<T: DecodeOwned, S: CodecSet>(codecs: &Codecs<S>, declared: Option<&str>, body: &[u8]) -> Option<T> {
    let copy = body.to_vec();
    codecs.decode(declared, &copy).ok()
}

fn message() -> BytesMut {
    let mut body = BytesMut::new();
    Protobuf("hello".to_owned()).write(&mut body).unwrap();
    body
}

/// Rules: P-38.
#[test]
fn protobuf_types_carry_their_own_format() {
    let codecs = Codecs::json();
    for (declared, chosen) in [
        (None, Chosen::Default),
        (Some(" "), Chosen::Default),
        (Some("application/protobuf"), Chosen::Exact),
        (Some("Application/Protobuf; messageType=\"x.Y\""), Chosen::Exact),
        (Some("application/x-protobuf"), Chosen::Alias),
    ] {
        let body = message();
        let decoded = codecs.decode_traced::<Protobuf<String>>(declared, &body).unwrap();
        assert_eq!((decoded.value.0.as_str(), decoded.by, decoded.chosen), ("hello", "protobuf", chosen));
    }
    let read: Option<Protobuf<String>> = read_owned(&codecs, None, &message());
    assert_eq!(read, Some(Protobuf("hello".to_owned())));
}

#[test]
fn another_type_is_not_supported() {
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json"]).build().unwrap();
    let fail = |declared| codecs.decode::<Protobuf<String>>(Some(declared), &message()).unwrap_err();
    assert_eq!(fail("application/json").declared(), Declared::Known);
    assert_eq!(told(&fail("application/json")), (String::new(), "UnsupportedContentType"));
    assert_eq!(told(&fail("application/xml")), (String::new(), "UnsupportedContentType"));
    assert_eq!(told(&fail("protobuf")), (String::new(), "MalformedContentType"));
    // `on_unknown` does not apply, so it is not advised.
    let said = "the type has a format of its own, which does not read the ContentType";
    for declared in ["application/octet-stream", "application/json"] {
        let text = fail(declared).to_string();
        assert_eq!(
            text,
            format!(
                "{said} `{declared}`: expected application/protobuf, application/x-protobuf, application/vnd.google.protobuf"
            )
        );
    }
}

#[test]
fn the_rules_of_the_set_hold() {
    let set = || Codecs::builder().with(Json::default());
    let fail =
        |codecs: Codecs<_>, declared| told(&codecs.decode::<Protobuf<String>>(declared, &message()).unwrap_err());
    let listed = set().allow(["application/json"]).build().unwrap();
    assert_eq!(fail(listed, Some("application/protobuf")), (String::new(), "ContentTypeNotAllowed"));
    let strict = set().on_missing(Policy::Reject).build().unwrap();
    assert_eq!(fail(strict, None), (String::new(), "UnsupportedContentType"));
    let small = set().limits(Limits::default().bytes(3)).build().unwrap();
    assert_eq!(fail(small, Some("application/protobuf")), ("protobuf;exact;Size;".to_owned(), "LimitExceeded"));
    let allowed = set().allow(["application/protobuf"]).build().unwrap();
    assert!(allowed.decode::<Protobuf<String>>(Some("application/protobuf"), &message()).is_ok());
}

#[test]
fn bytes_that_are_no_message() {
    let failure = Codecs::json().decode::<Protobuf<String>>(Some("application/protobuf"), b"\x0a\x05a").unwrap_err();
    assert_eq!(failure.attempts()[0].error.kind(), DecodeErrorKind::Truncated);
    assert_eq!(failure.reason().code(), "DeserializationFailed");
}

#[test]
fn a_type_writes_its_own_format() {
    let codecs = Codecs::json();
    let value = Protobuf("hello".to_owned());
    let encoded = codecs.encode(&value).unwrap();
    assert_eq!((encoded.content_type, encoded.body), ("application/protobuf", message().freeze()));
    assert!(codecs.encode_as(&value, "application/protobuf;v=1").is_ok());
    for alias in ["application/x-protobuf", "Application/Vnd.Google.Protobuf"] {
        assert_eq!(codecs.encode_as(&value, alias).unwrap().content_type, "application/protobuf", "{alias}");
    }
    let error = codecs.encode_as(&value, "application/json").unwrap_err();
    assert_eq!(error.kind(), EncodeErrorKind::NoSuchMediaType);
}

#[test]
fn a_panic_in_a_type_is_a_failed_attempt() {
    struct Panics;
    impl<'de> Decode<'de> for Panics {
        fn decode_from<S: CodecSet>(
            codecs: &Codecs<S>,
            content_type: Option<&str>,
            body: &'de [u8],
        ) -> Result<consign_codecs::Decoded<Self>, consign_codecs::DecodeFailure> {
            const FORMAT: consign_codecs::OwnFormat = consign_codecs::OwnFormat::new("panics", &[]);
            codecs.decode_own(&FORMAT, content_type, body, |_, _| panic!("told to"))
        }
    }
    let failure = Codecs::json().decode::<Panics>(None, b"").err().unwrap();
    assert_eq!(told(&failure), ("panics;default;Panic;".to_owned(), "DeserializationFailed"));
}
