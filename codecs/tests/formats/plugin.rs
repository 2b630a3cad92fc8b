use std::collections::BTreeMap;

use bytes::BytesMut;
use consign_codecs::{
    Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, Format, Limits, MediaType,
    Plugin, PluginCodec, ValueKind, Visit,
};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeSeed, IntoDeserializer, SeqAccess, value::SeqAccessDeserializer},
};
use serde_json::Value;

use crate::support::{Node, Order, on_a_small_stack, order};

/// JSON once more, as a plug-in would bring it, without any limit of its own.
struct Brought;

impl PluginCodec for Brought {
    fn name(&self) -> &'static str {
        "brought"
    }

    fn media_types(&self) -> &'static [MediaType] {
        const TYPES: &[MediaType] = &[MediaType::exact("application/x-brought")];
        TYPES
    }

    fn format(&self) -> Format {
        Format::SelfDescribing
    }

    fn decode<'de>(&self, body: &'de [u8], _: &DecodeContext<'_>, visit: Visit<'_, 'de>) -> Result<(), DecodeError> {
        let mut reader = serde_json::Deserializer::from_slice(body);
        visit(&mut <dyn erased_serde::Deserializer<'_>>::erase(&mut reader))?;
        reader.end().map_err(|_| DecodeError::new(DecodeErrorKind::Trailing))
    }

    fn encode(&self, value: &dyn erased_serde::Serialize, out: &mut BytesMut) -> Result<(), EncodeError> {
        let bytes =
            serde_json::to_vec(value).map_err(|error| EncodeError::new(EncodeErrorKind::Value).with_source(error))?;
        out.extend_from_slice(&bytes);
        Ok(())
    }
}

fn decode<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, DecodeError> {
    let limits = Limits::default();
    Plugin::new(Brought).decode(body, &DecodeContext::new(&limits))
}

fn encode<T: Serialize>(value: &T) -> BytesMut {
    let mut out = BytesMut::new();
    Plugin::new(Brought).encode(value, &mut out).unwrap();
    out
}

fn kind<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Option<DecodeErrorKind> {
    decode::<T>(body).err().map(|error| error.kind())
}

#[test]
fn a_plug_in_reads_what_it_writes() {
    assert_eq!(decode::<Order>(&encode(&order())), Ok(order()));
    assert_eq!(Plugin::new(Brought).content_type(), "application/x-brought");
    assert_eq!(format!("{:?}", Plugin::new(Brought)), "Plugin(\"brought\")");
}

#[test]
fn a_borrow_survives_a_plug_in() {
    let body = encode(&"text");
    let text: &str = decode(&body).unwrap();
    assert!(body.as_ptr_range().contains(&text.as_ptr()));
}

#[test]
fn a_plug_in_keeps_to_the_limits() {
    on_a_small_stack(|| {
        assert_eq!(kind::<Node>(&encode(&Node::chain(64))), None);
        assert_eq!(kind::<Node>(&encode(&Node::chain(65))), Some(DecodeErrorKind::Depth));
        assert_eq!(kind::<Value>(&encode(&vec![0_u8; 65_537])), Some(DecodeErrorKind::Count));
        let limits = Limits::default().bytes(1);
        let over = Plugin::new(Brought).decode::<Value>(b"[]", &DecodeContext::new(&limits));
        assert_eq!(over.unwrap_err().kind(), DecodeErrorKind::Size);
    });
}

/// Lists that declare three elements more than they have.
struct Hinted {
    left: usize,
    levels: usize,
}

impl<'de> SeqAccess<'de> for Hinted {
    type Error = serde::de::value::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Self::Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        match self.levels.checked_sub(1) {
            Some(levels) => seed.deserialize(SeqAccessDeserializer::new(Self { left: 1, levels })).map(Some),
            None => seed.deserialize(7_u8.into_deserializer()).map(Some),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left + 3)
    }
}

struct Hints;

impl PluginCodec for Hints {
    fn name(&self) -> &'static str {
        "hints"
    }

    fn media_types(&self) -> &'static [MediaType] {
        &[]
    }

    fn format(&self) -> Format {
        Format::SelfDescribing
    }

    fn decode<'de>(&self, _: &'de [u8], _: &DecodeContext<'_>, visit: Visit<'_, 'de>) -> Result<(), DecodeError> {
        let reader = SeqAccessDeserializer::new(Hinted { left: 3, levels: 1 });
        visit(&mut <dyn erased_serde::Deserializer<'_>>::erase(reader))
    }

    fn encode(&self, _: &dyn erased_serde::Serialize, _: &mut BytesMut) -> Result<(), EncodeError> {
        Err(EncodeError::new(EncodeErrorKind::Value))
    }
}

/// Declared elements count when a list begins, and those that did not come are free again when it ends.
#[test]
fn elements_that_a_plug_in_declares_and_does_not_have_count_while_their_list_is_read() {
    let read = |elements| {
        let limits = Limits::default().elements(elements);
        let read = Plugin::new(Hints).decode::<Vec<Vec<u8>>>(b"body", &DecodeContext::new(&limits));
        read.map_err(|error| error.kind())
    };
    assert_eq!(read(12), Ok(vec![vec![7]; 3]));
    assert_eq!(read(11), Err(DecodeErrorKind::Count));
}

#[test]
fn a_plug_in_quotes_nothing_and_reads_the_whole_body() {
    let error = decode::<u32>(b"\"CANARY\"").unwrap_err();
    assert_eq!(error.kind(), DecodeErrorKind::Type);
    assert_eq!((error.expected(), error.found(), error.detail()), (Some("u32"), Some(ValueKind::Text), None));
    let error = decode::<BTreeMap<String, Vec<u32>>>(b"{\"CANARY\":[1,\"CANARY\"]}").unwrap_err();
    assert_eq!((error.path(), error.expected()), (Some("{0}[1]"), Some("u32")));
    assert!(!format!("{error} {error:?}").contains("CANARY"));
    assert_eq!(kind::<u32>(b"1 CANARY"), Some(DecodeErrorKind::Trailing));
    assert_eq!(kind::<u32>(b""), Some(DecodeErrorKind::EmptyBody));
}
