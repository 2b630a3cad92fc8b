use std::{env, fmt, str::FromStr, thread};

use bytes::BytesMut;
use consign_codecs::{
    Bincode, Cbor, Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Json, Limits, MessagePack,
    Postcard, Raw, Text,
};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde::{Deserialize, Serialize};

/// Every codec that is a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Json,
    Strict,
    MessagePack,
    Cbor,
    Fixint,
    Varint,
    Postcard,
    Text,
    Raw,
}

pub(crate) use Which::{Cbor as CBOR, Fixint, Json as JSON, MessagePack as MSGPACK, Postcard as POSTCARD, Varint};

pub(crate) const ALL: [Which; 9] = [
    Which::Json,
    Which::Strict,
    Which::MessagePack,
    Which::Cbor,
    Which::Fixint,
    Which::Varint,
    Which::Postcard,
    Which::Text,
    Which::Raw,
];
pub(crate) const SELF_DESCRIBING: [Which; 4] = [Which::Json, Which::Strict, Which::MessagePack, Which::Cbor];
pub(crate) const POSITIONAL: [Which; 3] = [Which::Fixint, Which::Varint, Which::Postcard];

impl Which {
    pub(crate) fn decode<'de, T: Deserialize<'de>>(self, body: &'de [u8]) -> Result<T, DecodeError> {
        self.decode_within(body, &Limits::default())
    }

    pub(crate) fn decode_within<'de, T: Deserialize<'de>>(
        self,
        body: &'de [u8],
        limits: &Limits,
    ) -> Result<T, DecodeError> {
        let cx = DecodeContext::new(limits);
        match self {
            Self::Json => Json::default().decode(body, &cx),
            Self::Strict => Json::strict().decode(body, &cx),
            Self::MessagePack => MessagePack.decode(body, &cx),
            Self::Cbor => Cbor.decode(body, &cx),
            Self::Fixint => Bincode::fixint().decode(body, &cx),
            Self::Varint => Bincode::varint().decode(body, &cx),
            Self::Postcard => Postcard.decode(body, &cx),
            Self::Text => Text.decode(body, &cx),
            Self::Raw => Raw.decode(body, &cx),
        }
    }

    pub(crate) fn kind<T: for<'de> Deserialize<'de>>(self, body: &[u8]) -> Option<DecodeErrorKind> {
        self.decode::<T>(body).err().map(|error| error.kind())
    }

    pub(crate) fn encode<T: Serialize + ?Sized>(self, value: &T) -> Result<BytesMut, EncodeError> {
        let mut out = BytesMut::new();
        match self {
            Self::Json => Json::default().encode(value, &mut out),
            Self::Strict => Json::strict().encode(value, &mut out),
            Self::MessagePack => MessagePack.encode(value, &mut out),
            Self::Cbor => Cbor.encode(value, &mut out),
            Self::Fixint => Bincode::fixint().encode(value, &mut out),
            Self::Varint => Bincode::varint().encode(value, &mut out),
            Self::Postcard => Postcard.encode(value, &mut out),
            Self::Text => Text.encode(value, &mut out),
            Self::Raw => Raw.encode(value, &mut out),
        }?;
        Ok(out)
    }
}

/// An order, the type most tests ask for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) sku: String,
    pub(crate) qty: u32,
    pub(crate) note: Option<String>,
}

pub(crate) fn order() -> Order {
    Order { id: 300, sku: "A-17".into(), qty: 2, note: Some("by hand".into()) }
}

/// A list whose links are options: a type that recurses as the body says.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Node {
    pub(crate) next: Option<Box<Node>>,
}

impl Node {
    /// `structs` structs, one in another.
    pub(crate) fn chain(structs: usize) -> Self {
        (1..structs).fold(Self::default(), |next, _| Self { next: Some(Box::new(next)) })
    }
}

/// Runs where a decoder that recurses by the sender's will would overflow.
pub(crate) fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(1 << 20).spawn(test).unwrap().join().unwrap();
}

pub(crate) fn seed() -> u64 {
    from_env("SEED", 7)
}

/// A seeded runner. Its own failure report holds the smallest input; [`explain`] adds how to come back to it.
pub(crate) fn runner(default_cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases: from_env("CONSIGN_CASES", default_cases),
        rng_seed: RngSeed::Fixed(seed()),
        failure_persistence: None,
        ..Config::default()
    })
}

pub(crate) fn explain<E: fmt::Display>(result: Result<(), E>, test: &str) {
    if let Err(error) = result {
        let cases = env::var("CONSIGN_CASES").map(|cases| format!("CONSIGN_CASES={cases} ")).unwrap_or_default();
        let seed = seed();
        panic!(
            "{error}\nreplay: SEED={seed} {cases}cargo test -p consign-codecs --features full --test formats {test}"
        );
    }
}

fn from_env<T: FromStr>(name: &str, default: T) -> T {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
