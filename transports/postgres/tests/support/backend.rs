//! A broker in PostgreSQL as the suite sees it.

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Disposition, Message,
    administration::Administration,
    message::{EntityPath, SequenceNumber},
    rules::ManageRules,
    time::Timestamp,
    transport::{
        AcceptSession, Capabilities, Delivery, ErrorKind, Lease, ManageError, PeekMessages, PurgeMessages,
        ReceiveDeferred, ReceiveError, ReceiveMode, ScheduleMessages, SendError, Session, Sessions, SettleError,
        Transport,
    },
};
use consign_conformance::{
    Backend, Counts, Failure, Mode, Process, QueueSpec, RuleSpec, Status, SubscriptionSpec, Timing, TopicSpec, settings,
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

fn receive_error(error: ManageError) -> ReceiveError {
    ReceiveError::new(error.kind()).with_source(error)
}

/// How long others may take to notice that a process is gone, on a machine with much to do.
const NOTICED: Duration = Duration::from_secs(20);

impl Backend for InPostgres {
    type Sender = PostgresSender;
    type Lease = PostgresLease;
    type Receiver = Process<PostgresReceiver>;
    type Session = PostgresSession;
    type Transaction = ByPath;

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

    async fn create_rule(&self, subscription: &EntityPath, rule: &RuleSpec) -> Result<(), ManageError> {
        ManageRules::create_rule(&self.postgres, subscription, &settings::rule(rule)?).await
    }

    async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Result<(), ManageError> {
        ManageRules::delete_rule(&self.postgres, subscription, name).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        Administration::delete(&self.postgres, path).await
    }

    async fn sender(&self, path: &EntityPath) -> Result<PostgresSender, SendError> {
        Transport::sender(&self.postgres, path).await
    }

    async fn receiver(&self, path: &EntityPath, mode: Mode) -> Result<Self::Receiver, ReceiveError> {
        let mode = match mode {
            Mode::PeekLock => ReceiveMode::PeekLock,
            Mode::ReceiveAndDelete => ReceiveMode::ReceiveAndDelete,
        };
        Ok(Process::here(Transport::receiver(&self.postgres, path, mode).await?))
    }

    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<PostgresLease>>, ReceiveError> {
        ReceiveDeferred::receive_deferred(&self.postgres, path, numbers).await
    }

    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        PeekMessages::peek(&self.postgres, path, from, max).await
    }

    async fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        PurgeMessages::purge(&self.postgres, path, max, accepted_before).await
    }

    async fn accept_session(&self, path: &EntityPath, id: &str) -> Result<PostgresSession, ReceiveError> {
        Sessions::sessions(&self.postgres, path).await?.accept(id).await
    }

    async fn session_state(&self, session: &mut PostgresSession) -> Result<Option<Bytes>, SettleError> {
        session.state().await
    }

    async fn set_session_state(&self, session: &mut PostgresSession, state: Option<Bytes>) -> Result<(), SettleError> {
        session.set_state(state).await
    }

    async fn receive_deferred_of(
        &self,
        session: &mut PostgresSession,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<PostgresLease>>, ReceiveError> {
        session.receive_deferred(numbers).await
    }

    async fn peek_of(&self, session: &mut PostgresSession, max: usize) -> Result<Vec<Message>, ReceiveError> {
        session.peek(max).await
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
        ScheduleMessages::schedule(&self.postgres, path, messages, at).await
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        ScheduleMessages::cancel_scheduled(&self.postgres, path, numbers).await
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ReceiveError> {
        let counts = Administration::counts(&self.postgres, path).await.map_err(receive_error)?;
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
        let locked = async || {
            let counts = self.postgres.counts(path.as_str()).await;
            counts.map(|counts| counts.locked).map_err(receive_error)
        };
        let before = locked().await?;
        let lost = held.len();
        receiver.kill(held).await?;
        let noticed = async {
            while locked().await? + lost > before {
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
