//! A transport whose type is not known at compile time: boxed twins of the traits of a transport.

mod lease;
mod operations;
mod receiver;
mod sender;
mod session;
#[cfg(test)]
mod tests;
mod transaction;

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
};

pub use self::{
    lease::DynLease,
    receiver::DynReceiver,
    sender::DynSender,
    session::{DynSession, DynSessionSource},
    transaction::DynTransaction,
};
use self::{
    operations::{Administer, Connection, Defer, Peek, Purge, Schedule},
    session::OpenSessions,
    transaction::Begin,
};
use super::{
    Capabilities, Capability, Delivery, ManageError, PeekMessages, PurgeMessages, ReceiveDeferred, ReceiveError,
    ReceiveMode, ScheduleMessages, SendError, ServerAddress, Sessions, TransactionError, Transactions, Transport,
    Unsupported,
};
use crate::{
    Message,
    administration::{Administration, Counts, Entity, EntitySettings},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
};

/// A future that borrows, in a box.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Transport`] whose type is not known at compile time, as one that a URL names.
///
/// It implements every trait of a transport. An operation that the transport inside does not have returns
/// [`NotSupported`](super::ErrorKind::NotSupported) and has no effect; [`capabilities`](Transport::capabilities) reports
/// beforehand which these are. Each operation allocates a box.
///
/// # Examples
///
/// ```
/// use consign::{
///     Message,
///     administration::{Administration, QueueSettings},
///     broker::Broker,
///     message::EntityPath,
///     transport::{DynTransport, ReceiveMode, ReceiverExt, Sender, Transport},
/// };
///
/// # tokio_test::block_on(async {
/// let transport: DynTransport = Broker::new().into();
/// let orders = EntityPath::new("orders")?;
/// transport.declare(&orders, &QueueSettings::default().into()).await?;
/// transport.sender(&orders).await?.send(Message::new("one order")).await?;
///
/// let mut receiver = transport.receiver(&orders, ReceiveMode::PeekLock).await?;
/// receiver.receive().await?.complete().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct DynTransport {
    connection: Arc<dyn Connection>,
    peek: Option<Arc<dyn Peek>>,
    schedule: Option<Arc<dyn Schedule>>,
    defer: Option<Arc<dyn Defer>>,
    purge: Option<Arc<dyn Purge>>,
    sessions: Option<Arc<dyn OpenSessions>>,
    transactions: Option<Arc<dyn Begin>>,
    administration: Option<Arc<dyn Administer>>,
    extensions: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

/// Builds a [`DynTransport`]: each method adds an operation that the transport has.
#[must_use = "a builder does nothing until `build` is called"]
pub struct DynTransportBuilder<T> {
    transport: T,
    built: DynTransport,
}

impl DynTransport {
    /// Starts a transport that has what every [`Transport`] has.
    pub fn builder<T: Transport>(transport: T) -> DynTransportBuilder<T> {
        let built = Self {
            connection: Arc::new(transport.clone()),
            peek: None,
            schedule: None,
            defer: None,
            purge: None,
            sessions: None,
            transactions: None,
            administration: None,
            extensions: HashMap::new(),
        };
        DynTransportBuilder { transport, built }
    }

    /// Returns an [extension](DynTransportBuilder::extension) of this type.
    #[must_use]
    pub fn extension<E: Send + Sync + 'static>(&self) -> Option<&E> {
        self.extensions.get(&TypeId::of::<E>())?.downcast_ref()
    }

    /// Returns whether the transport implements the trait that a capability requires, or the capability requires none. A
    /// transport whose [`capabilities`](Transport::capabilities) claim more is wrong.
    #[must_use]
    pub fn implements(&self, capability: Capability) -> bool {
        match capability {
            Capability::Peek => self.peek.is_some(),
            Capability::Scheduling | Capability::CancelScheduled => self.schedule.is_some(),
            Capability::Deferral => self.defer.is_some(),
            Capability::Purge => self.purge.is_some(),
            Capability::Sessions | Capability::SessionState | Capability::NextSession => self.sessions.is_some(),
            Capability::Transactions => self.transactions.is_some(),
            Capability::LockDuration
            | Capability::MaxDeliveryCount
            | Capability::DeadLetterOnExpiration
            | Capability::DuplicateDetection
            | Capability::Topics
            | Capability::AutoForward => self.administration.is_some(),
            _ => true,
        }
    }
}

impl<T: Transport> DynTransportBuilder<T> {
    /// Adds [`PeekMessages`].
    pub fn peek(mut self) -> Self
    where
        T: PeekMessages,
    {
        self.built.peek = Some(Arc::new(self.transport.clone()));
        self
    }

    /// Adds [`ScheduleMessages`].
    pub fn schedule(mut self) -> Self
    where
        T: ScheduleMessages,
    {
        self.built.schedule = Some(Arc::new(self.transport.clone()));
        self
    }

    /// Adds [`ReceiveDeferred`].
    pub fn receive_deferred(mut self) -> Self
    where
        T: ReceiveDeferred,
    {
        self.built.defer = Some(Arc::new(self.transport.clone()));
        self
    }

    /// Adds [`PurgeMessages`].
    pub fn purge(mut self) -> Self
    where
        T: PurgeMessages,
    {
        self.built.purge = Some(Arc::new(self.transport.clone()));
        self
    }

    /// Adds [`Sessions`].
    pub fn sessions(mut self) -> Self
    where
        T: Sessions,
    {
        self.built.sessions = Some(Arc::new(self.transport.clone()));
        self
    }

    /// Adds [`Transactions`].
    pub fn transactions(mut self) -> Self
    where
        T: Transactions,
    {
        self.built.transactions = Some(Arc::new(self.transport.clone()));
        self
    }

    /// Adds [`Administration`].
    pub fn administration(mut self) -> Self
    where
        T: Administration,
    {
        self.built.administration = Some(Arc::new(self.transport.clone()));
        self
    }

    /// Adds a value that a caller may [find by its type](DynTransport::extension): the transport itself, for what only it
    /// can do, or operations that another crate defines.
    pub fn extension<E: Send + Sync + 'static>(mut self, extension: E) -> Self {
        self.built.extensions.insert(TypeId::of::<E>(), Arc::new(extension));
        self
    }

    /// Returns the transport.
    #[must_use]
    pub fn build(self) -> DynTransport {
        self.built
    }
}

/// The operations, or the error that they are not there.
fn present<T: ?Sized, E: From<Unsupported>>(operations: Option<&Arc<T>>, capability: Capability) -> Result<&T, E> {
    operations.map(Arc::as_ref).ok_or_else(|| Unsupported::new(capability).into())
}

impl Transport for DynTransport {
    type Sender = DynSender;
    type Lease = DynLease;
    type Receiver = DynReceiver;

    fn capabilities(&self) -> Capabilities {
        self.connection.capabilities()
    }

    fn server(&self) -> Option<ServerAddress> {
        self.connection.server()
    }

    async fn sender(&self, path: &EntityPath) -> Result<DynSender, SendError> {
        self.connection.sender(path).await
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<DynReceiver, ReceiveError> {
        self.connection.receiver(path, mode).await
    }

    async fn ping(&self) -> Result<(), ManageError> {
        self.connection.ping().await
    }

    async fn close(&self) -> Result<(), ManageError> {
        self.connection.close().await
    }
}

impl PeekMessages for DynTransport {
    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        present::<_, ReceiveError>(self.peek.as_ref(), Capability::Peek)?.peek(path, from, max).await
    }
}

impl ScheduleMessages for DynTransport {
    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        present::<_, SendError>(self.schedule.as_ref(), Capability::Scheduling)?.schedule(path, messages, at).await
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        present::<_, SendError>(self.schedule.as_ref(), Capability::CancelScheduled)?.cancel(path, numbers).await
    }
}

impl ReceiveDeferred for DynTransport {
    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<DynLease>>, ReceiveError> {
        present::<_, ReceiveError>(self.defer.as_ref(), Capability::Deferral)?.receive_deferred(path, numbers).await
    }
}

impl PurgeMessages for DynTransport {
    async fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        present::<_, ManageError>(self.purge.as_ref(), Capability::Purge)?.purge(path, max, accepted_before).await
    }
}

impl Sessions for DynTransport {
    type Session = DynSession;
    type SessionSource = DynSessionSource;

    async fn sessions(&self, path: &EntityPath) -> Result<DynSessionSource, ReceiveError> {
        present::<_, ReceiveError>(self.sessions.as_ref(), Capability::Sessions)?.open(path).await
    }
}

impl Transactions for DynTransport {
    type Transaction = DynTransaction;

    async fn begin(&self) -> Result<DynTransaction, TransactionError<DynLease>> {
        present::<_, TransactionError<DynLease>>(self.transactions.as_ref(), Capability::Transactions)?.begin().await
    }
}

impl DynTransport {
    fn administer(&self) -> Result<&dyn Administer, ManageError> {
        self.administration.as_deref().ok_or_else(|| {
            ManageError::new(super::ErrorKind::NotSupported).with_detail("the transport has no administration")
        })
    }
}

impl Administration for DynTransport {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        self.administer()?.create(path, settings).await
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        self.administer()?.declare(path, settings).await
    }

    async fn update(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        self.administer()?.update(path, settings).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        self.administer()?.delete(path).await
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        self.administer()?.settings(path).await
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        self.administer()?.list().await
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        self.administer()?.counts(path).await
    }
}

impl fmt::Debug for DynTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynTransport").field("capabilities", &Transport::capabilities(self)).finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for DynTransportBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynTransportBuilder").field("transport", &self.transport).finish_non_exhaustive()
    }
}
