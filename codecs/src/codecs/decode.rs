//! How a set reads a body: on the hot path, or by its rules.

use serde::{Deserialize, de::DeserializeOwned};

use super::{Attempt, Chosen, Codecs, DecodeFailure, Decoded, Encoded, Inner, exact, rules::Resolution};
use crate::{CodecSet, ContentType, DecodeContext, DecodeError, Limits, content_type::excerpt};

/// What a hot path promises of the place that it was given.
const IN_PLACE: &str = "a value that was read is in its place";

impl<S: CodecSet> Codecs<S> {
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
        Err(failure(resolution, content_type, limits, attempts))
    }

    /// Reads a body with the codec that has written it. The limits and the rules for received bodies do not apply.
    pub(crate) fn read_written<T: DeserializeOwned>(&self, encoded: &Encoded) -> Option<T> {
        let (codec, _) = exact(&self.inner.set, encoded.content_type)?;
        let limits = Limits::default().bytes(Limits::MAX_BYTES).depth(Limits::MAX_DEPTH).elements(Limits::MAX_ELEMENTS);
        let declared = ContentType::parse(encoded.content_type);
        let cx = DecodeContext::new(&limits).with_content_type(&declared);
        self.inner.set.decode_at(codec, &encoded.body, &cx)?.ok()
    }
}

#[cold]
pub(super) fn failure(
    resolution: &Resolution,
    content_type: Option<&str>,
    limits: &Limits,
    mut attempts: Vec<Attempt>,
) -> DecodeFailure {
    for attempt in &mut attempts {
        attempt.error.name_limit(limits);
    }
    let text = excerpt(content_type.unwrap_or_default());
    DecodeFailure::new(resolution.declared(), resolution.malformed(), text, attempts)
}
