use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign::{
    middleware::dedup::{Begin, DedupKey, DedupStore, StoreError, StoreErrorKind},
    transport::{Escaped, log_limit},
};
use tokio::runtime::Handle;
use tokio_postgres::{Transaction, types::Type};
use uuid::Uuid;

use crate::{
    Builder,
    connections::{Connections, Failure},
    statements::Statements,
};

/// A store of ids in a table; see the [crate](crate). Clones share the store.
#[derive(Clone)]
pub struct PostgresStore(Arc<Inner>);

struct Inner {
    connections: Connections,
    statements: Statements,
    secret: [u8; 16],
    /// In microseconds.
    window: i64,
    added: AtomicU64,
}

/// The right to end a reservation in a [`PostgresStore`].
#[derive(Clone, Debug)]
pub struct PostgresToken {
    digest: Uuid,
    holder: i64,
}

/// The result of [`commit_in`](PostgresStore::commit_in): whether the transaction handles the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the effect of a duplicate must not be committed"]
pub enum Claim {
    /// The id is committed with the transaction, and not before.
    New,
    /// The message was handled. Roll the transaction back, and complete the message.
    Duplicate,
}

impl PostgresStore {
    /// One in so many ids that are reserved, or committed in a transaction of the user, forgets expired ids.
    const CLEAN_EACH: u64 = 16;
    /// How many it forgets at most. They are more than were added since the last time.
    const CLEAN: i64 = 64;

    /// Returns a builder of a store, in which an id is known for `window` after its commit: whole microseconds, 1,000 years at
    /// most.
    pub fn builder(window: Duration) -> Builder {
        Builder::new(window)
    }

    pub(crate) fn new(connections: Connections, statements: Statements, secret: [u8; 16], window: i64) -> Self {
        Self(Arc::new(Inner { connections, statements, secret, window, added: AtomicU64::new(0) }))
    }

    /// Commits an id in a transaction of your own: with it, or not at all. Call it once for each message and transaction,
    /// before the effect.
    ///
    /// Of several transactions that commit one id the first one that commits counts, whichever holder has reserved it and
    /// whether a lease lasts or not. The others wait here until that one has ended, and then get
    /// [`Duplicate`](Claim::Duplicate), or [`New`](Claim::New) if it was rolled back. The window begins with this call.
    ///
    /// Fails as [`Unavailable`](StoreErrorKind::Unavailable), with tokio-postgres's error as its source: then the transaction
    /// has failed too. Above the isolation level `READ COMMITTED` that includes a serialization failure, where at that level
    /// the answer is `Duplicate`.
    pub async fn commit_in(&self, transaction: &Transaction<'_>, key: DedupKey<'_>) -> Result<Claim, StoreError> {
        let Inner { statements, window, .. } = &*self.0;
        let changed = transaction
            .execute_typed(&statements.commit_in, &[(&self.digest(key), Type::UUID), (window, Type::INT8)])
            .await
            .map_err(Failure::from)?;
        if changed == 0 {
            return Ok(Claim::Duplicate);
        }
        if self.is_clean_due()
            && let Ok(runtime) = Handle::try_current()
        {
            let store = self.clone();
            // On a connection of the store: the transaction locks no other id, and does not wait for this.
            runtime.spawn(async move { store.clean().await });
        }
        Ok(Claim::New)
    }

    fn digest(&self, key: DedupKey<'_>) -> Uuid {
        Uuid::from_bytes(key.digest(&self.0.secret))
    }

    async fn reserve(&self, token: &PostgresToken, lease: Duration) -> Result<Begin<PostgresToken>, StoreError> {
        let (Inner { connections, statements, .. }, PostgresToken { digest, holder }) = (&*self.0, token);
        let row = match connections.ask(&statements.begin, &[digest, holder, &micros(lease)]).await {
            Err(failure) if failure.is_locked() => return Ok(Begin::InProgress { left: Duration::ZERO }),
            answer => answer?,
        };
        Ok(match (row.get(0), row.get(1)) {
            (true, _) => Begin::New(token.clone()),
            (false, true) => Begin::Committed,
            (false, false) => Begin::InProgress { left: Duration::try_from_secs_f64(row.get(2)).unwrap_or_default() },
        })
    }

    /// Counts an id that was added.
    fn is_clean_due(&self) -> bool {
        self.0.added.fetch_add(1, Ordering::Relaxed).is_multiple_of(Self::CLEAN_EACH)
    }

    /// Forgets some expired ids. A failure is retried later.
    async fn clean(&self) {
        let Inner { connections, statements, .. } = &*self.0;
        if let Err(failure) = connections.tell(&statements.clean, &[&Self::CLEAN]).await
            && let Some(suppressed) = log_limit(&statements.table, "NotCleaned")
        {
            let (table, error) = (&statements.table, failure.cause());
            tracing::warn!(target: "consign::middleware::dedup", table, error = %Escaped(&error), suppressed, "expired ids could not be deleted from the table");
        }
    }
}

impl DedupStore for PostgresStore {
    type Token = PostgresToken;

    async fn begin(&self, key: DedupKey<'_>, lease: Duration) -> Result<Begin<PostgresToken>, StoreError> {
        let token = PostgresToken { digest: self.digest(key), holder: random()? };
        let unanswered = Unanswered { store: self, token: Some(token.clone()) };
        let begun = self.reserve(&token, lease).await?;
        if matches!(begun, Begin::New(_)) && self.is_clean_due() {
            self.clean().await;
        }
        unanswered.answer();
        Ok(begun)
    }

    async fn renew(&self, token: &PostgresToken, lease: Duration) -> Result<(), StoreError> {
        let (Inner { connections, statements, .. }, PostgresToken { digest, holder }) = (&*self.0, token);
        let row = connections.ask(&statements.renew, &[digest, holder, &micros(lease)]).await?;
        if row.get(0) { Ok(()) } else { Err(StoreError::new(StoreErrorKind::Superseded)) }
    }

    async fn commit(&self, token: &PostgresToken) -> Result<(), StoreError> {
        let (Inner { connections, statements, window, .. }, PostgresToken { digest, holder }) = (&*self.0, token);
        loop {
            let row = connections.ask(&statements.commit, &[digest, holder, window]).await?;
            match (row.get(0), row.get(1)) {
                (true, _) => return Ok(()),
                (false, true) => return Err(StoreError::new(StoreErrorKind::Superseded)),
                // The row was changed in the meantime. The next query sees the new values.
                (false, false) => {}
            }
        }
    }

    async fn forget(&self, token: &PostgresToken) -> Result<(), StoreError> {
        let Inner { connections, statements, .. } = &*self.0;
        connections.tell(&statements.forget, &[&token.digest, &token.holder]).await?;
        Ok(())
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

/// A reservation whose answer is lost if this is dropped. It is then forgotten before its lease ends.
struct Unanswered<'a> {
    store: &'a PostgresStore,
    token: Option<PostgresToken>,
}

impl Unanswered<'_> {
    fn answer(mut self) {
        self.token = None;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take()
            && let Ok(runtime) = Handle::try_current()
        {
            let store = self.store.clone();
            // The caller has gone, or has another error.
            runtime.spawn(async move { drop(store.forget(&token).await) });
        }
    }
}

fn random() -> Result<i64, StoreError> {
    let random = getrandom::u64().map_err(|error| StoreError::new(StoreErrorKind::Unavailable).with_source(error))?;
    Ok(random.cast_signed())
}

/// Returns microseconds, limited to a value well inside of PostgreSQL's points in time.
pub(crate) fn micros(duration: Duration) -> i64 {
    const MOST: i64 = 1_000 * 366 * 24 * 3_600 * 1_000_000;
    i64::try_from(duration.as_micros()).map_or(MOST, |micros| micros.min(MOST))
}
