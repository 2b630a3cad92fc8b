use std::{
    fmt,
    task::{Context, Poll},
};

use consign_codecs::{CodecSet, Codecs, Encode};
use tower_layer::Layer;
use tower_service::Service;

use super::{Outgoing, OutgoingBatch};
use crate::{
    Message,
    middleware::SendFuture,
    transport::{Batch, SendError},
};

/// Makes [`Encoder`] services.
pub struct EncodeLayer<C> {
    codecs: Codecs<C>,
}

impl<C: CodecSet> EncodeLayer<C> {
    /// Writes with the first codec of `codecs`, or as a type writes itself.
    #[must_use]
    pub fn new(codecs: Codecs<C>) -> Self {
        Self { codecs }
    }
}

impl<C> Clone for EncodeLayer<C> {
    fn clone(&self) -> Self {
        Self { codecs: self.codecs.clone() }
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
        Encoder { inner, codecs: self.codecs.clone() }
    }
}

/// Encodes values and passes messages on; see the [module](super).
pub struct Encoder<S, C> {
    inner: S,
    codecs: Codecs<C>,
}

impl<S: Clone, C> Clone for Encoder<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), codecs: self.codecs.clone() }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Encoder<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, C: CodecSet> Encoder<S, C> {
    fn encode<T: Encode>(&self, outgoing: Outgoing<T>) -> Result<Message, SendError> {
        let Outgoing { value, mut properties, error } = outgoing;
        if let Some(error) = error {
            return Err(error.into());
        }
        let encoded = self.codecs.encode(&value)?;
        properties.set_content_type(encoded.content_type);
        properties.check()?;
        Ok(Message::from_parts(properties, encoded.body.into()))
    }
}

impl<S, C, T> Service<Outgoing<T>> for Encoder<S, C>
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

    fn call(&mut self, outgoing: Outgoing<T>) -> Self::Future {
        match self.encode(outgoing) {
            Ok(message) => SendFuture::sending(self.inner.call(message)),
            Err(error) => SendFuture::refused(error),
        }
    }
}

impl<S, C, T> Service<OutgoingBatch<T>> for Encoder<S, C>
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

    fn call(&mut self, batch: OutgoingBatch<T>) -> Self::Future {
        match batch.0.into_iter().map(|outgoing| self.encode(outgoing)).collect() {
            Ok(messages) => SendFuture::sending(self.inner.call(Batch(messages))),
            Err(error) => SendFuture::refused(error),
        }
    }
}
