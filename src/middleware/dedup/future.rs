use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::FutureExt;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;
use tower_service::Service;

use super::{
    Begin, DedupKey, DedupStore, MakeKey, StoreErrorKind,
    handle::{Shared, handle, handle_reserved},
    reservation::{self, end, end_later},
    unhandled::Unhandled,
};
use crate::{Disposition, Message};

pin_project! {
    /// The future of a message: handled, or known.
    ///
    /// With a store that answers at once it has the handler's future in itself. What has to wait for the store, for the service
    /// inside or for another delivery of the message is boxed.
    #[must_use = "a message is not handled until this is awaited"]
    #[doc(hidden)]
    pub struct ResponseFuture<S: Service<Message>, St: DedupStore, K, D> {
        #[pin]
        state: State<S, St, K, D>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S: Service<Message>, St: DedupStore, K, D> {
        New { message: Option<New<S, St, K, D>> },
        Handling {
            #[pin]
            handler: S::Future,
            held: Held<St, K>,
            renewal: Renewal,
        },
        Boxed { answer: BoxAnswer },
        Over,
    }
}

type BoxAnswer = Pin<Box<dyn Future<Output = Result<Disposition, BoxError>> + Send>>;

/// A message whose id was not looked up yet.
struct New<S, St, K, D> {
    inner: S,
    shared: Arc<Shared<St, K>>,
    duplicates: D,
    message: Message,
}

/// When a reservation is renewed next.
enum Renewal {
    /// The handler has not waited yet.
    Never,
    At(Pin<Box<Sleep>>),
    /// The id is reserved elsewhere.
    Superseded,
}

/// A reservation of a store that answers at once. A call that is dropped, or panics, forgets its id.
struct Held<St: DedupStore, K> {
    shared: Arc<Shared<St, K>>,
    token: Option<St::Token>,
    handled: bool,
    unhandled: Option<Unhandled>,
}

impl<S: Service<Message>, St: DedupStore, K, D> ResponseFuture<S, St, K, D> {
    #[inline]
    pub(super) fn new(inner: S, shared: Arc<Shared<St, K>>, duplicates: D, message: Message) -> Self {
        Self { state: State::New { message: Some(New { inner, shared, duplicates, message }) } }
    }
}

impl<S, St, K, D> Future for ResponseFuture<S, St, K, D>
where
    S: Service<Message, Response = Disposition> + Send + 'static,
    S::Error: Into<BoxError> + Send,
    S::Future: Send,
    St: DedupStore,
    K: MakeKey + Send + Sync + 'static,
    D: Service<Message, Response = Disposition> + Send + 'static,
    D::Error: Into<BoxError> + Send,
    D::Future: Send,
{
    type Output = Result<Disposition, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::New { message } => {
                    match message.take().expect("a future is not polled after it was ready").begin(cx) {
                        Ok(next) => next,
                        Err(error) => {
                            state.set(State::Over);
                            return Poll::Ready(Err(error));
                        }
                    }
                }
                StateProjection::Handling { handler, held, renewal } => {
                    let Poll::Ready(answer) = handler.poll(cx) else {
                        renewal.poll(held, cx);
                        return Poll::Pending;
                    };
                    held.end(matches!(answer, Ok(Disposition::Complete)) && !held.is_unhandled());
                    state.set(State::Over);
                    return Poll::Ready(answer.map_err(Into::into));
                }
                StateProjection::Boxed { answer } => {
                    let answer = ready!(answer.as_mut().poll(cx));
                    state.set(State::Over);
                    return Poll::Ready(answer);
                }
                StateProjection::Over => panic!("a future is not polled after it was ready"),
            };
            state.set(next);
        }
    }
}

impl<S, St, K, D> New<S, St, K, D>
where
    S: Service<Message, Response = Disposition> + Send + 'static,
    S::Error: Into<BoxError> + Send,
    S::Future: Send,
    St: DedupStore,
    K: MakeKey + Send + Sync + 'static,
    D: Service<Message, Response = Disposition> + Send + 'static,
    D::Error: Into<BoxError> + Send,
    D::Future: Send,
{
    #[inline]
    fn begin(self, cx: &mut Context<'_>) -> Result<State<S, St, K, D>, BoxError> {
        let Self { mut inner, shared, duplicates, mut message } = self;
        let Some(token) = shared.reserve_at_once(&message) else {
            return Ok(State::Boxed { answer: Box::pin(handle(inner, shared, duplicates, message)) });
        };
        let mut held = Held { shared, token: Some(token), handled: false, unhandled: None };
        match inner.poll_ready(cx) {
            Poll::Ready(Ok(())) => {
                held.unhandled = Unhandled::watch(&mut message);
                held.shared.ids.stats.count_handled();
                Ok(State::Handling { handler: inner.call(message), held, renewal: Renewal::Never })
            }
            Poll::Ready(Err(error)) => {
                held.shared.ids.stats.count_handled();
                held.shared.is_broken.store(true, Ordering::Relaxed);
                held.end(false);
                Err(error.into())
            }
            Poll::Pending => Ok(State::Boxed { answer: wait(inner, held, message) }),
        }
    }
}

/// Waits until the service inside is ready.
#[cold]
fn wait<S, St, K>(inner: S, mut held: Held<St, K>, message: Message) -> BoxAnswer
where
    S: Service<Message, Response = Disposition> + Send + 'static,
    S::Error: Into<BoxError> + Send,
    S::Future: Send,
    St: DedupStore,
    K: Send + Sync + 'static,
{
    // The token stays in what forgets it until the future is polled.
    Box::pin(async move {
        let shared = Arc::clone(&held.shared);
        let token = held.token.take().expect("the id is reserved");
        handle_reserved(inner, &shared, shared.ids.reservation(token), message).await
    })
}

impl<St: DedupStore, K: MakeKey> Shared<St, K> {
    /// Reserves the id of a message that is new, if the store answers at once. In all other cases it is asked again.
    #[inline]
    fn reserve_at_once(&self, message: &Message) -> Option<St::Token> {
        if !St::IS_IMMEDIATE {
            return None;
        }
        let id = self.ids.key.make_key(message)?;
        let key = DedupKey::new(&self.ids.scope, &id);
        match self.ids.store.begin(key, self.ids.times.lease).now_or_never() {
            Some(Ok(Begin::New(token))) => Some(token),
            _ => None,
        }
    }
}

impl<St: DedupStore, K> Held<St, K> {
    #[inline]
    fn is_unhandled(&self) -> bool {
        self.unhandled.as_ref().is_some_and(Unhandled::is_marked)
    }

    /// Commits the id, or forgets it.
    #[inline]
    fn end(&mut self, handled: bool) {
        self.handled = handled;
        let Some(token) = &self.token else { return };
        let ids = &self.shared.ids;
        if end(&*ids.store, &ids.stats, token, handled).now_or_never().is_some() {
            self.token = None;
        }
    }

    /// Renews the lease. Returns when to do so again, if at all.
    fn renew(&self, lease: Duration) -> Option<Duration> {
        let ids = &self.shared.ids;
        match ids.store.renew(self.token.as_ref()?, lease).now_or_never()? {
            Ok(()) => Some(lease / 2),
            Err(error) => {
                reservation::failed_renewal(&ids.stats, &error);
                (error.kind() != StoreErrorKind::Superseded).then_some(lease / 8)
            }
        }
    }
}

impl<St: DedupStore, K> Drop for Held<St, K> {
    #[inline]
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            let ids = &self.shared.ids;
            end_later(Arc::clone(&ids.store), ids.stats.clone(), token, self.handled);
        }
    }
}

impl Renewal {
    #[cold]
    fn poll<St: DedupStore, K>(&mut self, held: &Held<St, K>, cx: &mut Context<'_>) {
        let lease = held.shared.ids.times.lease;
        if matches!(self, Self::Never) {
            *self = Self::At(Box::pin(sleep(lease / 2)));
        }
        while let Self::At(timer) = self
            && timer.as_mut().poll(cx).is_ready()
        {
            match held.renew(lease) {
                Some(pause) => timer.as_mut().reset(Instant::now() + pause),
                None => drop(mem::replace(self, Self::Superseded)),
            }
        }
    }
}

impl<S: Service<Message>, St: DedupStore, K, D> fmt::Debug for ResponseFuture<S, St, K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
