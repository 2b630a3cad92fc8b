use std::{fmt, sync::Arc, time::Duration};

use consign_core::{
    Disposition, Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{self, Delivery, ErrorKind, SendError, SettleError},
};

use super::{
    Acknowledged, Broker, QueueLease, QueueSender,
    engine::{Operations, PlannedSend, Rejected, Settlement, StoreId, Ticks, arrival},
    shared::Shared,
};

/// A group of sends and settlements that take effect as a whole, or not at all.
///
/// A transaction is on one entity: that of its first operation, where a subscription counts as its topic. To send to
/// another entity, use a sender that transfers messages [`via`](QueueSender::via) the first. Before
/// [`commit`](Transaction::commit) no other call sees any effect, and no message has a number, except for those of
/// [`schedule_numbered`](Transaction::schedule_numbered). The locks of the
/// messages to settle hold until then.
///
/// ```
/// use consign::{
///     Disposition, Message,
///     administration::QueueSettings,
///     broker::Broker,
///     transport::{ReceiverExt, Sender},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let broker = Broker::new();
/// let orders = broker.create_queue("orders", QueueSettings::default())?;
/// let bills = broker.create_queue("bills", QueueSettings::default())?;
/// orders.sender()?.send(Message::new("one order")).await?;
///
/// let delivery = orders.receiver().receive().await?;
/// let mut transaction = broker.transaction();
/// transaction.settle(delivery.lease, Disposition::Complete)?;
/// transaction.send(&bills.sender()?.via(&orders), Message::new("its bill"))?;
/// transaction.commit().await?;
/// assert_eq!((orders.counts().locked, bills.counts().active), (0, 1));
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction that is dropped has no effect, and abandons what it was to settle"]
pub struct Transaction {
    shared: Arc<Shared>,
    /// The entity that it is on.
    top_level: Option<StoreId>,
    /// The key that its messages on a partitioned entity share.
    partition_key: Option<String>,
    operations: Operations,
    leases: Vec<QueueLease>,
    /// The senders, in the order of the sends.
    senders: Vec<QueueSender>,
    begun: Option<Ticks>,
}

/// The result of a committed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// The sequence numbers of the messages that were scheduled, in order.
    pub scheduled: Vec<SequenceNumber>,
}

/// The error of a [`Transaction`].
pub type TransactionError = transport::TransactionError<QueueLease>;

#[cfg(feature = "durable")]
impl From<super::StorageError> for TransactionError {
    fn from(failure: super::StorageError) -> Self {
        SettleError::from(failure).into()
    }
}

impl Transaction {
    /// The maximum number of messages of a transaction: sent, scheduled, settled or renewed.
    pub const MAX_MESSAGES: usize = 100;
    /// Its maximum duration, from its first operation on.
    pub const TIMEOUT: Duration = Duration::from_secs(120);

    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            top_level: None,
            partition_key: None,
            operations: Operations::default(),
            leases: Vec::new(),
            senders: Vec::new(),
            begun: None,
        }
    }

    /// Sends a message when it commits. Errors: [`QuotaExceeded`](ErrorKind::QuotaExceeded) for the 101st message.
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) for an entity other than that of the transaction, and on a
    /// partitioned entity for a message without a key or with another one. [`Transaction`](ErrorKind::Transaction)
    /// after the time-out.
    pub fn send(&mut self, sender: &QueueSender, message: Message) -> Result<(), SendError> {
        self.add_send(sender, message, None, false).map(drop)
    }

    /// Schedules a message for `at` when it commits; the number is in [`Committed`]. Errors: those of
    /// [`Transaction::send`].
    pub fn schedule(&mut self, sender: &QueueSender, message: Message, at: Timestamp) -> Result<(), SendError> {
        self.add_send(sender, message, Some(at), false).map(drop)
    }

    /// Schedules a message as [`Transaction::schedule`] does, and returns the number that it has after the commit.
    ///
    /// No other message has that number, so a rollback leaves a gap. A message that is a duplicate at the commit, or
    /// whose time has come by then, has another number, which is in [`Committed`].
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::send`], and [`EntityNotFound`](ErrorKind::EntityNotFound) for an entity that has been deleted. The
    /// message is not part of the transaction then.
    pub fn schedule_numbered(
        &mut self,
        sender: &QueueSender,
        message: Message,
        at: Timestamp,
    ) -> Result<SequenceNumber, SendError> {
        let number = self.add_send(sender, message, Some(at), true)?;
        number.ok_or_else(|| SendError::new(ErrorKind::EntityNotFound))
    }

    fn add_send(
        &mut self,
        sender: &QueueSender,
        message: Message,
        at: Option<Timestamp>,
        is_numbered: bool,
    ) -> Result<Option<SequenceNumber>, SendError> {
        let added = self.try_add_send(sender, message, at, is_numbered);
        added.map_err(|error| sender.rejection(error, self.shared.now().utc))
    }

    fn try_add_send(
        &mut self,
        sender: &QueueSender,
        message: Message,
        at: Option<Timestamp>,
        is_numbered: bool,
    ) -> Result<Option<SequenceNumber>, SendError> {
        let refuse = |kind| SendError::new(kind).with_detail(describe(kind));
        let via = match &sender.via {
            Some((shared, _)) if !Arc::ptr_eq(shared, &sender.shared) => {
                return Err(refuse(ErrorKind::InvalidOperation));
            }
            Some((_, via)) if *via != sender.store => Some(*via),
            _ => None,
        };
        let top_level = self.check(&sender.shared, via.unwrap_or(sender.store)).map_err(refuse)?;
        // The topic of a subscription transfers the messages that go via that subscription, as the size is the
        // topic's.
        let via = via.map(|_| top_level).filter(|&via| via != sender.store);
        let key = self.shared.with(|state| state.engine.partition_key(top_level, &message, via.is_some()))?;
        if self.partition_key.is_some() && key.is_some() && self.partition_key != key {
            let detail = "the messages of a transaction on a partitioned entity have one key";
            return Err(SendError::new(ErrorKind::InvalidOperation).with_detail(detail));
        }
        self.partition_key = self.partition_key.take().or(key);
        self.begin(top_level);
        let (to, arrival, is_scheduled) = (sender.store, arrival(message, at), at.is_some());
        let now = self.shared.now();
        let reserved =
            if is_numbered { self.shared.with(|state| state.engine.reserve(now, to, &arrival.message)) } else { None };
        if is_numbered && reserved.is_none() {
            let detail = "the entity is deleted, and assigns no number";
            return Err(SendError::new(ErrorKind::EntityNotFound).with_detail(detail));
        }
        self.operations.sends.push(PlannedSend { to, via, arrival, is_scheduled, reserved });
        self.senders.push(sender.clone());
        Ok(reserved.map(|number| number.sequence))
    }

    /// Settles a delivery when it commits. Errors: those of [`Transaction::send`], and
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) for a message that was received and deleted. The error holds
    /// the lease.
    pub fn settle(&mut self, lease: QueueLease, disposition: Disposition) -> Result<(), TransactionError> {
        match self.add_settlement(&lease, Settlement::By(disposition)) {
            Ok(()) => self.leases.push(lease),
            Err(error) => return Err(TransactionError::from(error).with_leases([lease])),
        }
        Ok(())
    }

    /// Completes a delivery when it commits: [`Transaction::settle`].
    pub fn complete(&mut self, delivery: Delivery<QueueLease>) -> Result<(), TransactionError> {
        self.settle(delivery.lease, Disposition::Complete)
    }

    /// Renews the lock of a delivery when it commits; the delivery is still to be settled. Errors: those of
    /// [`Transaction::settle`].
    pub fn renew(&mut self, lease: &QueueLease) -> Result<(), SettleError> {
        self.add_settlement(lease, Settlement::Renew)
    }

    fn add_settlement(&mut self, lease: &QueueLease, settlement: Settlement) -> Result<(), SettleError> {
        let planned = lease.planned(settlement)?;
        let refuse = |kind| SettleError::new(kind).with_detail(describe(kind));
        let top_level = self.check(lease.shared(), lease.store()).map_err(refuse)?;
        self.begin(top_level);
        self.operations.settlements.push(planned);
        Ok(())
    }

    /// Returns whether the transaction is on the entity of this sender. An entity without an operation is not.
    #[doc(hidden)]
    #[must_use]
    pub fn is_on(&self, sender: &QueueSender) -> bool {
        self.top_level.is_some_and(|first| first == self.shared.with(|state| state.engine.top_level(sender.store)))
    }

    /// Checks that one more operation may be on this entity. Returns the entity that the transaction is on then.
    fn check(&self, shared: &Arc<Shared>, store: StoreId) -> Result<StoreId, ErrorKind> {
        if self.is_over() {
            return Err(ErrorKind::Transaction);
        }
        if self.operations.len() >= Self::MAX_MESSAGES {
            return Err(ErrorKind::QuotaExceeded);
        }
        let now = self.shared.now();
        let top_level = self.shared.with(|state| {
            // An entity that is due to be deleted is gone.
            state.engine.advance(now);
            state.engine.top_level(store)
        });
        if !Arc::ptr_eq(shared, &self.shared) || self.top_level.is_some_and(|first| first != top_level) {
            return Err(ErrorKind::InvalidOperation);
        }
        Ok(top_level)
    }

    fn begin(&mut self, top_level: StoreId) {
        self.top_level = Some(top_level);
        self.begun.get_or_insert(self.shared.now().ticks);
    }

    fn is_over(&self) -> bool {
        let Some(begun) = self.begun else { return false };
        let timeout = Self::TIMEOUT.as_secs() * 1_000_000_000;
        self.shared.now().ticks.saturating_sub(begun) >= timeout
    }

    /// Commits all operations: the settlements first, then the sends in order. On an error nothing has happened, and
    /// the messages to settle are still locked. Errors: those of a send and of a settlement, and
    /// [`Transaction`](ErrorKind::Transaction) after the time-out.
    pub fn commit(mut self) -> Acknowledged<Committed, TransactionError> {
        match self.try_commit() {
            Ok(scheduled) => {
                self.leases.drain(..).for_each(QueueLease::forget);
                self.shared.acknowledge(Ok(Committed { scheduled }))
            }
            Err(error) => {
                let shared = Arc::clone(&self.shared);
                shared.acknowledge(Err(error.with_leases(self.rollback())))
            }
        }
    }

    fn try_commit(&mut self) -> Result<Vec<SequenceNumber>, TransactionError> {
        if self.is_over() {
            return Err(SettleError::new(ErrorKind::Transaction).with_detail(describe(ErrorKind::Transaction)).into());
        }
        #[cfg(feature = "durable")]
        if let Some(failure) = self.shared.failure() {
            return Err(failure.clone().into());
        }
        self.shared.check_whole::<SettleError>()?;
        let now = self.shared.now();
        let Self { shared, operations, senders, .. } = self;
        shared.with_answer(|state| state.engine.commit(now, operations)).map_err(|rejected| match rejected {
            Rejected::Send(error, at) => match senders.get(at) {
                Some(sender) => sender.rejection(error, now.utc).into(),
                None => error.into(),
            },
            Rejected::Settle(refused) => SettleError::from(refused).into(),
        })
    }

    /// Discards all operations, and returns the leases.
    #[must_use = "a lease that is dropped abandons its message"]
    pub fn rollback(mut self) -> Vec<QueueLease> {
        std::mem::take(&mut self.leases)
    }
}

fn describe(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Transaction => "the transaction has timed out",
        ErrorKind::QuotaExceeded => "more than 100 messages in a single transaction",
        _ => "the transaction belongs to another entity",
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("operations", &self.operations.len()).finish_non_exhaustive()
    }
}

impl Transaction {
    fn sender(&self, to: &EntityPath) -> Result<QueueSender, SendError> {
        Broker { shared: Arc::clone(&self.shared) }.sender(to)
    }
}

impl transport::Transaction for Transaction {
    type Lease = QueueLease;

    async fn send(&mut self, to: &EntityPath, message: Message) -> Result<(), SendError> {
        let sender = self.sender(to)?;
        Self::send(self, &sender, message)
    }

    async fn schedule(&mut self, to: &EntityPath, message: Message, at: Timestamp) -> Result<(), SendError> {
        let sender = self.sender(to)?;
        Self::schedule(self, &sender, message, at)
    }

    async fn settle(&mut self, lease: QueueLease, disposition: Disposition) -> Result<(), TransactionError> {
        Self::settle(self, lease, disposition)
    }

    async fn commit(self) -> Result<Vec<SequenceNumber>, TransactionError> {
        Ok(Self::commit(self).await?.scheduled)
    }

    fn rollback(self) -> Vec<QueueLease> {
        Self::rollback(self)
    }
}
