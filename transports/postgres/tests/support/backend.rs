//! A broker in PostgreSQL as the suite sees it.

use std::time::Duration;

use consign::{
    Disposition, Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{Capabilities, Delivery, ErrorKind, Lease, ManageError, ReceiveError, SendError, SettleError},
};
use consign_conformance::{
    Backend, Counts, Failure, Process, QueueSpec, Status, SubscriptionSpec, Timing, TopicSpec, settings,
};
use consign_postgres::{Options, Postgres, PostgresLease, PostgresReceiver, PostgresSender, PostgresSession};

use super::{server::Schema, transaction::ByPath};

/// A schema of its own. With a clock of its own too, time passes when the suite says so.
pub(crate) struct InPostgres {
    url: String,
    postgres: Postgres,
    schema: String,
    /// What drops the schema, if it is this one's.
    own: Option<Schema>,
    has_clock: bool,
}

impl InPostgres {
    pub(crate) async fn new(url: &str, has_clock: bool) -> Self {
        let own = Schema::new(url);
        let postgres = options(&own).connections(4).connect(url).await.unwrap();
        postgres.migrate().await.unwrap();
        let backend = Self { url: url.to_owned(), postgres, schema: own.to_string(), own: Some(own), has_clock };
        if has_clock {
            let schema = &backend.schema;
            backend
                .run(&format!(
                    "CREATE TABLE {schema}.clock (ahead interval NOT NULL);
                INSERT INTO {schema}.clock VALUES ('0');
                CREATE OR REPLACE FUNCTION {schema}.now() RETURNS timestamptz LANGUAGE sql VOLATILE
                AS 'SELECT clock_timestamp() + ahead FROM {schema}.clock'"
                ))
                .await;
        }
        backend
    }

    /// Over connections that are made for it, in a schema that is there.
    pub(crate) fn over(postgres: Postgres, schema: &str) -> Self {
        Self { url: String::new(), postgres, schema: schema.to_owned(), own: None, has_clock: false }
    }

    async fn run(&self, sql: &str) {
        self.postgres.pool().get().await.unwrap().batch_execute(sql).await.unwrap();
    }

    pub(crate) async fn drop_schema(self) {
        if let Some(schema) = self.own {
            schema.end(&self.postgres).await;
        }
    }
}

fn options(schema: &str) -> Options {
    Postgres::options().schema(schema).poll_every(Duration::from_millis(100)).grace(Duration::from_millis(300))
}

/// How long others may take to notice that a process is gone, on a machine with much to do.
const NOTICED: Duration = Duration::from_secs(20);

impl Backend for InPostgres {
    type Sender = PostgresSender;
    type Lease = PostgresLease;
    type Receiver = Process<PostgresReceiver>;
    type Session = PostgresSession;
    type Transaction = ByPath;

    consign_conformance::client_methods!(postgres);

    fn name(&self) -> &'static str {
        "postgres"
    }

    fn capabilities(&self) -> Capabilities {
        Postgres::CAPABILITIES
    }

    fn timing(&self) -> Timing {
        Timing {
            patience: Duration::from_millis(250),
            arrival: Duration::from_millis(2_400),
            margin: Duration::from_millis(900),
            ..Timing::default()
        }
    }

    async fn now(&self) -> Timestamp {
        self.postgres.now().await.unwrap()
    }

    async fn advance(&self, by: Duration) {
        if self.has_clock {
            let millis = by.as_millis();
            self.run(&format!("UPDATE {}.clock SET ahead = ahead + '{millis} ms'", self.schema)).await;
        } else {
            tokio::time::sleep(by).await;
        }
    }

    async fn create_queue(&self, path: &EntityPath, spec: &QueueSpec) -> Result<(), ManageError> {
        self.postgres.create_queue(path.as_str(), settings::queue(spec)).await
    }

    async fn create_topic(&self, path: &EntityPath, spec: &TopicSpec) -> Result<(), ManageError> {
        self.postgres.create_topic(path.as_str(), settings::topic(spec)).await
    }

    async fn create_subscription(&self, path: &EntityPath, spec: &SubscriptionSpec) -> Result<(), ManageError> {
        let (topic, name) = settings::parts(path)?;
        self.postgres.create_subscription(topic, name, settings::subscription(spec)).await
    }

    async fn set_status(&self, path: &EntityPath, status: Status) -> Result<(), ManageError> {
        self.postgres.set_status(path.as_str(), settings::status(status)).await
    }

    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        self.postgres.sender(path.as_str()).await?.schedule(messages, at).await
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        self.postgres.sender(path.as_str()).await?.cancel_scheduled(numbers).await
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ReceiveError> {
        let counts = self.postgres.counts(path.as_str()).await?;
        Ok(Counts {
            active: counts.active + counts.locked,
            deferred: counts.deferred,
            scheduled: counts.scheduled,
            dead_lettered: counts.dead_lettered,
        })
    }

    async fn accept_next_session(&self, path: &EntityPath, wait: Duration) -> Result<PostgresSession, ReceiveError> {
        self.postgres.sessions(path.as_str()).await?.next_within(wait).await
    }

    /// Every connection of the pool is dropped before, so that it is another one that settles.
    async fn settle_elsewhere(
        &self,
        _: &EntityPath,
        lease: PostgresLease,
        disposition: Disposition,
    ) -> Result<(), SettleError> {
        drop(self.postgres.pool().retain(|_, _| false));
        lease.settle(disposition).await
    }

    async fn separate_receiver(&self, path: &EntityPath) -> Result<Self::Receiver, ReceiveError> {
        let (url, path, options) = (self.url.clone(), path.clone(), options(&self.schema).connections(2));
        Process::start(async move {
            let postgres = options.connect(&url).await;
            let postgres = postgres.map_err(|error| ReceiveError::new(error.kind()).with_source(error))?;
            postgres.receiver(path.as_str()).await
        })
        .await
    }

    /// Its connections end with it, and others find out by that.
    async fn disconnect(
        &self,
        receiver: Self::Receiver,
        held: Vec<Delivery<PostgresLease>>,
    ) -> Result<(), ReceiveError> {
        let path = receiver.receiver().path();
        let before = self.postgres.counts(path.as_str()).await?.locked;
        let lost = held.len();
        receiver.kill(held).await?;
        let noticed = async {
            while self.postgres.counts(path.as_str()).await?.locked + lost > before {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        };
        let late =
            |_| ReceiveError::new(ErrorKind::ServiceTimeout).with_detail("what a lost process held stays locked");
        tokio::time::timeout(NOTICED, noticed).await.map_err(late)?
    }

    async fn begin(&self) -> Result<ByPath, Failure> {
        Ok(ByPath { postgres: self.postgres.clone(), inner: self.postgres.begin() })
    }
}
