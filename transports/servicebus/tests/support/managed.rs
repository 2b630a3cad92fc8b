//! The transport with the administration of the broker behind the server.

use consign::{
    Message,
    administration::{Administration, Counts, Entity, EntitySettings},
    broker::Broker,
    message::{EntityPath, SequenceNumber},
    rules::{DynRules, ManageRules, Rule},
    time::Timestamp,
    transport::{
        Capabilities, Delivery, DynTransport, ManageError, PeekMessages, PurgeMessages, ReceiveDeferred, ReceiveError,
        ReceiveMode, ScheduleMessages, SendError, Sessions, TransactionError, Transactions, Transport,
    },
};
use consign_servicebus::{
    ServiceBus, ServiceBusLease, ServiceBusReceiver, ServiceBusSender, ServiceBusSession, ServiceBusSessions,
    ServiceBusTransaction,
};

#[derive(Clone)]
pub(crate) struct Managed {
    pub(crate) service_bus: ServiceBus,
    pub(crate) broker: Broker,
}

impl Transport for Managed {
    type Sender = ServiceBusSender;
    type Lease = ServiceBusLease;
    type Receiver = ServiceBusReceiver;

    fn capabilities(&self) -> Capabilities {
        self.service_bus.capabilities()
    }

    async fn sender(&self, path: &EntityPath) -> Result<ServiceBusSender, SendError> {
        self.service_bus.sender(path).await
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<ServiceBusReceiver, ReceiveError> {
        self.service_bus.receiver(path, mode).await
    }

    async fn ping(&self) -> Result<(), ManageError> {
        self.service_bus.ping().await
    }

    async fn close(&self) -> Result<(), ManageError> {
        self.service_bus.close().await
    }
}

impl PeekMessages for Managed {
    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        self.service_bus.peek(path, from, max).await
    }
}

impl ScheduleMessages for Managed {
    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        self.service_bus.schedule(path, messages, at).await
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        self.service_bus.cancel_scheduled(path, numbers).await
    }
}

impl ReceiveDeferred for Managed {
    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<ServiceBusLease>>, ReceiveError> {
        self.service_bus.receive_deferred(path, numbers).await
    }
}

impl PurgeMessages for Managed {
    async fn purge(&self, path: &EntityPath, max: usize, before: Option<Timestamp>) -> Result<usize, ManageError> {
        self.service_bus.purge(path, max, before).await
    }
}

impl Sessions for Managed {
    type Session = ServiceBusSession;
    type SessionSource = ServiceBusSessions;

    async fn sessions(&self, path: &EntityPath) -> Result<ServiceBusSessions, ReceiveError> {
        self.service_bus.sessions(path).await
    }
}

impl Transactions for Managed {
    type Transaction = ServiceBusTransaction;

    async fn begin(&self) -> Result<ServiceBusTransaction, TransactionError<ServiceBusLease>> {
        self.service_bus.begin().await
    }
}

impl Administration for Managed {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        Administration::create(&self.broker, path, settings).await
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        Administration::declare(&self.broker, path, settings).await
    }

    async fn update(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        Administration::update(&self.broker, path, settings).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        Administration::delete(&self.broker, path).await
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        Administration::settings(&self.broker, path).await
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        Administration::list(&self.broker).await
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        Administration::counts(&self.broker, path).await
    }
}

/// Rules are those of the transport, over AMQP.
impl ManageRules for Managed {
    async fn create_rule(&self, subscription: &EntityPath, rule: &Rule) -> Result<(), ManageError> {
        self.service_bus.create_rule(subscription, rule).await
    }

    async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Result<(), ManageError> {
        self.service_bus.delete_rule(subscription, name).await
    }

    async fn rules(&self, subscription: &EntityPath) -> Result<Vec<Rule>, ManageError> {
        self.service_bus.rules(subscription).await
    }
}

impl From<Managed> for DynTransport {
    fn from(managed: Managed) -> Self {
        Self::builder(managed.clone())
            .peek()
            .schedule()
            .receive_deferred()
            .purge()
            .sessions()
            .transactions()
            .administration()
            .extension(DynRules::new(managed))
            .build()
    }
}
