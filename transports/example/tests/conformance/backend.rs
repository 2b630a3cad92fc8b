//! The transport as the suite sees it.

use std::time::Duration;

use consign::{
    Disposition, Message,
    administration::{Administration, EntitySettings},
    message::{EntityPath, SequenceNumber},
    time::{Clock, SystemClock, Timestamp},
    transport::{
        AcceptSession, Capabilities, Capability, Delivery, DynLease, DynReceiver, DynSender, DynSession, DynTransport,
        Lease, ManageError, PeekMessages, PurgeMessages, ReceiveDeferred, ReceiveError, ReceiveMode, ScheduleMessages,
        SendError, Sessions, SettleError, Transport,
    },
};
use consign_conformance::{Backend, Mode, NoTransaction, QueueSpec, SubscriptionSpec, TopicSpec, settings};
use consign_example_transport::Channels;

/// The transport as a program that has its URL uses it. So each operation that the transport lacks has a call.
pub(crate) struct InChannels {
    transport: DynTransport,
    clock: SystemClock,
}

impl InChannels {
    pub(crate) fn new() -> Self {
        Self { transport: Channels::new().into(), clock: SystemClock::new() }
    }

    async fn create(&self, path: &EntityPath, settings: impl Into<EntitySettings>) -> Result<(), ManageError> {
        self.transport.create(path, &settings.into()).await
    }
}

const NO_RULES: &str = "no call for it, as there are no topics";

impl Backend for InChannels {
    type Sender = DynSender;
    type Lease = DynLease;
    type Receiver = DynReceiver;
    type Session = DynSession;
    type Transaction = NoTransaction<DynLease>;

    fn name(&self) -> &'static str {
        "example"
    }

    fn capabilities(&self) -> Capabilities {
        self.transport.capabilities()
    }

    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        &[
            (Capability::DeadLetterOnExpiration, "no message expires"),
            (Capability::SessionState, "no queue has sessions"),
            (Capability::NextSession, "no queue has sessions"),
            (Capability::CorrelationFilters, NO_RULES),
            (Capability::SqlRules, NO_RULES),
            (Capability::Transactions, "no call for it"),
        ]
    }

    async fn now(&self) -> Timestamp {
        self.clock.now().utc
    }

    async fn create_queue(&self, path: &EntityPath, spec: &QueueSpec) -> Result<(), ManageError> {
        self.create(path, settings::queue(spec)).await
    }

    async fn create_topic(&self, path: &EntityPath, spec: &TopicSpec) -> Result<(), ManageError> {
        self.create(path, settings::topic(spec)).await
    }

    async fn create_subscription(&self, path: &EntityPath, spec: &SubscriptionSpec) -> Result<(), ManageError> {
        self.create(path, settings::subscription(spec)).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        self.transport.delete(path).await
    }

    async fn sender(&self, path: &EntityPath) -> Result<DynSender, SendError> {
        self.transport.sender(path).await
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        self.transport.cancel_scheduled(path, numbers).await
    }

    async fn receiver(&self, path: &EntityPath, mode: Mode) -> Result<DynReceiver, ReceiveError> {
        let mode = match mode {
            Mode::PeekLock => ReceiveMode::PeekLock,
            Mode::ReceiveAndDelete => ReceiveMode::ReceiveAndDelete,
        };
        self.transport.receiver(path, mode).await
    }

    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<DynLease>>, ReceiveError> {
        self.transport.receive_deferred(path, numbers).await
    }

    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        self.transport.peek(path, from, max).await
    }

    async fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        self.transport.purge(path, max, accepted_before).await
    }

    async fn accept_session(&self, path: &EntityPath, id: &str) -> Result<DynSession, ReceiveError> {
        self.transport.sessions(path).await?.accept(id).await
    }

    async fn accept_next_session(&self, path: &EntityPath, _: Duration) -> Result<DynSession, ReceiveError> {
        self.accept_session(path, "").await
    }

    /// There are no connections: a lease settles wherever it is.
    async fn settle_elsewhere(
        &self,
        _: &EntityPath,
        lease: DynLease,
        disposition: Disposition,
    ) -> Result<(), SettleError> {
        lease.settle(disposition).await
    }

    /// There is no connection that ends: a receiver that is lost in this process drops its deliveries.
    async fn disconnect(&self, receiver: DynReceiver, held: Vec<Delivery<DynLease>>) -> Result<(), ReceiveError> {
        drop(receiver);
        drop(held);
        Ok(())
    }
}
