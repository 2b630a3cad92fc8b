//! What is done with a value of one type: read it, write it, and both by the peers in Rust.

use std::fmt::Debug;

use consign::codecs::{And, Cbor, Codecs, Json, MessagePack, NoCodec};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    described::Described,
    peers::{PEERS, Peer},
};

/// The set of a user who reads what the world writes.
pub(crate) type Set = And<And<And<NoCodec, Json>, MessagePack>, Cbor>;

/// The formats, and the ContentType that their producers declare.
pub(crate) const FORMATS: [(&str, &str); 3] =
    [("json", "application/json"), ("msgpack", "application/msgpack"), ("cbor", "application/cbor")];

/// What became of a body.
pub(crate) enum Outcome {
    Same,
    /// The text that a user sees.
    Refused(String),
    /// Another value, which nothing reported.
    Differs(String),
}

/// A body, or why there is none.
pub(crate) type Body = Result<Vec<u8>, String>;

/// A body by a peer in Rust, and why it does not hold the value, if it does not.
pub(crate) struct Written {
    pub(crate) peer: &'static Peer,
    pub(crate) body: Vec<u8>,
    pub(crate) lost: Option<String>,
}

/// What can be done with the values of one type.
#[derive(Clone, Copy)]
pub(crate) struct Checks {
    /// Reads a body as this library does.
    pub(crate) read: fn(&Codecs<Set>, content_type: &str, body: &[u8], Described<'_>) -> Outcome,
    /// Writes the value in a format as this library does.
    pub(crate) write: fn(&Codecs<Set>, content_type: &str, Described<'_>) -> Body,
    /// Writes the value by every peer in Rust.
    pub(crate) by_peers: fn(Described<'_>) -> Vec<Written>,
    /// Reads a body by one peer in Rust.
    pub(crate) read_by: fn(&Peer, body: &[u8], Described<'_>) -> Outcome,
}

pub(crate) const fn checks<T: Serialize + DeserializeOwned + Debug>() -> Checks {
    Checks { read: read::<T>, write: write::<T>, by_peers: by_peers::<T>, read_by: read_by::<T> }
}

/// The text of a value, which tells apart whatever differs: also the sign of a zero, and the last bit of a float.
fn text<T: DeserializeOwned + Debug>(described: Described<'_>) -> String {
    let value: T = described.expected().unwrap_or_else(|error| panic!("values.json: {}: {error}", described.0));
    format!("{value:?}")
}

fn compare(expected: &str, got: Result<String, String>) -> Outcome {
    match got {
        Ok(got) if got == expected => Outcome::Same,
        Ok(got) => Outcome::Differs(difference(expected, &got)),
        Err(error) => Outcome::Refused(error),
    }
}

/// What two texts have after what they share.
fn difference(expected: &str, got: &str) -> String {
    const BEFORE: usize = 20;
    let shared = expected.chars().zip(got.chars()).take_while(|(a, b)| a == b).count();
    let after = |text: &str| text.chars().skip(shared.saturating_sub(BEFORE)).take(3 * BEFORE).collect::<String>();
    format!("`{}` instead of `{}`", after(got), after(expected))
}

fn read<T: DeserializeOwned + Debug>(
    codecs: &Codecs<Set>,
    content_type: &str,
    body: &[u8],
    described: Described<'_>,
) -> Outcome {
    let got = codecs.decode::<T>(Some(content_type), body);
    compare(&text::<T>(described), got.map(|value| format!("{value:?}")).map_err(|failure| failure.to_string()))
}

fn write<T: Serialize + DeserializeOwned>(codecs: &Codecs<Set>, content_type: &str, described: Described<'_>) -> Body {
    let value: T = described.expected().map_err(|error| error.to_string())?;
    codecs.encode_as(&value, content_type).map(|encoded| encoded.body.to_vec()).map_err(|error| error.to_string())
}

fn by_peers<T: Serialize + DeserializeOwned + Debug>(described: Described<'_>) -> Vec<Written> {
    let Ok(value) = described.expected::<T>() else { return Vec::new() };
    let write = |peer: &'static Peer| match peer.write(&value) {
        Ok(body) => {
            let lost = loss::<T>(peer, &body, described);
            Written { peer, body, lost }
        }
        Err(error) => Written { peer, body: Vec::new(), lost: Some(format!("it cannot write the value: {error}")) },
    };
    PEERS.iter().map(write).collect()
}

/// Why a body does not hold the value, if it does not.
fn loss<T: DeserializeOwned + Debug>(peer: &Peer, body: &[u8], described: Described<'_>) -> Option<String> {
    match read_by::<T>(peer, body, described) {
        Outcome::Same => None,
        Outcome::Refused(error) => Some(format!("its own decoder refuses the body: {error}")),
        Outcome::Differs(got) => Some(format!("its own decoder gives {got}")),
    }
}

fn read_by<T: DeserializeOwned + Debug>(peer: &Peer, body: &[u8], described: Described<'_>) -> Outcome {
    compare(&text::<T>(described), peer.read::<T>(body).map(|value| format!("{value:?}")))
}
