//! An outbox of a test's own.

use std::{env, time::Duration};

use consign::{Message, transport::Transport};
use consign_conformance::left_out;
use consign_outbox_postgres::{
    Destinations, Outbox, Relay, RelayMode, Relayed, Senders, Table,
    tokio_postgres::{Client, Config, NoTls},
};
use consign_postgres::Postgres;
use tokio::{sync::oneshot, task::JoinHandle};

const VARIABLE: &str = "CONSIGN_POSTGRES";
/// As `scripts/brokers` makes it.
const ADDRESS: &str = "postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test";
/// Longer than anything takes that is not broken.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn address() -> String {
    env::var(VARIABLE).unwrap_or_else(|_| ADDRESS.into())
}

pub(crate) fn config() -> Config {
    address().parse().expect("CONSIGN_POSTGRES is the address of a database")
}

/// A connection as the application has it, of a test that has a [`Bench`].
pub(crate) async fn client() -> Client {
    connect().await.expect("PostgreSQL, which answered before")
}

/// `None` without PostgreSQL, if no variable names one: the test is left out.
async fn connect() -> Option<Client> {
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

pub(crate) struct Bench {
    pub(crate) name: String,
    pub(crate) client: Client,
    pub(crate) outbox: Outbox,
}

impl Bench {
    /// `None` without PostgreSQL.
    pub(crate) async fn new() -> Option<Self> {
        let (client, name) = (connect().await?, format!("outbox_{:016x}", fastrand::u64(..)));
        let outbox = Outbox::new(Table::new(&name).unwrap());
        outbox.create_table(&client).await.unwrap();
        Some(Self { name, client, outbox })
    }

    /// Adds messages in one transaction.
    pub(crate) async fn add(&mut self, destination: &str, messages: impl IntoIterator<Item = Message>) {
        let transaction = self.client.transaction().await.unwrap();
        for message in messages {
            self.outbox.add(&transaction, destination, &message).await.unwrap();
        }
        transaction.commit().await.unwrap();
    }

    /// A relay whose connection has the name of the table.
    pub(crate) fn relay<D: Destinations>(&self, to: D) -> Relay<Senders<D>> {
        let relay = Relay::new(self.outbox.clone(), self.named(), NoTls, to);
        relay.poll_interval(Duration::from_millis(20)).backoff(Duration::from_millis(5), Duration::from_millis(50))
    }

    pub(crate) fn named(&self) -> Config {
        let mut config = config();
        config.application_name(&self.name);
        config
    }

    /// Waits until this is true of the database, a statement with the table as `{t}`.
    pub(crate) async fn until(&self, what: &str) {
        let sql = format!("SELECT {}", what.replace("{t}", &self.name));
        let waiting = async {
            while !self.client.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
    }

    pub(crate) async fn until_sent(&self) {
        self.until("NOT EXISTS (SELECT FROM {t} WHERE refused IS NULL)").await;
    }

    /// Ends with the schema of queues. A transport that is open sweeps it, and could have a deadlock with its removal.
    pub(crate) async fn end_with(self, postgres: &Postgres) {
        postgres.close().await.unwrap();
        self.client.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.name)).await.unwrap();
        self.end().await;
    }

    pub(crate) async fn end(self) {
        let name = &self.name;
        self.client.batch_execute(&format!("DROP TABLE {name}, {name}_version")).await.unwrap();
    }
}

/// A relay that runs until it is told to stop.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    pub(crate) task: JoinHandle<Relayed>,
}

impl Running {
    pub(crate) fn start<M: RelayMode + 'static>(relay: Relay<M>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            relay.run_until(stopped).await.unwrap()
        });
        Self { stop, task }
    }

    pub(crate) async fn stop(self) -> Relayed {
        self.stop.send(()).unwrap();
        tokio::time::timeout(LONG, self.task).await.expect("a relay that stops").unwrap()
    }
}

pub(crate) fn message(id: impl Into<String>) -> Message {
    Message::builder().message_id(id.into()).build("body").unwrap()
}
