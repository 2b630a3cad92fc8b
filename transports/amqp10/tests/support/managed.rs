//! The transport with the queues of a broker: AMQP 1.0 creates none, and the suites do.

use std::future::Future;

use consign::{
    Message,
    administration::{Administration, Counts, Entity, EntitySettings, QueueSettings, unsupported_setting},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        BoxFuture, Capabilities, Capability, ConnectError, Connector, DynTransport, ErrorKind, ManageError,
        ReceiveError, ReceiveMode, ScheduleMessages, SendError, Transport, TransportUrl, Unsupported,
    },
};
use consign_amqp10::{Amqp10, Amqp10Lease, Amqp10Receiver, Amqp10Sender};

/// Creates and deletes queues by other means than the transport.
pub(crate) trait Queues: Clone + Send + Sync + 'static {
    /// `AlreadyExists` if it exists.
    fn create(&self, name: &str) -> impl Future<Output = Result<(), ManageError>> + Send;

    /// `EntityNotFound` if it does not exist.
    fn delete(&self, name: &str) -> impl Future<Output = Result<(), ManageError>> + Send;
}

#[derive(Clone)]
pub(crate) struct Managed<Q> {
    pub(crate) amqp: Amqp10,
    pub(crate) queues: Q,
    /// Whether settings of queues that AMQP 1.0 does not have are ignored.
    ignores_settings: bool,
}

impl<Q: Queues> Managed<Q> {
    pub(crate) fn new(amqp: Amqp10, queues: Q) -> Self {
        Self { amqp, queues, ignores_settings: false }
    }

    /// For a test to which the settings do not matter.
    pub(crate) fn ignoring_settings(self) -> Self {
        Self { ignores_settings: true, ..self }
    }

    /// A queue is two: its dead letters have one of their own.
    async fn both<F: Future<Output = Result<(), ManageError>>>(
        path: &EntityPath,
        operation: impl Fn(String) -> F,
        expected: Option<ErrorKind>,
    ) -> Result<(), ManageError> {
        for name in [path.dead_letter().to_string(), path.to_string()] {
            match operation(name).await {
                Err(error) if Some(error.kind()) == expected => {}
                done => done?,
            }
        }
        Ok(())
    }
}

impl<Q: Queues> Transport for Managed<Q> {
    type Sender = Amqp10Sender;
    type Lease = Amqp10Lease;
    type Receiver = Amqp10Receiver;

    fn capabilities(&self) -> Capabilities {
        self.amqp.capabilities()
    }

    async fn sender(&self, path: &EntityPath) -> Result<Amqp10Sender, SendError> {
        self.amqp.sender(path).await
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<Amqp10Receiver, ReceiveError> {
        self.amqp.receiver(path, mode).await
    }

    async fn ping(&self) -> Result<(), ManageError> {
        self.amqp.ping().await
    }

    async fn close(&self) -> Result<(), ManageError> {
        self.amqp.close().await
    }
}

impl<Q: Queues> ScheduleMessages for Managed<Q> {
    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        self.amqp.schedule(path, messages, at).await
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        self.amqp.cancel_scheduled(path, numbers).await
    }
}

/// No setting of a queue is AMQP 1.0's.
fn check(settings: &EntitySettings) -> Result<(), ManageError> {
    match settings {
        EntitySettings::Queue(settings) => {
            QueueSettings::default().difference(settings).map_or(Ok(()), |setting| Err(unsupported_setting(setting)))
        }
        _ => Err(Unsupported::new(Capability::Topics).into()),
    }
}

fn check_path(path: &EntityPath) -> Result<(), ManageError> {
    if path.is_sub_queue() {
        return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue belongs to its queue"));
    }
    Ok(())
}

fn not_supported<T>() -> Result<T, ManageError> {
    Err(ManageError::new(ErrorKind::NotSupported).with_detail("AMQP 1.0 has no administration"))
}

impl<Q: Queues> Administration for Managed<Q> {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        check_path(path)?;
        if !self.ignores_settings {
            check(settings)?;
        }
        self.queues.create(path.as_str()).await?;
        match self.queues.create(path.dead_letter().as_str()).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            created => created,
        }
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        check_path(path)?;
        check(settings)?;
        let create = |name: String| async move { self.queues.create(&name).await };
        Self::both(path, create, Some(ErrorKind::AlreadyExists)).await
    }

    async fn update(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        let _ = path;
        check(settings)?;
        not_supported()
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        let _ = self.queues.delete(path.dead_letter().as_str()).await;
        self.queues.delete(path.as_str()).await
    }

    async fn settings(&self, _: &EntityPath) -> Result<EntitySettings, ManageError> {
        not_supported()
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        not_supported()
    }

    async fn counts(&self, _: &EntityPath) -> Result<Counts, ManageError> {
        not_supported()
    }
}

/// What a URL opens in the tests: the transport of the crate's connector, with the queues.
impl<Q: Queues> From<Managed<Q>> for DynTransport {
    fn from(managed: Managed<Q>) -> Self {
        let schedules = managed.capabilities().supports(Capability::Scheduling);
        let builder = Self::builder(managed).administration();
        if schedules { builder.schedule().build() } else { builder.build() }
    }
}

pub(crate) struct ManagedConnector<Q>(pub(crate) Q);

impl<Q: Queues> Connector for ManagedConnector<Q> {
    fn schemes(&self) -> &'static [&'static str] {
        &["amqp10", "amqps10"]
    }

    fn connect(&self, url: TransportUrl) -> BoxFuture<Result<DynTransport, ConnectError>> {
        let (connecting, queues) = (consign_amqp10::connector().connect(url), self.0.clone());
        Box::pin(async move {
            let transport = connecting.await?;
            let amqp = transport.extension::<Amqp10>().expect("a transport that has itself").clone();
            Ok(Managed::new(amqp, queues).into())
        })
    }
}
