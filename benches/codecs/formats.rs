//! Each format against its own crate.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use consign::codecs::{
    Bincode, Cbor, Codec, Codecs, DecodeContext, Json, Limits, MessagePack, Postcard, Protobuf, Raw as RawBytes, Text,
};
use prost::Message;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::{
    Suite,
    orders::{Order, OrderRef, Two, order, two},
};

/// A format as its own crate has it.
pub(crate) trait Raw {
    const NAME: &'static str;

    fn codec() -> impl Codec + Copy;

    fn read<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Option<T>;

    fn write<T: Serialize>(value: &T) -> Vec<u8>;
}

pub(crate) struct JsonCrate;
pub(crate) struct RmpSerde;
pub(crate) struct Cbor4ii;
pub(crate) struct PostcardCrate;
pub(crate) struct BincodeCrate;

macro_rules! raw {
    ($($crate_of:ident $name:literal $codec:expr, $read:path, $write:path;)*) => {$(
        impl Raw for $crate_of {
            const NAME: &'static str = $name;

            fn codec() -> impl Codec + Copy {
                $codec
            }

            #[inline]
            fn read<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Option<T> {
                $read(body).ok()
            }

            #[inline]
            fn write<T: Serialize>(value: &T) -> Vec<u8> {
                $write(value).expect("a value that the format can hold")
            }
        }
    )*};
}

raw! {
    JsonCrate "json" Json::default(), serde_json::from_slice, serde_json::to_vec;
    RmpSerde "msgpack" MessagePack, rmp_serde::from_slice, rmp_serde::to_vec_named;
    Cbor4ii "cbor" Cbor, cbor4ii::serde::from_slice, cbor_to_vec;
    PostcardCrate "postcard" Postcard, postcard::from_bytes, postcard::to_stdvec;
    BincodeCrate "bincode" Bincode::fixint(), bincode::deserialize, bincode::serialize;
}

fn cbor_to_vec<T: Serialize>(value: &T) -> Result<Vec<u8>, impl std::fmt::Debug> {
    cbor4ii::serde::to_vec(Vec::new(), value)
}

pub(crate) fn add(suite: &mut Suite) {
    serde_format::<JsonCrate>(suite);
    serde_format::<RmpSerde>(suite);
    serde_format::<Cbor4ii>(suite);
    serde_format::<PostcardCrate>(suite);
    serde_format::<BincodeCrate>(suite);
    // What `from_slice` would cost if it looked for invalid UTF-8 once.
    let body = JsonCrate::write(&order());
    suite.add("json/1k/owned/raw_str", move || {
        let text = str::from_utf8(black_box(&body)).expect("written by its crate");
        serde_json::from_str::<Order>(text).expect("written by its crate")
    });
    protobuf(suite, "two", &two());
    protobuf(suite, "1k", &order());
    text(suite);
    bytes(suite);
}

fn serde_format<R: Raw>(suite: &mut Suite) {
    owned::<R, Two>(suite, "two", &two());
    owned::<R, Order>(suite, "1k", &order());
    borrowed::<R>(suite);
    encode::<R, Two>(suite, "two", two());
    encode::<R, Order>(suite, "1k", order());
}

fn owned<R: Raw, T: Serialize + for<'de> Deserialize<'de>>(suite: &mut Suite, size: &str, value: &T) {
    let name = |side| format!("{}/{size}/owned/{side}", R::NAME);
    let content_type = R::codec().content_type();
    let codecs = Codecs::builder().with(R::codec()).build().expect("one codec");
    let body = R::write(value);
    suite.add(name("ours"), move || -> T {
        codecs.decode(Some(black_box(content_type)), black_box(&body)).expect("written by its crate")
    });
    let body = R::write(value);
    suite.add(name("raw"), move || -> T { R::read(black_box(&body)).expect("written by its crate") });
    let (body, codec, limits) = (R::write(value), R::codec(), Limits::default());
    suite.add(name("raw_limits"), move || -> T {
        codec.decode(black_box(&body), &DecodeContext::new(black_box(&limits))).expect("written by its crate")
    });
}

fn borrowed<R: Raw>(suite: &mut Suite) {
    let name = |side| format!("{}/1k/borrowed/{side}", R::NAME);
    let content_type = R::codec().content_type();
    let codecs = Codecs::builder().with(R::codec()).build().expect("one codec");
    let body = R::write(&order());
    suite.add(name("ours"), move || {
        let order = codecs.decode::<OrderRef<'_>>(Some(black_box(content_type)), black_box(&body));
        black_box(&order.expect("written by its crate"));
    });
    let body = R::write(&order());
    suite.add(name("raw"), move || {
        black_box(&R::read::<OrderRef<'_>>(black_box(&body)).expect("written by its crate"));
    });
    let (body, codec, limits) = (R::write(&order()), R::codec(), Limits::default());
    suite.add(name("raw_limits"), move || {
        let order: Result<OrderRef<'_>, _> = codec.decode(black_box(&body), &DecodeContext::new(black_box(&limits)));
        black_box(&order.expect("written by its crate"));
    });
}

/// `raw_kept` writes into a buffer that is kept, and copies what it holds: what a set does.
fn encode<R: Raw, T: Serialize + Clone + 'static>(suite: &mut Suite, size: &str, value: T) {
    let name = |side| format!("{}/{size}/encode/{side}", R::NAME);
    let codecs = Codecs::builder().with(R::codec()).build().expect("one codec");
    let again = value.clone();
    suite.add(name("ours"), move || codecs.encode(black_box(&again)).expect("a value that the format can hold"));
    let again = value.clone();
    suite.add(name("raw"), move || R::write(black_box(&again)));
    let (codec, mut out) = (R::codec(), BytesMut::new());
    suite.add(name("raw_kept"), move || {
        out.clear();
        codec.encode(black_box(&value), &mut out).expect("a value that the format can hold");
        Bytes::copy_from_slice(&out)
    });
}

fn protobuf<M: Message + Default + Clone + 'static>(suite: &mut Suite, size: &str, value: &M) {
    let codecs = Codecs::json();
    let body = value.encode_to_vec();
    suite.add(format!("protobuf/{size}/owned/ours"), move || -> Protobuf<M> {
        codecs.decode(Some(black_box("application/protobuf")), black_box(&body)).expect("written by prost")
    });
    let body = value.encode_to_vec();
    suite.add(format!("protobuf/{size}/owned/raw"), move || M::decode(black_box(&*body)).expect("written by prost"));
    let (body, limits) = (value.encode_to_vec(), Limits::default());
    suite.add(format!("protobuf/{size}/owned/raw_limits"), move || {
        Protobuf::<M>::read(black_box(&body), &DecodeContext::new(black_box(&limits))).expect("written by prost")
    });
    let (codecs, wrapped) = (Codecs::json(), Protobuf(value.clone()));
    suite.add(format!("protobuf/{size}/encode/ours"), move || codecs.encode(black_box(&wrapped)).expect("a message"));
    let value = value.clone();
    suite.add(format!("protobuf/{size}/encode/raw"), move || black_box(&value).encode_to_vec());
}

fn text(suite: &mut Suite) {
    let codecs = Codecs::builder().with(Text).build().expect("one codec");
    let body = JsonCrate::write(&order());
    suite.add("text/1k/borrowed/ours", move || {
        let text: &str = codecs.decode(Some(black_box("text/plain")), black_box(&body)).expect("UTF-8");
        black_box(text);
    });
    let body = JsonCrate::write(&order());
    suite.add("text/1k/borrowed/raw", move || {
        black_box(str::from_utf8(black_box(&body)).expect("UTF-8"));
    });
}

fn bytes(suite: &mut Suite) {
    let codecs = Codecs::builder().with(RawBytes).build().expect("one codec");
    let body = JsonCrate::write(&order());
    suite.add("raw/1k/owned/ours", move || -> Vec<u8> {
        codecs.decode(Some(black_box("application/octet-stream")), black_box(&body)).expect("bytes")
    });
    let body = JsonCrate::write(&order());
    suite.add("raw/1k/owned/raw", move || black_box(&body).clone());
    let codecs = Codecs::builder().with(RawBytes).build().expect("one codec");
    let body = JsonCrate::write(&order());
    suite.add("raw/1k/byte_buf/ours", move || -> ByteBuf {
        codecs.decode(Some(black_box("application/octet-stream")), black_box(&body)).expect("bytes")
    });
    let body = JsonCrate::write(&order());
    suite.add("raw/1k/byte_buf/raw", move || black_box(&body).clone());
    let codecs = Codecs::builder().with(RawBytes).build().expect("one codec");
    let body = JsonCrate::write(&order());
    suite.add("raw/1k/borrowed/ours", move || {
        let bytes: &[u8] = codecs.decode(Some(black_box("application/octet-stream")), black_box(&body)).expect("bytes");
        black_box(bytes);
    });
    let (codecs, value) = (Codecs::builder().with(RawBytes).build().expect("one codec"), JsonCrate::write(&order()));
    let again = value.clone();
    suite.add("raw/1k/encode/ours", move || codecs.encode(black_box(&again)).expect("bytes"));
    suite.add("raw/1k/encode/raw", move || Bytes::copy_from_slice(black_box(&value)));
}
