//! The PostgreSQL of the tests.

use std::{fmt, ops::Deref, thread};

use consign_conformance::left_out;
use consign_postgres::tokio_postgres::{self, NoTls, error::SqlState};

const DEFAULT: &str = "postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test";

/// Where it is. `None` if it is not there and nobody said that it is.
pub(crate) async fn url() -> Option<String> {
    if let Ok(url) = std::env::var("CONSIGN_POSTGRES") {
        return Some(url);
    }
    match tokio_postgres::connect(DEFAULT, NoTls).await {
        Ok(_) => Some(DEFAULT.to_owned()),
        Err(error) => {
            left_out(&format!("tests on PostgreSQL: none at {DEFAULT} ({error}); scripts/brokers starts one"));
            None
        }
    }
}

/// The name of a schema that no other test has. When a test fails, the schema goes with this.
pub(crate) struct Schema {
    name: String,
    url: String,
    is_there: bool,
}

impl Schema {
    pub(crate) fn new(url: &str) -> Self {
        let name = format!("consign_test_{:016x}", fastrand::u64(..));
        Self { name, url: url.to_owned(), is_there: true }
    }

    /// Brokers go on sweeping meanwhile. PostgreSQL ends one of two that wait for each other, and it may be this one. The
    /// connection is its own: those of a test may have a short timeout.
    pub(crate) async fn end(mut self) {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        let driving = tokio::spawn(connection);
        let drop = format!("SET lock_timeout = '30s'; DROP SCHEMA {} CASCADE", self.name);
        while let Err(error) = client.batch_execute(&drop).await {
            assert_eq!(error.code(), Some(&SqlState::T_R_DEADLOCK_DETECTED), "{error}");
        }
        driving.abort();
        self.is_there = false;
    }

    /// Over a connection of its own. Those of the test may hold locks in the schema, and nothing drives them any more.
    async fn drop_now(&self) -> Result<(), tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        let driving = tokio::spawn(connection);
        let cut = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_class ON pg_class.oid = pg_locks.relation
            WHERE relnamespace = to_regnamespace('{0}') AND pid <> pg_backend_pid()
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            self.name
        );
        client.batch_execute(&cut).await?;
        client.batch_execute(&format!("SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS {} CASCADE", self.name)).await?;
        driving.abort();
        Ok(())
    }
}

impl Deref for Schema {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if !self.is_there {
            return;
        }
        // A thread of its own, for this one is in a runtime. A panic here would hide the one that there is.
        let dropped = thread::scope(|scope| {
            let dropping = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.map(|runtime| runtime.block_on(self.drop_now()))
            });
            dropping.join()
        });
        if !matches!(dropped, Ok(Ok(Ok(())))) {
            println!("the schema {} is left: {dropped:?}", self.name);
        }
    }
}
