use consign_codecs::{
    Bincode, Codecs, DecodeErrorKind, DecodeFailure, FailureReason, Json, Limits, MessagePack, Of2, Of4, OneOf,
    Protobuf,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct V1 {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct V2 {
    first: String,
    last: String,
}

impl From<V1> for V2 {
    fn from(old: V1) -> Self {
        Self { first: String::new(), last: old.name }
    }
}

type Either = OneOf<(V2, V1)>;

fn lines(failure: &DecodeFailure) -> Vec<String> {
    failure.to_string().lines().map(str::to_owned).collect()
}

/// Rules: J-30.
#[test]
fn the_first_type_that_reads_the_body_is_the_value() {
    let codecs = Codecs::json();
    let new: Either = codecs.decode(None, br#"{"first":"Ada","last":"Lovelace"}"#).unwrap();
    assert_eq!(new.value, Of2::First(V2 { first: "Ada".into(), last: "Lovelace".into() }));
    assert!(new.refused.is_empty());

    let old: Either = codecs.decode(None, br#"{"name":"Lovelace"}"#).unwrap();
    assert_eq!(old.value, Of2::Second(V1 { name: "Lovelace".into() }));
    assert_eq!(old.refused.len(), 1);
    assert_eq!(old.refused[0].attempts()[0].error.kind(), DecodeErrorKind::Type);
    assert_eq!(old.into_first(), V2 { first: String::new(), last: "Lovelace".into() });

    let fourth: OneOf<(bool, V2, V1, Vec<u8>)> = codecs.decode(None, b"[1]").unwrap();
    assert_eq!((fourth.value, fourth.refused.len()), (Of4::Fourth(vec![1]), 3));
}

/// Rules: J-30.
#[test]
fn the_record_has_the_attempts_of_all_types_before() {
    let codecs =
        Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json", "msgpack"]).build().unwrap();
    let body = codecs.encode_with(&V1 { name: "Lovelace".into() }, "msgpack").unwrap().body;
    let decoded = codecs.decode_traced::<Either>(Some("application/json"), &body).unwrap();
    assert_eq!(decoded.by, "msgpack");
    // JSON and MessagePack as V2, then JSON as V1.
    let tried: Vec<_> = decoded.attempts.iter().map(|attempt| attempt.codec).collect();
    assert_eq!(tried, ["json", "msgpack", "json"]);
    assert_eq!(decoded.value.refused[0].attempts().len(), 2);
}

/// Rules: J-31.
#[test]
fn a_failure_of_all_says_which_type_did_not_read_it_and_why() {
    let failure = Codecs::json().decode::<Either>(None, br#"{"other":1}"#).unwrap_err();
    assert_eq!(failure.reason(), FailureReason::DeserializationFailed);
    let lines = lines(&failure);
    assert_eq!(lines.len(), 2);
    assert!(lines[0].contains("as type 1, unknown field, expected `first` or `last`"), "{lines:?}");
    assert!(lines[1].contains("as type 2, unknown field, expected `name`"), "{lines:?}");
    assert_eq!(failure.trail().entries().len(), 2);
}

/// Rules: J-32.
#[test]
fn a_failure_that_is_the_same_for_all_types_is_tried_once() {
    let codecs = Codecs::json();
    let failure = codecs.decode::<Either>(Some("text/csv"), b"a,b").unwrap_err();
    assert_eq!((failure.reason(), failure.attempts().len()), (FailureReason::UnsupportedContentType, 0));
    let deep = "[".repeat(1_000);
    let failure = codecs.decode::<Either>(None, deep.as_bytes()).unwrap_err();
    assert_eq!((failure.reason(), failure.attempts().len()), (FailureReason::LimitExceeded, 1));
}

/// Rules: J-30, J-32.
#[test]
fn a_type_with_a_format_of_its_own_leaves_other_content_types_to_the_next() {
    let codecs = Codecs::json();
    let read: OneOf<(Protobuf<String>, V1)> =
        codecs.decode(Some("application/json"), br#"{"name":"Lovelace"}"#).unwrap();
    assert_eq!(read.value, Of2::Second(V1 { name: "Lovelace".into() }));
    assert_eq!(read.refused[0].reason(), FailureReason::UnsupportedContentType);
    let failure = codecs.decode::<OneOf<(Protobuf<String>, V1)>>(Some("application/json"), b"{}").unwrap_err();
    assert_eq!((failure.reason(), failure.attempts().len()), (FailureReason::DeserializationFailed, 1));
}

/// Rules: J-32.
#[test]
fn a_length_of_a_positional_format_depends_on_the_type() {
    type Positional = OneOf<(Vec<String>, (u64, u64))>;
    let codecs = Codecs::builder().with(Bincode::fixint()).build().unwrap();
    // The first number as a count of elements is beyond the limit.
    let body = codecs.encode(&(u64::MAX, 7_u64)).unwrap().body;
    let read: Positional = codecs.decode(Some("application/x-bincode"), &body).unwrap();
    assert_eq!(read.value, Of2::Second((u64::MAX, 7)));
    assert_eq!(read.refused[0].reason(), FailureReason::LimitExceeded);
    // The size of a body does not depend on the type.
    let small = Codecs::builder().with(Bincode::fixint()).limits(Limits::default().bytes(3)).build().unwrap();
    let failure = small.decode::<Positional>(Some("application/x-bincode"), &body).unwrap_err();
    assert_eq!((failure.reason(), failure.attempts().len()), (FailureReason::LimitExceeded, 1));
}
