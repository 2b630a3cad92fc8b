//! What is between a body and its codec: other members of the set, the text of the ContentType, attempts that fail, types
//! that are not known where the codec is.

use std::hint::black_box;

use bytes::BytesMut;
use consign::{
    Message, MessageExt,
    codecs::{
        Bincode, Cbor, CodecSet, Codecs, DecodeContext, DecodeError, DecodeErrorKind, DecodeFailure, EncodeError,
        EncodeErrorKind, Format, Json, MediaType, MessagePack, Plugin, PluginCodec, Postcard, Raw as RawBytes, Text,
        Visit,
    },
};
use erased_serde::Deserializer;
use serde::{Deserialize, Serialize};

use crate::{
    Suite,
    formats::{BincodeCrate, Cbor4ii, JsonCrate, Raw, RmpSerde},
    orders::{Order, Two, order, two},
};

const JSON: &str = "application/json";

pub(crate) fn add(suite: &mut Suite) {
    members(suite);
    declared(suite);
    message(suite, "two", &two());
    message(suite, "1k", &order());
    chain(suite, "two", &two());
    chain(suite, "1k", &order());
    failed(suite);
    erased(suite, "two", &two());
    erased(suite, "1k", &order());
}

/// Reads JSON, declared as `content_type`.
fn reads<T: for<'de> Deserialize<'de> + Serialize>(
    suite: &mut Suite,
    name: impl Into<String>,
    codecs: Codecs<impl CodecSet>,
    content_type: Option<&'static str>,
    value: &T,
) {
    let body = JsonCrate::write(value);
    suite.add(name, move || -> T { codecs.decode(black_box(content_type), black_box(&body)).expect("JSON") });
}

/// The same work by the crate.
fn raw<R: Raw, T: for<'de> Deserialize<'de> + Serialize>(suite: &mut Suite, name: impl Into<String>, value: &T) {
    let body = R::write(value);
    suite.add(name, move || -> T { R::read(black_box(&body)).expect("written by its crate") });
}

/// Sets of 1, 4 and 8 members, of which JSON is the last.
fn members(suite: &mut Suite) {
    let one = || Codecs::builder().with(Json::default()).build().expect("one codec");
    let four = || {
        let three = Codecs::builder().with(MessagePack).with(Cbor).with(Postcard);
        three.with(Json::default()).build().expect("four codecs")
    };
    let eight = || {
        let three = Codecs::builder().with(MessagePack).with(Cbor).with(Postcard);
        let seven = three.with(Bincode::fixint()).with(Text).with(RawBytes).with(Plugin::new(Brought));
        seven.with(Json::default()).build().expect("eight codecs")
    };
    reads(suite, "json/two/set_1/ours", one(), Some(JSON), &two());
    reads(suite, "json/two/set_4/ours", four(), Some(JSON), &two());
    reads(suite, "json/two/set_8/ours", eight(), Some(JSON), &two());
    reads(suite, "json/1k/set_1/ours", one(), Some(JSON), &order());
    reads(suite, "json/1k/set_4/ours", four(), Some(JSON), &order());
    reads(suite, "json/1k/set_8/ours", eight(), Some(JSON), &order());
    for members in [1, 4, 8] {
        raw::<JsonCrate, Two>(suite, format!("json/two/set_{members}/raw"), &two());
        raw::<JsonCrate, Order>(suite, format!("json/1k/set_{members}/raw"), &order());
    }
}

/// Texts that are not a codec's own, byte for byte.
fn declared(suite: &mut Suite) {
    let texts = [
        ("parameter", Some("application/json; charset=utf-8")),
        ("suffix", Some("application/vnd.acme.order+json")),
        ("missing", None),
    ];
    for (work, content_type) in texts {
        reads(suite, format!("json/two/{work}/ours"), Codecs::json(), content_type, &two());
        raw::<JsonCrate, Two>(suite, format!("json/two/{work}/raw"), &two());
    }
}

/// Out of a message.
fn message<T: for<'de> Deserialize<'de> + Serialize>(suite: &mut Suite, size: &str, value: &T) {
    let codecs = Codecs::json();
    let message = Message::builder().content_type(JSON).build(JsonCrate::write(value)).expect("a valid message");
    suite.add(format!("json/{size}/message/ours"), move || -> T { black_box(&message).decode(&codecs).expect("JSON") });
    raw::<JsonCrate, T>(suite, format!("json/{size}/message/raw"), value);
}

/// Declared as JSON, and of the second or the third format of the chain.
fn chain<T: for<'de> Deserialize<'de> + Serialize>(suite: &mut Suite, size: &str, value: &T) {
    let three = || {
        let three = Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor);
        three.fallback(["json", "msgpack", "cbor"]).build().expect("three codecs")
    };
    let (codecs, body) = (three(), RmpSerde::write(value));
    suite.add(format!("msgpack/{size}/second/ours"), move || -> T {
        codecs.decode(black_box(Some(JSON)), black_box(&body)).expect("MessagePack")
    });
    let body = RmpSerde::write(value);
    suite.add(format!("msgpack/{size}/second/raw"), move || -> T {
        JsonCrate::read(black_box(&body)).or_else(|| RmpSerde::read(&body)).expect("MessagePack")
    });
    let (codecs, body) = (three(), Cbor4ii::write(value));
    suite.add(format!("cbor/{size}/third/ours"), move || -> T {
        codecs.decode(black_box(Some(JSON)), black_box(&body)).expect("CBOR")
    });
    let body = Cbor4ii::write(value);
    suite.add(format!("cbor/{size}/third/raw"), move || -> T {
        let second = || RmpSerde::read(&body);
        JsonCrate::read(black_box(&body)).or_else(second).or_else(|| Cbor4ii::read(&body)).expect("CBOR")
    });
}

/// Bodies that no codec decodes: cut in half, of another format, and with the record written out for a dead letter.
fn failed(suite: &mut Suite) {
    let mut cut = JsonCrate::write(&order());
    cut.truncate(cut.len() / 2);
    refused::<JsonCrate>(suite, "json/1k/cut", JSON, cut.clone());
    refused::<JsonCrate>(suite, "json/1k/other", JSON, RmpSerde::write(&order()));
    let mut half = RmpSerde::write(&order());
    half.truncate(half.len() / 2);
    refused::<RmpSerde>(suite, "msgpack/1k/cut", "application/msgpack", half);
    refused::<RmpSerde>(suite, "msgpack/1k/other", "application/msgpack", JsonCrate::write(&order()));
    refused::<BincodeCrate>(suite, "bincode/1k/other", "application/x-bincode", JsonCrate::write(&order()));
    let codecs = Codecs::json();
    suite.add("json/1k/cut/ours_written", move || {
        let failure = codecs.decode::<Order>(black_box(Some(JSON)), black_box(&cut)).expect_err("half a body");
        (failure.to_string(), failure.trail().to_string())
    });
}

fn refused<R: Raw>(suite: &mut Suite, name: &str, content_type: &'static str, body: Vec<u8>) {
    let codecs = Codecs::builder().with(R::codec()).build().expect("one codec");
    let again = body.clone();
    suite.add(format!("{name}/ours"), move || {
        codecs.decode::<Order>(black_box(Some(content_type)), black_box(&again)).expect_err("no order")
    });
    suite.add(format!("{name}/raw"), move || {
        assert!(R::read::<Order>(black_box(&body)).is_none());
    });
}

/// A codec that is known at run time only, for every type (`plugin`) or for one (`per_type`).
fn erased<T: for<'de> Deserialize<'de> + Serialize + 'static>(suite: &mut Suite, size: &str, value: &T) {
    let plugin = Codecs::builder().with(Plugin::new(Brought)).build().expect("one codec");
    reads(suite, format!("json/{size}/plugin/ours"), plugin, Some("application/x-brought"), value);
    raw::<JsonCrate, T>(suite, format!("json/{size}/plugin/raw"), value);
    let body = JsonCrate::write(value);
    suite.add(format!("json/{size}/plugin/raw_erased"), move || -> T {
        let mut reader = serde_json::Deserializer::from_slice(black_box(&body));
        erased_serde::deserialize(&mut <dyn Deserializer<'_>>::erase(&mut reader)).expect("JSON")
    });
    let (body, reader) = (JsonCrate::write(value), per_type(Codecs::json()));
    suite.add(format!("json/{size}/per_type/ours"), move || -> T {
        black_box(&reader)(Some(black_box(JSON)), black_box(&body)).expect("JSON")
    });
    raw::<JsonCrate, T>(suite, format!("json/{size}/per_type/raw"), value);
}

type Reader<T> = Box<dyn Fn(Option<&str>, &[u8]) -> Result<T, DecodeFailure>>;

fn per_type<T: for<'de> Deserialize<'de>>(codecs: Codecs<impl CodecSet>) -> Reader<T> {
    Box::new(move |content_type, body| codecs.decode(content_type, body))
}

/// JSON, as a plug-in brings it.
struct Brought;

impl PluginCodec for Brought {
    fn name(&self) -> &'static str {
        "brought"
    }

    fn media_types(&self) -> &'static [MediaType] {
        const { &[MediaType::exact("application/x-brought")] }
    }

    fn format(&self) -> Format {
        Format::SelfDescribing
    }

    fn decode<'de>(&self, body: &'de [u8], _: &DecodeContext<'_>, visit: Visit<'_, 'de>) -> Result<(), DecodeError> {
        let mut reader = serde_json::Deserializer::from_slice(body);
        visit(&mut <dyn Deserializer<'_>>::erase(&mut reader))?;
        reader.end().map_err(|_| DecodeError::new(DecodeErrorKind::Trailing))
    }

    fn encode(&self, value: &dyn erased_serde::Serialize, out: &mut BytesMut) -> Result<(), EncodeError> {
        let written = serde_json::to_vec(value);
        out.extend_from_slice(&written.map_err(|error| EncodeError::new(EncodeErrorKind::Value).with_source(error))?);
        Ok(())
    }
}
