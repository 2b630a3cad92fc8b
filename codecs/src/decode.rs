//! The two interfaces between a Rust type and its bytes: serde and the set's codecs, or a format of its own.

use serde::{Deserialize, Serialize};

use crate::{CodecSet, Codecs, ContentType, DecodeFailure, Decoded, EncodeError, Encoded, codecs::no_such};

/// A type that can be read from a body. Every [`Deserialize`] type is one; a type with a format of its own implements it.
///
/// ```
/// use consign_codecs::{
///     CodecSet, Codecs, Decode, DecodeError, DecodeErrorKind, DecodeFailure, Decoded, Encode, EncodeError, Encoded, MediaType,
///     OwnFormat,
/// };
///
/// /// A reading of a sensor: four bytes, big-endian, in thousandths of a degree.
/// #[derive(Debug, PartialEq)]
/// struct Temperature(i32);
///
/// const FORMAT: OwnFormat = OwnFormat::new("temperature", &[MediaType::exact("application/x-temperature")]);
///
/// impl<'de> Decode<'de> for Temperature {
///     fn decode_from<S: CodecSet>(
///         codecs: &Codecs<S>,
///         content_type: Option<&str>,
///         body: &'de [u8],
///     ) -> Result<Decoded<Self>, DecodeFailure> {
///         codecs.decode_own(&FORMAT, content_type, body, |body, _cx| match body.try_into() {
///             Ok(bytes) => Ok(Self(i32::from_be_bytes(bytes))),
///             Err(_) => Err(DecodeError::new(DecodeErrorKind::Type)),
///         })
///     }
/// }
///
/// impl Encode for Temperature {
///     fn encode_with<S: CodecSet>(&self, codecs: &Codecs<S>) -> Result<Encoded, EncodeError> {
///         codecs.encode_own(&FORMAT, |out| Ok(out.extend_from_slice(&self.0.to_be_bytes())))
///     }
/// }
///
/// # #[cfg(feature = "json")] {
/// let codecs = Codecs::json();
/// let encoded = codecs.encode(&Temperature(21_500)).expect("four bytes are always written");
/// assert_eq!(encoded.content_type, "application/x-temperature");
/// let decoded: Temperature = codecs.decode(Some(encoded.content_type), &encoded.body).expect("what was written is read");
/// assert_eq!(decoded, Temperature(21_500));
/// assert!(codecs.decode::<Temperature>(Some("application/json"), b"21.5").is_err());
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read out of a body: derive `serde::Deserialize` for it",
    label = "no `Decode` for this type",
    note = "derive `serde::Deserialize` for it, so that the codecs of the set read it",
    note = "or implement `Decode`, if it has a format of its own",
    note = "or wrap it in `Protobuf`, if it is a `prost` message"
)]
pub trait Decode<'de>: Sized {
    /// Reads one value, and reports how it was read.
    fn decode_from<S: CodecSet>(
        codecs: &Codecs<S>,
        content_type: Option<&str>,
        body: &'de [u8],
    ) -> Result<Decoded<Self>, DecodeFailure>;

    /// Reads one value.
    #[inline]
    fn decode_value<S: CodecSet>(
        codecs: &Codecs<S>,
        content_type: Option<&str>,
        body: &'de [u8],
    ) -> Result<Self, DecodeFailure> {
        Self::decode_from(codecs, content_type, body).map(Decoded::into_value)
    }

    /// Reads one value into `place`, so that the callers in between do not move it.
    #[doc(hidden)]
    #[inline]
    fn decode_into<S: CodecSet>(
        codecs: &Codecs<S>,
        content_type: Option<&str>,
        body: &'de [u8],
        place: &mut Option<Self>,
    ) -> Result<(), DecodeFailure> {
        *place = Some(Self::decode_value(codecs, content_type, body)?);
        Ok(())
    }

    /// Reads a value of AMQP 1.0, which is not bytes, and reports how it was read. By default it is refused: a type with a format of
    /// its own reads bytes.
    #[cfg(feature = "amqp-value")]
    fn decode_from_amqp_value<S: CodecSet>(
        codecs: &Codecs<S>,
        content_type: Option<&str>,
        value: impl crate::amqp_value::Node<'de>,
    ) -> Result<Decoded<Self>, DecodeFailure> {
        let _ = value;
        codecs.amqp_value_for_own_format(content_type)
    }
}

/// A type that can be read from a body and does not borrow from it.
pub trait DecodeOwned: for<'de> Decode<'de> {}

impl<T: for<'de> OwnsItsData<'de>> DecodeOwned for T {}

/// [`Decode`] under a name that says what to do: the compiler reports the implementation of this trait as not general enough if a
/// type that borrows has to be [`DecodeOwned`].
#[doc(hidden)]
pub trait OwnsItsData<'de>: Decode<'de> {}

impl<'de, T: Decode<'de>> OwnsItsData<'de> for T {}

/// A type that can be written to a body. Every [`Serialize`] type is one; a type with a format of its own implements it (see
/// [`Decode`] for an example).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written into a body: derive `serde::Serialize` for it",
    label = "no `Encode` for this type",
    note = "derive `serde::Serialize` for it, so that the codecs of the set write it",
    note = "or implement `Encode`, if it has a format of its own",
    note = "or wrap it in `Protobuf`, if it is a `prost` message"
)]
pub trait Encode {
    /// Writes the value with the first codec of the set, or in its own format.
    fn encode_with<S: CodecSet>(&self, codecs: &Codecs<S>) -> Result<Encoded, EncodeError>;

    /// Writes the value so that a reader of `content_type` can read it. A type with one format of its own writes that, or
    /// refuses with [`EncodeErrorKind::NoSuchMediaType`](crate::EncodeErrorKind::NoSuchMediaType) when its essence is another.
    /// `Protobuf` is written for each media type that it reads.
    fn encode_as<S: CodecSet>(&self, codecs: &Codecs<S>, content_type: &str) -> Result<Encoded, EncodeError> {
        let encoded = self.encode_with(codecs)?;
        if ContentType::parse(encoded.content_type).essence() == ContentType::parse(content_type).essence() {
            return Ok(encoded);
        }
        Err(no_such(content_type))
    }
}

#[diagnostic::do_not_recommend]
impl<'de, T: Deserialize<'de>> Decode<'de> for T {
    #[inline]
    fn decode_from<S: CodecSet>(
        codecs: &Codecs<S>,
        content_type: Option<&str>,
        body: &'de [u8],
    ) -> Result<Decoded<Self>, DecodeFailure> {
        codecs.decode_by_serde_traced(content_type, body)
    }

    #[inline]
    fn decode_value<S: CodecSet>(
        codecs: &Codecs<S>,
        content_type: Option<&str>,
        body: &'de [u8],
    ) -> Result<Self, DecodeFailure> {
        codecs.decode_by_serde(content_type, body)
    }

    #[inline]
    fn decode_into<S: CodecSet>(
        codecs: &Codecs<S>,
        content_type: Option<&str>,
        body: &'de [u8],
        place: &mut Option<Self>,
    ) -> Result<(), DecodeFailure> {
        codecs.decode_by_serde_into(content_type, body, place)
    }

    #[cfg(feature = "amqp-value")]
    fn decode_from_amqp_value<S: CodecSet>(
        codecs: &Codecs<S>,
        content_type: Option<&str>,
        value: impl crate::amqp_value::Node<'de>,
    ) -> Result<Decoded<Self>, DecodeFailure> {
        codecs.amqp_value_by_serde(content_type, value)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + ?Sized> Encode for T {
    #[inline]
    fn encode_with<S: CodecSet>(&self, codecs: &Codecs<S>) -> Result<Encoded, EncodeError> {
        codecs.encode_by_serde(self)
    }

    fn encode_as<S: CodecSet>(&self, codecs: &Codecs<S>, content_type: &str) -> Result<Encoded, EncodeError> {
        codecs.encode_by_serde_as(self, content_type)
    }
}

#[cfg(feature = "protobuf")]
mod protobuf {
    use super::{CodecSet, Codecs, Decode, DecodeFailure, Decoded, Encode, EncodeError, Encoded, no_such};
    use crate::{OwnFormat, Protobuf};

    const FORMAT: OwnFormat = OwnFormat::new("protobuf", Protobuf::<()>::MEDIA_TYPES);

    impl<'de, M: prost::Message + Default> Decode<'de> for Protobuf<M> {
        fn decode_from<S: CodecSet>(
            codecs: &Codecs<S>,
            content_type: Option<&str>,
            body: &'de [u8],
        ) -> Result<Decoded<Self>, DecodeFailure> {
            codecs.decode_own(&FORMAT, content_type, body, Self::read)
        }
    }

    impl<M: prost::Message> Encode for Protobuf<M> {
        fn encode_with<S: CodecSet>(&self, codecs: &Codecs<S>) -> Result<Encoded, EncodeError> {
            codecs.encode_own(&FORMAT, |out| self.write(out))
        }

        fn encode_as<S: CodecSet>(&self, codecs: &Codecs<S>, content_type: &str) -> Result<Encoded, EncodeError> {
            if FORMAT.reads(content_type) { self.encode_with(codecs) } else { Err(no_such(content_type)) }
        }
    }
}
