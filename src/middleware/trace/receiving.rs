use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower::BoxError;
use tower_service::Service;
use tracing::{Span, field};

use super::{Names, Trace, outcome};
use crate::{Disposition, Message, message::TraceContext, middleware::from_fn::Receiving, transport::Escaped};

impl<S> Service<Message> for Trace<S, Receiving>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = ProcessFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, message: Message) -> Self::Future {
        let span = self.names.process();
        if !span.is_disabled() {
            record(&span, &message, self.names.has_body_size);
        }
        let handler = span.in_scope(|| self.inner.call(message));
        ProcessFuture { handler, span }
    }
}

impl Names {
    fn process(&self) -> Span {
        tracing::info_span!(
            target: "consign::middleware::trace",
            "process",
            otel.name = self.span,
            otel.kind = "consumer",
            "messaging.operation.type" = "process",
            messaging.operation.name = "process",
            messaging.destination.name = self.destination,
            messaging.message.id = field::Empty,
            messaging.message.conversation_id = field::Empty,
            messaging.message.body.size = field::Empty,
            consign.message.delivery_count = field::Empty,
            trace_id = field::Empty,
            consign.disposition = field::Empty,
            "error.type" = field::Empty,
        )
    }
}

#[cold]
fn record(span: &Span, message: &Message, has_body_size: bool) {
    if let Some(id) = message.message_id() {
        span.record("messaging.message.id", field::display(Escaped(id)));
    }
    if let Some(id) = message.correlation_id() {
        span.record("messaging.message.conversation_id", field::display(Escaped(id)));
    }
    if has_body_size {
        span.record("messaging.message.body.size", message.body().size());
    }
    if let Some(received) = message.received() {
        span.record("consign.message.delivery_count", received.delivery_count);
    }
    if let Ok(Some(context)) = TraceContext::of(message.properties()) {
        let trace = u128::from_be_bytes(context.trace_id());
        span.record("trace_id", field::display(format_args!("{trace:032x}")));
    }
}

pin_project! {
    /// The future of a handler in its span.
    #[doc(hidden)]
    pub struct ProcessFuture<F> {
        #[pin]
        handler: F,
        span: Span,
    }
}

impl<F, E> Future for ProcessFuture<F>
where
    F: Future<Output = Result<Disposition, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Disposition, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let entered = this.span.enter();
        let answer = ready!(this.handler.poll(cx)).map_err(Into::into);
        drop(entered);
        if !this.span.is_disabled() {
            ended(this.span, &answer);
        }
        Poll::Ready(answer)
    }
}

#[cold]
fn ended(span: &Span, answer: &Result<Disposition, BoxError>) {
    let error = match answer {
        Ok(disposition) => {
            span.record("consign.disposition", outcome::name_of(disposition));
            outcome::error_of(disposition)
        }
        Err(error) => Some(outcome::error_type(error)),
    };
    if let Some(error) = error {
        span.record("error.type", error);
    }
}

impl<F> fmt::Debug for ProcessFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessFuture").finish_non_exhaustive()
    }
}
