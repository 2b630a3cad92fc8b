use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower::util::Oneshot;
use tower_service::Service;

use super::{KeyHash, place::Place, turns::Turns};
use crate::{Message, message::Holding};

/// Handles messages of one key one at a time; see the [module](super).
#[derive(Clone)]
pub struct Partition<S> {
    pub(super) inner: S,
    pub(super) key: Arc<KeyHash>,
    pub(super) turns: Arc<Turns>,
}

impl<S> Service<Message> for Partition<S>
where
    S: Service<Message> + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut message: Message) -> Self::Future {
        let key = (self.key)(&message);
        if key.is_some() {
            // Held outside of its slot, it would leave its place to the next message of its key.
            message.set_holding(Holding::No);
        }
        let place = Place::take(&self.turns, key);
        ResponseFuture { place, state: State::Waiting { call: Some((self.inner.clone(), message)) } }
    }
}

pin_project! {
    /// The answer of a call that waits for the messages of its key before it. Dropping it lets the next one start.
    pub struct ResponseFuture<S>
    where
        S: Service<Message>,
    {
        #[pin]
        state: State<S>,
        // Dropped after the handler.
        place: Place,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S>
    where
        S: Service<Message>,
    {
        Waiting { call: Option<(S, Message)> },
        Running { #[pin] handler: Oneshot<S, Message> },
        Done,
    }
}

impl<S: Service<Message>> Future for ResponseFuture<S> {
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProj::Waiting { call } => {
                    ready!(this.place.poll(cx));
                    let Some((service, message)) = call.take() else { return Poll::Pending };
                    this.state.set(State::Running { handler: Oneshot::new(service, message) });
                }
                StateProj::Running { handler } => {
                    let answer = ready!(handler.poll(cx));
                    this.state.set(State::Done);
                    this.place.leave();
                    return Poll::Ready(answer);
                }
                StateProj::Done => return Poll::Pending,
            }
        }
    }
}

impl<S> fmt::Debug for Partition<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition").finish_non_exhaustive()
    }
}

impl<S: Service<Message>> fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
