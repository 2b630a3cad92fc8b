//! The body of a message for people and for programs: decoded, as text, or in hexadecimal digits.

use std::fmt::{self, Write};

use consign::{
    codecs::{
        Attempt, Bincode, Cbor, Chosen, CodecSet, Codecs, ConfigError, DataContractBinary, DataContractXml, Json,
        Losses, MessagePack, Postcard, Raw, Text, TranscodeError,
    },
    message::MessageBody,
};
use serde::{Serialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{
    failure::{Exit, Failure},
    output::Printable,
};

const JSON: &str = "application/json";

/// The codecs of the program, with a chain of those that describe themselves.
pub(crate) fn codecs() -> Result<Codecs<impl CodecSet + Send + Sync + 'static>, ConfigError> {
    set(&["json", "msgpack", "cbor"])
}

/// The codecs of the program, with this chain.
pub(crate) fn set(chain: &[&'static str]) -> Result<Codecs<impl CodecSet + Send + Sync + 'static>, ConfigError> {
    Codecs::builder()
        .with(Json::default())
        .with(MessagePack)
        .with(Cbor)
        .with(Bincode::default())
        .with(Postcard)
        .with(DataContractBinary::default())
        .with(DataContractXml::default())
        .with(Text)
        .with(Raw)
        .fallback(chain.iter().copied())
        .build()
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::Usage, "Codecs", error.to_string())
    }
}

/// How a body is to be shown.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) enum Wanted {
    /// By its ContentType, by the chain, as text, or in hexadecimal digits.
    #[default]
    Any,
    Hex,
    /// By this codec.
    Codec(String),
}

impl std::str::FromStr for Wanted {
    type Err = UnknownCodec;

    fn from_str(text: &str) -> Result<Self, UnknownCodec> {
        match text {
            "auto" => Ok(Self::Any),
            "hex" => Ok(Self::Hex),
            name if names().contains(&name) => Ok(Self::Codec(name.to_owned())),
            _ => Err(UnknownCodec),
        }
    }
}

/// The name is not that of a codec.
#[derive(Debug)]
pub(crate) struct UnknownCodec;

impl fmt::Display for UnknownCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected auto, hex or one of the codecs {}", names().join(", "))
    }
}

impl std::error::Error for UnknownCodec {}

/// The names of the codecs.
pub(crate) fn names() -> Vec<&'static str> {
    set(&[])
        .map_or_else(|_| Vec::new(), |codecs| codecs.describe().table().codecs.iter().map(|codec| codec.name).collect())
}

/// An attempt that failed, for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Tried {
    codec: &'static str,
    chosen: &'static str,
    error: String,
}

impl Tried {
    pub(crate) fn all(attempts: &[Attempt]) -> Vec<Self> {
        let tried = |attempt: &Attempt| Self {
            codec: attempt.codec,
            chosen: attempt.chosen.code(),
            error: attempt.error.to_string(),
        };
        attempts.iter().map(tried).collect()
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.codec, self.chosen, Printable(&self.error))
    }
}

/// A body that was read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum View {
    /// As JSON.
    Decoded {
        codec: &'static str,
        chosen: &'static str,
        value: Box<RawValue>,
        /// Whether values were replaced that JSON does not have: bytes by base64, keys by text, NaN by null.
        lossy: bool,
    },
    Text(String),
    Hex(String),
    /// A body that is not bytes: which kind it is.
    NotBytes(&'static str),
}

/// Shows a body. A codec that was requested has to read it.
pub(crate) fn view(body: &MessageBody, content_type: Option<&str>, wanted: &Wanted) -> Result<View, TranscodeError> {
    let Some(bytes) = body.codec_view() else { return Ok(View::NotBytes(body.kind())) };
    let lenient = codecs();
    match wanted {
        Wanted::Hex => Ok(View::Hex(hex(bytes))),
        Wanted::Codec(name) => {
            let Ok(strict) = set(&[]) else { return Ok(View::Hex(hex(bytes))) };
            decoded(&strict, strict.content_type_of(name), bytes)
        }
        Wanted::Any => {
            let by_codec = lenient.ok().and_then(|codecs| decoded(&codecs, content_type, bytes).ok());
            Ok(by_codec.unwrap_or_else(|| plain(bytes)))
        }
    }
}

fn plain(bytes: &[u8]) -> View {
    match std::str::from_utf8(bytes) {
        Ok(text) => View::Text(text.to_owned()),
        Err(_) => View::Hex(hex(bytes)),
    }
}

fn decoded<S: CodecSet>(codecs: &Codecs<S>, content_type: Option<&str>, bytes: &[u8]) -> Result<View, TranscodeError> {
    let read = codecs.decode_traced::<IgnoredAny>(content_type, bytes).map_err(TranscodeError::Undecodable)?;
    let (codec, chosen) = (read.by, read.chosen.code());
    match codec {
        "text" | "raw" => return Ok(plain(bytes)),
        _ => {}
    }
    let (encoded, losses) = codecs.transcode_lossy(content_type, bytes, JSON)?;
    let json = String::from_utf8(encoded.body.to_vec()).ok().and_then(|text| RawValue::from_string(text).ok());
    let lossy = losses != Losses::default();
    Ok(json.map_or_else(|| plain(bytes), |value| View::Decoded { codec, chosen, value, lossy }))
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decoded { codec, chosen, value, lossy } => {
                write!(f, "body by {codec} ({chosen}")?;
                f.write_str(if *lossy { ", bytes as base64):\n" } else { "):\n" })?;
                write!(f, "{}", Printable(&pretty(value.get())))
            }
            Self::Text(text) => write!(f, "body as text:\n{}", Printable(text)),
            Self::Hex(digits) => {
                f.write_str("body in hexadecimal digits:")?;
                let digits = digits.as_bytes();
                for (line, chunk) in digits.chunks(32).enumerate() {
                    write!(f, "\n{:08x} ", line * 16)?;
                    for pair in chunk.chunks(2) {
                        write!(f, " {}", String::from_utf8_lossy(pair))?;
                    }
                }
                Ok(())
            }
            Self::NotBytes(kind) => write!(f, "the body is {kind}, not bytes"),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Indents JSON, in the order of its keys.
fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    let mut chars = json.chars().filter(|char| *char != '\n').peekable();
    while let Some(char) = chars.next() {
        if in_text {
            out.push(char);
            in_text = escaped || char != '"';
            escaped = !escaped && char == '\\';
            continue;
        }
        let new_line = |out: &mut String, depth: usize| {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth));
        };
        match char {
            '"' => {
                in_text = true;
                out.push(char);
            }
            '{' | '[' if matches!(chars.peek(), Some('}' | ']')) => {
                out.push(char);
                out.extend(chars.next());
            }
            '{' | '[' => {
                depth += 1;
                out.push(char);
                new_line(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(char);
            }
            ',' => {
                out.push(char);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            ' ' => {}
            _ => out.push(char),
        }
    }
    out
}

/// Reads a body by one codec alone.
pub(crate) fn by_codec(name: &'static str, bytes: &[u8]) -> Result<View, TranscodeError> {
    view(&MessageBody::from(bytes::Bytes::copy_from_slice(bytes)), None, &Wanted::Codec(name.to_owned()))
}

/// The codec that reads a body by a ContentType and the chain, and the attempts before it.
pub(crate) struct Reading {
    pub(crate) by: Option<(&'static str, Chosen)>,
    pub(crate) attempts: Vec<Tried>,
    pub(crate) reason: Option<&'static str>,
}

pub(crate) fn reading(content_type: Option<&str>, bytes: &[u8]) -> Result<Reading, ConfigError> {
    let codecs = codecs()?;
    Ok(match codecs.decode_traced::<IgnoredAny>(content_type, bytes) {
        Ok(read) => Reading { by: Some((read.by, read.chosen)), attempts: Tried::all(&read.attempts), reason: None },
        Err(failure) => {
            Reading { by: None, attempts: Tried::all(failure.attempts()), reason: Some(failure.reason().code()) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(content_type: Option<&str>, bytes: &'static [u8], wanted: &Wanted) -> String {
        let body = MessageBody::from(bytes::Bytes::from_static(bytes));
        view(&body, content_type, wanted).map_or_else(|error| format!("error: {error}"), |view| view.to_string())
    }

    #[test]
    fn bodies_are_shown_by_their_type_by_the_chain_and_as_what_they_are() {
        let any = Wanted::Any;
        let json = shown(Some("application/json"), br#"{"a":[1,"x,\"{"],"b":{},"c":null}"#, &any);
        assert_eq!(
            json,
            "body by json (exact):\n{\n  \"a\": [\n    1,\n    \"x,\\\"{\"\n  ],\n  \"b\": {},\n  \"c\": null\n}"
        );
        assert!(shown(None, b"\x82\xa3sku\xa5screw\xa5count\x05", &any).starts_with("body by msgpack (fallback):\n{"));
        assert_eq!(shown(Some("text/plain"), b"hello\x1b", &any), "body as text:\nhello\\u{1b}");
        assert_eq!(shown(None, b"\xff\xfe\x01", &any), "body in hexadecimal digits:\n00000000  ff fe 01");
        assert_eq!(shown(None, b"{}", &Wanted::Hex), "body in hexadecimal digits:\n00000000  7b 7d");
        assert!(shown(None, b"{}", &Wanted::Codec("msgpack".into())).starts_with("error: "));
    }

    #[test]
    fn names_of_codecs_are_parsed() {
        assert_eq!("json".parse::<Wanted>().ok(), Some(Wanted::Codec("json".into())));
        assert!("jsn".parse::<Wanted>().unwrap_err().to_string().contains("msgpack"));
    }
}
