use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use consign_core::{
    Disposition, Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{self, ErrorKind, SendError, SettleError},
};
use tokio_postgres::types::Type;

use crate::{
    Inner, Postgres, PostgresLease, PostgresSender,
    database::rows,
    entity::Entity,
    failure::Failure,
    prepared::{self, Origin, Prepared, Sent},
    sender,
    settle::{Action, Settled, settle},
};

/// A transaction of settlements and sends, which take effect as a whole, or not at all.
///
/// It is about one entity, that of its first operation, where a subscription counts as its topic. Nothing is in the database
/// before [`commit`](Transaction::commit), and the locks of deliveries to be settled hold until then. For several entities, and
/// for your own writes, use a transaction of the client: [`PostgresSender::send_in`], [`PostgresLease::settle_in`].
#[must_use = "a transaction that is dropped has no effect, and abandons what it was to settle"]
pub struct Transaction {
    inner: Arc<Inner>,
    top_level: Option<i64>,
    settlements: Vec<(PostgresLease, Action)>,
    sends: Vec<(Entity, Prepared, bool)>,
    /// By the database's clock.
    begun: Option<Timestamp>,
}

/// The result of a committed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// The sequence numbers of the messages that were scheduled, in order.
    pub scheduled: Vec<SequenceNumber>,
}

/// The error of a [`Transaction`].
pub type TransactionError = transport::TransactionError<PostgresLease>;

impl Transaction {
    /// The maximum of operations of a transaction: messages sent, scheduled or settled.
    pub const MAX_MESSAGES: usize = 100;
    /// The maximum duration, from its first operation on.
    pub const TIMEOUT: Duration = Duration::from_secs(120);

    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner, top_level: None, settlements: Vec::new(), sends: Vec::new(), begun: None }
    }

    /// Sends a message when it commits.
    ///
    /// # Errors
    ///
    /// [`QuotaExceeded`](ErrorKind::QuotaExceeded) for the 101st message; [`InvalidOperation`](ErrorKind::InvalidOperation) for
    /// another entity than that of the transaction; [`Transaction`](ErrorKind::Transaction) after [`Transaction::TIMEOUT`]; and
    /// those of a send that are detected already.
    pub async fn send(&mut self, sender: &PostgresSender, message: Message) -> Result<(), SendError> {
        self.add(sender, message, None).await
    }

    /// Schedules a message for `at` when it commits; the number is in [`Committed`].
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::send`].
    pub async fn schedule(
        &mut self,
        sender: &PostgresSender,
        message: Message,
        at: Timestamp,
    ) -> Result<(), SendError> {
        self.add(sender, message, Some(at)).await
    }

    async fn add(&mut self, sender: &PostgresSender, message: Message, at: Option<Timestamp>) -> Result<(), SendError> {
        let prepared = Prepared::new(message, at)?;
        if !Arc::ptr_eq(&self.inner, sender.inner()) {
            let refused = SendError::new(ErrorKind::InvalidOperation);
            return Err(refused.with_detail("the sender belongs to another broker"));
        }
        let now = self.inner.now().await?;
        let admitted = self.admit(sender.entity.top_level, now);
        admitted.map_err(|(kind, detail)| SendError::new(kind).with_detail(detail))?;
        self.sends.push((sender.entity.clone(), prepared, at.is_some()));
        Ok(())
    }

    /// Settles a delivery when it commits.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::send`] about its limits, and those of the settlement that are detected already. The error
    /// returns the lease.
    pub async fn settle(&mut self, lease: PostgresLease, disposition: Disposition) -> Result<(), TransactionError> {
        let planned = lease.token().and_then(|token| Ok((token, lease.action(disposition)?)));
        let (token, action) = match planned {
            Ok(planned) => planned,
            Err(refused) => return Err(TransactionError::from(refused).with_leases([lease])),
        };
        let found = self.entity(token.entity).await;
        let (top_level, now) = match found {
            Ok(Some(found)) if Arc::ptr_eq(&self.inner, lease.inner()) => found,
            Ok(_) => {
                let lost = SettleError::new(ErrorKind::MessageLockLost);
                return Err(TransactionError::from(lost).with_leases([lease]));
            }
            Err(failure) => {
                return Err(TransactionError::from(SettleError::from(failure)).with_leases([lease]));
            }
        };
        if let Err((kind, detail)) = self.admit(top_level, now) {
            let refused = SettleError::new(kind).with_detail(detail);
            return Err(TransactionError::from(refused).with_leases([lease]));
        }
        self.settlements.push((lease, action));
        Ok(())
    }

    /// Returns the top-level entity of one, and the time of the database, by one question.
    async fn entity(&self, id: i64) -> Result<Option<(i64, Timestamp)>, Failure> {
        let sql = self.inner.sql("SELECT coalesce(topic, id), {s}.ms({s}.now()) FROM {s}.entities WHERE id = $1");
        let Some(row) = self.inner.database.row(&sql, &[(&id, Type::INT8)]).await? else { return Ok(None) };
        Ok(Some((row.try_get(0)?, Timestamp::from_millis(row.try_get(1)?))))
    }

    /// Checks whether it takes one more operation on this entity, at a time of the database, which decides at the commit too.
    fn admit(&mut self, top_level: i64, now: Timestamp) -> Result<(), (ErrorKind, &'static str)> {
        if self.top_level.is_some_and(|own| own != top_level) {
            return Err((ErrorKind::InvalidOperation, "a transaction is about one entity"));
        }
        if self.settlements.len() + self.sends.len() >= Self::MAX_MESSAGES {
            return Err((ErrorKind::QuotaExceeded, "a transaction has at most 100 messages"));
        }
        if now.saturating_since(*self.begun.get_or_insert(now)) > Self::TIMEOUT {
            return Err((ErrorKind::Transaction, "it took longer than 2 minutes"));
        }
        self.top_level = Some(top_level);
        Ok(())
    }

    /// Commits the transaction: all of it happens, or nothing.
    ///
    /// # Errors
    ///
    /// Those of the sends and settlements, and [`Transaction`](ErrorKind::Transaction) after [`Transaction::TIMEOUT`]. If the
    /// connection is lost while it commits the outcome is unknown.
    pub async fn commit(mut self) -> Result<Committed, TransactionError> {
        let (settlements, sends) = (std::mem::take(&mut self.settlements), std::mem::take(&mut self.sends));
        if settlements.is_empty() && sends.is_empty() {
            return Ok(Committed { scheduled: Vec::new() });
        }
        match self.apply(&settlements, &sends).await {
            Ok(applied) => {
                let entities: BTreeSet<i64> = settlements
                    .iter()
                    .filter_map(|(lease, action)| (!action.is_complete()).then(|| lease.token().ok()).flatten())
                    .map(|token| token.entity)
                    .collect();
                for (lease, _) in settlements {
                    lease.forget();
                }
                let committed = self.committed(&sends, &applied).await;
                for entity in entities {
                    self.inner.arrived(entity);
                }
                Ok(committed)
            }
            Err(error) => Err(error.with_leases(settlements.into_iter().map(|(lease, _)| lease))),
        }
    }

    async fn apply(
        &self,
        settlements: &[(PostgresLease, Action)],
        sends: &[(Entity, Prepared, bool)],
    ) -> Result<Applied, TransactionError> {
        let inner = &self.inner;
        if let Some((entity, ..)) = sends.first() {
            let all: Vec<Prepared> = sends.iter().map(|(_, prepared, _)| prepared.clone()).collect();
            sender::check(inner, &inner.database, entity, &all).await?;
        }
        let begun = self.begun.map_or(0, Timestamp::as_millis);
        let applied = inner.database.with(async |client| {
            let transaction = client.transaction().await?;
            let sql = inner.sql("SELECT {s}.ms({s}.now()) - $1");
            let age = rows(&transaction, &sql, &[(&begun, Type::INT8)]).await?;
            let age: i64 = age.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
            if u128::try_from(age).is_ok_and(|age| age > Self::TIMEOUT.as_millis()) {
                return Ok(Err(SettleError::new(ErrorKind::Transaction).with_detail("it took too long").into()));
            }
            let mut leaving = BTreeSet::new();
            for (lease, action) in settlements {
                let token = match lease.token() {
                    Ok(token) => token,
                    Err(refused) => return Ok(Err(refused.into())),
                };
                let settled = settle(&*transaction, &inner.schema, &token, action).await?;
                if settled == Settled::Leaving {
                    leaving.insert(token.entity);
                }
                if let Err(refused) = settled.into_result(&token) {
                    return Ok(Err(refused.into()));
                }
            }
            let mut sent = Vec::new();
            if let Some((entity, ..)) = sends.first() {
                let all: Vec<&Prepared> = sends.iter().map(|(_, prepared, _)| prepared).collect();
                match prepared::insert(
                    &*transaction,
                    &inner.schema,
                    (entity.id, entity.has_window),
                    &all,
                    Origin::default(),
                )
                .await
                {
                    Err(failure) if failure.state().is_some_and(|state| state.starts_with("CN")) => {
                        return Ok(Err(sender::rejection(failure.into()).into()));
                    }
                    inserted => sent = inserted?,
                }
            }
            transaction.commit().await?;
            Ok(Ok(Applied { sent, leaving }))
        });
        match applied.await {
            Ok(applied) => applied,
            Err(failure) => Err(SettleError::from(failure).into()),
        }
    }

    async fn committed(&self, sends: &[(Entity, Prepared, bool)], applied: &Applied) -> Committed {
        let mut scheduled = Vec::new();
        if let Some((entity, ..)) = sends.first() {
            let of_later = sends.iter().zip(&applied.sent).filter(|((.., is_later), _)| *is_later);
            let of_later: Vec<Sent> = of_later.map(|(_, sent)| *sent).collect();
            if !of_later.is_empty() {
                // It is committed: without an answer the numbers are unknown, which is not a failure.
                scheduled = sender::numbers(&self.inner, entity.id, &of_later).await.unwrap_or_default();
                scheduled.resize(of_later.len(), SequenceNumber::new(0));
            }
            sender::arrived(&self.inner, entity).await;
        }
        for entity in &applied.leaving {
            crate::pump::try_pump(&self.inner, *entity).await;
        }
        Committed { scheduled }
    }

    /// Rolls the transaction back, and returns the leases.
    #[must_use = "leases that are dropped abandon their messages"]
    pub fn rollback(self) -> Vec<PostgresLease> {
        self.settlements.into_iter().map(|(lease, _)| lease).collect()
    }
}

impl Transaction {
    async fn sender(&self, to: &EntityPath) -> Result<PostgresSender, SendError> {
        Postgres { inner: Arc::clone(&self.inner) }.sender(to.as_str()).await
    }
}

impl transport::Transaction for Transaction {
    type Lease = PostgresLease;

    async fn send(&mut self, to: &EntityPath, message: Message) -> Result<(), SendError> {
        let sender = self.sender(to).await?;
        Self::send(self, &sender, message).await
    }

    async fn schedule(&mut self, to: &EntityPath, message: Message, at: Timestamp) -> Result<(), SendError> {
        let sender = self.sender(to).await?;
        Self::schedule(self, &sender, message, at).await
    }

    async fn settle(&mut self, lease: PostgresLease, disposition: Disposition) -> Result<(), TransactionError> {
        Self::settle(self, lease, disposition).await
    }

    async fn commit(self) -> Result<Vec<SequenceNumber>, TransactionError> {
        Ok(Self::commit(self).await?.scheduled)
    }

    fn rollback(self) -> Vec<PostgresLease> {
        Self::rollback(self)
    }
}

struct Applied {
    sent: Vec<Sent>,
    /// Entities that are to forward dead letters.
    leaving: BTreeSet<i64>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("settlements", &self.settlements.len())
            .field("sends", &self.sends.len())
            .finish_non_exhaustive()
    }
}
