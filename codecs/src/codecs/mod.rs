//! A set of codecs, its decision in every case, and a record of its attempts.

mod allow;
#[cfg(feature = "amqp-value")]
mod amqp_value;
mod attempt;
mod builder;
mod check;
mod config_error;
mod decode;
mod describe;
mod encode;
mod encoded;
mod escape;
mod failure;
mod observe;
mod own_format;
mod policy;
mod rules;
mod scratch;
mod trail;

use std::{fmt, sync::Arc};

use serde::Serialize;

use self::{
    observe::Observer,
    rules::{Resolution, Rules},
};
use crate::{CodecSet, Decode, Encode, EncodeError, EncodeErrorKind, Format, Limits, NoCodec, content_type::excerpt};

#[cfg(feature = "json")]
use crate::{And, Json};

pub use attempt::{Attempt, Chosen, Decoded};
pub use builder::CodecsBuilder;
pub use config_error::{ConfigError, ConfigErrorKind};
pub use describe::{CodecEntry, CodecsDescription, DecisionTable};
pub use encoded::Encoded;
pub use failure::{Declared, DecodeFailure, FailureReason};
pub use observe::{Observe, Reading};
pub use own_format::OwnFormat;
pub use policy::Policy;
pub use trail::{Trail, TrailEntry, TrailError};

/// A set of codecs with its policies. Cheap to clone.
///
/// The declared ContentType chooses the codec: the one that reads exactly that type, then one that reads its suffix, then those
/// of the [policy](Policy) of the case. Each codec tries at most once, with a decoder of its own, and every attempt is
/// recorded.
///
/// ```
/// # #[cfg(all(feature = "json", feature = "msgpack"))] {
/// use consign_codecs::{Codecs, Json, MessagePack, Policy};
///
/// let codecs = Codecs::builder()
///     .with(Json::default())
///     .with(MessagePack)
///     .on_missing(Policy::Codec("msgpack"))
///     .allow(["application/json", "*/*+json"])
///     .build()?;
///
/// let encoded = codecs.encode(&(1, "nail")).expect("a number and a text are JSON");
/// assert_eq!(encoded.content_type, "application/json");
/// let (count, name): (u32, &str) = codecs.decode(Some("application/vnd.acme+json"), &encoded.body).unwrap();
/// assert_eq!((count, name), (1, "nail"));
///
/// let failure = codecs.decode::<u32>(Some("application/msgpack"), b"\x01").unwrap_err();
/// assert_eq!(failure.reason().code(), "ContentTypeNotAllowed");
/// # }
/// # Ok::<_, consign_codecs::ConfigError>(())
/// ```
pub struct Codecs<S> {
    inner: Arc<Inner<S>>,
}

struct Inner<S> {
    set: S,
    limits: Limits,
    /// Has one bit for each codec: whether all of its exact types are allowed. It is 0 in an observed set, so that the hot path
    /// needs no further check.
    hot: u32,
    /// The codec whose turn is first where no ContentType is declared. There is none in an observed set, for the same reason.
    missing: Option<(usize, Chosen)>,
    rules: Rules,
    observer: Option<Observer>,
}

impl Codecs<NoCodec> {
    /// Starts an empty set. The first codec that is added writes.
    pub fn builder() -> CodecsBuilder<NoCodec> {
        CodecsBuilder::new(NoCodec)
    }
}

/// Creates a set whose one codec is JSON.
#[cfg(feature = "json")]
pub type JsonCodecs = Codecs<And<NoCodec, Json>>;

#[cfg(feature = "json")]
impl JsonCodecs {
    /// Creates a set of JSON alone: a body without a ContentType is read as JSON, and one of another type is refused.
    #[must_use]
    // It cannot fail: a test builds it, and nothing of it varies.
    #[allow(clippy::missing_panics_doc)]
    pub fn json() -> Self {
        Codecs::builder().with(Json::default()).build().expect("one codec without a policy keeps every rule")
    }
}

impl<S: CodecSet> Codecs<S> {
    /// Reads one value. `content_type` is the declared text, unchanged; absent and blank are the same.
    ///
    /// A type that implements [`Deserialize`](serde::Deserialize) is read by a codec of the set, and may borrow from `body`. A type
    /// with a format of its own reads itself (see [`Decode`]). The failure contains every attempt.
    #[inline]
    pub fn decode<'de, T: Decode<'de>>(&self, content_type: Option<&str>, body: &'de [u8]) -> Result<T, DecodeFailure> {
        T::decode_value(self, content_type, body)
    }

    /// Reads a body as [`decode`](Self::decode) does, and leaves the value in `place`, so that the callers in between do not
    /// move it.
    #[doc(hidden)]
    #[inline]
    pub fn decode_into<'de, T: Decode<'de>>(
        &self,
        content_type: Option<&str>,
        body: &'de [u8],
        place: &mut Option<T>,
    ) -> Result<(), DecodeFailure> {
        T::decode_into(self, content_type, body, place)
    }

    /// Reads one value as [`decode`](Self::decode) does, and reports by which codec and after which failed attempts.
    #[inline]
    pub fn decode_traced<'de, T: Decode<'de>>(
        &self,
        content_type: Option<&str>,
        body: &'de [u8],
    ) -> Result<Decoded<T>, DecodeFailure> {
        T::decode_from(self, content_type, body)
    }

    /// Writes one value with the first codec, or in the type's own format. On an error there is no body.
    #[inline]
    pub fn encode<T: Encode + ?Sized>(&self, value: &T) -> Result<Encoded, EncodeError> {
        value.encode_with(self)
    }

    /// Writes one value with the codec that reads `content_type`: a reply in the requester's format. The ContentType is the one
    /// that the codec writes. [`EncodeErrorKind::NoSuchMediaType`] if no codec reads it.
    ///
    /// `content_type` is text or a [`Mime`](mime::Mime).
    pub fn encode_as<T: Encode + ?Sized>(
        &self,
        value: &T,
        content_type: impl AsRef<str>,
    ) -> Result<Encoded, EncodeError> {
        value.encode_as(self, content_type.as_ref())
    }

    /// Writes one value with the codec of this name. [`EncodeErrorKind::NoSuchCodec`] if the set has none.
    pub fn encode_with<T: Serialize + ?Sized>(&self, value: &T, name: &str) -> Result<Encoded, EncodeError> {
        match self.inner.rules.members.iter().position(|member| member.name == name) {
            Some(codec) => self.encode_at(codec, value),
            None => Err(self.no_such_codec(name)),
        }
    }

    /// Returns the name of the codec that reads this ContentType, whether it is allowed here or not.
    #[must_use]
    pub fn codec_for(&self, content_type: impl AsRef<str>) -> Option<&'static str> {
        self.reader(content_type.as_ref()).map(|codec| self.inner.rules.members[codec].name)
    }

    /// Returns the ContentType that the codec of this name writes. `None` if there is no such codec.
    ///
    /// With [`encode_as`](Self::encode_as) it chooses a codec by its name for any type that can be written.
    #[must_use]
    pub fn content_type_of(&self, name: &str) -> Option<&'static str> {
        self.inner.rules.members.iter().find(|member| member.name == name).map(|member| member.content_type)
    }

    fn reader(&self, content_type: &str) -> Option<usize> {
        if let Some((codec, _)) = exact(&self.inner.set, content_type) {
            return Some(codec);
        }
        match self.inner.rules.resolve(Some(content_type)) {
            Resolution::Parsed(resolved) => resolved.reader,
            Resolution::Missing | Resolution::Malformed(_) => None,
        }
    }

    pub(crate) fn format_of(&self, name: &str) -> Option<Format> {
        self.inner.rules.members.iter().find(|member| member.name == name).map(|member| member.format)
    }

    /// The error for a codec that the set does not have: its name, and those of the set.
    #[doc(hidden)]
    #[cold]
    #[must_use]
    pub fn no_such_codec(&self, name: &str) -> EncodeError {
        let names: Vec<_> = self.inner.rules.members.iter().map(|member| member.name).collect();
        let detail = format!("`{}`, expected one of {}", excerpt(name), names.join(", "));
        EncodeError::new(EncodeErrorKind::NoSuchCodec).with_detail(detail)
    }

    /// Returns the limits of decoding one body.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Returns the whole decision table, as readable text.
    #[must_use]
    pub fn describe(&self) -> CodecsDescription<'_> {
        CodecsDescription(&self.inner.rules)
    }
}

/// Returns the codec one of whose exact media types has exactly these bytes. No two codecs of a set have the same.
#[inline]
fn exact(set: &impl CodecSet, content_type: &str) -> Option<(usize, Chosen)> {
    match set.written(content_type) {
        Some(codec) => Some((codec, Chosen::Exact)),
        None => set.alias(content_type).map(|codec| (codec, Chosen::Alias)),
    }
}

#[cold]
pub(crate) fn no_such(text: &str) -> EncodeError {
    EncodeError::new(EncodeErrorKind::NoSuchMediaType).with_detail(format!("`{}`", excerpt(text)))
}

impl<S> Clone for Codecs<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<S> fmt::Debug for Codecs<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.inner.rules.members.iter().map(|member| member.name)).finish()
    }
}
