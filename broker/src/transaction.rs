use std::{fmt, sync::Arc, time::Duration};

use consign_core::{
    Disposition, Message,
    message::SequenceNumber,
    time::Timestamp,
    transport::{Delivery, ErrorKind, SendError, SettleError},
};

use super::{
    Acknowledged, QueueLease, QueueSender,
    engine::{Operations, PlannedSend, Rejected, Settlement, StoreId, Ticks, arrival},
    namespace::Namespace,
};

/// A group of sends and settlements of which all happen, or none.
///
/// A transaction is on one entity: that of its first operation, where a subscription counts as its topic. To send to
/// another entity, use a sender that transfers messages [`via`](QueueSender::via) the first. Before
/// [`commit`](Transaction::commit) no other call sees any effect, and no message has a number. The locks of the
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
    namespace: Arc<Namespace>,
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

/// Why a transaction had no effect, or did not take a settlement. The messages that were to be settled are still
/// locked: [`into_leases`](TransactionError::into_leases) returns their leases, and dropping the error abandons them.
#[derive(Debug)]
pub struct TransactionError {
    cause: Cause,
    leases: Vec<QueueLease>,
}

#[derive(Debug)]
enum Cause {
    /// A message would not have been accepted.
    Send(SendError),
    /// A settlement would have had no effect.
    Settle(SettleError),
    TimedOut,
    /// The disk failed, and its contents are unknown.
    #[cfg(feature = "durable")]
    Storage(super::StorageError),
}

#[cfg(feature = "durable")]
impl From<super::StorageError> for TransactionError {
    fn from(failure: super::StorageError) -> Self {
        Self { cause: Cause::Storage(failure), leases: Vec::new() }
    }
}

impl Transaction {
    /// The maximum number of messages of a transaction: sent, scheduled, settled or renewed.
    pub const MAX_MESSAGES: usize = 100;
    /// Its maximum duration, from its first operation on.
    pub const TIMEOUT: Duration = Duration::from_secs(120);

    pub(super) fn new(namespace: Arc<Namespace>) -> Self {
        Self {
            namespace,
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
        self.add_send(sender, message, None)
    }

    /// Schedules a message for `at` when it commits; the number is in [`Committed`]. Errors: those of
    /// [`Transaction::send`].
    pub fn schedule(&mut self, sender: &QueueSender, message: Message, at: Timestamp) -> Result<(), SendError> {
        self.add_send(sender, message, Some(at))
    }

    fn add_send(&mut self, sender: &QueueSender, message: Message, at: Option<Timestamp>) -> Result<(), SendError> {
        let added = self.try_add_send(sender, message, at);
        added.map_err(|error| sender.rejection(error, self.namespace.now().utc))
    }

    fn try_add_send(&mut self, sender: &QueueSender, message: Message, at: Option<Timestamp>) -> Result<(), SendError> {
        let refuse = |kind| SendError::new(kind).with_detail(describe(kind));
        let via = match &sender.via {
            Some((namespace, _)) if !Arc::ptr_eq(namespace, &sender.namespace) => {
                return Err(refuse(ErrorKind::InvalidOperation));
            }
            Some((_, via)) if *via != sender.store => Some(*via),
            _ => None,
        };
        let top_level = self.check(&sender.namespace, via.unwrap_or(sender.store)).map_err(refuse)?;
        // The topic of a subscription transfers the messages that go via that subscription, as the size is the
        // topic's.
        let via = via.map(|_| top_level).filter(|&via| via != sender.store);
        let key = self.namespace.with(|state| state.engine.partition_key(top_level, &message, via.is_some()))?;
        if self.partition_key.is_some() && key.is_some() && self.partition_key != key {
            let detail = "the messages of a transaction on a partitioned entity have one key";
            return Err(SendError::new(ErrorKind::InvalidOperation).with_detail(detail));
        }
        self.partition_key = self.partition_key.take().or(key);
        self.begin(top_level);
        let (to, arrival, is_scheduled) = (sender.store, arrival(message, at), at.is_some());
        self.operations.sends.push(PlannedSend { to, via, arrival, is_scheduled });
        self.senders.push(sender.clone());
        Ok(())
    }

    /// Settles a delivery when it commits. Errors: those of [`Transaction::send`], and
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) for a message that was received and deleted. The error holds
    /// the lease.
    pub fn settle(&mut self, lease: QueueLease, disposition: Disposition) -> Result<(), TransactionError> {
        match self.add_settlement(&lease, Settlement::By(disposition)) {
            Ok(()) => self.leases.push(lease),
            Err(error) => return Err(TransactionError { cause: Cause::Settle(error), leases: vec![lease] }),
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
        let top_level = self.check(lease.namespace(), lease.store()).map_err(refuse)?;
        self.begin(top_level);
        self.operations.settlements.push(planned);
        Ok(())
    }

    /// Checks that one more operation may be on this entity. Returns the entity that the transaction is on then.
    fn check(&self, namespace: &Arc<Namespace>, store: StoreId) -> Result<StoreId, ErrorKind> {
        if self.is_over() {
            return Err(ErrorKind::Transaction);
        }
        if self.operations.len() >= Self::MAX_MESSAGES {
            return Err(ErrorKind::QuotaExceeded);
        }
        let now = self.namespace.now();
        let top_level = self.namespace.with(|state| {
            // An entity that is due to be deleted is gone.
            state.engine.advance(now);
            state.engine.top_level(store)
        });
        if !Arc::ptr_eq(namespace, &self.namespace) || self.top_level.is_some_and(|first| first != top_level) {
            return Err(ErrorKind::InvalidOperation);
        }
        Ok(top_level)
    }

    fn begin(&mut self, top_level: StoreId) {
        self.top_level = Some(top_level);
        self.begun.get_or_insert(self.namespace.now().ticks);
    }

    fn is_over(&self) -> bool {
        let Some(begun) = self.begun else { return false };
        let timeout = Self::TIMEOUT.as_secs() * 1_000_000_000;
        self.namespace.now().ticks.saturating_sub(begun) >= timeout
    }

    /// Commits all operations: the settlements first, then the sends in order. On an error nothing has happened, and
    /// the messages to settle are still locked. Errors: those of a send and of a settlement, and
    /// [`Transaction`](ErrorKind::Transaction) after the time-out.
    pub fn commit(mut self) -> Acknowledged<Committed, TransactionError> {
        match self.try_commit() {
            Ok(scheduled) => {
                self.leases.drain(..).for_each(QueueLease::forget);
                self.namespace.acknowledge(Ok(Committed { scheduled }))
            }
            Err(cause) => Acknowledged::ready(Err(TransactionError { cause, leases: self.rollback() })),
        }
    }

    fn try_commit(&mut self) -> Result<Vec<SequenceNumber>, Cause> {
        if self.is_over() {
            return Err(Cause::TimedOut);
        }
        #[cfg(feature = "durable")]
        if let Some(failure) = self.namespace.failure() {
            return Err(Cause::Storage(failure.clone()));
        }
        self.namespace.check_whole().map_err(Cause::Send)?;
        let now = self.namespace.now();
        let Self { namespace, operations, senders, .. } = self;
        namespace.with(|state| state.engine.commit(now, operations)).map_err(|rejected| match rejected {
            Rejected::Send(error, at) => Cause::Send(match senders.get(at) {
                Some(sender) => sender.rejection(error, now.utc),
                None => error,
            }),
            Rejected::Settle(refused) => Cause::Settle(refused.into()),
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
        _ => "another entity than the one that the transaction is about",
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("operations", &self.operations.len()).finish_non_exhaustive()
    }
}

impl TransactionError {
    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &self.cause {
            Cause::Send(error) => error.kind(),
            Cause::Settle(error) => error.kind(),
            Cause::TimedOut => ErrorKind::Transaction,
            #[cfg(feature = "durable")]
            Cause::Storage(_) => ErrorKind::General,
        }
    }

    /// Returns the leases, in the order in which they were added. Leases with a lost lock are included.
    #[must_use]
    pub fn into_leases(self) -> Vec<QueueLease> {
        self.leases
    }
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cause {
            Cause::Send(_) => "a message of the transaction was refused",
            Cause::Settle(_) => "a settlement of the transaction was refused",
            Cause::TimedOut => "the transaction has timed out",
            #[cfg(feature = "durable")]
            Cause::Storage(_) => "whether the transaction is on the disk is unknown",
        })
    }
}

impl std::error::Error for TransactionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Send(error) => Some(error),
            Cause::Settle(error) => Some(error),
            Cause::TimedOut => None,
            #[cfg(feature = "durable")]
            Cause::Storage(failure) => Some(failure),
        }
    }
}
