use std::{
    fmt,
    future::Future,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;

use super::{Boxed, DynLease, receiver::Unboxed};
use crate::{
    Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        AcceptSession, BoxFuture, Capabilities, Delivery, EntityInfo, Lease, ReceiveError, Receiver, Session,
        SessionSource, Sessions, SettleError,
    },
};

/// A boxed [`Session`].
pub struct DynSession(Box<dyn Twin>);

impl DynSession {
    /// Boxes a session.
    #[must_use]
    pub fn new<S: Session>(session: S) -> Self {
        Self(Box::new(Unboxed { receiver: session, deliveries: Vec::new() }))
    }
}

type Received = Result<Vec<Delivery<DynLease>>, ReceiveError>;

trait Twin: Send {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<DynLease>>,
    ) -> Poll<Result<usize, ReceiveError>>;
    fn stop(&mut self);
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()>;
    fn capabilities(&self) -> Capabilities;
    fn entity_info(&self) -> EntityInfo;
    fn session_id(&self) -> &str;
    fn lock_duration(&self) -> Duration;
    fn renew(&self) -> BoxFuture<Result<Timestamp, SettleError>>;
    fn close(self: Box<Self>) -> BoxFuture<Result<(), SettleError>>;
    fn state(&self) -> BoxFuture<Result<Option<Bytes>, SettleError>>;
    fn set_state(&self, state: Option<Bytes>) -> BoxFuture<Result<(), SettleError>>;
    fn receive_deferred<'a>(&'a mut self, numbers: &'a [SequenceNumber]) -> Boxed<'a, Received>;
    fn peek(&mut self, max: usize) -> Boxed<'_, Result<Vec<Message>, ReceiveError>>;
}

impl<S: Session<Lease = L>, L: Lease> Twin for Unboxed<S, L> {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<DynLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        Self::poll_receive(self, cx, max, out)
    }

    fn stop(&mut self) {
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }

    fn session_id(&self) -> &str {
        self.receiver.session_id()
    }

    fn lock_duration(&self) -> Duration {
        self.receiver.lock_duration()
    }

    fn renew(&self) -> BoxFuture<Result<Timestamp, SettleError>> {
        Box::pin(self.receiver.renew())
    }

    fn close(self: Box<Self>) -> BoxFuture<Result<(), SettleError>> {
        Box::pin(self.receiver.close())
    }

    fn state(&self) -> BoxFuture<Result<Option<Bytes>, SettleError>> {
        Box::pin(self.receiver.state())
    }

    fn set_state(&self, state: Option<Bytes>) -> BoxFuture<Result<(), SettleError>> {
        Box::pin(self.receiver.set_state(state))
    }

    fn receive_deferred<'a>(&'a mut self, numbers: &'a [SequenceNumber]) -> Boxed<'a, Received> {
        Box::pin(async move {
            let deliveries = self.receiver.receive_deferred(numbers).await?;
            Ok(deliveries.into_iter().map(DynLease::delivery).collect())
        })
    }

    fn peek(&mut self, max: usize) -> Boxed<'_, Result<Vec<Message>, ReceiveError>> {
        Box::pin(self.receiver.peek(max))
    }
}

impl Receiver for DynSession {
    type Lease = DynLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<DynLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.0.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.0.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.0.entity_info()
    }
}

impl Session for DynSession {
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &str {
        self.0.session_id()
    }

    fn lock_duration(&self) -> Duration {
        self.0.lock_duration()
    }

    fn renew(&self) -> Self::Renew {
        self.0.renew()
    }

    fn close(self) -> Self::Close {
        self.0.close()
    }

    fn state(&self) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send + use<> {
        self.0.state()
    }

    fn set_state(&self, state: Option<Bytes>) -> impl Future<Output = Result<(), SettleError>> + Send + use<> {
        self.0.set_state(state)
    }

    async fn receive_deferred(&mut self, numbers: &[SequenceNumber]) -> Received {
        self.0.receive_deferred(numbers).await
    }

    fn peek(&mut self, max: usize) -> impl Future<Output = Result<Vec<Message>, ReceiveError>> + Send {
        self.0.peek(max)
    }
}

impl fmt::Debug for DynSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynSession").finish_non_exhaustive()
    }
}

/// A boxed source of sessions: [`SessionSource`] and [`AcceptSession`].
pub struct DynSessionSource(Box<dyn SourceTwin>);

impl DynSessionSource {
    /// Boxes a source of sessions.
    #[must_use]
    pub fn new<S: Session, A>(source: A) -> Self
    where
        A: SessionSource<Session = S> + AcceptSession<Session = S>,
    {
        Self(Box::new(source))
    }
}

trait SourceTwin: Send {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<DynSession, ReceiveError>>;
    fn stop(&mut self);
    fn entity_info(&self) -> EntityInfo;
    fn accept(&mut self, id: &str) -> BoxFuture<Result<DynSession, ReceiveError>>;
    fn capabilities(&self) -> Capabilities;
}

impl<S: Session, A: SessionSource<Session = S> + AcceptSession<Session = S>> SourceTwin for A {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<DynSession, ReceiveError>> {
        SessionSource::poll_accept(self, cx).map_ok(DynSession::new)
    }

    fn stop(&mut self) {
        SessionSource::stop(self);
    }

    fn entity_info(&self) -> EntityInfo {
        SessionSource::entity_info(self)
    }

    fn accept(&mut self, id: &str) -> BoxFuture<Result<DynSession, ReceiveError>> {
        let accepted = AcceptSession::accept(self, id);
        Box::pin(async move { accepted.await.map(DynSession::new) })
    }

    fn capabilities(&self) -> Capabilities {
        AcceptSession::capabilities(self)
    }
}

impl SessionSource for DynSessionSource {
    type Session = DynSession;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<DynSession, ReceiveError>> {
        self.0.poll_accept(cx)
    }

    fn stop(&mut self) {
        self.0.stop();
    }

    fn entity_info(&self) -> EntityInfo {
        self.0.entity_info()
    }
}

impl AcceptSession for DynSessionSource {
    type Session = DynSession;
    type Accept = BoxFuture<Result<DynSession, ReceiveError>>;

    fn accept(&mut self, id: &str) -> Self::Accept {
        self.0.accept(id)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
}

impl fmt::Debug for DynSessionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynSessionSource").field("entity", &self.0.entity_info()).finish_non_exhaustive()
    }
}

/// The object-safe twin of [`Sessions`].
pub(super) trait OpenSessions: Send + Sync {
    fn open<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<DynSessionSource, ReceiveError>>;
}

impl<T: Sessions> OpenSessions for T {
    fn open<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<DynSessionSource, ReceiveError>> {
        Box::pin(async move { self.sessions(path).await.map(DynSessionSource::new) })
    }
}
