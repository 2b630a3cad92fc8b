//! Tables of a test's own.

use std::{env, future::Future, sync::Arc, time::Duration};

use consign_conformance::left_out;
use consign_store_postgres::{
    Builder, PostgresStore, Table,
    tokio_postgres::{Client, Config, NoTls},
};

use crate::cases::WINDOW;

const VARIABLE: &str = "CONSIGN_POSTGRES";
/// As `scripts/brokers` makes it.
const ADDRESS: &str = "postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test";

pub(crate) fn config() -> Config {
    let address = env::var(VARIABLE).unwrap_or_else(|_| ADDRESS.into());
    address.parse().expect("CONSIGN_POSTGRES is the address of a database")
}

/// A connection as handlers have it, of a test that has a [`Bench`].
pub(crate) async fn client() -> Client {
    connect().await.expect("PostgreSQL, which answered before")
}

/// `None` without PostgreSQL, if no variable names one: the test is left out.
pub(crate) async fn connect() -> Option<Client> {
    let (client, connection) = match config().connect(NoTls).await {
        Ok(connected) => connected,
        Err(error) if env::var_os(VARIABLE).is_none() => {
            left_out(&format!("tests on PostgreSQL: none at {ADDRESS} ({error}); scripts/brokers starts one"));
            return None;
        }
        Err(error) => panic!("{VARIABLE} names a PostgreSQL that does not answer: {error:?}"),
    };
    tokio::spawn(connection);
    Some(client)
}

/// A table, and a store over it.
pub(crate) struct Bench {
    pub(crate) name: String,
    pub(crate) client: Client,
    store: Arc<PostgresStore>,
}

impl Bench {
    /// Much longer than a test.
    pub(crate) const TICK: Duration = Duration::from_secs(20);

    /// `None` without PostgreSQL.
    pub(crate) async fn new() -> Option<Self> {
        let client = connect().await?;
        let name = format!("test_{:016x}", fastrand::u64(..));
        client.batch_execute(&format!("CREATE TABLE {name}_effects (message text NOT NULL)")).await.unwrap();
        let store = Arc::new(open(&name, Builder::create_table).await);
        Some(Self { name, client, store })
    }

    /// Over the table that another process has made.
    pub(crate) async fn existing(name: String) -> Self {
        let store = Arc::new(open(&name, |builder| builder).await);
        Self { name, client: client().await, store }
    }

    pub(crate) fn store(&self) -> &Arc<PostgresStore> {
        &self.store
    }

    pub(crate) async fn reopen(&mut self) {
        self.store = Arc::new(self.open(|builder| builder).await);
    }

    pub(crate) async fn open(&self, settings: impl FnOnce(Builder) -> Builder) -> PostgresStore {
        open(&self.name, settings).await
    }

    /// The database's clock cannot be set: what was written is moved into the past.
    pub(crate) async fn advance(&self, time: Duration) {
        let statement = format!("UPDATE {} SET until = until - $1 * interval '1 second'", self.name);
        self.client.execute(&statement, &[&time.as_secs_f64()]).await.unwrap();
    }

    pub(crate) async fn ids(&self) -> i64 {
        let counted = self.client.query_one(&format!("SELECT count(*) FROM {}", self.name), &[]).await;
        counted.unwrap().get(0)
    }

    pub(crate) fn add_effect(&self) -> String {
        format!("INSERT INTO {}_effects VALUES ($1)", self.name)
    }

    /// How often each message had its effect, and how many messages had one.
    pub(crate) async fn effects(&self) -> (Vec<String>, i64) {
        let name = &self.name;
        let often = format!("SELECT message FROM {name}_effects GROUP BY message HAVING count(*) > 1");
        let often = self.client.query(&often, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        let all = format!("SELECT count(DISTINCT message) FROM {name}_effects");
        (often, self.client.query_one(&all, &[]).await.unwrap().get(0))
    }

    /// How many requests of the stores over this table wait for a lock.
    pub(crate) async fn requests_that_wait(&self) -> i64 {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'";
        self.client.query_one(waiting, &[&self.name]).await.unwrap().get(0)
    }

    /// Ends the connections of the stores over this table, and waits until they are gone.
    pub(crate) async fn end_connections_of_stores(&self) -> usize {
        let statement = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1";
        self.client.query(statement, &[&self.name]).await.unwrap().len()
    }
}

async fn open(name: &str, settings: impl FnOnce(Builder) -> Builder) -> PostgresStore {
    // A test that makes many calls at once, or runs beside others, is no outage.
    let builder = PostgresStore::builder(WINDOW).table(Table::new(name).unwrap()).timeout(Duration::from_secs(60));
    let builder = settings(builder);
    let mut config = config();
    builder.connect(config.application_name(name).clone(), NoTls).await.unwrap()
}

impl Drop for Bench {
    fn drop(&mut self) {
        let name = &self.name;
        // A transaction of this test that was dropped is not rolled back before its runtime comes to it.
        let statements = format!(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks
                WHERE relation IN ('{name}'::regclass, '{name}_effects'::regclass) AND pid <> pg_backend_pid();
            DROP TABLE {name}, {name}_secret, {name}_effects"
        );
        block_on(async { client().await.batch_execute(&statements).await.unwrap() });
    }
}

/// Waits where nothing can be awaited.
fn block_on(future: impl Future<Output = ()> + Send) {
    std::thread::scope(|scope| {
        let thread = scope
            .spawn(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future));
        thread.join().unwrap();
    });
}
