use std::{error, fmt, future::Future};

use super::{ErrorKind, Lease, SendError, SettleError, Transport, Unsupported};
use crate::{
    Disposition, Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
};

/// A [`Transport`] with transactions: [`Capability::Transactions`](super::Capability::Transactions).
pub trait Transactions: Transport {
    /// A transaction of this transport.
    type Transaction: Transaction<Lease = Self::Lease>;

    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction, TransactionError<Self::Lease>>> + Send;
}

/// A group of sends and settlements of which all happen, or none.
///
/// A transaction is on one entity: that of its first operation, where a subscription counts as its topic. Before
/// [`commit`](Self::commit) no other call sees any effect, and the messages to settle stay locked. Dropping it discards its
/// operations and abandons the messages that it was to settle.
///
/// # Examples
///
/// A function over every transport with transactions. It replaces a message by another one:
///
/// ```
/// use consign::{
///     Disposition, Message,
///     message::EntityPath,
///     transport::{Delivery, Transaction, TransactionError, Transactions},
/// };
///
/// async fn replace<T: Transactions>(
///     transport: &T,
///     queue: &EntityPath,
///     old: Delivery<T::Lease>,
///     new: Message,
/// ) -> Result<(), TransactionError<T::Lease>> {
///     let mut transaction = transport.begin().await?;
///     transaction.settle(old.lease, Disposition::Complete).await?;
///     transaction.send(queue, new).await?;
///     transaction.commit().await?;
///     Ok(())
/// }
/// # use consign::{administration::QueueSettings, broker::Broker, transport::{ReceiverExt, Sender}};
/// # tokio_test::block_on(async {
/// # let broker = Broker::new();
/// # let queue = broker.create_queue("orders", QueueSettings::default())?;
/// # queue.sender()?.send(Message::new("old")).await?;
/// # let old = queue.receiver().receive().await?;
/// # replace(&broker, &EntityPath::new("orders")?, old, Message::new("new")).await?;
/// # assert_eq!(queue.receiver().receive().await?.message.payload(), Some(&b"new"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait Transaction: Send + 'static {
    /// The lease that it settles.
    type Lease: Lease;

    /// Sends a message to a queue or a topic when it commits.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound); [`InvalidOperation`](ErrorKind::InvalidOperation) for another entity than
    /// that of the transaction; [`QuotaExceeded`](ErrorKind::QuotaExceeded) for more messages than a transaction takes; and
    /// those of a send that are detected before the commit.
    fn send(&mut self, to: &EntityPath, message: Message) -> impl Future<Output = Result<(), SendError>> + Send;

    /// Schedules a message for `at` when it commits.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    fn schedule(
        &mut self,
        to: &EntityPath,
        message: Message,
        at: Timestamp,
    ) -> impl Future<Output = Result<(), SendError>> + Send;

    /// Settles a delivery when it commits.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), and those of the settlement that are detected before the commit. The error has the lease.
    fn settle(
        &mut self,
        lease: Self::Lease,
        disposition: Disposition,
    ) -> impl Future<Output = Result<(), TransactionError<Self::Lease>>> + Send;

    /// Commits all operations. Returns the sequence numbers of the scheduled messages, in order.
    ///
    /// # Errors
    ///
    /// Those of the sends and settlements, and [`Transaction`](ErrorKind::Transaction) if the transaction took too long.
    /// Nothing has happened then, and the error has the leases. If the connection is lost, the outcome is
    /// [unknown](TransactionError::is_outcome_unknown).
    fn commit(self) -> impl Future<Output = Result<Vec<SequenceNumber>, TransactionError<Self::Lease>>> + Send;

    /// Discards all operations, and returns the leases.
    #[must_use = "a lease that is dropped abandons its message"]
    fn rollback(self) -> Vec<Self::Lease>;
}

/// A transaction that had no effect, or that did not accept a settlement. The messages that it was to settle are still locked:
/// [`into_leases`](Self::into_leases) returns their leases, and dropping the error abandons them.
pub struct TransactionError<L> {
    cause: Cause,
    leases: Vec<L>,
}

enum Cause {
    Send(SendError),
    Settle(SettleError),
}

impl Cause {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Send(error) => error.kind(),
            Self::Settle(error) => error.kind(),
        }
    }
}

impl<L> TransactionError<L> {
    /// Adds the leases of the messages that are still locked.
    #[must_use]
    pub fn with_leases(mut self, leases: impl IntoIterator<Item = L>) -> Self {
        self.leases.extend(leases);
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.cause.kind()
    }

    /// Returns whether the transaction may have had its effect although it failed.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.kind().is_outcome_unknown()
    }

    /// Returns the leases, in the order in which they were added. Leases with a lost lock are included.
    #[must_use = "a lease that is dropped abandons its message"]
    pub fn into_leases(self) -> Vec<L> {
        self.leases
    }

    /// Converts the leases.
    pub(super) fn map_leases<M>(self, convert: impl FnMut(L) -> M) -> TransactionError<M> {
        TransactionError { cause: self.cause, leases: self.leases.into_iter().map(convert).collect() }
    }
}

/// A message of the transaction was refused.
impl<L> From<SendError> for TransactionError<L> {
    fn from(error: SendError) -> Self {
        Self { cause: Cause::Send(error), leases: Vec::new() }
    }
}

/// A settlement of the transaction was refused, or the transaction as a whole.
impl<L> From<SettleError> for TransactionError<L> {
    fn from(error: SettleError) -> Self {
        Self { cause: Cause::Settle(error), leases: Vec::new() }
    }
}

impl<L> From<Unsupported> for TransactionError<L> {
    fn from(error: Unsupported) -> Self {
        SettleError::from(error).into()
    }
}

impl<L> fmt::Display for TransactionError<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (&self.cause, self.kind()) {
            (_, ErrorKind::Transaction) => "the transaction has timed out",
            (_, kind) if kind.is_outcome_unknown() => "the outcome of the transaction is unknown",
            (Cause::Send(_), _) => "a message of the transaction was refused",
            (Cause::Settle(_), _) => "a settlement of the transaction was refused",
        })
    }
}

impl<L> fmt::Debug for TransactionError<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TransactionError");
        match &self.cause {
            Cause::Send(error) => shown.field("cause", error),
            Cause::Settle(error) => shown.field("cause", error),
        };
        shown.field("leases", &self.leases.len()).finish()
    }
}

impl<L> error::Error for TransactionError<L> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(match &self.cause {
            Cause::Send(error) => error,
            Cause::Settle(error) => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn an_error_returns_its_cause_and_its_leases() {
        let error = TransactionError::from(SendError::new(ErrorKind::QuotaExceeded)).with_leases([1, 2]);
        assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::QuotaExceeded, false));
        assert_eq!(error.to_string(), "a message of the transaction was refused");
        assert!(error.source().is_some_and(<dyn Error>::is::<SendError>));
        assert_eq!(error.map_leases(|lease| lease * 10).into_leases(), [10, 20]);
    }

    #[test]
    fn a_time_out_and_an_unknown_outcome_are_named() {
        let late = TransactionError::<()>::from(SettleError::new(ErrorKind::Transaction));
        assert_eq!(late.to_string(), "the transaction has timed out");
        let unknown = TransactionError::<()>::from(SettleError::new(ErrorKind::CommunicationProblem));
        assert!(unknown.is_outcome_unknown());
        assert_eq!(unknown.to_string(), "the outcome of the transaction is unknown");
    }
}
