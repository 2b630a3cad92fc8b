use consign_codecs::{Bincode, Cbor, Codecs, Json, MessagePack, Policy, Postcard, Trail};

use crate::any::{Any, Order};

/// The most bytes of a trail's text: it is a property of a dead letter.
const LONGEST: usize = 4_096;

/// A text as the trail of a dead letter; then bytes as a body with a declared ContentType, by chains of codecs. The first byte is
/// the length of the ContentType.
///
/// # Panics
/// A failure has no reason, or its trail is not what its text says.
pub fn chain(data: &[u8]) {
    if let Some(read) = str::from_utf8(data).ok().and_then(|text| text.parse::<Trail>().ok()) {
        same_trail(&read);
    }
    let Some((length, rest)) = data.split_first() else { return };
    let (declared, body) = rest.split_at(usize::from(*length).min(rest.len()));
    let declared = str::from_utf8(declared).ok().filter(|declared| !declared.is_empty());
    let codecs = codecs(body);
    let failures = [codecs.decode::<Any>(declared, body).err(), codecs.decode::<Order>(declared, body).err()];
    for failure in failures.into_iter().flatten() {
        assert!(!failure.to_string().is_empty());
        assert!(!failure.reason().to_string().is_empty());
        same_trail(&failure.trail());
    }
    if let Ok(decoded) = codecs.decode_traced::<Order>(declared, body) {
        same_trail(&decoded.trail());
    }
}

fn same_trail(trail: &Trail) {
    let text = trail.to_string();
    assert!(text.len() <= LONGEST, "{} bytes", text.len());
    let again: Trail = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(again.to_string(), text);
}

/// Two chains, by the length of the body.
fn codecs(data: &[u8]) -> Codecs<impl consign_codecs::CodecSet> {
    let all =
        Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).with(Bincode::default()).with(Postcard);
    let chain =
        if data.len().is_multiple_of(2) { &["json", "msgpack", "cbor"][..] } else { &["cbor", "json", "postcard"] };
    let all = all.fallback(chain.iter().copied()).allow_positional("postcard").on_failed(Policy::Chain);
    all.build().expect("the chain is allowed")
}
