use std::{
    error, fmt,
    iter::successors,
    sync::{Arc, Mutex},
    time::Duration,
};

use consign::middleware::dedup::{StoreError, StoreErrorKind};
use consign_postgres_connect::{Canceller, ends_connection, manager};
use deadpool_postgres::{ClientWrapper, Hook, HookError, Object, Pool, PoolError};
use tokio::{
    sync::Mutex as AsyncMutex,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_postgres::{
    Config, Error, Row, Socket,
    error::SqlState,
    tls::{MakeTlsConnect, TlsConnect},
    types::ToSql,
};

pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The connections of a store, which are opened on demand and again when they are lost.
pub(crate) struct Connections {
    pool: Pool,
    timeout: Duration,
    canceller: Canceller,
    /// One call at a time tries again to open a connection: the database may refuse them because it has too many.
    retrying: AsyncMutex<()>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    Database(Error),
    /// No connection was opened, so nothing was executed.
    NotConnected(Error),
    Pool(PoolError),
    NoAnswer(NoAnswer),
}

impl Connections {
    /// A statement that waits for a lock would block its connection for others. The statements are written for this level of
    /// isolation.
    const SESSION: &str = "SET lock_timeout = '1s'; SET default_transaction_isolation = 'read committed'";

    /// A connection that was not used for as long is checked before its next use.
    const IDLE: Duration = Duration::from_secs(1);

    /// How much longer than a store waits for it, a statement may take.
    const GRACE: Duration = Duration::from_millis(500);

    /// The first and the longest pause after a connection could not be opened.
    const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

    pub(crate) fn new<T>(config: Config, tls: T, connections: usize, timeout: Duration) -> Result<Self, StoreError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync + 'static,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        // The server ends a statement that is given up, also if the request to cancel it is lost.
        let limit = timeout.saturating_add(Self::GRACE).as_millis().min(i32::MAX.cast_unsigned().into());
        let session = Arc::new(format!("{}; SET statement_timeout = {limit}", Self::SESSION));
        let prepare = Hook::async_fn(move |client: &mut ClientWrapper, _| {
            let session = Arc::clone(&session);
            Box::pin(async move { client.batch_execute(&session).await.map_err(HookError::Backend) })
        });
        let canceller = Canceller::new(tls.clone());
        let pool = Pool::builder(manager(config, tls, timeout));
        let pool = pool.max_size(connections).post_create(prepare).pre_recycle(check(timeout / 5)).build();
        let pool = pool.map_err(|error| StoreError::new(StoreErrorKind::Unavailable).with_source(error))?;
        Ok(Self { pool, timeout, canceller, retrying: AsyncMutex::default() })
    }

    /// Returns the row of a statement.
    pub(crate) async fn ask(&self, statement: &str, parameters: Parameters<'_>) -> Result<Row, Failure> {
        let row = self.try_twice(statement, parameters).await?;
        row.ok_or(Failure::NoAnswer(NoAnswer::NoRow))
    }

    /// Runs a statement without a result.
    pub(crate) async fn tell(&self, statement: &str, parameters: Parameters<'_>) -> Result<(), Failure> {
        self.try_twice(statement, parameters).await.map(drop)
    }

    /// Runs a statement again if its connection was lost. Each statement of a store has the same effect when it is run twice.
    /// All connections are lost when the database is restarted.
    async fn try_twice(&self, statement: &str, parameters: Parameters<'_>) -> Result<Option<Row>, Failure> {
        match self.try_once(statement, parameters).await {
            Err(failure @ Failure::Database(_)) if failure.is_of_connection() => {
                self.try_once(statement, parameters).await
            }
            answer => answer,
        }
    }

    async fn try_once(&self, statement: &str, parameters: Parameters<'_>) -> Result<Option<Row>, Failure> {
        let (began, client) = (Instant::now(), self.client().await?);
        let asked = async {
            let prepared = client.prepare_cached(statement).await?;
            client.query_opt(&prepared, parameters).await
        };
        let answer = match timeout(self.timeout, asked).await {
            Ok(answer) => answer.map_err(Failure::Database),
            Err(_) => Err(Failure::NoAnswer(NoAnswer::TooLate)),
        };
        self.release(client, began, answer)
    }

    /// Runs several statements without parameters in one transaction.
    pub(crate) async fn run(&self, statements: &str) -> Result<(), Failure> {
        let (began, client) = (Instant::now(), self.client().await?);
        let ran = timeout(self.timeout, client.batch_execute(statements)).await;
        let answer = ran.map_or(Err(Failure::NoAnswer(NoAnswer::TooLate)), |ran| ran.map_err(Failure::Database));
        self.release(client, began, answer)
    }

    /// Returns a connection to the pool, unless it is lost.
    fn release<T>(&self, client: Object, began: Instant, answer: Result<T, Failure>) -> Result<T, Failure> {
        if answer.as_ref().is_err_and(Failure::is_of_connection) {
            if matches!(answer, Err(Failure::NoAnswer(_))) {
                self.canceller.cancel(client.cancel_token());
            }
            // The next user would fail too: the loss is not detected at once.
            drop(Object::take(client));
            // Idle ones may have been lost with it. What was in use meanwhile shows that itself.
            let began = began.into_std();
            drop(self.pool.retain(|_, metrics| metrics.recycled.unwrap_or(metrics.created) >= began));
        }
        answer
    }

    /// Returns a connection. One that cannot be opened for now is tried again: the database may be restarting.
    async fn client(&self) -> Result<Object, Failure> {
        let deadline = Instant::now() + self.timeout;
        let (mut pause, longest) = Self::PAUSES;
        let (mut failed, mut turn) = (None, None);
        loop {
            match timeout_at(deadline, self.pool.get()).await.map(|client| client.map_err(Failure::from)) {
                Ok(Err(failure)) if failure.may_open_later() => {
                    if Instant::now() + pause >= deadline {
                        return Err(failure);
                    }
                    failed = Some(failure);
                }
                Ok(client) => return client,
                Err(_) => return Err(failed.unwrap_or(Failure::NoAnswer(NoAnswer::TooLate))),
            }
            if turn.is_none() {
                // Another call may have opened one by then.
                turn = timeout_at(deadline, self.retrying.lock()).await.ok();
            } else {
                sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        }
    }
}

/// Drops an idle connection that does not answer within `limit`. A firewall may have dropped it without telling anyone, and a
/// statement would wait for its answer until its own limit. When one does not answer, all that are idle are dropped, so that a
/// request does not wait for each of them.
fn check(limit: Duration) -> Hook {
    let silent: Arc<Mutex<Option<Instant>>> = Arc::default();
    Hook::async_fn(move |client: &mut ClientWrapper, metrics| {
        let (silent, used) = (Arc::clone(&silent), Instant::from_std(metrics.recycled.unwrap_or(metrics.created)));
        Box::pin(async move {
            if used.elapsed() < Connections::IDLE {
                return Ok(());
            }
            let is_silent = silent.lock().is_ok_and(|last| last.is_some_and(|last| used < last));
            if is_silent {
                return Err(HookError::message("another connection did not answer"));
            }
            if matches!(timeout(limit, client.simple_query("")).await, Ok(Ok(_))) {
                return Ok(());
            }
            if let Ok(mut last) = silent.lock() {
                *last = Some(Instant::now());
            }
            Err(HookError::message("the connection did not answer"))
        })
    })
}

impl Failure {
    /// Returns whether the connection is lost, or unusable.
    fn is_of_connection(&self) -> bool {
        match self {
            Self::Database(error) => error.as_db_error().is_none_or(ends_connection),
            Self::NoAnswer(missing) => *missing == NoAnswer::TooLate,
            Self::NotConnected(_) | Self::Pool(_) => false,
        }
    }

    /// Returns whether a connection could not be opened, and the next one may be.
    fn may_open_later(&self) -> bool {
        matches!(self, Self::NotConnected(error) if error.as_db_error().is_none_or(ends_connection))
    }

    /// Returns the text of the error with those of its causes. Of an error that the server reports it is the code: its text may
    /// quote values.
    pub(crate) fn cause(&self) -> String {
        let error: &(dyn error::Error + 'static) = match self {
            Self::Database(error) | Self::NotConnected(error) => match error.code() {
                Some(code) => return format!("SQLSTATE {}", code.code()),
                None => error,
            },
            Self::Pool(error) => error,
            Self::NoAnswer(error) => error,
        };
        let causes = successors(Some(error), |error| error.source()).map(ToString::to_string);
        causes.collect::<Vec<_>>().join(": ")
    }

    /// Returns whether another transaction had a row locked for too long.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Database(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                Self::NotConnected(error)
            }
            error => Self::Pool(error),
        }
    }
}

/// Describes the error of a table or schema that does not exist.
fn missing(error: &Error) -> Option<String> {
    let error = error.as_db_error()?;
    let is_missing = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME].contains(error.code());
    is_missing.then(|| format!("{}; `Builder::create_table` creates the tables of a store", error.message()))
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let unavailable = Self::new(StoreErrorKind::Unavailable);
        match failure {
            Failure::Database(error) | Failure::NotConnected(error) => match missing(&error) {
                Some(detail) => unavailable.with_detail(detail).with_source(error),
                None => unavailable.with_source(error),
            },
            Failure::Pool(error) => unavailable.with_source(error),
            Failure::NoAnswer(error) => unavailable.with_source(error),
        }
    }
}

/// The database was reached, and did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAnswer {
    /// There was no answer within the time limit of the store.
    TooLate,
    /// A row is missing: that of the secret, if the table is incomplete.
    NoRow,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLate => "the database did not answer in time",
            Self::NoRow => {
                "the table of the secret, `consign_handled_secret` by default, has no row: run the statements of `Table::sql`"
            }
        })
    }
}

impl error::Error for NoAnswer {}
