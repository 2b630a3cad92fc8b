use std::{
    fmt,
    task::{Context, Poll},
};

use consign_codecs::{CodecSet, Codecs, Encode, EncodeError, EncodeErrorKind, Encoded};
use tower_layer::Layer;
use tower_service::Service;

use super::{OutboundBatch, OutboundMessage};
use crate::{
    BuildError, BuildErrorKind, Message,
    message::{InvalidArgument, Properties},
    middleware::SendFuture,
    transport::{Batch, ErrorKind, SendError},
};

/// A layer that encodes values; see the [module](super).
pub struct EncodeLayer<C> {
    pub(crate) codecs: Codecs<C>,
    pub(crate) codec: Option<&'static str>,
    /// What that codec writes.
    content_type: Option<&'static str>,
}

impl<C: CodecSet> EncodeLayer<C> {
    /// Writes with the first codec of `codecs`, or as a type writes itself.
    #[must_use]
    pub fn new(codecs: Codecs<C>) -> Self {
        Self { codecs, codec: None, content_type: None }
    }

    /// Writes with the codec of this name, if neither the message nor its type names another: the choice of the entity that
    /// this stack sends to. A type with a format of its own is written in that.
    ///
    /// Errors: the set has no codec of this name.
    pub fn codec(self, name: &'static str) -> Result<Self, BuildError> {
        let Some(content_type) = self.codecs.content_type_of(name) else {
            let advice = format!("the set has no codec `{name}`: add it, or name one of the set");
            return Err(BuildError::new(BuildErrorKind::UnknownCodec, advice).named(name));
        };
        Ok(Self { codec: Some(name), content_type: Some(content_type), ..self })
    }
}

impl<C> Clone for EncodeLayer<C> {
    fn clone(&self) -> Self {
        Self { codecs: self.codecs.clone(), codec: self.codec, content_type: self.content_type }
    }
}

impl<C> fmt::Debug for EncodeLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodeLayer").finish_non_exhaustive()
    }
}

impl<S, C> Layer<S> for EncodeLayer<C> {
    type Service = Encoder<S, C>;

    fn layer(&self, inner: S) -> Encoder<S, C> {
        Encoder { inner, codecs: self.codecs.clone(), content_type: self.content_type }
    }
}

/// Encodes values and passes messages on; see the [module](super).
#[doc(hidden)]
pub struct Encoder<S, C> {
    inner: S,
    codecs: Codecs<C>,
    content_type: Option<&'static str>,
}

impl<S: Clone, C> Clone for Encoder<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), codecs: self.codecs.clone(), content_type: self.content_type }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Encoder<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// The properties that are sent with a value, and the codec that encodes it.
pub(crate) struct Outbound {
    pub(crate) properties: Properties,
    pub(crate) error: Option<InvalidArgument>,
    pub(crate) codec: Option<&'static str>,
}

/// Encodes a value with the codec that it names, or else with that of `content_type`, or else with the first of the set.
pub(crate) fn encode_message<T: Encode, C: CodecSet>(
    codecs: &Codecs<C>,
    content_type: Option<&'static str>,
    outgoing: OutboundMessage<T>,
) -> Result<Message, SendError> {
    let OutboundMessage { value, properties, error, codec } = outgoing;
    encode_value(codecs, content_type, &value, Outbound { properties, error, codec })
}

pub(crate) fn encode_value<T: Encode + ?Sized, C: CodecSet>(
    codecs: &Codecs<C>,
    content_type: Option<&'static str>,
    value: &T,
    outbound: Outbound,
) -> Result<Message, SendError> {
    let Outbound { mut properties, error, codec } = outbound;
    if let Some(error) = error {
        return Err(error.into());
    }
    let encoded = match (codec, content_type) {
        (Some(name), _) => named(codecs, value, name),
        (None, Some(content_type)) => of_entity(codecs, value, content_type),
        (None, None) => codecs.encode(value),
    };
    let encoded = encoded.map_err(unencodable)?;
    properties.set_content_type(encoded.content_type);
    properties.check()?;
    Ok(Message::from_parts(properties, encoded.body.into()))
}

fn of_entity<T: Encode + ?Sized, C: CodecSet>(
    codecs: &Codecs<C>,
    value: &T,
    content_type: &'static str,
) -> Result<Encoded, EncodeError> {
    match codecs.encode_as(value, content_type) {
        // The codec is there, so it is the type that writes nothing but its own format.
        Err(error) if error.kind() == EncodeErrorKind::NoSuchMediaType => codecs.encode(value),
        encoded => encoded,
    }
}

fn named<T: Encode + ?Sized, C: CodecSet>(
    codecs: &Codecs<C>,
    value: &T,
    name: &'static str,
) -> Result<Encoded, EncodeError> {
    match codecs.content_type_of(name) {
        Some(content_type) => codecs.encode_as(value, content_type),
        None => Err(codecs.no_such_codec(name)),
    }
}

#[cold]
fn unencodable(error: EncodeError) -> SendError {
    SendError::new(ErrorKind::Serialization).with_detail(error.to_string()).with_source(error)
}

impl<S, C, T> Service<OutboundMessage<T>> for Encoder<S, C>
where
    S: Service<Message, Response = ()>,
    S::Error: Into<SendError>,
    C: CodecSet,
    T: Encode,
{
    type Response = ();
    type Error = SendError;
    type Future = SendFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, outgoing: OutboundMessage<T>) -> Self::Future {
        match encode_message(&self.codecs, self.content_type, outgoing) {
            Ok(message) => SendFuture::sending(self.inner.call(message)),
            Err(error) => SendFuture::refused(error),
        }
    }
}

impl<S, C, T> Service<OutboundBatch<T>> for Encoder<S, C>
where
    S: Service<Batch, Response = ()>,
    S::Error: Into<SendError>,
    C: CodecSet,
    T: Encode,
{
    type Response = ();
    type Error = SendError;
    type Future = SendFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, batch: OutboundBatch<T>) -> Self::Future {
        match batch
            .0
            .into_iter()
            .map(|outgoing| encode_message(&self.codecs, self.content_type, outgoing))
            .collect::<Result<Batch, _>>()
        {
            Ok(batch) => SendFuture::sending(self.inner.call(batch)),
            Err(error) => SendFuture::refused(error),
        }
    }
}
