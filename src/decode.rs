//! From a message to a value, by its ContentType.

use consign_codecs::{CodecSet, Codecs, ContentType, Decode, Decoded};

use crate::{Message, content_encoding, message::MessageBody, settlement::Undecodable};

/// Decodes the body of a [`Message`] by its ContentType.
///
/// ```
/// # #[cfg(feature = "json")] {
/// use consign::{Message, MessageExt, codecs::Codecs};
///
/// let message = Message::builder().content_type("application/json").build(r#"["sku-7",3]"#)?;
/// let (sku, count): (&str, u32) = message.decode(&Codecs::json())?;
/// assert_eq!((sku, count), ("sku-7", 3));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait MessageExt: sealed::Sealed {
    /// Decodes the body as a `T`, by the message's ContentType and the rules of `codecs`. The value may borrow from the
    /// message.
    ///
    /// An AMQP string value without a ContentType is decoded as `text/plain`, if `codecs` has a codec for it. AMQP null is an empty body
    /// for the codec of the ContentType, and a binary value is its bytes. Other AMQP values, and sequences, are decoded by the codec
    /// `amqp-value`, with the feature of this name, and refused without it. A compressed body is refused: the layer
    /// `middleware::content_encoding::DecompressLayer` decompresses it first. A `ContentEncoding` that names a charset,
    /// `identity`, `binary`, `7bit` or `8bit` is ignored.
    ///
    /// # Errors
    ///
    /// [`Undecodable`], which converts into the dead letter: no codec could read the body, the body is compressed, or it is
    /// an AMQP value that is not a `T`.
    fn decode<'m, T: Decode<'m>, C: CodecSet>(&'m self, codecs: &Codecs<C>) -> Result<T, Undecodable>;

    /// Decodes the body as [`decode`](Self::decode) does, and returns the codec and the attempts that failed before it.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    fn decode_traced<'m, T: Decode<'m>, C: CodecSet>(&'m self, codecs: &Codecs<C>) -> Result<Decoded<T>, Undecodable>;

    /// Decodes the body as [`decode`](Self::decode) does, and leaves the value in `place`, so that the callers in between do not
    /// move it.
    #[doc(hidden)]
    fn decode_into<'m, T: Decode<'m>, C: CodecSet>(
        &'m self,
        codecs: &Codecs<C>,
        place: &mut Option<T>,
    ) -> Result<(), Undecodable>;

    /// Returns the `ContentType`, parsed.
    fn parsed_content_type(&self) -> Option<ContentType>;
}

impl MessageExt for Message {
    #[inline]
    fn decode<'m, T: Decode<'m>, C: CodecSet>(&'m self, codecs: &Codecs<C>) -> Result<T, Undecodable> {
        match encoded(self, codecs) {
            Ok((content_type, body)) => codecs.decode(content_type, body).map_err(Undecodable::codecs),
            Err(refused) => decode_value(self, codecs, refused).map(Decoded::into_value),
        }
    }

    #[inline]
    fn decode_traced<'m, T: Decode<'m>, C: CodecSet>(&'m self, codecs: &Codecs<C>) -> Result<Decoded<T>, Undecodable> {
        match encoded(self, codecs) {
            Ok((content_type, body)) => codecs.decode_traced(content_type, body).map_err(Undecodable::codecs),
            Err(refused) => decode_value(self, codecs, refused),
        }
    }

    #[inline]
    fn decode_into<'m, T: Decode<'m>, C: CodecSet>(
        &'m self,
        codecs: &Codecs<C>,
        place: &mut Option<T>,
    ) -> Result<(), Undecodable> {
        match encoded(self, codecs) {
            Ok((content_type, body)) => codecs.decode_into(content_type, body, place).map_err(Undecodable::codecs),
            Err(refused) => {
                *place = Some(decode_value(self, codecs, refused)?.into_value());
                Ok(())
            }
        }
    }

    fn parsed_content_type(&self) -> Option<ContentType> {
        self.content_type().map(ContentType::parse)
    }
}

/// Decodes a body that was refused because it is not bytes.
#[cfg(feature = "amqp-value")]
#[cold]
fn decode_value<'m, T: Decode<'m>, C: CodecSet>(
    message: &'m Message,
    codecs: &Codecs<C>,
    refused: Undecodable,
) -> Result<Decoded<T>, Undecodable> {
    match crate::amqp_value::Content::of(message.body()) {
        Some(value) if refused.is_not_bytes() => {
            codecs.decode_amqp_value(message.content_type(), value).map_err(Undecodable::codecs)
        }
        _ => Err(refused),
    }
}

#[cfg(not(feature = "amqp-value"))]
#[cold]
fn decode_value<'m, T: Decode<'m>, C: CodecSet>(
    _: &'m Message,
    _: &Codecs<C>,
    refused: Undecodable,
) -> Result<Decoded<T>, Undecodable> {
    Err(refused)
}

/// Returns the ContentType and the bytes that a codec gets.
#[inline]
pub(crate) fn encoded<'m, C: CodecSet>(
    message: &'m Message,
    codecs: &Codecs<C>,
) -> Result<(Option<&'m str>, &'m [u8]), Undecodable> {
    if let Some(encoding) = content_encoding::encoding_of(message) {
        return Err(Undecodable::content_encoding(encoding));
    }
    let Some(body) = message.payload() else {
        return Err(Undecodable::not_bytes(message.body()));
    };
    let declared = message.content_type();
    match message.body() {
        MessageBody::Value(value) if value.as_str().is_some() => Ok((of_text(declared, codecs), body)),
        _ => Ok((declared, body)),
    }
}

/// Returns the ContentType of an AMQP string value. Without one it is text, for a set that reads text.
#[cold]
fn of_text<'m, C: CodecSet>(declared: Option<&'m str>, codecs: &Codecs<C>) -> Option<&'m str> {
    const TEXT: &str = "text/plain";
    let is_missing = declared.is_none_or(|declared| declared.trim_matches([' ', '\t', '\r', '\n']).is_empty());
    if is_missing && codecs.codec_for(TEXT).is_some() { Some(TEXT) } else { declared }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::Message {}
}
