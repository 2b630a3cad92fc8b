use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_service::Service;
use tracing::{Span, field};

use super::{Names, Trace};
use crate::{
    middleware::from_fn::Sending,
    transport::{Escaped, SendError, SendRequest},
};

impl<S, R> Service<R> for Trace<S, Sending>
where
    S: Service<R, Response = ()>,
    S::Error: Into<SendError>,
    R: SendRequest,
{
    type Response = ();
    type Error = SendError;
    type Future = SendFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let span = self.names.send();
        if !span.is_disabled() {
            record(&span, &request);
        }
        let send = span.in_scope(|| self.inner.call(request));
        SendFuture { send, span }
    }
}

impl Names {
    fn send(&self) -> Span {
        tracing::info_span!(
            target: "consign::middleware::trace",
            "send",
            otel.name = self.span,
            otel.kind = "producer",
            "messaging.operation.type" = "send",
            messaging.operation.name = "send",
            messaging.destination.name = self.destination,
            messaging.message.id = field::Empty,
            messaging.message.conversation_id = field::Empty,
            messaging.batch.message_count = field::Empty,
            "error.type" = field::Empty,
        )
    }
}

#[cold]
fn record(span: &Span, request: &impl SendRequest) {
    if request.items().len() != 1 {
        span.record("messaging.batch.message_count", request.items().len());
        return;
    }
    for properties in request.all_properties() {
        if let Some(id) = properties.message_id() {
            span.record("messaging.message.id", field::display(Escaped(id)));
        }
        if let Some(id) = properties.correlation_id() {
            span.record("messaging.message.conversation_id", field::display(Escaped(id)));
        }
    }
}

pin_project! {
    /// The future of a send in its span.
    #[must_use = "a send does nothing until it is awaited"]
    #[doc(hidden)]
    pub struct SendFuture<F> {
        #[pin]
        send: F,
        span: Span,
    }
}

impl<F, E> Future for SendFuture<F>
where
    F: Future<Output = Result<(), E>>,
    E: Into<SendError>,
{
    type Output = Result<(), SendError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let entered = this.span.enter();
        let sent = ready!(this.send.poll(cx)).map_err(Into::into);
        drop(entered);
        if let Err(error) = &sent {
            this.span.record("error.type", error.kind().code());
        }
        Poll::Ready(sent)
    }
}

impl<F> fmt::Debug for SendFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFuture").finish_non_exhaustive()
    }
}
