//! The transactions of a connection.

use std::collections::HashMap;

use consign_amqp::{
    engine::{DeliveryId, LinkId},
    types::condition,
    value::Binary,
};
use consign_broker::{Committed, QueueSender, Transaction, TransactionError};
use consign_core::{
    Message,
    message::{LockToken, SequenceNumber},
    time::Timestamp,
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

pub(crate) fn unknown() -> Failure {
    let description = "The transaction is not known: it was discharged, rolled back, or never declared.".into();
    Failure { condition: condition::TRANSACTION_UNKNOWN_ID, status: 400, description }
}

impl Transactions {
    pub(crate) fn open(&mut self, id: &Binary) -> Result<&mut Open, Failure> {
        self.open.get_mut(id).ok_or_else(unknown)
    }

    /// Adds sends to a transaction.
    pub(crate) fn send(&mut self, id: &Binary, sender: &QueueSender, sent: Sent) -> Result<(), Failure> {
        let open = self.open(id)?;
        let messages = match sent {
            Sent::One(message) => vec![message],
            Sent::Batch(messages) => messages,
        };
        let sent = messages.into_iter().try_for_each(|message| open.transaction.send(sender, message));
        open.failed |= sent.is_err();
        Ok(sent?)
    }

    /// Adds scheduled sends to a transaction. Returns the numbers that they have after the commit.
    pub(crate) fn schedule(
        &mut self,
        id: &Binary,
        sender: &QueueSender,
        messages: Vec<(Timestamp, Message)>,
    ) -> Result<Vec<SequenceNumber>, Failure> {
        let open = self.open(id)?;
        let scheduled =
            messages.into_iter().map(|(at, message)| open.transaction.schedule_numbered(sender, message, at));
        let scheduled: Result<Vec<_>, _> = scheduled.collect();
        open.failed |= scheduled.is_err();
        Ok(scheduled?)
    }

    /// Returns when the next transaction runs out.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.open.values().map(|open| open.until).min()
    }

    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Binary> {
        self.open.iter().filter(|(_, open)| open.until <= now).map(|(id, _)| id.clone()).collect()
    }
}
