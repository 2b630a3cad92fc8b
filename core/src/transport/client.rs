use std::future::Future;

use super::{Capabilities, Lease, ManageError, ReceiveError, Receiver, SendError, Sender, ServerAddress};
use crate::message::EntityPath;

/// The mode in which a receiver takes messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveMode {
    /// A message is locked until it is settled or the lock runs out.
    #[default]
    PeekLock,
    /// A message is removed when it is delivered. Settling it is an invalid operation.
    ReceiveAndDelete,
}

/// A client of a broker, which creates senders and receivers. Clones share its connections.
///
/// Operations that only some brokers support are separate traits: [`PeekMessages`](super::PeekMessages),
/// [`ScheduleMessages`](super::ScheduleMessages), [`ReceiveDeferred`](super::ReceiveDeferred),
/// [`PurgeMessages`](super::PurgeMessages), [`Sessions`](super::Sessions), [`Transactions`](super::Transactions) and
/// [`Administration`](crate::administration::Administration). [`DynTransport`](super::DynTransport) is a transport whose
/// type is not known at compile time.
///
/// A path is that of a queue, a topic, a subscription (`topic/Subscriptions/name`), or a dead-letter sub-queue.
///
/// # Examples
///
/// A function over every transport that has dead letters which can be peeked:
///
/// ```
/// use consign::{
///     administration::QueueSettings,
///     broker::Broker,
///     message::{EntityPath, SequenceNumber},
///     transport::{PeekMessages, ReceiveError},
/// };
///
/// async fn has_dead_letters<T: PeekMessages>(transport: &T, queue: &EntityPath) -> Result<bool, ReceiveError> {
///     let first = transport.peek(&queue.dead_letter(), SequenceNumber::new(0), 1).await?;
///     Ok(!first.is_empty())
/// }
///
/// # tokio_test::block_on(async {
/// let broker = Broker::new();
/// broker.create_queue("orders", QueueSettings::default())?;
/// assert!(!has_dead_letters(&broker, &EntityPath::new("orders")?).await?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait Transport: Clone + Send + Sync + 'static {
    /// The sender of this transport.
    type Sender: Sender + Clone;
    /// The lease of this transport.
    type Lease: Lease;
    /// The receiver of this transport.
    type Receiver: Receiver<Lease = Self::Lease> + 'static;

    /// Returns the capabilities of this transport, as it is configured.
    fn capabilities(&self) -> Capabilities;

    /// Returns the only server that this transport connects to, as it is configured. `None`, the default, where there is no server,
    /// where connections may be to different ones, and for a wrapped client. It does not become another server after a
    /// connection was lost. On NATS it is also `None` while the server announces a cluster.
    fn server(&self) -> Option<ServerAddress> {
        None
    }

    /// Creates a sender to a queue or a topic.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](super::ErrorKind::EntityNotFound), where the transport checks that the entity exists. Otherwise the
    /// first send fails with it.
    fn sender(&self, path: &EntityPath) -> impl Future<Output = Result<Self::Sender, SendError>> + Send;

    /// Creates a receiver from a queue, a subscription or a dead-letter sub-queue.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](super::ErrorKind::EntityNotFound), and [`NotSupported`](super::ErrorKind::NotSupported) for a mode
    /// that the transport does not have.
    fn receiver(
        &self,
        path: &EntityPath,
        mode: ReceiveMode,
    ) -> impl Future<Output = Result<Self::Receiver, ReceiveError>> + Send;

    /// Checks that the server answers, by one round trip: for readiness probes. A connection that was lost is opened again.
    ///
    /// It needs no entity, and no permission that connecting does not need. It changes nothing on the server, and is written to no
    /// log there. Many callers at once are fine. It takes at most the timeout of the transport.
    ///
    /// The default returns `Ok` without a round trip. It is for a transport without a server, and for a wrapped client that has no
    /// such call.
    ///
    /// # Errors
    ///
    /// [`CommunicationProblem`](super::ErrorKind::CommunicationProblem) if the connection is lost or cannot be opened,
    /// [`ServiceTimeout`](super::ErrorKind::ServiceTimeout) if there is no answer in time, and
    /// [`ServiceBusy`](super::ErrorKind::ServiceBusy) if the server cannot serve calls now. They are retryable, unless this
    /// transport was closed. [`Unauthorized`](super::ErrorKind::Unauthorized) if the server refuses to open a connection again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// use consign::{
    ///     broker::Broker,
    ///     transport::{DynTransport, Transport},
    /// };
    ///
    /// # tokio_test::block_on(async {
    /// let transport: DynTransport = Broker::new().into();
    /// match transport.ping().await {
    ///     Ok(()) => println!("ready"),
    ///     Err(error) => println!("not ready: {error}"),
    /// }
    /// # })
    /// ```
    fn ping(&self) -> impl Future<Output = Result<(), ManageError>> + Send {
        async { Ok(()) }
    }

    /// Closes the connections of this transport and of its clones, after what was sent and settled has reached the broker.
    /// Where a transport has no connections, it does nothing.
    ///
    /// # Errors
    ///
    /// Those of the connection. It is closed all the same.
    fn close(&self) -> impl Future<Output = Result<(), ManageError>> + Send {
        async { Ok(()) }
    }
}
