//! The traits of a transport.

use consign_core::{
    Message,
    administration::{Administration, Counts, Entity, EntitySettings},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        Capabilities, Delivery, DynTransport, ManageError, PeekMessages, PurgeMessages, ReceiveDeferred, ReceiveError,
        ReceiveMode, ScheduleMessages, SendError, ServerAddress, Sessions, Transactions, Transport,
    },
};
use consign_rules::DynRules;

use crate::{
    Postgres, PostgresLease, PostgresReceiver, PostgresSender, PostgresSession, PostgresSessions, Transaction,
    TransactionError, entity::Entity as Target, failure::send_error, manage, sender, update,
};

impl Transport for Postgres {
    type Sender = PostgresSender;
    type Lease = PostgresLease;
    type Receiver = PostgresReceiver;

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    /// `None` for a wrapped pool, and for a URL with several hosts.
    fn server(&self) -> Option<ServerAddress> {
        self.inner.options.server.clone()
    }

    async fn sender(&self, path: &EntityPath) -> Result<PostgresSender, SendError> {
        Self::sender(self, path.as_str()).await
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<PostgresReceiver, ReceiveError> {
        match mode {
            ReceiveMode::PeekLock => Self::receiver(self, path.as_str()).await,
            ReceiveMode::ReceiveAndDelete => self.receive_and_delete(path.as_str()).await,
        }
    }

    /// Executes `SELECT 1` on a connection of the pool. While none is free for the [timeout](crate::Options::timeout), it is
    /// [`ServiceBusy`](consign_core::transport::ErrorKind::ServiceBusy).
    async fn ping(&self) -> Result<(), ManageError> {
        let executing = self.inner.database.with(async |client| Ok(client.query_typed("SELECT 1", &[]).await?));
        Ok(executing.await.map(drop)?)
    }

    /// A pool that was [wrapped](crate::Options::wrap) stays open. Deliveries and sessions that are still held are released to
    /// other processes, as those of a lost process; without a connection that listens, at the end of their locks. After
    /// [`Options::timeout`](crate::Options::timeout) it closes the connections all the same, and returns
    /// [`ServiceTimeout`](consign_core::transport::ErrorKind::ServiceTimeout).
    async fn close(&self) -> Result<(), ManageError> {
        self.inner.close().await
    }
}

impl PeekMessages for Postgres {
    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        Self::peek(self, path.as_str(), from, max).await
    }
}

impl Postgres {
    /// Returns the queue or the topic at `path`, to send to it once.
    async fn target(&self, path: &EntityPath) -> Result<Target, SendError> {
        let entity = self.inner.find(path).await.map_err(send_error)?;
        sender::check_target(path, &entity)?;
        self.inner.start();
        Ok(entity)
    }
}

impl ScheduleMessages for Postgres {
    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        let entity = self.target(path).await?;
        sender::schedule(&self.inner, &entity, messages, at).await
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        let entity = self.target(path).await?;
        sender::cancel_scheduled(&self.inner, &entity, numbers).await
    }
}

impl ReceiveDeferred for Postgres {
    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<PostgresLease>>, ReceiveError> {
        Self::receive_deferred(self, path.as_str(), numbers).await
    }
}

impl PurgeMessages for Postgres {
    /// Scheduled messages stay.
    async fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        Self::purge(self, path.as_str(), max, accepted_before).await
    }
}

impl Sessions for Postgres {
    type Session = PostgresSession;
    type SessionSource = PostgresSessions;

    async fn sessions(&self, path: &EntityPath) -> Result<PostgresSessions, ReceiveError> {
        Self::sessions(self, path.as_str()).await
    }
}

impl Transactions for Postgres {
    type Transaction = Transaction;

    async fn begin(&self) -> Result<Transaction, TransactionError> {
        Ok(Self::begin(self))
    }
}

/// The settings are those of the message model. `partitioned`, `auto_delete_on_idle`, and another `max_duplicate_ids` than the
/// default are refused as [`NotSupported`](consign_core::transport::ErrorKind::NotSupported).
impl Administration for Postgres {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        manage::create(&self.inner, path, settings).await
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        manage::declare(&self.inner, path, settings).await
    }

    /// A new `lock_duration` and a new `forward_to` release all locks without a count. A new `default_time_to_live` applies to
    /// messages that are sent afterwards, and a new `max_size` within a minute at the latest. Receivers that exist report the old
    /// `max_delivery_count` in their `entity_info`.
    async fn update(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        update::update(&self.inner, path, settings).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        Self::delete(self, path.as_str()).await
    }

    /// The paths of forwards are in lower case.
    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        manage::settings(&self.inner, path).await
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        manage::list(&self.inner).await
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        Self::counts(self, path.as_str()).await
    }
}

impl From<Postgres> for DynTransport {
    fn from(postgres: Postgres) -> Self {
        Self::builder(postgres.clone())
            .peek()
            .schedule()
            .receive_deferred()
            .purge()
            .sessions()
            .transactions()
            .administration()
            .extension(DynRules::new(postgres.clone()))
            .extension(postgres)
            .build()
    }
}
