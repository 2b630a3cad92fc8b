//! The embedded broker with a fault.

use std::sync::Arc;

use consign::{
    Message,
    administration::{Administration, Counts, Entity, EntityKind, EntitySettings, QueueSettings},
    broker::{Broker, QueueReceiver},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        Capabilities, Capability, Delivery, DynTransport, ErrorKind, ManageError, ReceiveDeferred, ReceiveError,
        ReceiveMode, ReceiverExt, ScheduleMessages, SendError, Sessions, TransactionError, Transactions, Transport,
        Unsupported,
    },
};

use tokio::sync::Mutex;

use super::{
    Fault,
    receiving::{WrongLease, WrongReceiver, WrongSession, WrongSource},
    sending::{Kept, WrongSender},
    transactions::WrongTransaction,
};
use crate::embedded::TokioClock;

#[derive(Clone)]
pub(super) struct Wrong {
    broker: Broker,
    pub(super) fault: Fault,
    kept: Kept,
    one_by_one: Arc<Mutex<()>>,
    deleted: Arc<Mutex<Vec<EntityPath>>>,
}

impl Wrong {
    pub(super) fn new(clock: TokioClock, fault: Fault) -> Self {
        let (kept, one_by_one, deleted) = (Kept::default(), Arc::default(), Arc::default());
        Self { broker: Broker::with_clock(clock), fault, kept, one_by_one, deleted }
    }
}

impl Wrong {
    /// Returns the settings of an entity that is created. `None` if it is not.
    fn changed(&self, path: &EntityPath, settings: &EntitySettings) -> Option<EntitySettings> {
        match (self.fault, settings) {
            (Fault::TakesTwice, EntitySettings::Queue(queue)) => {
                Some(queue.clone().max_size(queue.max_size * 2).into())
            }
            (Fault::TakesAnySettings, settings) if settings.check().is_err() => Some(QueueSettings::default().into()),
            (Fault::CreatesSubQueues, _) if path.is_sub_queue() => None,
            _ => Some(settings.clone()),
        }
    }
}

impl From<Wrong> for DynTransport {
    fn from(wrong: Wrong) -> Self {
        Self::builder(wrong).administration().schedule().receive_deferred().sessions().transactions().build()
    }
}

impl Transport for Wrong {
    type Sender = WrongSender;
    type Lease = WrongLease;
    type Receiver = WrongReceiver<QueueReceiver>;

    fn capabilities(&self) -> Capabilities {
        self.fault.left(self.broker.capabilities())
    }

    async fn sender(&self, path: &EntityPath) -> Result<WrongSender, SendError> {
        if self.fault == Fault::DistinguishesCase && path.as_str() != path.as_str().to_lowercase() {
            return Err(SendError::new(ErrorKind::EntityNotFound));
        }
        let (kept, one_by_one) = (Arc::clone(&self.kept), Arc::clone(&self.one_by_one));
        Ok(WrongSender { inner: self.broker.sender(path)?, fault: self.fault, kept, one_by_one })
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<Self::Receiver, ReceiveError> {
        let mut inner = Transport::receiver(&self.broker, path, mode).await?;
        let refuses = matches!(self.fault, Fault::Refuses | Fault::RefusesTooLate);
        if refuses && mode == ReceiveMode::ReceiveAndDelete {
            if self.fault == Fault::RefusesTooLate {
                let _removed = inner.receive().await?;
            }
            return Err(Unsupported::new(Capability::ReceiveAndDelete).into());
        }
        Ok(WrongReceiver::new(inner, self.fault, Arc::clone(&self.kept)))
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
        match self.fault {
            Fault::Refuses => Err(Unsupported::new(Capability::Scheduling).into()),
            Fault::RefusesTooLate => {
                self.broker.schedule(path, messages, at).await?;
                Err(Unsupported::new(Capability::Scheduling).into())
            }
            _ => self.broker.schedule(path, messages, at).await,
        }
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        self.broker.cancel_scheduled(path, numbers).await
    }
}

impl ReceiveDeferred for Wrong {
    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<WrongLease>>, ReceiveError> {
        let fetched = self.broker.receive_deferred(path, numbers).await?;
        let wrong = |Delivery { message, lease }| Delivery {
            lease: WrongLease::new(lease, self.fault, Message::clone(&message)),
            message,
        };
        Ok(fetched.into_iter().map(wrong).collect())
    }
}

impl Transactions for Wrong {
    type Transaction = WrongTransaction;

    async fn begin(&self) -> Result<WrongTransaction, TransactionError<WrongLease>> {
        Ok(WrongTransaction { inner: self.broker.transaction(), fault: self.fault })
    }
}

impl Administration for Wrong {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        match self.changed(path, settings) {
            Some(settings) => self.broker.create(path, &settings).await,
            None => Ok(()),
        }
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        match self.changed(path, settings) {
            Some(settings) => self.broker.declare(path, &settings).await,
            None => Ok(()),
        }
    }

    async fn update(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        self.broker.update(path, settings).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        self.deleted.lock().await.push(path.clone());
        match Administration::delete(&self.broker, path).await {
            Err(_) if self.fault == Fault::DeletesNothing => Ok(()),
            deleted => deleted,
        }
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        match Administration::settings(&self.broker, path).await {
            Ok(_) if self.fault == Fault::ForgetsSettings => Ok(QueueSettings::default().into()),
            settings => settings,
        }
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        let mut listed = self.broker.list().await?;
        match self.fault {
            Fault::ListsNothing => listed.clear(),
            Fault::ListsDeleted => {
                let deleted = self.deleted.lock().await;
                listed.extend(deleted.iter().map(|path| Entity::new(path.clone(), EntityKind::Queue)));
            }
            _ => {}
        }
        Ok(listed)
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        let mut counts = Administration::counts(&self.broker, path).await?;
        match self.fault {
            Fault::CountsNothing => return Ok(Counts::default()),
            Fault::CountsLockedTwice => counts.active += counts.locked,
            Fault::MissesLockedDeadLetters if !path.is_sub_queue() => {
                let dead_letters = Administration::counts(&self.broker, &path.dead_letter()).await?;
                counts.dead_lettered -= dead_letters.locked;
            }
            _ => {}
        }
        Ok(counts)
    }
}
