//! JetStream as a transport of the model.

use consign_core::{
    Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        Capabilities, Capability, Delivery, DynTransport, ErrorKind, ManageError, PeekMessages, PurgeMessages,
        ReceiveDeferred, ReceiveError, ReceiveMode, SendError, ServerAddress, Sessions, Transport, Unsupported,
    },
};
use consign_rules::DynRules;

use crate::{Nats, NatsLease, NatsReceiver, NatsSender, NatsSession, SessionAcceptor, browse, deferred};

impl Transport for Nats {
    type Sender = NatsSender;
    type Lease = NatsLease;
    type Receiver = NatsReceiver;

    fn capabilities(&self) -> Capabilities {
        Nats::CAPABILITIES
    }

    /// `None` for a wrapped client, for a URL with several servers, and for a server of a cluster.
    fn server(&self) -> Option<ServerAddress> {
        self.inner.server()
    }

    async fn sender(&self, path: &EntityPath) -> Result<NatsSender, SendError> {
        Self::sender(self, path.as_str()).await
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<NatsReceiver, ReceiveError> {
        match mode {
            ReceiveMode::PeekLock => Self::receiver(self, path.as_str()).await,
            ReceiveMode::ReceiveAndDelete => self.receive_and_delete(path.as_str()).await,
        }
    }

    /// Requests the information of the JetStream account, as connecting does. Without a connection it fails at once.
    async fn ping(&self) -> Result<(), ManageError> {
        Ok(self.inner.ping().await?)
    }

    async fn close(&self) -> Result<(), ManageError> {
        Self::close(self).await
    }
}

/// Deferred messages are shown as such, locked ones as active. Each message is one read of the server. All deferred messages, or
/// all dead letters, are read to find the first of them.
impl PeekMessages for Nats {
    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        let source = self.inner.source(path).await?;
        source.catch_up().await?;
        Ok(browse::peek(&source, &source.subjects, from.get(), max).await?)
    }
}

/// Each message gets a consumer of its own, which keeps its lock and counts its deliveries, and is deleted with the message. A
/// deferred message of a session is fetched by its session: here it is [`InvalidOperation`](ErrorKind::InvalidOperation).
impl ReceiveDeferred for Nats {
    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<NatsLease>>, ReceiveError> {
        let source = self.inner.source(path).await?;
        if source.settings.requires_session {
            let why = "a deferred message of a session is fetched by its session";
            return Err(ReceiveError::new(ErrorKind::InvalidOperation).with_detail(why));
        }
        deferred::receive_deferred(&source, numbers).await
    }
}

/// Messages are locked and completed; one that is too young is released. Deferred messages stay. An entity that requires
/// sessions cannot be purged: [`NotSupported`](ErrorKind::NotSupported).
impl PurgeMessages for Nats {
    async fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        let managed = |error: ReceiveError| ManageError::new(error.kind()).with_source(error);
        let source = self.inner.source(path).await.map_err(managed)?;
        if source.settings.requires_session && !source.is_dead_letter() {
            return Err(Unsupported::new(Capability::Purge).into());
        }
        source.catch_up().await?;
        browse::purge(&source, max, accepted_before).await
    }
}

impl Sessions for Nats {
    type Session = NatsSession;
    type SessionSource = SessionAcceptor;

    async fn sessions(&self, path: &EntityPath) -> Result<SessionAcceptor, ReceiveError> {
        self.session_acceptor(path.as_str()).await
    }
}

impl From<Nats> for DynTransport {
    fn from(nats: Nats) -> Self {
        Self::builder(nats.clone())
            .peek()
            .receive_deferred()
            .purge()
            .sessions()
            .administration()
            .extension(DynRules::new(nats.clone()))
            .extension(nats)
            .build()
    }
}
