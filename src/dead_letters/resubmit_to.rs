//! Resubmission to an entity of the same transport.

use std::{fmt, hash::Hasher};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::{
    ActionError, DeadLetterFilter, DeadLetters, EntityDeadLetters, Explained, RESUBMIT_COUNT,
    action::{Action, Changes, Copies, NotCommitted, Refused, Step},
    run::{Kept, Run},
};
use crate::{
    Disposition, Message,
    message::{EntityPath, PropertyValue},
    transport::{
        BoxFuture, Capability, DynLease, DynSender, DynTransport, ErrorKind, Lease, SendError, Sender, SettleError,
        Transaction, TransactionError, Transactions, Transport,
    },
};

/// What a resubmission doubles at most if it is interrupted between the copy and the removal of a dead letter, by a crash of the process or
/// a lost connection, and repeated. It never loses a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResubmitGuarantee {
    /// Nothing: a copy and the removal of its dead letter are one transaction.
    Transaction,
    /// Up to [`Run::concurrency`] copies. The second copy has the MessageId of the first one, so that an entity with duplicate detection
    /// accepts it once.
    SameMessageId,
    /// Up to [`Run::concurrency`] copies, with the same
    /// [`x-original-message-id`](crate::message::Properties::ORIGINAL_MESSAGE_ID).
    SameFirstId,
}

impl ResubmitGuarantee {
    /// The guarantee of copies of the dead letters of `source`, which are sent to `to`.
    fn of(transport: &DynTransport, source: &EntityPath, to: &EntityPath) -> Self {
        let capabilities = transport.capabilities();
        // A transaction is on one entity.
        let is_transactional = capabilities.supports(Capability::Transactions) && top_level(source) == top_level(to);
        if !capabilities.supports(Capability::SequenceNumbers) {
            Self::SameFirstId
        } else if is_transactional {
            Self::Transaction
        } else {
            Self::SameMessageId
        }
    }
}

/// The entity that a transaction is on: a subscription counts as its topic.
fn top_level(path: &EntityPath) -> String {
    let parent = path.parent();
    let top = parent.subscription().map_or(parent.as_str(), |(topic, _)| topic);
    top.to_lowercase()
}

impl DeadLetters<EntityDeadLetters> {
    /// Sends a copy of each dead letter that passes `filter` to the entity `to` of the same transport, and removes the dead letter. Nothing
    /// is done until [`Run::run`].
    ///
    /// Unlike [`DeadLetters::resubmit`], such a run can be killed and repeated with the guarantee of [`DeadLetters::guarantee`]. Where it is
    /// [`ResubmitGuarantee::Transaction`], a copy that is refused is an error of kind
    /// [`ActionErrorKind::Transaction`](super::ActionErrorKind::Transaction).
    ///
    /// # Errors
    ///
    /// Those of [`Transport::sender`].
    ///
    /// # Examples
    ///
    /// ```
    /// use consign::{
    ///     administration::QueueSettings,
    ///     broker::Broker,
    ///     dead_letters::{DeadLetterFilter, DeadLetters, ResubmitGuarantee},
    ///     message::EntityPath,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let broker = Broker::new();
    /// broker.create_queue("orders", QueueSettings::default())?;
    /// let orders = EntityPath::new("orders")?;
    /// let dead = DeadLetters::of(broker, &orders);
    /// assert_eq!(dead.guarantee(&orders), ResubmitGuarantee::Transaction);
    /// let report = dead.resubmit_to(DeadLetterFilter::all(), &orders).await?.run().await?;
    /// println!("{report}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn resubmit_to(
        &self,
        filter: DeadLetterFilter,
        to: &EntityPath,
    ) -> Result<Run<'_, EntityDeadLetters, ResubmitTo>, SendError> {
        let transport = self.queue.transport().clone();
        let (source, to) = (self.queue.path().clone(), to.clone());
        let guarantee = ResubmitGuarantee::of(&transport, &source, &to);
        // It is created in each case, so that an entity that is not there is reported before the run.
        let sender = transport.sender(&to).await?;
        let action = ResubmitTo { transport, source, to, guarantee, sender, changes: Changes::default() };
        Ok(Run::new(self, filter, action))
    }

    /// Returns the guarantee of [`resubmit_to`](Self::resubmit_to) the entity `to`.
    #[must_use]
    pub fn guarantee(&self, to: &EntityPath) -> ResubmitGuarantee {
        ResubmitGuarantee::of(self.queue.transport(), self.queue.path(), to)
    }
}

/// Sends a copy of a dead letter to an entity, and removes it.
#[doc(hidden)]
pub struct ResubmitTo {
    transport: DynTransport,
    source: EntityPath,
    to: EntityPath,
    guarantee: ResubmitGuarantee,
    sender: DynSender,
    changes: Changes,
}

impl Copies for ResubmitTo {
    fn changes(&mut self) -> &mut Changes {
        &mut self.changes
    }
}

impl Action<DynLease> for ResubmitTo {
    type Send = <DynSender as Sender>::Send;

    fn begin(&self, dead: &Explained) -> Result<Step<Self::Send, DynLease>, Refused> {
        let mut copy = self.changes.copy(dead)?;
        if self.guarantee != ResubmitGuarantee::SameFirstId
            && let Some(id) = self.message_id(dead, &copy)
        {
            let (mut properties, body) = (copy.properties().clone(), copy.body().clone());
            properties.set_message_id(id).map_err(|error| Refused::Failed(ActionError::change(error)))?;
            copy = Message::from_parts(properties, body);
        }
        if self.guarantee != ResubmitGuarantee::Transaction {
            return Ok(Step::send_first(&self.sender, copy));
        }
        let (transport, to) = (self.transport.clone(), self.to.clone());
        Ok(Step::Together(Box::new(move |lease| Box::pin(commit(transport, to, copy, lease)) as BoxFuture<_>)))
    }
}

impl ResubmitTo {
    /// The MessageId of the copy of a dead letter: the same in each run. The number of a dead letter and the time when it was enqueued
    /// tell it from others of its entity. They are not hashed, so that the sender of a message cannot choose one whose copy has the id of
    /// another copy.
    fn message_id(&self, dead: &Explained, copy: &Message) -> Option<String> {
        let received = dead.message().received()?;
        let mut hash = SipHasher13::new();
        for part in [self.source.as_str().to_lowercase().as_str(), dead.original_message_id().unwrap_or_default()] {
            hash.write(&(part.len() as u64).to_le_bytes());
            hash.write(part.as_bytes());
        }
        let hash = hash.finish128().as_u128();
        let hops = copy.application_properties().get(RESUBMIT_COUNT).and_then(PropertyValue::to_u64).unwrap_or(0);
        let (number, enqueued) = (received.sequence_number, received.enqueued_time.as_millis());
        Some(format!("{hash:032x}-{number}-{enqueued}-{hops}"))
    }
}

/// Sends a copy and completes its dead letter: both, or none.
async fn commit(
    transport: DynTransport,
    to: EntityPath,
    copy: Message,
    lease: DynLease,
) -> Result<(), NotCommitted<DynLease>> {
    // This may be dropped while it waits, which is not to count a delivery.
    let lease = Kept::new(lease);
    let mut transaction = match transport.begin().await {
        Ok(transaction) => transaction,
        Err(error) => return Err(not_committed(error.with_leases(lease.into_lease()))),
    };
    if let Err(error) = transaction.send(&to, copy).await {
        return Err(not_committed(TransactionError::from(error).with_leases(lease.into_lease())));
    }
    if let Some(lease) = lease.into_lease() {
        transaction.settle(lease, Disposition::Complete).await.map_err(not_committed)?;
    }
    transaction.commit().await.map(drop).map_err(not_committed)
}

fn not_committed(error: TransactionError<DynLease>) -> NotCommitted<DynLease> {
    use std::error::Error;

    let kind = error.kind();
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    let source = SettleError::new(kind).with_detail(format!("{error}{cause}"));
    // Then the dead letter is received again if it is still there.
    let is_to_be_seen = error.is_outcome_unknown() || kind == ErrorKind::MessageLockLost;
    let mut lease = error.into_leases().pop();
    if is_to_be_seen && let Some(lease) = lease.take() {
        drop(lease.release());
    }
    NotCommitted { error: ActionError::transaction(source), lease }
}

impl fmt::Debug for ResubmitTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResubmitTo")
            .field("source", &self.source)
            .field("to", &self.to)
            .field("guarantee", &self.guarantee)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_on_a_queue_or_a_topic() {
        let top = |path: &str| top_level(&EntityPath::new(path).unwrap());
        assert_eq!(top("Orders/$deadletterqueue"), top("orders"));
        assert_eq!(top("events/Subscriptions/audit/$deadletterqueue"), top("events"));
        assert_eq!(top("events/Subscriptions/audit"), top("events/Subscriptions/other"));
        assert_ne!(top("orders"), top("orders2"));
    }
}
