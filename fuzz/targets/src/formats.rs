use std::{fmt::Debug, sync::LazyLock};

use bytes::BytesMut;
use consign_codecs::{
    Avro, AvroSchema, Bincode, Cbor, Codec, DataContractBinary, DataContractXml, DecodeContext, DecodeError, Json,
    Limits, MessagePack, Postcard,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::any::{Any, Order};

const SCHEMA: &str = r#"{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "change", "type": "int"}, {"name": "sku", "type": "string"},
    {"name": "note", "type": ["null", "string"]},
    {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
        {"name": "count", "type": "int"}, {"name": "is_gift", "type": "boolean"}]}}},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["Open"]}}]}"#;

static AVRO: LazyLock<Avro> = LazyLock::new(|| Avro::new(AvroSchema::parse(SCHEMA).expect("it is a schema")));

/// Decodes bytes by one of the codecs, as any value and as a struct. The first byte chooses the codec.
///
/// # Panics
/// What is decoded exceeds a limit, is decoded again as something else, or differs from what `serde_json` or `rmp-serde` reads.
pub fn formats(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    let limits = match choice >> 6 {
        0 => Limits::default().depth(8).elements(64),
        _ => Limits::default(),
    };
    match choice & 0x0f {
        0 => described(&Json::default(), body, &limits, |body| serde_json::from_slice(body).ok()),
        1 => described(&Json::strict(), body, &limits, |body| serde_json::from_slice(body).ok()),
        2 => described(&MessagePack, body, &limits, |body| rmp_serde::from_slice(body).ok()),
        3 => described(&Cbor, body, &limits, |_| None),
        4 => same_again::<Order>(&Bincode::fixint(), body, &limits),
        10 => same_again::<Order>(&Bincode::varint(), body, &limits),
        5 => same_again::<Order>(&Postcard, body, &limits),
        6 => drop(decoded::<Order>(&*AVRO, body, &limits)),
        7 => contents(&DataContractBinary::default(), body, &limits, |body, limits| {
            DataContractBinary::contents(body, limits).err()
        }),
        8 => contents(&DataContractXml::default(), body, &limits, |body, limits| {
            DataContractXml::contents(body, limits).err()
        }),
        9 => schema(body),
        _ => {}
    }
}

/// The value of the whole body, or an error that says something.
fn decoded<T: DeserializeOwned>(codec: &impl Codec, body: &[u8], limits: &Limits) -> Option<T> {
    let refused = match codec.decode::<T>(body, &DecodeContext::new(limits)) {
        Ok(value) => return Some(value),
        Err(refused) => refused,
    };
    assert!(!refused.to_string().is_empty());
    None
}

fn described(codec: &impl Codec, body: &[u8], limits: &Limits, reference: impl Fn(&[u8]) -> Option<Any>) {
    if let Some(value) = decoded::<Any>(codec, body, limits) {
        assert!(value.depth() <= limits.depth, "{}: {} levels", codec.name(), value.depth());
        assert!(value.elements() <= limits.elements, "{}: {} elements", codec.name(), value.elements());
        if let Some(theirs) = reference(body) {
            assert!(value.same(&theirs), "{}: {value:?} instead of {theirs:?}", codec.name());
        }
        let mut out = BytesMut::new();
        // A key of a map of JSON is text.
        if codec.encode(&value, &mut out).is_ok() {
            let again = decoded::<Any>(codec, &out, &Limits::default().depth(Limits::MAX_DEPTH));
            let is_same = again.as_ref().is_some_and(|again| again.same(&value));
            // What is not a number has no JSON.
            assert!(
                is_same || format!("{value:?}").contains("NaN") || format!("{value:?}").contains("inf"),
                "{again:?}"
            );
        }
    }
    same_again::<Order>(codec, body, limits);
}

fn same_again<T: DeserializeOwned + Serialize + PartialEq + Debug>(codec: &impl Codec, body: &[u8], limits: &Limits) {
    let Some(value) = decoded::<T>(codec, body, limits) else { return };
    let mut out = BytesMut::new();
    codec.encode(&value, &mut out).expect("what is decoded is encoded");
    assert_eq!(decoded::<T>(codec, &out, &Limits::default()), Some(value), "{}", codec.name());
}

/// Bodies of .NET, which are read only.
fn contents(
    codec: &impl Codec,
    body: &[u8],
    limits: &Limits,
    contents: impl Fn(&[u8], &Limits) -> Option<DecodeError>,
) {
    drop(decoded::<Any>(codec, body, limits));
    drop(decoded::<Order>(codec, body, limits));
    assert!(contents(body, limits).is_none_or(|refused| !refused.to_string().is_empty()));
}

/// A schema of Avro, which the user has from somewhere else.
fn schema(text: &[u8]) {
    let Ok(text) = str::from_utf8(text) else { return };
    if let Err(refused) = AvroSchema::parse(text) {
        assert!(!refused.to_string().is_empty());
    }
}
