use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use consign::transport::{AcceptSession, Capabilities, EntityInfo, ReceiveError, Session, SessionSource};
use pin_project_lite::pin_project;

use crate::{
    Telemetry,
    destination::Destination,
    receive::{ObservedReceiver, Shared},
};

/// Sessions whose receives and settlements have spans, as those of an [`ObservedReceiver`]. Locking, renewing and closing a
/// session have none.
///
/// ```
/// # use consign::{Disposition, Message, administration::QueueSettings, broker::Broker, consumer::SessionConsumer};
/// use consign_opentelemetry::Telemetry;
/// # use tower::{BoxError, service_fn};
///
/// # fn main() -> Result<(), BoxError> {
/// # let queue = Broker::new().create_queue("orders", QueueSettings::default().requires_session(true))?;
/// # let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
/// let telemetry = Telemetry::builder("servicebus").build();
/// let consumer = SessionConsumer::new(telemetry.sessions("orders", queue.session_acceptor()?), handler);
/// # drop(consumer);
/// # Ok(())
/// # }
/// ```
pub struct ObservedSessions<S> {
    source: S,
    shared: Arc<Shared>,
}

impl<S> ObservedSessions<S> {
    pub(crate) fn new(telemetry: &Telemetry, destination: &Destination<'_>, source: S) -> Self {
        Self { source, shared: Arc::new(Shared::new(telemetry, destination)) }
    }
}

impl<S: SessionSource> SessionSource for ObservedSessions<S> {
    type Session = ObservedReceiver<S::Session>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::Session, ReceiveError>> {
        let session = ready!(self.source.poll_accept(cx));
        Poll::Ready(session.map(|session| ObservedReceiver::of(Arc::clone(&self.shared), session)))
    }

    fn stop(&mut self) {
        self.source.stop();
    }

    fn entity_info(&self) -> EntityInfo {
        self.source.entity_info()
    }
}

impl<S: AcceptSession> AcceptSession for ObservedSessions<S> {
    type Session = ObservedReceiver<S::Session>;
    type Accept = AcceptFuture<S::Accept>;

    fn accept(&mut self, id: &str) -> Self::Accept {
        AcceptFuture { accept: self.source.accept(id), shared: Arc::clone(&self.shared) }
    }

    fn capabilities(&self) -> Capabilities {
        self.source.capabilities()
    }
}

pin_project! {
    /// The future of a session that is locked by its id.
    #[must_use = "no session is locked until it is awaited"]
    pub struct AcceptFuture<F> {
        #[pin]
        accept: F,
        shared: Arc<Shared>,
    }
}

impl<F, S> Future for AcceptFuture<F>
where
    F: Future<Output = Result<S, ReceiveError>>,
    S: Session,
{
    type Output = Result<ObservedReceiver<S>, ReceiveError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let session = ready!(this.accept.poll(cx));
        Poll::Ready(session.map(|session| ObservedReceiver::of(Arc::clone(this.shared), session)))
    }
}

impl<S> fmt::Debug for ObservedSessions<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedSessions").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for AcceptFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcceptFuture").finish_non_exhaustive()
    }
}
