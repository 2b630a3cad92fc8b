use std::{env, fmt, str::FromStr};

use bytes::BytesMut;
use consign_codecs::{
    Codec, CodecSet, Codecs, CodecsBuilder, DecodeContext, DecodeError, DecodeErrorKind, DecodeFailure, EncodeError,
    EncodeErrorKind, Format, MediaType,
};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde::{Deserialize, Serialize, de::value::StrDeserializer};

/// A codec that does what it is told. What it accepts it reads as its own name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) name: &'static str,
    pub(crate) media_types: &'static [MediaType],
    pub(crate) written: Option<&'static str>,
    pub(crate) format: Format,
    pub(crate) does: Does,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    Accept,
    Refuse(DecodeErrorKind),
    Panic,
}

impl Told {
    pub(crate) const fn new(name: &'static str, media_types: &'static [MediaType]) -> Self {
        Self { name, media_types, written: None, format: Format::SelfDescribing, does: Does::Accept }
    }

    pub(crate) const fn refuses(self) -> Self {
        Self { does: Does::Refuse(DecodeErrorKind::Syntax), ..self }
    }

    pub(crate) const fn does(self, does: Does) -> Self {
        Self { does, ..self }
    }

    pub(crate) const fn format(self, format: Format) -> Self {
        Self { format, ..self }
    }
}

impl Codec for Told {
    fn name(&self) -> &'static str {
        self.name
    }

    fn media_types(&self) -> &'static [MediaType] {
        self.media_types
    }

    fn content_type(&self) -> &'static str {
        self.written.unwrap_or(self.media_types[0].as_str())
    }

    fn format(&self) -> Format {
        self.format
    }

    fn decode<'de, T: Deserialize<'de>>(&self, _body: &'de [u8], _cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        match self.does {
            Does::Accept => T::deserialize(StrDeserializer::<serde::de::value::Error>::new(self.name))
                .map_err(|_| DecodeError::new(DecodeErrorKind::Type)),
            Does::Refuse(kind) => Err(DecodeError::new(kind)),
            Does::Panic => panic!("told to"),
        }
    }

    fn encode<T: Serialize + ?Sized>(&self, _value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        out.extend_from_slice(self.name.as_bytes());
        match self.does {
            Does::Accept => Ok(()),
            Does::Refuse(_) | Does::Panic => Err(EncodeError::new(EncodeErrorKind::Unsupported)),
        }
    }
}

pub(crate) const A: Told = Told::new("a", &[MediaType::exact("application/a"), MediaType::exact("text/a")]);
pub(crate) const B: Told = Told::new("b", &[MediaType::exact("application/b"), MediaType::suffix("b")]);
pub(crate) const C: Told = Told::new("c", &[MediaType::exact("application/c"), MediaType::range("text")]);

/// Nine codecs, of which two read `c/0+s`.
pub(crate) const MANY: [Told; 9] = [
    Told::new("c0", &[MediaType::exact("c/0+s")]),
    Told::new("c1", &[MediaType::exact("c/1"), MediaType::suffix("s")]),
    Told::new("c2", &[MediaType::exact("c/2")]),
    Told::new("c3", &[MediaType::exact("c/3")]),
    Told::new("c4", &[MediaType::exact("c/4")]),
    Told::new("c5", &[MediaType::exact("c/5")]),
    Told::new("c6", &[MediaType::exact("c/6")]),
    Told::new("c7", &[MediaType::exact("c/7")]),
    Told::new("c8", &[MediaType::exact("c/8")]),
];

pub(crate) fn nine() -> CodecsBuilder<impl CodecSet> {
    let [c0, c1, c2, c3, c4, c5, c6, c7, c8] = MANY.map(Told::refuses);
    Codecs::builder().with(c0).with(c1).with(c2).with(c3).with(c4).with(c5).with(c6).with(c7).with(c8)
}

/// The attempts as a trail, and the reason.
pub(crate) fn told(failure: &DecodeFailure) -> (String, &'static str) {
    (failure.trail().to_string(), failure.reason().code())
}

fn setting<T: FromStr + Copy>(name: &str, default: T) -> T
where
    T::Err: fmt::Debug,
{
    env::var(name).map_or(default, |text| text.parse().expect("SEED and CONSIGN_CASES are numbers"))
}

/// Tells how to see a failure again, from a test that is failing.
pub(crate) struct Replay {
    test: &'static str,
    pub(crate) seed: u64,
    pub(crate) cases: u32,
    asked: u32,
}

pub(crate) fn replay(test: &'static str) -> Replay {
    let cases = setting("CONSIGN_CASES", 4_000);
    Replay { test, seed: setting("SEED", 42), cases, asked: cases }
}

impl Replay {
    pub(crate) fn runner(&self) -> TestRunner {
        TestRunner::new(Config {
            cases: self.cases,
            rng_seed: RngSeed::Fixed(self.seed),
            failure_persistence: None,
            ..Config::default()
        })
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "SEED={} CONSIGN_CASES={} cargo test -p consign-codecs --features full --test sets {}",
                self.seed, self.asked, self.test
            );
        }
    }
}
