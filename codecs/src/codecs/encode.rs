//! How a set writes a value.

use serde::Serialize;

use super::{Codecs, Encoded, Inner, no_such, scratch};
use crate::{CodecSet, EncodeError, EncodeErrorKind};

impl<S: CodecSet> Codecs<S> {
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

    #[inline]
    pub(super) fn encode_at<T: Serialize + ?Sized>(&self, codec: usize, value: &T) -> Result<Encoded, EncodeError> {
        let Inner { set, rules, .. } = &*self.inner;
        let body = scratch::written(|out| match set.encode_at(codec, value, out) {
            Some(written) => written,
            None => Err(EncodeError::new(EncodeErrorKind::NoSuchMediaType)),
        })?;
        Ok(Encoded { content_type: rules.members[codec].content_type, body })
    }
}
