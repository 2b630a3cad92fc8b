use bytes::BytesMut;

use super::{
    Attempt, Chosen, Codecs, Declared, DecodeFailure, Decoded, Encoded,
    decode::failure,
    rules::{Resolution, media_type_match},
    scratch,
};
#[cfg(feature = "protobuf")]
use crate::ContentType;
use crate::{CodecSet, DecodeContext, DecodeError, EncodeError, EncodeErrorKind, MediaType, set::guarded};

/// The format of a type that reads and writes its own bytes: a name for trails, and media types, of which the first is written.
#[derive(Clone, Copy, Debug)]
pub struct OwnFormat {
    name: &'static str,
    media_types: &'static [MediaType],
}

impl OwnFormat {
    /// Creates a format that reads `media_types`, exact ones in canonical form, and writes the first of them.
    ///
    /// `name` is 1 to 32 letters, digits, `-`, `_` and `.`; in a trail another character becomes `_`.
    #[must_use]
    pub const fn new(name: &'static str, media_types: &'static [MediaType]) -> Self {
        Self { name, media_types }
    }

    /// Returns whether the format reads this type.
    #[cfg(feature = "protobuf")]
    pub(crate) fn reads(&self, content_type: &str) -> bool {
        media_type_match(self.media_types, &ContentType::parse(content_type)).is_some()
    }

    /// Returns whether one of the media types has exactly these bytes.
    #[inline]
    fn exact(&self, content_type: &str) -> Option<Chosen> {
        let at = self.media_types.iter().position(|it| it.is_plain() && it.as_str() == content_type)?;
        Some(if at == 0 { Chosen::Exact } else { Chosen::Alias })
    }

    #[cold]
    fn refused(&self, chosen: Chosen, error: DecodeError) -> Vec<Attempt> {
        vec![Attempt { codec: self.name, chosen, error }]
    }
}

impl<S: CodecSet> Codecs<S> {
    /// Reads a value of a type that has a format of its own, with the set's rules: the declared type must be one of the
    /// format's, or missing where [`on_missing`](super::CodecsBuilder::on_missing) does not reject, and allowed here. The size
    /// is checked first, and a panic in `read` is a failed attempt. No codec of the set tries.
    pub fn decode_own<'de, T>(
        &self,
        format: &OwnFormat,
        content_type: Option<&str>,
        body: &'de [u8],
        read: impl FnOnce(&'de [u8], &DecodeContext<'_>) -> Result<T, DecodeError>,
    ) -> Result<Decoded<T>, DecodeFailure> {
        let rules = &self.inner.rules;
        if let Some(chosen) = content_type.and_then(|declared| format.exact(declared))
            && rules.allowed.is_everything()
        {
            let cx = DecodeContext::new(self.limits());
            let result = match guarded(body, &cx, || read(body, &cx)) {
                Ok(value) => Ok(Decoded { value, by: format.name, chosen, attempts: Vec::new() }),
                Err(error) => {
                    let attempts = format.refused(chosen, error);
                    Err(failure(&rules.resolve(content_type), content_type, self.limits(), attempts))
                }
            };
            if let Some(observer) = &self.inner.observer {
                observer.tell(Declared::Known, &result);
            }
            return result;
        }
        let resolution = rules.resolve(content_type);
        let chosen = match &resolution {
            Resolution::Missing if rules.missing.steps.is_empty() => None,
            Resolution::Missing => Some(Chosen::Default),
            Resolution::Parsed(resolved) if resolved.declared != Declared::NotAllowed => {
                media_type_match(format.media_types, &resolved.content_type)
            }
            Resolution::Malformed(_) | Resolution::Parsed(_) => None,
        };
        let cx = match resolution.content_type() {
            Some(content_type) => DecodeContext::new(self.limits()).with_content_type(content_type),
            None => DecodeContext::new(self.limits()),
        };
        let result = match chosen.map(|chosen| (chosen, guarded(body, &cx, || read(body, &cx)))) {
            Some((chosen, Ok(value))) => Ok(Decoded { value, by: format.name, chosen, attempts: Vec::new() }),
            Some((chosen, Err(error))) => {
                Err(failure(&resolution, content_type, self.limits(), format.refused(chosen, error)))
            }
            None => {
                Err(failure(&resolution, content_type, self.limits(), Vec::new()).of_own_format(format.media_types))
            }
        };
        if let Some(observer) = &self.inner.observer {
            // The format may read a type that is unknown to the set.
            let declared = match resolution.declared() {
                Declared::Unknown if chosen.is_some() => Declared::Known,
                declared => declared,
            };
            observer.tell(declared, &result);
        }
        result
    }

    /// Writes a value of a type that has a format of its own. On an error there is no body.
    pub fn encode_own(
        &self,
        format: &OwnFormat,
        write: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>,
    ) -> Result<Encoded, EncodeError> {
        let Some(written) = format.media_types.first() else {
            return Err(EncodeError::new(EncodeErrorKind::NoSuchMediaType).with_detail(format.name));
        };
        Ok(Encoded { content_type: written.as_str(), body: scratch::written(write)? })
    }
}
