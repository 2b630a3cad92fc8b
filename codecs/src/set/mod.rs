//! Codecs as one static set: chosen at run time, composed and monomorphised at compile time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::BytesMut;
use serde::{Deserialize, Serialize};

use crate::{Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Format, MediaType};

/// The facts of one codec of a set, without a body.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CodecInfo {
    /// [`Codec::name`].
    pub name: &'static str,
    /// [`Codec::media_types`].
    pub media_types: &'static [MediaType],
    /// [`Codec::content_type`], or empty for a codec without media types.
    pub content_type: &'static str,
    /// [`Codec::format`].
    pub format: Format,
}

/// A set of codecs, by index in the order in which they were added. [`NoCodec`] and [`And`] are the only sets: a codec that
/// is not in the type is not in the binary.
pub trait CodecSet: sealed::Sealed + Send + Sync + 'static {
    /// The number of codecs.
    const LEN: usize;

    /// Returns the facts of the codec at `index`. `None` if there is none.
    fn info(&self, index: usize) -> Option<CodecInfo>;

    /// Returns the codec that writes a media type of exactly these bytes. It compares in place: nothing is parsed, folded or
    /// looked up.
    fn written(&self, content_type: &str) -> Option<usize>;

    /// Returns the codec that reads a media type of exactly these bytes and writes another.
    fn alias(&self, content_type: &str) -> Option<usize>;

    /// Lets the codec at `index` read `body`: its size is checked before the codec gets it, and a panic is an error. `None` if
    /// there is no such codec.
    #[inline]
    fn decode_at<'de, T: Deserialize<'de>>(
        &self,
        index: usize,
        body: &'de [u8],
        cx: &DecodeContext<'_>,
    ) -> Option<Result<T, DecodeError>> {
        let mut place = None;
        match self.decode_into(index, body, cx, &mut place)? {
            Ok(()) => place.map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    /// Reads `body` as [`decode_at`](Self::decode_at) does, and leaves the value in `place`, so that each caller in between
    /// does not move it.
    fn decode_into<'de, T: Deserialize<'de>>(
        &self,
        index: usize,
        body: &'de [u8],
        cx: &DecodeContext<'_>,
        place: &mut Option<T>,
    ) -> Option<Result<(), DecodeError>>;

    /// Lets the codec at `index` write `value`. `None` if there is no such codec.
    fn encode_at<T: Serialize + ?Sized>(
        &self,
        index: usize,
        value: &T,
        out: &mut BytesMut,
    ) -> Option<Result<(), EncodeError>>;
}

/// The empty set.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCodec;

/// The set `P` and one codec more.
#[derive(Clone, Copy, Debug, Default)]
pub struct And<P, C>(pub P, pub C);

impl CodecSet for NoCodec {
    const LEN: usize = 0;

    fn info(&self, _index: usize) -> Option<CodecInfo> {
        None
    }

    #[inline]
    fn written(&self, _content_type: &str) -> Option<usize> {
        None
    }

    #[inline]
    fn alias(&self, _content_type: &str) -> Option<usize> {
        None
    }

    #[inline]
    fn decode_into<'de, T: Deserialize<'de>>(
        &self,
        _index: usize,
        _body: &'de [u8],
        _cx: &DecodeContext<'_>,
        _place: &mut Option<T>,
    ) -> Option<Result<(), DecodeError>> {
        None
    }

    #[inline]
    fn encode_at<T: Serialize + ?Sized>(
        &self,
        _index: usize,
        _value: &T,
        _out: &mut BytesMut,
    ) -> Option<Result<(), EncodeError>> {
        None
    }
}

impl<P: CodecSet, C: Codec> CodecSet for And<P, C> {
    const LEN: usize = P::LEN + 1;

    fn info(&self, index: usize) -> Option<CodecInfo> {
        if index != P::LEN {
            return self.0.info(index);
        }
        let media_types = self.1.media_types();
        let content_type = if media_types.is_empty() { "" } else { self.1.content_type() };
        Some(CodecInfo { name: self.1.name(), media_types, content_type, format: self.1.format() })
    }

    #[inline]
    fn written(&self, content_type: &str) -> Option<usize> {
        // One comparison with one constant for each codec, which the aliases would turn into a loop over texts.
        match self.1.media_types().first() {
            Some(first) if first.is_plain() && first.as_str() == content_type => Some(P::LEN),
            _ => self.0.written(content_type),
        }
    }

    fn alias(&self, content_type: &str) -> Option<usize> {
        let mut aliases = self.1.media_types().iter().skip(1);
        if aliases.any(|media_type| media_type.is_plain() && media_type.as_str() == content_type) {
            return Some(P::LEN);
        }
        self.0.alias(content_type)
    }

    #[inline]
    fn decode_into<'de, T: Deserialize<'de>>(
        &self,
        index: usize,
        body: &'de [u8],
        cx: &DecodeContext<'_>,
        place: &mut Option<T>,
    ) -> Option<Result<(), DecodeError>> {
        if index == P::LEN {
            return Some(guarded(body, cx, || {
                *place = Some(self.1.decode(body, cx)?);
                Ok(())
            }));
        }
        self.0.decode_into(index, body, cx, place)
    }

    #[inline]
    fn encode_at<T: Serialize + ?Sized>(
        &self,
        index: usize,
        value: &T,
        out: &mut BytesMut,
    ) -> Option<Result<(), EncodeError>> {
        if index == P::LEN {
            return Some(self.1.encode(value, out));
        }
        self.0.encode_at(index, value, out)
    }
}

/// Makes one attempt: it checks the size first, then calls `read`, whose panic is an error like any other.
#[inline]
pub(crate) fn guarded<T>(
    body: &[u8],
    cx: &DecodeContext<'_>,
    read: impl FnOnce() -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    cx.limits().check_size(body)?;
    // A codec is shared and unchanged, an unfinished value is lost, a body is read only: no partial state is seen later.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(DecodeError::new(DecodeErrorKind::Panic)))
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::NoCodec {}
    impl<P, C> Sealed for super::And<P, C> {}
}

#[cfg(all(test, feature = "json"))]
mod tests {
    use super::*;
    use crate::{Json, Limits};

    #[test]
    fn an_index_behind_the_last_codec_has_none() {
        let set = And(NoCodec, Json::default());
        let limits = Limits::default();
        let cx = DecodeContext::new(&limits);
        let mut out = BytesMut::new();
        for (index, is_there) in [(0, true), (1, false), (usize::MAX, false)] {
            out.clear();
            assert_eq!(set.info(index).is_some(), is_there, "{index}");
            assert_eq!(set.encode_at(index, &7, &mut out).is_some(), is_there, "{index}");
            assert_eq!(
                (set.decode_at::<u8>(index, b"7", &cx).is_some(), !out.is_empty()),
                (is_there, is_there),
                "{index}"
            );
        }
    }
}
