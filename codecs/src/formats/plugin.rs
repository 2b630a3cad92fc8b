use std::{fmt, sync::Arc};

use bytes::BytesMut;
use serde::{Deserialize, Serialize};

use super::empty;
use crate::serde_error;
use crate::{
    Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Format, MediaType,
    explain::{Trace, explain},
    limits::guard::{Guard, Watch},
};

/// Reads the requested type from a deserializer. The error is already free of bytes of the body.
pub type Visit<'v, 'de> = &'v mut dyn FnMut(&mut dyn erased_serde::Deserializer<'de>) -> Result<(), DecodeError>;

/// A codec that is chosen at run time. [`Plugin`] makes it a [`Codec`].
pub trait PluginCodec: Send + Sync + 'static {
    /// Returns a short name, unique in a set.
    fn name(&self) -> &'static str;

    /// Returns the media types this codec reads. The first is the one it writes; there must be one.
    fn media_types(&self) -> &'static [MediaType];

    /// Returns the kind of the format.
    fn format(&self) -> Format;

    /// Creates a deserializer over the body, passes it to `visit`, and checks that the whole body was read.
    ///
    /// `visit` is called once. A body that the type refused is decoded again, to find the place in the type. An error of
    /// `visit` means that the value is not of the type. A plug-in that detects that the bytes are not its format, or that they
    /// end too soon, returns its own error instead. The body is within [`Limits::bytes`](crate::Limits::bytes), and empty only
    /// if the format is [`Format::Opaque`]. Depth and elements are counted as the type requests them. The deserializer must
    /// bound its own work, such as skipping a value.
    fn decode<'de>(&self, body: &'de [u8], cx: &DecodeContext<'_>, visit: Visit<'_, 'de>) -> Result<(), DecodeError>;

    /// Appends one value to `out`.
    fn encode(&self, value: &dyn erased_serde::Serialize, out: &mut BytesMut) -> Result<(), EncodeError>;
}

/// A [`PluginCodec`] as a member of a set.
///
/// Every field and element goes through two virtual calls and some through an allocation: about twice the instructions
/// of a built-in format.
#[derive(Clone)]
pub struct Plugin(Arc<dyn PluginCodec>);

impl Plugin {
    /// Wraps a codec.
    #[must_use]
    pub fn new(codec: impl PluginCodec) -> Self {
        Self(Arc::new(codec))
    }
}

impl Plugin {
    #[cold]
    #[inline(never)]
    fn explained<'de, T: Deserialize<'de>>(
        &self,
        error: &DecodeError,
        body: &'de [u8],
        cx: &DecodeContext<'_>,
    ) -> DecodeError {
        let read = |trace: &Trace| {
            let watch = Watch::new(cx.limits(), body);
            // The second result of the plug-in is the same, or not reliable.
            let _ = self.0.decode(body, cx, &mut |reader| {
                trace.read::<T, _>(Guard::new(reader, &watch));
                Err(error.clone())
            });
        };
        explain(error.clone(), read, |_| None)
    }
}

impl From<Arc<dyn PluginCodec>> for Plugin {
    fn from(codec: Arc<dyn PluginCodec>) -> Self {
        Self(codec)
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plugin").field(&self.0.name()).finish()
    }
}

impl Codec for Plugin {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn media_types(&self) -> &'static [MediaType] {
        self.0.media_types()
    }

    fn format(&self) -> Format {
        self.0.format()
    }

    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        cx.limits().check_size(body)?;
        if body.is_empty() && self.format() != Format::Opaque {
            return empty::decode();
        }
        let watch = Watch::new(cx.limits(), body);
        let mut value = None;
        let result = self.0.decode(body, cx, &mut |reader| {
            let read = T::deserialize(Guard::new(reader, &watch));
            // The reader may have written more after the expectation of the type, which is read from the type instead.
            value = Some(read.map_err(|error| serde_error::refusal(&error.to_string()).without_expected())?);
            Ok(())
        });
        if let Some(error) = watch.breach().or(result.err()) {
            return Err(self.explained::<T>(&error, body, cx));
        }
        value.ok_or_else(|| DecodeError::new(DecodeErrorKind::Type).with_detail("the plug-in read no value"))
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.0.encode(&value, out)
    }
}
