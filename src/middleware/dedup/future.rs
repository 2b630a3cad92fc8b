use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;

use super::{
    Begin, DedupKey, DedupStore, MakeKey, StoreError, StoreErrorKind,
    handle::Shared,
    ids::Ids,
    reservation::{count_end, end_later, failed_renewal},
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
    pub struct ResponseFuture<F, St: DedupStore, K> {
        #[pin]
        state: State<F, St, K>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, St: DedupStore, K> {
        // The handler is dropped before its id is forgotten.
        Handling {
            #[pin]
            handler: F,
            held: Held<St, K>,
            renewal: Renewal,
        },
        Boxed { answer: BoxAnswer },
        Failed { error: Option<BoxError> },
    }
}

pub(super) type BoxAnswer = Pin<Box<dyn Future<Output = Result<Disposition, BoxError>> + Send>>;

/// When a reservation is renewed next.
enum Renewal {
    /// The handler has not waited yet.
    Never,
    At(Pin<Box<Sleep>>),
    /// The id is reserved elsewhere.
    Superseded,
}

/// A reservation of a store that answers at once. A call that is dropped, or panics, forgets its id.
pub(super) struct Held<St: DedupStore, K> {
    pub(super) shared: Arc<Shared<St, K>>,
    token: Option<St::Token>,
    handled: bool,
    unhandled: Option<Unhandled>,
}

impl<F, St: DedupStore, K> ResponseFuture<F, St, K> {
    /// The handler of a message, which `call` starts.
    #[inline]
    pub(super) fn handling(held: Held<St, K>, call: impl FnOnce() -> F) -> Self {
        Self { state: State::Handling { handler: call(), held, renewal: Renewal::Never } }
    }

    pub(super) fn boxed(answer: BoxAnswer) -> Self {
        Self { state: State::Boxed { answer } }
    }

    pub(super) fn failed(error: BoxError) -> Self {
        Self { state: State::Failed { error: Some(error) } }
    }
}

impl<F, E, St, K> Future for ResponseFuture<F, St, K>
where
    F: Future<Output = Result<Disposition, E>>,
    E: Into<BoxError>,
    St: DedupStore,
{
    type Output = Result<Disposition, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Handling { handler, held, renewal } => {
                let Poll::Ready(answer) = handler.poll(cx) else {
                    renewal.poll(held, cx);
                    return Poll::Pending;
                };
                held.end(matches!(answer, Ok(Disposition::Complete)) && !held.is_unhandled());
                Poll::Ready(answer.map_err(Into::into))
            }
            StateProjection::Boxed { answer } => answer.as_mut().poll(cx),
            StateProjection::Failed { error } => match error.take() {
                Some(error) => Poll::Ready(Err(error)),
                None => panic!("`ResponseFuture` polled after completion"),
            },
        }
    }
}

impl<St: DedupStore, K: MakeKey> Shared<St, K> {
    /// Reserves the id of a message that is new, if the store answers at once. In all other cases it is asked again.
    #[inline]
    pub(super) fn reserve_at_once(&self, message: &Message) -> Option<St::Token> {
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
    pub(super) fn new(shared: Arc<Shared<St, K>>, token: St::Token) -> Self {
        Self { shared, token: Some(token), handled: false, unhandled: None }
    }

    /// Takes note of the message that is handled now.
    #[inline]
    pub(super) fn start(&mut self, message: &mut Message) {
        self.unhandled = Unhandled::watch(message);
        self.shared.ids.stats.count_handled();
    }

    /// The token stays in here, which forgets it, until this is asked.
    pub(super) fn take_token(&mut self) -> Option<St::Token> {
        self.token.take()
    }

    #[inline]
    fn is_unhandled(&self) -> bool {
        self.unhandled.as_ref().is_some_and(Unhandled::is_marked)
    }

    /// Commits the id, or forgets it.
    #[inline]
    pub(super) fn end(&mut self, handled: bool) {
        self.handled = handled;
        if !handled {
            return self.forget();
        }
        let Some(token) = &self.token else { return };
        let Ids { store, stats, .. } = &self.shared.ids;
        match store.commit(token).now_or_never() {
            Some(Ok(())) => {
                stats.count_committed();
                self.token = None;
            }
            other => self.ended(other),
        }
    }

    #[inline(never)]
    fn forget(&mut self) {
        if let Some(token) = &self.token {
            let ended = self.shared.ids.store.forget(token).now_or_never();
            self.ended(ended);
        }
    }

    #[cold]
    fn ended(&mut self, ended: Option<Result<(), StoreError>>) {
        match ended {
            Some(ended) => {
                count_end(&self.shared.ids.stats, self.handled, ended);
                self.token = None;
            }
            None => self.end_later(),
        }
    }

    #[cold]
    fn end_later(&mut self) {
        if let Some(token) = self.token.take() {
            let ids = &self.shared.ids;
            end_later(Arc::clone(&ids.store), ids.stats.clone(), token, self.handled);
        }
    }

    /// Renews the lease. Returns when to do so again, if at all.
    fn renew(&self, lease: Duration) -> Option<Duration> {
        let ids = &self.shared.ids;
        match ids.store.renew(self.token.as_ref()?, lease).now_or_never()? {
            Ok(()) => Some(lease / 2),
            Err(error) => {
                failed_renewal(&ids.stats, &error);
                (error.kind() != StoreErrorKind::Superseded).then_some(lease / 8)
            }
        }
    }
}

impl<St: DedupStore, K> Drop for Held<St, K> {
    #[inline]
    fn drop(&mut self) {
        if self.token.is_some() {
            self.end_later();
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

impl<F, St: DedupStore, K> fmt::Debug for ResponseFuture<F, St, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
