//! What the suite does not ask for: dropped calls, lost connections, transactions of the application.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod dropped;
mod forwards_later;
mod idle;
mod leaving;
mod limits;
mod lock_ends;
mod lock_rows;
mod log;
mod lost;
mod order;
mod outbox;
mod pooler;
mod removed;
mod replies;
mod restored;
#[path = "../support/server.rs"]
mod server;
mod session_ends;
mod size;
mod slow;
mod stack;
mod times;
mod together;
mod unreadable;
mod upkeep;

use std::{fmt::Debug, future::Future, net::SocketAddr, time::Duration};

use consign::administration::QueueSettings;
use consign_postgres::{
    Options, Postgres,
    tokio_postgres::{self, NoTls},
};

use crate::server::Schema;

/// A broker in a schema of its own, with a queue.
struct Fixture {
    url: String,
    postgres: Postgres,
    schema: Schema,
}

const QUEUE: &str = "queue";
/// How long a test waits for what has to happen, on a machine with much to do.
const LONGEST: Duration = Duration::from_secs(60);
/// The time of every lock of a message passes.
const LOCKS_END: &str = "UPDATE {s}.locks SET until = clock_timestamp();
    UPDATE {s}.messages SET due = clock_timestamp() WHERE state = 2";

impl Fixture {
    async fn new(settings: QueueSettings) -> Option<Self> {
        Self::with(settings, options).await
    }

    async fn with(settings: QueueSettings, options: impl Fn(&str) -> Options) -> Option<Self> {
        let url = server::url().await?;
        let schema = Schema::new(&url);
        let postgres = options(&schema).connect(&url).await.unwrap();
        postgres.migrate().await.unwrap();
        postgres.create_queue(QUEUE, settings).await.unwrap();
        Some(Self { url, postgres, schema })
    }

    /// The server as the connections of an application have it.
    fn url_of(&self, application: &str) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{separator}application_name={application}", self.url)
    }

    /// The address of the server.
    async fn address(&self) -> SocketAddr {
        let address = self.url.split_once('@').unwrap().1.split_once('/').unwrap().0;
        tokio::net::lookup_host(address).await.unwrap().next().unwrap()
    }

    /// Connects once more, with a timeout that also limits this.
    async fn impatient(&self, options: impl Fn(&str) -> Options) -> Postgres {
        repeated(async || options(&self.schema).connect(&self.url).await).await
    }

    /// As another process has it.
    async fn other(&self) -> Postgres {
        options(&self.schema).connect(&self.url).await.unwrap()
    }

    /// Over a connection of its own.
    async fn run(&self, sql: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        let driving = tokio::spawn(connection);
        client.batch_execute(&sql.replace("{s}", &self.schema)).await.unwrap();
        driving.abort();
    }

    /// Whether a statement with this function or table of the schema waits for a lock.
    async fn waits_for_a_lock(&self, named: &str) -> bool {
        let sql = "SELECT count(*) > 0 FROM pg_stat_activity \
                   WHERE wait_event_type = 'Lock' AND position($1 IN replace(query, '\"', '')) > 0";
        let named = format!("{}.{named}", self.schema.replace('"', ""));
        let client = self.postgres.pool().get().await.unwrap();
        client.query_one(sql, &[&named]).await.unwrap().get(0)
    }

    async fn end(self) {
        self.schema.end().await;
    }
}

fn options(schema: &str) -> Options {
    let poll = Duration::from_millis(100);
    Postgres::options().schema(schema).connections(4).poll_every(poll).grace(Duration::from_millis(300))
}

/// Waits until `condition` holds, for a minute at most.
async fn until<F: Future<Output = bool>>(condition: impl Fn() -> F) {
    until_within(LONGEST, condition).await;
}

async fn until_within<F: Future<Output = bool>>(longest: Duration, condition: impl Fn() -> F) {
    let waited = tokio::time::timeout(longest, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.expect("it did not become true");
}

/// Repeats a call for a minute at most, until it succeeds: one that precedes a test has its short timeout too.
async fn repeated<T, E: Debug>(mut call: impl AsyncFnMut() -> Result<T, E>) -> T {
    let until = tokio::time::Instant::now() + LONGEST;
    loop {
        match call().await {
            Ok(done) => return done,
            Err(error) => assert!(tokio::time::Instant::now() < until, "{error:?}"),
        }
    }
}
