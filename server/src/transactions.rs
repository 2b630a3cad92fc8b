//! The transactions of a connection.

use std::collections::HashMap;

use consign_amqp::{
    engine::{DeliveryId, LinkId},
    types::{DeliveryState, condition},
    value::Binary,
};
use consign_broker::{Committed, QueueSender, Transaction, TransactionError};
use consign_core::{
    Disposition, Message,
    message::{ApplicationProperties, LockToken, SequenceNumber},
    settlement::Changes,
    time::Timestamp,
    transport::ErrorKind,
};
use tokio::time::Instant;

use crate::{errors::Failure, messages::Sent};

/// The transactions of a connection that are declared and not discharged.
#[derive(Default)]
pub(crate) struct Transactions {
    pub(crate) open: HashMap<Binary, Open>,
}

pub(crate) struct Open {
    pub(crate) transaction: Transaction,
    /// The link that has declared it.
    pub(crate) link: LinkId,
    pub(crate) until: Instant,
    /// The locks of what it settles, for a rollback.
    pub(crate) locks: Vec<(LockToken, Kept)>,
    /// The bytes of what it sends, and of the properties that its settlements change.
    pub(crate) bytes: usize,
    /// An operation of it that was refused: it cannot be committed any more.
    pub(crate) failed: bool,
}

/// What is known of a lock while a transaction has its lease.
pub(crate) struct Kept {
    pub(crate) entity: std::sync::Arc<str>,
    pub(crate) session: Option<std::sync::Arc<str>>,
    pub(crate) until: Timestamp,
}

/// A transaction that the broker has committed, or refused to.
pub(crate) struct Discharged {
    pub(crate) link: LinkId,
    pub(crate) delivery: DeliveryId,
    pub(crate) settled: bool,
    pub(crate) locks: Vec<(LockToken, Kept)>,
    pub(crate) outcome: Result<Committed, TransactionError>,
}

/// Returns the transaction of a delivery, by its state.
pub(crate) fn txn_id(state: Option<DeliveryState>) -> Option<Binary> {
    match state {
        Some(DeliveryState::Transactional(transactional)) => Some(transactional.txn_id),
        _ => None,
    }
}

pub(crate) fn unknown() -> Failure {
    let description = "The transaction is not known: it was discharged, rolled back, or never declared.".into();
    Failure { condition: condition::TRANSACTION_UNKNOWN_ID, status: 400, description }
}

/// What a message counts: also one without a body takes memory.
fn size(message: &Message) -> usize {
    message.size() + 256
}

/// What the settlement of a transaction keeps in memory.
pub(crate) fn size_of(disposition: &Disposition) -> usize {
    let changed = |changes: &Changes| changes.properties().map_or(0, ApplicationProperties::size);
    match disposition {
        Disposition::Complete => 0,
        Disposition::Abandon(changes) | Disposition::Defer(changes) => changed(changes),
        Disposition::DeadLetter(dead_letter) => {
            dead_letter.reason.as_str().len() + dead_letter.description.len() + changed(&dead_letter.changes)
        }
    }
}

impl Transactions {
    pub(crate) fn open(&mut self, id: &Binary) -> Result<&mut Open, Failure> {
        self.open.get_mut(id).ok_or_else(unknown)
    }

    /// Notes that an operation of a transaction was refused, whatever the reason.
    pub(crate) fn fail(&mut self, id: Option<&Binary>) {
        if let Some(open) = id.and_then(|id| self.open.get_mut(id)) {
            open.failed = true;
        }
    }

    /// Notes that operations may have been dropped, of any transaction.
    pub(crate) fn fail_all(&mut self) {
        for open in self.open.values_mut() {
            open.failed = true;
        }
    }

    /// Counts bytes of a transaction. All of them have at most `max`.
    pub(crate) fn count(&mut self, id: &Binary, bytes: usize, max: usize) -> Result<&mut Open, Failure> {
        let all = self.open.values().map(|open| open.bytes).sum::<usize>().saturating_add(bytes);
        let open = self.open(id)?;
        if all > max {
            let text = format!("The transactions of a connection have at most {max} bytes of messages.");
            return Err(Failure::new(ErrorKind::QuotaExceeded, text));
        }
        open.bytes += bytes;
        Ok(open)
    }

    /// Adds sends to a transaction. They are transferred by the entity of `via`, if the transaction is not on that of the sender.
    pub(crate) fn send(
        &mut self,
        id: &Binary,
        sender: &QueueSender,
        via: Option<&QueueSender>,
        sent: Sent,
        max: usize,
    ) -> Result<(), Failure> {
        let messages = match sent {
            Sent::One(message) => vec![message],
            Sent::Batch(messages) => messages,
        };
        let open = self.count(id, messages.iter().map(size).sum(), max)?;
        let sender = via.filter(|_| !open.transaction.is_on(sender)).unwrap_or(sender);
        Ok(messages.into_iter().try_for_each(|message| open.transaction.send(sender, message))?)
    }

    /// Adds scheduled sends to a transaction. Returns the numbers that they have after the commit.
    pub(crate) fn schedule(
        &mut self,
        id: &Binary,
        sender: &QueueSender,
        via: Option<&QueueSender>,
        messages: Vec<(Message, Timestamp)>,
        max: usize,
    ) -> Result<Vec<SequenceNumber>, Failure> {
        let open = self.count(id, messages.iter().map(|(message, _)| size(message)).sum(), max)?;
        let sender = via.filter(|_| !open.transaction.is_on(sender)).unwrap_or(sender);
        let scheduled =
            messages.into_iter().map(|(message, at)| open.transaction.schedule_numbered(sender, message, at));
        Ok(scheduled.collect::<Result<_, _>>()?)
    }

    /// Returns when the next transaction runs out.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.open.values().map(|open| open.until).min()
    }

    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Binary> {
        self.open.iter().filter(|(_, open)| open.until <= now).map(|(id, _)| id.clone()).collect()
    }
}
