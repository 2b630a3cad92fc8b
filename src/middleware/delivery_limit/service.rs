use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower::BoxError;
use tower_service::Service;

use super::delivery;
use crate::{
    Disposition, Message,
    middleware::retry::is_transient,
    settlement::{Changes, DeadLetter, cause_of},
};

/// Limits the deliveries of a message; see the [module](super).
#[derive(Clone, Copy, Debug)]
pub struct DeliveryLimit<S> {
    pub(super) inner: S,
    pub(super) limit: u64,
}

impl<S> Service<Message> for DeliveryLimit<S>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, message: Message) -> Self::Future {
        let delivery = delivery(&message);
        if delivery > self.limit {
            return ResponseFuture { state: State::Exceeded { delivery } };
        }
        let last = (delivery == self.limit).then_some(delivery);
        ResponseFuture { state: State::Handling { handler: self.inner.call(message), last } }
    }
}

pin_project! {
    /// The future of a handler whose failure may be the last one.
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProjection]
    enum State<F> {
        // The number of the delivery, if it is the last one.
        Handling { #[pin] handler: F, last: Option<u64> },
        Exceeded { delivery: u64 },
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Disposition, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Disposition, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match self.project().state.project() {
            StateProjection::Handling { handler, last } => {
                let result = ready!(handler.poll(cx)).map_err(Into::into);
                match last {
                    Some(delivery) => settle_last(*delivery, result),
                    None => result,
                }
            }
            StateProjection::Exceeded { delivery } => {
                Ok(dead_letter(*delivery - 1, &"no delivery was settled", Changes::NONE))
            }
        })
    }
}

fn settle_last(delivery: u64, result: Result<Disposition, BoxError>) -> Result<Disposition, BoxError> {
    match result {
        Ok(Disposition::Abandon(changes)) if !changes.is_hold() => {
            let cause = changes.cause().unwrap_or("the handler abandoned the message").to_owned();
            Ok(dead_letter(delivery, &cause, changes))
        }
        Err(error) if is_transient(&error) => Ok(dead_letter(delivery, &cause_of(&*error), Changes::NONE)),
        result => result,
    }
}

#[cold]
fn dead_letter(deliveries: u64, cause: &dyn fmt::Display, changes: Changes) -> Disposition {
    let mut letter = DeadLetter::max_delivery_count_exceeded(deliveries, Some(&cause.to_string()));
    letter.changes = changes.into_properties().into();
    Disposition::DeadLetter(Box::new(letter))
}
