use serde::Deserialize;

use super::{Attempt, Chosen, Codecs, Declared, DecodeFailure, Decoded, decode::failure, rules::Resolution};
use crate::{
    CodecSet, Decode, DecodeContext, DecodeError, DecodeErrorKind,
    amqp_value::{NAME, Node, from_value},
    set::guarded,
};

impl<S: CodecSet> Codecs<S> {
    /// Reads a value of AMQP 1.0 as a `T`. No codec of the set tries, because such a body has no bytes. The failure has one
    /// attempt, of the codec `amqp-value`.
    ///
    /// `content_type` is the declared text, if any. It does not choose the codec. One that is not
    /// [allowed](crate::CodecsBuilder::allow) here is refused.
    ///
    /// # Errors
    /// The value is not a `T`, exceeds a limit of the set, or `T` has a format of its own, which is bytes.
    pub fn decode_amqp_value<'de, T: Decode<'de>>(
        &self,
        content_type: Option<&str>,
        value: impl Node<'de>,
    ) -> Result<Decoded<T>, DecodeFailure> {
        T::decode_from_amqp_value(self, content_type, value)
    }

    /// Reads a value of a type that serde reads.
    pub(crate) fn amqp_value_by_serde<'de, T: Deserialize<'de>>(
        &self,
        content_type: Option<&str>,
        value: impl Node<'de>,
    ) -> Result<Decoded<T>, DecodeFailure> {
        self.decode_without_bytes(content_type, || from_value(value, self.limits()))
    }

    /// Refuses a value for a type that has a format of its own.
    #[cold]
    pub(crate) fn amqp_value_for_own_format<T>(&self, content_type: Option<&str>) -> Result<Decoded<T>, DecodeFailure> {
        const DETAIL: &str = "the type has a format of its own, and the body is not bytes";
        self.decode_without_bytes(content_type, || Err(DecodeError::new(DecodeErrorKind::Type).with_detail(DETAIL)))
    }

    fn decode_without_bytes<T>(
        &self,
        content_type: Option<&str>,
        read: impl FnOnce() -> Result<T, DecodeError>,
    ) -> Result<Decoded<T>, DecodeFailure> {
        let resolution = self.inner.rules.resolve(content_type);
        let is_allowed =
            !matches!(&resolution, Resolution::Parsed(resolved) if resolved.declared == Declared::NotAllowed);
        let attempt = is_allowed.then(|| guarded(&[], &DecodeContext::new(self.limits()), read));
        let result = match attempt {
            Some(Ok(value)) => Ok(Decoded { value, by: NAME, chosen: Chosen::Exact, attempts: Vec::new() }),
            Some(Err(error)) => {
                let attempt = Attempt { codec: NAME, chosen: Chosen::Exact, error };
                Err(failure(&resolution, content_type, self.limits(), vec![attempt]))
            }
            None => Err(failure(&resolution, content_type, self.limits(), Vec::new())),
        };
        if let Some(observer) = &self.inner.observer {
            observer.tell(resolution.declared(), &result);
        }
        result
    }
}
