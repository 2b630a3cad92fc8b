use std::sync::{Arc, Mutex};

use consign_codecs::{
    Codec, Codecs, Decode, DecodeError, DecodeErrorKind, DecodeFailure, Decoded, MediaType, OwnFormat, Policy, Reading,
};

use crate::support::{A, B, C};

/// What an observer was told: declared, codec, decision, outcome, attempts.
type Told = (String, Option<&'static str>, &'static str, &'static str, usize);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Told>>>);

impl Log {
    fn observer(&self) -> impl Fn(&Reading<'_>) + Send + Sync + 'static {
        let log = self.clone();
        move |reading: &Reading<'_>| {
            let declared = format!("{:?}", reading.declared);
            let told = (declared, reading.codec, reading.decision(), reading.outcome(), reading.attempts.len());
            log.0.lock().unwrap().push(told);
        }
    }

    /// What it was told since the last time.
    fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Rules: O-20.
#[test]
fn every_decision_is_reported_once() {
    let log = Log::default();
    let codecs = Codecs::builder()
        .with(A.refuses())
        .with(B)
        .with(C)
        .fallback(["c"])
        .on_missing(Policy::Codec("b"))
        .on_unknown(Policy::Reject)
        .on_malformed(Policy::Reject)
        .observe(log.observer())
        .build()
        .unwrap();
    let b = B.content_type();
    for (text, traced, expected) in [
        (Some(b), false, ("Known", Some("b"), "exact", "ok", 0)),
        (Some(b), true, ("Known", Some("b"), "exact", "ok", 0)),
        (Some("text/a"), false, ("Known", Some("c"), "fallback", "ok", 1)),
        (Some("application/x+b"), true, ("Known", Some("b"), "suffix", "ok", 0)),
        (None, false, ("Missing", Some("b"), "default", "ok", 0)),
        (Some("image/png"), false, ("Unknown", None, "rejected", "UnsupportedContentType", 0)),
        (Some("x\u{1b}"), true, ("Malformed", None, "rejected", "MalformedContentType", 0)),
    ] {
        let result = if traced {
            codecs.decode_traced::<String>(text, b"").map(Decoded::into_value)
        } else {
            codecs.decode::<String>(text, b"")
        };
        assert_eq!(result.is_ok(), expected.3 == "ok", "{text:?}");
        let (declared, codec, decision, outcome, attempts) = expected;
        assert_eq!(log.take(), [(declared.into(), codec, decision, outcome, attempts)], "{text:?}");
    }
}

/// Rules: O-20.
#[test]
fn the_first_attempt_at_an_unreadable_body_is_reported() {
    let log = Log::default();
    let observer = log.observer();
    let codecs =
        Codecs::builder().with(A.refuses()).with(B.refuses()).fallback(["b"]).observe(observer).build().unwrap();
    codecs.decode::<String>(Some("text/a"), b"").unwrap_err();
    assert_eq!(log.take(), [("Known".into(), Some("a"), "alias", "DeserializationFailed", 2)]);
}

struct Own;

const OWN: OwnFormat = OwnFormat::new("own", &[MediaType::exact("application/x-own")]);

impl<'de> Decode<'de> for Own {
    fn decode_from<S: consign_codecs::CodecSet>(
        codecs: &Codecs<S>,
        content_type: Option<&str>,
        body: &'de [u8],
    ) -> Result<Decoded<Self>, DecodeFailure> {
        codecs.decode_own(&OWN, content_type, body, |body, _| match body {
            b"own" => Ok(Self),
            _ => Err(DecodeError::new(DecodeErrorKind::Type)),
        })
    }
}

/// Rules: O-20.
#[test]
fn a_type_with_its_own_format_is_reported_too() {
    let log = Log::default();
    let codecs = Codecs::builder().with(A).observe(log.observer()).build().unwrap();
    for (text, body, expected) in [
        (Some("application/x-own"), "own", ("Known", Some("own"), "exact", "ok", 0)),
        (Some("Application/X-Own"), "own", ("Known", Some("own"), "exact", "ok", 0)),
        (Some("application/x-own"), "", ("Known", Some("own"), "exact", "DeserializationFailed", 1)),
        (None, "own", ("Missing", Some("own"), "default", "ok", 0)),
        (Some("image/png"), "own", ("Unknown", None, "rejected", "UnsupportedContentType", 0)),
    ] {
        assert_eq!(codecs.decode::<Own>(text, body.as_bytes()).is_ok(), expected.3 == "ok", "{text:?}");
        let (declared, codec, decision, outcome, attempts) = expected;
        assert_eq!(log.take(), [(declared.into(), codec, decision, outcome, attempts)], "{text:?}");
    }
}
