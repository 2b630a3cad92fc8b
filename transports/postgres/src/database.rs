use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use consign_postgres_connect::Canceller;
use deadpool_postgres::{Object, Pool, PoolError, TimeoutType};
use tokio::{
    sync::Notify,
    time::{Instant, timeout, timeout_at},
};
use tokio_postgres::{
    Error, Row, Statement, Transaction,
    types::{ToSql, Type},
};

use crate::failure::{Failure, TooLate};

/// A parameter with its type. With it a statement that is not prepared takes one round trip.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The connections of a transport.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) pool: Pool,
    pub(crate) timeout: Duration,
    prepares: Prepares,
    /// A connection of the pool was lost, or none was opened. The listening connection may be lost too.
    pub(crate) suspected: Arc<Notify>,
    canceller: Option<Canceller>,
}

/// Whether statements are prepared: not on the connections of a pool or a pooler of the application.
#[derive(Clone, Debug)]
pub(crate) struct Prepares(Arc<AtomicBool>);

impl Prepares {
    pub(crate) fn new(is_on: bool) -> Self {
        Self(Arc::new(AtomicBool::new(is_on)))
    }

    /// For connections of a pooler: a statement of another process may have the name of one that is prepared here.
    pub(crate) fn never(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A connection of the pool.
pub(crate) struct Pooled<'c> {
    client: &'c Object,
    prepares: &'c Prepares,
}

/// What runs statements: a connection, a transaction, or the pool.
pub(crate) trait Connection: Sync {
    fn rows(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> impl Future<Output = Result<Vec<Row>, Failure>> + Send;
}

/// Each statement has any connection, within the time limit.
impl Connection for Database {
    async fn rows(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Failure> {
        Self::rows(self, statement, parameters).await
    }
}

impl Connection for Transaction<'_> {
    async fn rows(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Failure> {
        rows(self, statement, parameters).await
    }
}

impl Connection for Pooled<'_> {
    async fn rows(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Failure> {
        if let Some(prepared) = self.prepare(statement, parameters).await?
            && let Some(rows) = self.if_prepared(self.client.query(&prepared, &values(parameters)).await)?
        {
            return Ok(rows);
        }
        Ok(self.client.query_typed(statement, parameters).await?)
    }
}

impl Pooled<'_> {
    /// Executes a statement that is worth its plan only where that is kept, and returns how many rows it has written. `None` if
    /// statements are not prepared here, and nothing was executed.
    pub(crate) async fn execute_prepared(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<u64>, Failure> {
        let Some(prepared) = self.prepare(statement, parameters).await? else { return Ok(None) };
        self.if_prepared(self.client.execute(&prepared, &values(parameters)).await)
    }

    async fn prepare(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Option<Statement>, Failure> {
        if !self.prepares.0.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let types: Vec<Type> = parameters.iter().map(|(_, of)| of.clone()).collect();
        self.if_prepared(self.client.prepare_typed_cached(statement, &types).await)
    }

    /// `None` if nothing was executed, because the connection does not have the statement.
    fn if_prepared<T>(&self, answer: Result<T, Error>) -> Result<Option<T>, Failure> {
        match answer.map_err(Failure::from) {
            Err(failure) if is_unprepared(&failure) => {
                // Another connection answers, as behind a pooler, or a function was replaced.
                self.client.statement_cache.clear();
                if failure.state() != Some("0A000") {
                    self.prepares.never();
                }
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }
}

fn values<'a>(parameters: &[Parameter<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    parameters.iter().map(|(value, _)| *value).collect()
}

/// Whether the connection does not have the prepared statement, or has another of its name, or its result has changed.
fn is_unprepared(failure: &Failure) -> bool {
    matches!(failure.state(), Some("26000" | "42P05" | "0A000"))
}

impl Database {
    pub(crate) fn new(pool: Pool, timeout: Duration, prepares: Prepares, canceller: Option<Canceller>) -> Self {
        Self { pool, timeout, prepares, suspected: Arc::default(), canceller }
    }

    pub(crate) fn never_prepare(&self) {
        self.prepares.never();
    }

    /// Returns the process of the server behind a connection of the pool, if one is free.
    pub(crate) async fn process(&self) -> Option<i32> {
        const SOON: Duration = Duration::from_millis(500);
        let asked = self.with(async |client| Ok(client.query_typed("SELECT pg_backend_pid()", &[]).await?));
        timeout(SOON, asked).await.ok()?.ok()?.first()?.try_get(0).ok()
    }

    /// Returns a connection that prepares its statements.
    pub(crate) fn on<'c>(&'c self, client: &'c Object) -> Pooled<'c> {
        Pooled { client, prepares: &self.prepares }
    }

    pub(crate) async fn client(&self) -> Result<Object, Failure> {
        // Nothing was executed yet, whether all connections are in use or a new one is not open.
        Ok(timeout(self.timeout, self.pool.get()).await.unwrap_or(Err(PoolError::Timeout(TimeoutType::Wait)))?)
    }

    /// Runs `work` with a connection, which is not used again if it is lost. The time limit includes the wait for the
    /// connection.
    pub(crate) async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut Object) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let began = Instant::now();
        let deadline = began + self.timeout;
        let mut client = self.client().await.inspect_err(|failure| {
            if failure.is_of_connection() {
                self.suspected.notify_one();
            }
        })?;
        let answer = timeout_at(deadline, work(&mut client)).await.unwrap_or(Err(Failure::TooLate(TooLate)));
        if answer.as_ref().is_err_and(Failure::is_of_connection) {
            self.give_up(client, matches!(answer, Err(Failure::TooLate(_))));
            // Idle ones may have been lost with it. What was in use meanwhile shows that itself.
            let took = began.elapsed();
            drop(self.pool.retain(|_, metrics| metrics.last_used() <= took));
            self.suspected.notify_one();
        }
        answer
    }

    /// Closes a connection that is lost: its next user would fail too, as the loss is not detected at once. A statement that is
    /// still executed is cancelled.
    pub(crate) fn give_up(&self, client: Object, is_executing: bool) {
        if let Some(canceller) = self.canceller.as_ref().filter(|_| is_executing) {
            canceller.cancel(client.cancel_token());
        }
        drop(Object::take(client));
    }

    /// Returns the rows of a statement.
    pub(crate) async fn rows(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Failure> {
        self.with(async |client| self.on(client).rows(statement, parameters).await).await
    }

    /// Returns the one row of a statement.
    pub(crate) async fn row(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Option<Row>, Failure> {
        Ok(self.rows(statement, parameters).await?.into_iter().next())
    }
}

/// Returns the rows of a statement in a transaction.
pub(crate) async fn rows(
    transaction: &Transaction<'_>,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, Failure> {
    Ok(transaction.query_typed(statement, parameters).await?)
}

pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(limit, work).await.unwrap_or(Err(Failure::TooLate(TooLate)))
}
