//! The embedded broker with a fault.

use consign::{
    Message,
    administration::{Administration, Counts, Entity, EntitySettings},
    broker::{Broker, QueueReceiver},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        Capabilities, DynTransport, ManageError, ReceiveError, ReceiveMode, ScheduleMessages, SendError, Sessions,
        Transport,
    },
};

use super::{
    Fault,
    receiving::{WrongLease, WrongReceiver, WrongSession, WrongSource},
    sending::WrongSender,
};
use crate::embedded::TokioClock;

#[derive(Clone)]
pub(super) struct Wrong {
    broker: Broker,
    pub(super) fault: Fault,
}

impl Wrong {
    pub(super) fn new(clock: TokioClock, fault: Fault) -> Self {
        Self { broker: Broker::with_clock(clock), fault }
    }
}

impl From<Wrong> for DynTransport {
    fn from(wrong: Wrong) -> Self {
        Self::builder(wrong).administration().schedule().sessions().build()
    }
}

impl Transport for Wrong {
    type Sender = WrongSender;
    type Lease = WrongLease;
    type Receiver = WrongReceiver<QueueReceiver>;

    fn capabilities(&self) -> Capabilities {
        self.broker.capabilities()
    }

    async fn sender(&self, path: &EntityPath) -> Result<WrongSender, SendError> {
        Ok(WrongSender { inner: self.broker.sender(path)?, fault: self.fault })
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<Self::Receiver, ReceiveError> {
        let inner = Transport::receiver(&self.broker, path, mode).await?;
        Ok(WrongReceiver::new(inner, self.fault))
    }
}

impl Sessions for Wrong {
    type Session = WrongSession;
    type SessionSource = WrongSource;

    async fn sessions(&self, path: &EntityPath) -> Result<WrongSource, ReceiveError> {
        Ok(WrongSource::new(self.broker.sessions(path).await?, self.fault))
    }
}

impl ScheduleMessages for Wrong {
    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        self.broker.schedule(path, messages, at).await
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        self.broker.cancel_scheduled(path, numbers).await
    }
}

impl Administration for Wrong {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        self.broker.create(path, settings).await
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        self.broker.declare(path, settings).await
    }

    async fn update(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        self.broker.update(path, settings).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        Administration::delete(&self.broker, path).await
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        Administration::settings(&self.broker, path).await
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        self.broker.list().await
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        Administration::counts(&self.broker, path).await
    }
}
