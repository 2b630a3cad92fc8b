//! What the generations of producers write, and what is to become of it.

use consign::{
    codecs::{Chosen, CodecSet, Codecs, Encoded},
    settlement::DeadLetterReason,
};
use serde::{Deserialize, Serialize};

use crate::{
    events::{Event, Typed},
    failure::Failure,
};

/// How one generation of producers writes its messages.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Format {
    Json,
    JsonWithCharset,
    MessagePack,
    Cbor,
    Bincode,
    JsonUndeclared,
    MessagePackAsJson,
    Noise,
    Empty,
}

/// What is declared as ContentType, among it one text that is none.
pub const DECLARED: [&str; 7] = [
    "application/json",
    "application/json; charset=\"UTF-8\"",
    "application/msgpack",
    "application/cbor",
    "application/x-bincode",
    "application/octet-stream",
    "not a media type",
];

impl Format {
    pub const ALL: [Self; 9] = [
        Self::Json,
        Self::JsonWithCharset,
        Self::MessagePack,
        Self::Cbor,
        Self::Bincode,
        Self::JsonUndeclared,
        Self::MessagePackAsJson,
        Self::Noise,
        Self::Empty,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::JsonWithCharset => "json with charset",
            Self::MessagePack => "msgpack",
            Self::Cbor => "cbor",
            Self::Bincode => "bincode",
            Self::JsonUndeclared => "json undeclared",
            Self::MessagePackAsJson => "msgpack as json",
            Self::Noise => "noise",
            Self::Empty => "empty",
        }
    }

    /// Whether this format has a body for the event: bincode cannot be read without a type.
    pub fn carries(self, event: &Event) -> bool {
        self != Self::Bincode || event.typed.is_some()
    }

    /// The ContentType, and the bytes.
    pub fn write<C: CodecSet>(
        self,
        event: &Event,
        noise: &mut fastrand::Rng,
        codecs: &Codecs<C>,
    ) -> Result<(Option<&'static str>, bytes::Bytes), Failure> {
        let by = |codec| -> Result<Encoded, Failure> { Ok(codecs.encode_with(&event.payload, codec)?) };
        Ok(match self {
            Self::Json => by("json").map(declared)?,
            Self::JsonWithCharset => (Some(DECLARED[1]), by("json")?.body),
            Self::MessagePack => by("msgpack").map(declared)?,
            Self::Cbor => by("cbor").map(declared)?,
            Self::Bincode => match &event.typed {
                Some(Typed::Push(push)) => declared(codecs.encode_with(push, "bincode")?),
                Some(Typed::Issues(issues)) => declared(codecs.encode_with(issues, "bincode")?),
                Some(Typed::PullRequest(pull)) => declared(codecs.encode_with(&**pull, "bincode")?),
                None => declared(codecs.encode_with(&event.payload, "bincode")?),
            },
            Self::JsonUndeclared => (None, by("json")?.body),
            Self::MessagePackAsJson => (Some(DECLARED[0]), by("msgpack")?.body),
            Self::Noise => {
                let label = DECLARED.get(noise.usize(..=DECLARED.len())).copied();
                // As often short as long, for of single bytes one in 128 is an empty map.
                let longest = 1 << noise.u32(0..=9);
                let length = noise.usize(1..=longest);
                (label, (0..length).map(|_| noise.u8(..)).collect())
            }
            Self::Empty => (Some(DECLARED[0]), bytes::Bytes::new()),
        })
    }

    /// Whether a message of this format may be read this way.
    pub fn may_be_read(self, by: &str, chosen: Chosen) -> bool {
        match self {
            Self::Json | Self::JsonWithCharset => (by, chosen) == ("json", Chosen::Exact),
            Self::MessagePack => (by, chosen) == ("msgpack", Chosen::Exact),
            Self::Cbor => (by, chosen) == ("cbor", Chosen::Exact),
            Self::Bincode => (by, chosen) == ("bincode", Chosen::Exact),
            Self::JsonUndeclared => (by, chosen) == ("json", Chosen::Default),
            Self::MessagePackAsJson => (by, chosen) == ("msgpack", Chosen::Fallback),
            // A few random bytes are a map in a format that describes itself. None is a value of a positional one.
            Self::Noise => by != "bincode",
            Self::Empty => false,
        }
    }

    /// Whether a message of this format may be dead-lettered for this reason.
    pub fn may_be_dead(self, reason: &str) -> bool {
        let undecodable = reason == DeadLetterReason::DeserializationFailed.as_str();
        match self {
            // Noise may begin with a length beyond its end.
            Self::Noise => undecodable || reason == DeadLetterReason::LimitExceeded.as_str(),
            Self::Empty => undecodable,
            _ => false,
        }
    }
}

fn declared(encoded: Encoded) -> (Option<&'static str>, bytes::Bytes) {
    (Some(encoded.content_type), encoded.body)
}
