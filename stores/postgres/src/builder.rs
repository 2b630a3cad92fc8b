use std::time::Duration;

use consign::middleware::dedup::StoreError;
use tokio_postgres::{
    Config, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};
use uuid::Uuid;

use crate::{
    NoAnswer, PostgresStore, Table,
    connections::{Connections, Failure},
    statements::Statements,
    store::micros,
};

/// The options of a store.
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
    /// The maximum of connections of a store by default.
    pub const CONNECTIONS: usize = 4;

    /// The most connections that can be set.
    pub const MAX_CONNECTIONS: usize = 10_000;

    /// How long a store waits for the database by default.
    pub const TIMEOUT: Duration = Duration::from_secs(5);

    pub(crate) fn new(window: Duration) -> Self {
        Self { window, table: Table::default(), create: false, connections: Self::CONNECTIONS, timeout: Self::TIMEOUT }
    }

    /// Sets the table of the ids. Stores over one table share their ids.
    pub fn table(mut self, table: Table) -> Self {
        self.table = table;
        self
    }

    /// Creates the table if it or a part of it is missing, by [`Table::sql`]. This requires the right to create tables in its
    /// schema. If all of it exists, nothing is run, and no lock is taken. A table without a schema is found by the
    /// `search_path` of the connection.
    pub fn create_table(mut self) -> Self {
        self.create = true;
        self
    }

    /// Sets the maximum of connections, from 1 to [`MAX_CONNECTIONS`](Self::MAX_CONNECTIONS); other numbers are
    /// clamped. They are not those of the handlers' transactions.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.clamp(1, Self::MAX_CONNECTIONS);
        self
    }

    /// Sets how long a request waits for a connection, and again for an answer, from a millisecond to a day: then it fails
    /// as [`Unavailable`](consign::middleware::dedup::StoreErrorKind::Unavailable).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), Duration::from_secs(86_400));
        self
    }

    /// Opens the store, on the database that `config` names; `tls` is [`NoTls`](tokio_postgres::NoTls), or a TLS connector.
    ///
    /// Fails as [`Unavailable`](consign::middleware::dedup::StoreErrorKind::Unavailable) if the database cannot be reached, or
    /// has no such table.
    pub async fn connect<T>(self, config: Config, tls: T) -> Result<PostgresStore, StoreError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let connections = Connections::new(config, tls, self.connections, self.timeout)?;
        let statements = Statements::new(&self.table);
        // The statements wait for each transaction that has committed ids, and those that commit later wait for them.
        if self.create && !self.exists(&connections, &statements).await? {
            // Without the lock all but the first of several concurrent creations would fail.
            let lock = format!("SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock({})", Self::CREATING);
            let sql = format!("{lock};\n{}", self.table.sql());
            connections.run(&sql).await?;
        }
        let secret: Uuid = connections.ask(&statements.secret, &[]).await?.try_get(0).map_err(Failure::from)?;
        let window = micros(self.window);
        Ok(PostgresStore::new(connections, statements, secret.into_bytes(), window))
    }

    /// Returns whether everything exists that [`Table::sql`] creates.
    async fn exists(&self, connections: &Connections, statements: &Statements) -> Result<bool, Failure> {
        let sql = "SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL AND to_regclass($3) IS NOT NULL";
        let (table, secret, index) = (self.table.quoted(), self.table.quoted_secret(), self.table.quoted_index());
        if !connections.ask(sql, &[&table, &secret, &index]).await?.try_get(0)? {
            return Ok(false);
        }
        match connections.ask(&statements.secret, &[]).await {
            Err(Failure::NoAnswer(NoAnswer::NoRow)) => Ok(false),
            secret => secret.map(|_| true),
        }
    }

    /// The number of the lock under which tables are created.
    const CREATING: i64 = i64::from_be_bytes(*b"consign\0");
}
