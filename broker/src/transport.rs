//! The embedded broker as a transport.

use consign_core::{
    Message,
    administration::{Administration, Counts, Entity, EntitySettings},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        Capabilities, Delivery, DynTransport, ErrorKind, ManageError, PeekMessages, PurgeMessages, ReceiveDeferred,
        ReceiveError, ReceiveMode, ScheduleMessages, SendError, Sessions, Transactions, Transport,
    },
};
use consign_rules::{DynRules, ManageRules, Rule};

use crate::{
    Broker, Queue, QueueLease, QueueReceiver, QueueSender, SessionAcceptor, SessionReceiver, Subscription, Topic,
    Transaction, TransactionError,
};

/// A path that does not exist is an error of the operation that was called.
macro_rules! of_operation {
    ($error:expr, $operation:ident) => {{
        let error: ManageError = $error;
        $operation::new(error.kind()).with_source(error)
    }};
}

impl Broker {
    fn entity(&self, path: &EntityPath) -> Result<Queue, ReceiveError> {
        self.queue(path.as_str()).map_err(|error| of_operation!(error, ReceiveError))
    }

    fn subscription_at(&self, path: &EntityPath) -> Result<Subscription, ManageError> {
        let (topic, name) = path.subscription().ok_or_else(|| missing(path))?;
        self.topic(topic)?.subscription(name)
    }

    /// A topic is no queue, but can be peeked and counted: its scheduled messages.
    fn topic_at(&self, path: &EntityPath) -> Option<Topic> {
        self.topic(path.as_str()).ok()
    }
}

fn missing(path: &EntityPath) -> ManageError {
    ManageError::new(ErrorKind::EntityNotFound).with_detail(path.to_string())
}

impl Transport for Broker {
    type Sender = QueueSender;
    type Lease = QueueLease;
    type Receiver = QueueReceiver;

    fn capabilities(&self) -> Capabilities {
        Self::capabilities(self)
    }

    async fn sender(&self, path: &EntityPath) -> Result<QueueSender, SendError> {
        Self::sender(self, path)
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<QueueReceiver, ReceiveError> {
        let queue = self.entity(path)?;
        Ok(match mode {
            ReceiveMode::PeekLock => queue.receiver(),
            ReceiveMode::ReceiveAndDelete => queue.receive_and_delete(),
        })
    }

    /// Returns the error of a call, after the broker was closed or its disk has failed.
    async fn ping(&self) -> Result<(), ManageError> {
        self.shared.check_open()
    }

    #[cfg(feature = "durable")]
    async fn close(&self) -> Result<(), ManageError> {
        Self::close(self).await.map_err(ManageError::from)
    }
}

impl PeekMessages for Broker {
    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        let messages = match self.topic_at(path) {
            Some(topic) => topic.peek(from, max),
            None => self.entity(path)?.peek(from, max),
        };
        // Without a message that a disk could not read, the list is not whole.
        self.shared.check_open::<ReceiveError>()?;
        Ok(messages)
    }
}

impl ScheduleMessages for Broker {
    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        Self::sender(self, path)?.schedule(messages, at).await
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        Self::sender(self, path)?.cancel_scheduled(numbers).await
    }
}

impl ReceiveDeferred for Broker {
    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<QueueLease>>, ReceiveError> {
        self.entity(path)?.receive_deferred(numbers)
    }
}

impl PurgeMessages for Broker {
    async fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        self.queue(path.as_str())?.delete_messages(max, accepted_before).await
    }
}

impl Sessions for Broker {
    type Session = SessionReceiver;
    type SessionSource = SessionAcceptor;

    async fn sessions(&self, path: &EntityPath) -> Result<SessionAcceptor, ReceiveError> {
        self.entity(path)?.session_acceptor()
    }
}

impl Transactions for Broker {
    type Transaction = Transaction;

    async fn begin(&self) -> Result<Transaction, TransactionError> {
        Ok(self.transaction())
    }
}

impl Administration for Broker {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        match settings {
            EntitySettings::Queue(settings) => self.create_queue(path.as_str(), settings.clone()).map(drop),
            EntitySettings::Topic(settings) => self.create_topic(path.as_str(), settings.clone()).map(drop),
            EntitySettings::Subscription(settings) => {
                let (topic, name) = path.subscription().ok_or_else(|| missing(path))?;
                self.topic(topic)?.create_subscription(name, settings.clone()).map(drop)
            }
        }
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        match settings {
            EntitySettings::Queue(settings) => self.declare_queue(path.as_str(), settings.clone()).map(drop),
            EntitySettings::Topic(settings) => self.declare_topic(path.as_str(), settings.clone()).map(drop),
            EntitySettings::Subscription(settings) => {
                let (topic, name) = path.subscription().ok_or_else(|| missing(path))?;
                self.topic(topic)?.declare_subscription(name, settings.clone()).map(drop)
            }
        }
    }

    async fn update(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        match settings {
            EntitySettings::Queue(settings) => self.update_queue(path.as_str(), settings.clone()),
            EntitySettings::Topic(settings) => self.update_topic(path.as_str(), settings.clone()),
            EntitySettings::Subscription(settings) => {
                let (topic, name) = path.subscription().ok_or_else(|| missing(path))?;
                self.topic(topic)?.update_subscription(name, settings.clone())
            }
        }
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        Self::delete(self, path.as_str())
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        if path.subscription().is_some() {
            return Ok(self.subscription_at(path)?.subscription_settings()?.into());
        }
        match self.topic_at(path) {
            Some(topic) => Ok(topic.settings()?.into()),
            None => Ok(self.queue(path.as_str())?.settings()?.into()),
        }
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        self.shared.check_open::<ManageError>()?;
        Ok(self.entities())
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        match self.topic_at(path) {
            Some(topic) => Ok(topic.counts()),
            None => Ok(self.queue(path.as_str())?.counts()),
        }
    }
}

impl ManageRules for Broker {
    async fn create_rule(&self, subscription: &EntityPath, rule: &Rule) -> Result<(), ManageError> {
        self.subscription_at(subscription)?.create_rule(rule.clone())
    }

    async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Result<(), ManageError> {
        self.subscription_at(subscription)?.delete_rule(name).map(drop)
    }

    async fn rules(&self, subscription: &EntityPath) -> Result<Vec<Rule>, ManageError> {
        Ok(self.subscription_at(subscription)?.rules())
    }
}

impl From<Broker> for DynTransport {
    fn from(broker: Broker) -> Self {
        Self::builder(broker.clone())
            .peek()
            .schedule()
            .receive_deferred()
            .purge()
            .sessions()
            .transactions()
            .administration()
            .extension(DynRules::new(broker.clone()))
            .extension(broker)
            .build()
    }
}
