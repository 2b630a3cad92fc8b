use std::{fmt, sync::Arc, time::Duration};

use consign_core::{
    Disposition, Message,
    message::LockToken,
    settlement::Changes,
    time::Timestamp,
    transport::{BoxFuture, CompleteAll, ErrorKind, Lease, SettleError},
};
use tokio::{sync::oneshot, time::timeout};
use tokio_postgres::{Transaction, types::Type};

use crate::{
    Inner,
    chores::{Job, Place},
    database::{Parameter, rows},
    failure::{Failure, TooLate},
    schema::Schema,
    settle::{Action, Settled, Token, settle},
};

/// The right to settle a message. A dropped lease abandons the message in the background.
///
/// # Errors
///
/// [`MessageLockLost`](ErrorKind::MessageLockLost), or [`SessionLockLost`](ErrorKind::SessionLockLost) for a message of a
/// session; [`InvalidOperation`](ErrorKind::InvalidOperation) for a message that was received and deleted, for a dead letter
/// that is to be dead-lettered, and for the renewal of a message of a session; [`InvalidArgument`](ErrorKind::InvalidArgument)
/// for a reason or a description that is too long; [`EntityDisabled`](ErrorKind::EntityDisabled) while the entity is closed to
/// receivers, except for a release; [`CommunicationProblem`](ErrorKind::CommunicationProblem) and
/// [`ServiceTimeout`](ErrorKind::ServiceTimeout), where the outcome is unknown and the lock runs out unless the message was
/// settled.
pub struct PostgresLease {
    inner: Arc<Inner>,
    /// `None` once it is settled, and from the start if the message was removed when it was received.
    held: Option<Held>,
    message: Message,
    lock_duration: Duration,
}

pub(crate) struct Held {
    pub(crate) token: Token,
    place: Place,
}

impl PostgresLease {
    pub(crate) fn new(inner: Arc<Inner>, token: Token, place: Place, message: Message, lock: Duration) -> Self {
        Self { inner, held: Some(Held { token, place }), message, lock_duration: lock }
    }

    pub(crate) fn deleted(inner: Arc<Inner>, message: Message) -> Self {
        Self { inner, held: None, message, lock_duration: Duration::ZERO }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) fn token(&self) -> Result<Token, SettleError> {
        self.held.as_ref().map(|held| held.token).ok_or_else(received_and_deleted)
    }

    pub(crate) fn action(&self, disposition: Disposition) -> Result<Action, SettleError> {
        Action::of(disposition, &self.message, self.message.received().is_some_and(|said| said.dead_lettered))
    }

    /// Records that it was settled.
    pub(crate) fn forget(mut self) {
        self.held = None;
    }

    /// Settles in a transaction of your own, which settles the message by its commit. Until its end the message stays locked,
    /// and no other process waits for it. When it is rolled back, or never ends, the lock holds until it runs out.
    ///
    /// The first statement of a transaction of `REPEATABLE READ` or `SERIALIZABLE` has to come after the receive: otherwise the
    /// transaction does not see the lock, and the error is [`MessageLockLost`](ErrorKind::MessageLockLost).
    ///
    /// The lease is consumed, also by an error: the lock holds until it runs out. An error leaves the transaction unchanged, unless
    /// it comes from the database: roll it back then.
    pub async fn settle_in(self, transaction: &Transaction<'_>, disposition: Disposition) -> Result<(), SettleError> {
        let (action, token, inner) = (self.action(disposition), self.token(), Arc::clone(&self.inner));
        // It is not abandoned beside the transaction.
        self.forget();
        let (action, token) = (action?, token?);
        let settled = settle(transaction, &inner.schema, &token, &action).await;
        let is_done = matches!(settled, Ok(Settled::Done | Settled::Leaving));
        if is_done && !action.is_complete() {
            let is_leaving = matches!(settled, Ok(Settled::Leaving));
            notify_in(transaction, &inner.schema, token.entity, is_leaving).await?;
        }
        settled?.into_result(&token)
    }

    /// Returns whether the message can be released with a delay: not one of a session, which later messages would pass, and not
    /// a dead letter.
    fn can_be_delayed(&self) -> bool {
        let is_dead = self.message.received().is_some_and(|received| received.dead_lettered);
        !is_dead && self.held.as_ref().is_some_and(|held| held.token.session.is_none())
    }

    fn run(self, action: Result<Action, SettleError>) -> BoxFuture<Result<(), SettleError>> {
        let token = self.token();
        if let (Ok(action), Ok(token)) = (&action, &token)
            && action.is_complete()
            && token.session.is_none()
        {
            // Many of these are created at once, and the other future has some kilobytes.
            let (token, inner) = (*token, Arc::clone(&self.inner));
            return Box::pin(async move {
                let completed = inner.complete(token).await;
                self.forget();
                completed
            });
        }
        Box::pin(async move {
            let token = token?;
            let action = match action {
                Ok(action) => action,
                Err(refused) => {
                    // As after a refusal of the broker, the lock holds until it runs out.
                    self.forget();
                    return Err(refused);
                }
            };
            let inner = Arc::clone(&self.inner);
            let settled = inner
                .database
                .with(async |client| settle(&inner.database.on(client), &inner.schema, &token, &action).await)
                .await;
            self.forget();
            let settled = settled?;
            if settled == Settled::Leaving {
                crate::pump::try_pump(&inner, token.entity).await;
            }
            if !action.is_complete() && matches!(settled, Settled::Done | Settled::Leaving) {
                inner.arrived(token.entity);
            }
            settled.into_result(&token)
        })
    }

    fn give_back(&mut self, action: Action, answer: Option<oneshot::Sender<Result<(), SettleError>>>) {
        if let Some(Held { token, place }) = self.held.take() {
            place.send(Job::GiveBack { token, action, answer });
        }
    }
}

/// Wakes receivers when a transaction of the user is committed, and has messages forwarded.
pub(crate) async fn notify_in(
    transaction: &Transaction<'_>,
    schema: &Schema,
    entity: i64,
    is_leaving: bool,
) -> Result<(), Failure> {
    let mark = if is_leaving { "!" } else { "" };
    let sql = format!("SELECT pg_notify({}, $1)", schema.channel_literal);
    rows(transaction, &sql, &[(&format!("{mark}{entity}"), Type::TEXT)]).await.map(drop)
}

fn received_and_deleted() -> SettleError {
    SettleError::new(ErrorKind::InvalidOperation).with_detail("received and deleted")
}

impl Lease for PostgresLease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        let action = self.token().and_then(|_| self.action(disposition));
        self.run(action)
    }

    fn release(mut self) -> Self::Settle {
        if let Err(refused) = self.token() {
            return Box::pin(async { Err(refused) });
        }
        let (answer, answered) = oneshot::channel();
        let (inner, entity) = (Arc::clone(&self.inner), self.token().map(|token| token.entity));
        self.give_back(Action::release(), Some(answer));
        Box::pin(async move {
            let gone = || SettleError::new(ErrorKind::CommunicationProblem).with_detail("the runtime is shutting down");
            // The job goes on.
            let released = match timeout(inner.database.timeout, answered).await {
                Ok(answer) => answer.unwrap_or_else(|_| Err(gone())),
                Err(_) => Err(Failure::TooLate(TooLate).into()),
            };
            if let Ok(entity) = entity {
                inner.hub.wake(entity);
            }
            released
        })
    }

    fn abandon_after(self, changes: Changes, delay: Duration) -> Result<Self::Settle, Self> {
        if !self.can_be_delayed() {
            return Err(self);
        }
        let action = self.action(Disposition::Abandon(changes)).map(|action| action.abandon_after(delay));
        Ok(self.run(action))
    }

    fn release_after(self, delay: Duration) -> Result<Self::Settle, Self> {
        if !self.can_be_delayed() {
            return Err(self);
        }
        Ok(self.run(Ok(Action::release_after(delay))))
    }

    fn complete_all(batch: &mut Vec<Self>) -> CompleteAll<Self::Settle> {
        let (mut together, mut others) = (Vec::<(usize, Self)>::new(), Vec::new());
        for (index, lease) in batch.drain(..).enumerate() {
            let is_of_this = together.first().is_none_or(|(_, first)| Arc::ptr_eq(&first.inner, &lease.inner));
            let of = if is_of_this && lease.completes_in_batches() { &mut together } else { &mut others };
            of.push((index, lease));
        }
        let mut all = match together.first().map(|(_, first)| Arc::clone(&first.inner)) {
            None => CompleteAll::done(),
            Some(inner) => CompleteAll::from_future(async move {
                let token = |(index, lease): &(usize, Self)| lease.held.as_ref().map(|held| (*index, held.token));
                let failures = inner.complete_all(together.iter().filter_map(token).collect()).await;
                for (_, lease) in together {
                    lease.forget();
                }
                failures
            }),
        };
        for (index, lease) in others {
            all.wait_for(index..index + 1, lease.settle(Disposition::Complete));
        }
        all
    }

    fn completes_in_batches(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.token.session.is_none())
    }

    fn renew(&self) -> Self::Renew {
        let (inner, token) = (Arc::clone(&self.inner), self.token());
        Box::pin(async move {
            let token = token?;
            if token.session.is_some() {
                let refused = SettleError::new(ErrorKind::InvalidOperation);
                return Err(refused.with_detail("the session is renewed, not its messages"));
            }
            let parameters: [Parameter<'_>; 2] = [(&token.id, Type::INT8), (&token.lock, Type::UUID)];
            let until: Option<i64> = inner.value("SELECT {s}.renew($1, $2)", &parameters).await?;
            until.map(Timestamp::from_millis).ok_or_else(|| SettleError::new(ErrorKind::MessageLockLost))
        })
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.held.as_ref().map(|_| self.lock_duration)
    }

    /// It differs for two messages of one receive.
    fn lock_token(&self) -> Option<LockToken> {
        let token = self.held.as_ref()?.token;
        let id = u128::from(token.id.cast_unsigned());
        Some(LockToken::from_bytes((token.lock.as_u128() ^ id).to_be_bytes()))
    }
}

/// Abandons an unsettled message.
impl Drop for PostgresLease {
    fn drop(&mut self) {
        self.give_back(Action::abandon(), None);
    }
}

impl fmt::Debug for PostgresLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLease").field("lock_token", &self.lock_token()).finish_non_exhaustive()
    }
}
