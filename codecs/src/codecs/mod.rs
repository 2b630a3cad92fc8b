//! A set of codecs, its decision in every case, and a record of its attempts.

mod allow;
#[cfg(feature = "amqp-value")]
mod amqp_value;
mod attempt;
mod builder;
mod check;
mod config_error;
mod describe;
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

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use self::{
    observe::Observer,
    rules::{Resolution, Rules},
};
use crate::{
    CodecSet, ContentType, Decode, DecodeContext, DecodeError, Encode, EncodeError, EncodeErrorKind, Format, Limits,
    NoCodec, content_type::excerpt,
};

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

/// What a hot path promises of the place that it was given.
const IN_PLACE: &str = "a value that was read is in its place";

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
    /// A type that implements [`Deserialize`] is read by a codec of the set, and may borrow from `body`; a type with a format
    /// of its own reads itself (see [`Decode`]). The failure contains every attempt.
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

    /// Writes one value with the codec of this name. [`EncodeErrorKind::NoSuchMediaType`] if there is none.
    pub fn encode_with<T: Serialize + ?Sized>(&self, value: &T, name: &str) -> Result<Encoded, EncodeError> {
        match self.inner.rules.members.iter().position(|member| member.name == name) {
            Some(codec) => self.encode_at(codec, value),
            None => Err(no_such(name)),
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

    pub(crate) fn format_of(&self, name: &str) -> Option<Format> {
        self.inner.rules.members.iter().find(|member| member.name == name).map(|member| member.format)
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

    #[inline]
    pub(crate) fn decode_by_serde<'de, T: Deserialize<'de>>(
        &self,
        content_type: Option<&str>,
        body: &'de [u8],
    ) -> Result<T, DecodeFailure> {
        let mut place = None;
        self.decode_by_serde_into(content_type, body, &mut place)?;
        Ok(place.expect(IN_PLACE))
    }

    /// Leaves the value in `place`.
    #[inline]
    pub(crate) fn decode_by_serde_into<'de, T: Deserialize<'de>>(
        &self,
        content_type: Option<&str>,
        body: &'de [u8],
        place: &mut Option<T>,
    ) -> Result<(), DecodeFailure> {
        let failed = match self.decode_exact(content_type, body, place) {
            Some((_, _, Ok(()))) => return Ok(()),
            Some((_, _, Err(error))) => Some(error),
            None => None,
        };
        self.decode_value_by_rules(content_type, body, failed, place)
    }

    #[inline]
    pub(crate) fn decode_by_serde_traced<'de, T: Deserialize<'de>>(
        &self,
        content_type: Option<&str>,
        body: &'de [u8],
    ) -> Result<Decoded<T>, DecodeFailure> {
        let mut place = None;
        match self.decode_exact(content_type, body, &mut place) {
            Some((codec, chosen, Ok(()))) => {
                let (value, by) = (place.expect(IN_PLACE), self.inner.rules.members[codec].name);
                Ok(Decoded { value, by, chosen, attempts: Vec::new() })
            }
            Some((_, _, Err(error))) => self.decode_by_rules(content_type, body, Some(error)),
            None => self.decode_by_rules(content_type, body, None),
        }
    }

    /// The hot path: the declared bytes are a codec's own, or nothing is declared. No parse, no lock, no allocation.
    #[inline]
    fn decode_exact<'de, T: Deserialize<'de>>(
        &self,
        content_type: Option<&str>,
        body: &'de [u8],
        place: &mut Option<T>,
    ) -> Option<(usize, Chosen, Result<(), DecodeError>)> {
        let inner = &*self.inner;
        let (codec, chosen) = match content_type {
            Some(text) => exact(&inner.set, text).filter(|&(codec, _)| inner.hot >> codec & 1 == 1)?,
            None => inner.missing?,
        };
        let result = inner.set.decode_into(codec, body, &DecodeContext::new(&inner.limits), place)?;
        Some((codec, chosen, result))
    }

    /// Decodes after a hot path that keeps no record: out of line, with the end of the record.
    #[cold]
    #[inline(never)]
    fn decode_value_by_rules<'de, T: Deserialize<'de>>(
        &self,
        content_type: Option<&str>,
        body: &'de [u8],
        failed: Option<DecodeError>,
        place: &mut Option<T>,
    ) -> Result<(), DecodeFailure> {
        *place = Some(self.decode_by_rules(content_type, body, failed)?.into_value());
        Ok(())
    }

    /// Decodes by the rules. `failed` is the error of the hot path, which was the first of the turns.
    #[cold]
    fn decode_by_rules<'de, T: Deserialize<'de>>(
        &self,
        content_type: Option<&str>,
        body: &'de [u8],
        failed: Option<DecodeError>,
    ) -> Result<Decoded<T>, DecodeFailure> {
        let resolution = self.inner.rules.resolve(content_type);
        let result = self.decode_in_turn(&resolution, content_type, body, failed);
        if let Some(observer) = &self.inner.observer {
            observer.tell(resolution.declared(), &result);
        }
        result
    }

    /// Lets the codecs try by the rules.
    fn decode_in_turn<'de, T: Deserialize<'de>>(
        &self,
        resolution: &Resolution,
        content_type: Option<&str>,
        body: &'de [u8],
        mut failed: Option<DecodeError>,
    ) -> Result<Decoded<T>, DecodeFailure> {
        let Inner { set, limits, rules, .. } = &*self.inner;
        let cx = match resolution.content_type() {
            Some(content_type) => DecodeContext::new(limits).with_content_type(content_type),
            None => DecodeContext::new(limits),
        };
        let mut attempts = Vec::new();
        for step in rules.steps(resolution) {
            let codec = rules.members[step.codec].name;
            let result = match failed.take() {
                Some(error) => Err(error),
                None => match set.decode_at(step.codec, body, &cx) {
                    Some(result) => result,
                    None => continue,
                },
            };
            match result {
                Ok(value) => return Ok(Decoded { value, by: codec, chosen: step.chosen, attempts }),
                Err(error) => attempts.push(Attempt { codec, chosen: step.chosen, error }),
            }
        }
        Err(failure(resolution, content_type, attempts))
    }

    /// Reads a body with the codec that has written it. The limits and the rules for received bodies do not apply.
    pub(crate) fn read_written<T: DeserializeOwned>(&self, encoded: &Encoded) -> Option<T> {
        let (codec, _) = exact(&self.inner.set, encoded.content_type)?;
        let limits = Limits::default().bytes(Limits::MAX_BYTES).depth(Limits::MAX_DEPTH).elements(Limits::MAX_ELEMENTS);
        let declared = ContentType::parse(encoded.content_type);
        let cx = DecodeContext::new(&limits).with_content_type(&declared);
        self.inner.set.decode_at(codec, &encoded.body, &cx)?.ok()
    }

    #[inline]
    pub(crate) fn encode_by_serde<T: Serialize + ?Sized>(&self, value: &T) -> Result<Encoded, EncodeError> {
        self.encode_at(0, value)
    }

    pub(crate) fn encode_by_serde_as<T: Serialize + ?Sized>(
        &self,
        value: &T,
        content_type: &str,
    ) -> Result<Encoded, EncodeError> {
        match self.reader(content_type) {
            Some(codec) => self.encode_at(codec, value),
            None => Err(no_such(content_type)),
        }
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

    #[inline]
    fn encode_at<T: Serialize + ?Sized>(&self, codec: usize, value: &T) -> Result<Encoded, EncodeError> {
        let Inner { set, rules, .. } = &*self.inner;
        let body = scratch::written(|out| match set.encode_at(codec, value, out) {
            Some(written) => written,
            None => Err(EncodeError::new(EncodeErrorKind::NoSuchMediaType)),
        })?;
        Ok(Encoded { content_type: rules.members[codec].content_type, body })
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
fn failure(resolution: &Resolution, content_type: Option<&str>, attempts: Vec<Attempt>) -> DecodeFailure {
    let text = excerpt(content_type.unwrap_or_default());
    DecodeFailure::new(resolution.declared(), resolution.malformed(), text, attempts)
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
