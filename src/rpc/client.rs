use std::{
    borrow::Cow,
    fmt,
    future::poll_fn,
    marker::PhantomData,
    num::NonZeroUsize,
    pin::Pin,
    task::{Context, Poll, ready},
};

use consign_codecs::{CodecSet, Codecs, DecodeOwned, Encode};
use futures_util::Stream;
use tower::{BoxError, ServiceExt};
use tower_service::Service;

use super::{Answers, CallError, Fault, Gather, responder::ACCEPT};
use crate::{
    Message, MessageExt,
    message::{InvalidArgument, Properties},
};

/// Typed calls: writes requests and reads replies with a set of codecs, around a [`Requester`](super::Requester) or a stack
/// of layers with one inside.
///
/// Clones are cheap: give each subject of requests one of its own, by [`subject`](Self::subject).
///
/// In the type of a field, `Client<S>` is a client with [`Codecs::json`].
#[derive(Clone)]
pub struct Client<
    S,
    #[cfg(feature = "json")] C = consign_codecs::And<consign_codecs::NoCodec, consign_codecs::Json>,
    #[cfg(not(feature = "json"))] C,
> {
    service: S,
    codecs: Codecs<C>,
    properties: Properties,
}

impl<S, C: CodecSet> Client<S, C> {
    /// Calls through `service`. Requests are written with the first of `codecs`; any of them may read the reply.
    #[must_use]
    pub fn new(service: S, codecs: Codecs<C>) -> Self {
        Self { service, codecs, properties: Properties::new() }
    }

    /// Sets the subject of the requests, by which responders choose a handler.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<Cow<'static, str>>) -> Self {
        self.properties.set_subject(subject).share();
        self
    }

    /// Sets how long a call waits: above zero, in whole milliseconds. Otherwise the requester's default.
    pub fn timeout(mut self, timeout: std::time::Duration) -> Result<Self, InvalidArgument> {
        self.properties.set_time_to_live(timeout)?;
        Ok(self)
    }

    /// Sets the formats for a reply by preference, as in the `Accept` of HTTP:
    /// `application/cbor;q=0.5, application/json`. Otherwise responders answer in the format of the request.
    #[must_use]
    pub fn accept(mut self, formats: &str) -> Self {
        self.properties.application_properties_mut().insert(ACCEPT, formats.to_owned());
        self
    }

    /// Further properties of the requests.
    #[must_use]
    pub fn properties_mut(&mut self) -> &mut Properties {
        &mut self.properties
    }

    fn request<T: Encode + ?Sized>(&self, value: &T) -> Result<Message, CallError> {
        let encoded = self.codecs.encode(value)?;
        let mut properties = self.properties.clone();
        properties.set_content_type(encoded.content_type);
        Ok(Message::from_parts(properties, encoded.body.into()))
    }

    /// Sends a request and waits for the first reply. The [kinds](super::CallErrorKind) of its error list the
    /// failures.
    pub async fn call<Reply: DecodeOwned>(&self, request: &(impl Encode + ?Sized)) -> Result<Reply, CallError>
    where
        S: Service<Message, Response = Message> + Clone,
        S::Error: Into<BoxError>,
    {
        let request = self.request(request)?;
        let mut service = self.service.clone();
        poll_fn(|cx| service.poll_ready(cx)).await.map_err(of_stack)?;
        let reply = service.call(request).await.map_err(of_stack)?;
        read(&reply, &self.codecs)
    }

    /// Sends a request and returns the replies as they arrive: as many as `max`, or all until the
    /// deadline.
    pub async fn call_many<Reply: DecodeOwned>(
        &self,
        request: &(impl Encode + ?Sized),
        max: NonZeroUsize,
    ) -> Result<TypedAnswers<Reply, C>, CallError>
    where
        S: Service<Gather, Response = Answers> + Clone,
        S::Error: Into<BoxError>,
    {
        let gather = Gather { request: self.request(request)?, max };
        let answers = self.service.clone().oneshot(gather).await.map_err(of_stack)?;
        Ok(TypedAnswers { answers, codecs: self.codecs.clone(), reply: PhantomData })
    }
}

#[cold]
fn of_stack(error: impl Into<BoxError>) -> CallError {
    error.into().into()
}

fn read<Reply: DecodeOwned, C: CodecSet>(reply: &Message, codecs: &Codecs<C>) -> Result<Reply, CallError> {
    match Fault::of_reply(reply) {
        Some(fault) => Err(fault.into()),
        None => Ok(reply.decode(codecs)?),
    }
}

/// A stream of the decoded replies to one request, which ends after the requested number or at the deadline. A reply that
/// is a fault, or that cannot be decoded, is an error among the others, and the stream goes on.
pub struct TypedAnswers<Reply, C> {
    answers: Answers,
    codecs: Codecs<C>,
    reply: PhantomData<fn() -> Reply>,
}

impl<Reply: DecodeOwned, C: CodecSet> TypedAnswers<Reply, C> {
    /// Returns the next reply, or `None` when there are no further replies. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Reply, CallError>> {
        let reply = self.answers.next().await?;
        Some(reply.and_then(|reply| read(&reply, &self.codecs)))
    }
}

impl<Reply: DecodeOwned, C: CodecSet> Stream for TypedAnswers<Reply, C> {
    type Item = Result<Reply, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reply = ready!(Pin::new(&mut self.answers).poll_next(cx));
        Poll::Ready(reply.map(|reply| reply.and_then(|reply| read(&reply, &self.codecs))))
    }
}

impl<Reply, C> fmt::Debug for TypedAnswers<Reply, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedAnswers").field("answers", &self.answers).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Client<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("service", &self.service)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}
