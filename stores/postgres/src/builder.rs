use std::time::Duration;

use consign::middleware::dedup::StoreError;
use tokio_postgres::{
    Config, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};
use uuid::Uuid;

use crate::{
    PostgresStore, Table,
    connections::{Connections, Failure},
    statements::Statements,
    store::micros,
};

/// How a store is opened.
#[derive(Debug)]
#[must_use = "nothing is opened until `connect` is called"]
pub struct Builder {
    window: Duration,
    table: Table,
    create: bool,
    connections: usize,
    timeout: Duration,
}

impl Builder {
    /// How many connections a store has at most by default.
    pub const CONNECTIONS: usize = 4;

    /// How long a store waits for the database by default.
    pub const TIMEOUT: Duration = Duration::from_secs(5);

    pub(crate) fn new(window: Duration) -> Self {
        Self { window, table: Table::default(), create: false, connections: Self::CONNECTIONS, timeout: Self::TIMEOUT }
    }

    /// Keeps the ids in this table. Stores over one table know the same ids.
    pub fn table(mut self, table: Table) -> Self {
        self.table = table;
        self
    }

    /// Makes the table if it is missing, by [`Table::sql`], and for that needs the right to make tables in its schema, even
    /// when it is there.
    pub fn create_table(mut self) -> Self {
        self.create = true;
        self
    }

    /// Has at most so many connections, at least 1. They are not those of the handlers' transactions.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Waits so long for a connection, and again for an answer: then the request fails as
    /// [`Unavailable`](consign::middleware::dedup::StoreErrorKind::Unavailable).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Opens the store, on the database that `config` names; `tls` is [`NoTls`](tokio_postgres::NoTls), or what encrypts.
    ///
    /// Fails as [`Unavailable`](consign::middleware::dedup::StoreErrorKind::Unavailable) if the database cannot be reached, or has no such table.
    pub async fn connect<T>(self, config: Config, tls: T) -> Result<PostgresStore, StoreError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let connections = Connections::new(config, tls, self.connections, self.timeout)?;
        if self.create {
            // Of several that make it at once all but the first would fail, but for the lock.
            let lock = format!("SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock({})", Self::CREATING);
            let sql = format!("{lock};\n{}", self.table.sql());
            connections.run(&sql).await?;
        }
        let statements = Statements::new(&self.table);
        let secret: Uuid = connections.ask(&statements.secret, &[]).await?.try_get(0).map_err(Failure::from)?;
        let window = micros(self.window);
        Ok(PostgresStore::new(connections, statements, secret.into_bytes(), window))
    }

    /// The number of the lock under which tables are made.
    const CREATING: i64 = i64::from_be_bytes(*b"consign\0");
}
