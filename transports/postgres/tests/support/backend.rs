//! A broker in PostgreSQL as the suite sees it.

use std::time::Duration;

use consign::{
    Disposition,
    administration::Administration,
    message::EntityPath,
    time::Timestamp,
    transport::{
        DynLease, DynReceiver, DynTransport, ErrorKind, Lease, ManageError, ReceiveError, SettleError,
        TransportRegistry,
    },
};
use consign_conformance::{Backend, Boxed, NoCall, Process, SeparateReceiver, Timing};
use consign_postgres::{
    Options, Postgres, connector,
    deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod},
    tokio_postgres::NoTls,
};

use super::server::Schema;

/// A schema of its own. With a clock of its own too, time passes when the suite says so.
pub(crate) struct InPostgres {
    url: String,
    postgres: Postgres,
    transport: DynTransport,
    schema: Schema,
    has_clock: bool,
}

impl InPostgres {
    pub(crate) async fn new(url: &str, has_clock: bool) -> Self {
        let schema = Schema::new(url);
        let postgres = options(&schema).connections(4).connect(url).await.unwrap();
        Self::of(url, schema, postgres, has_clock).await
    }

    /// The connections of the pool are those of a pooler.
    pub(crate) async fn behind(pooler: &str, url: &str, has_clock: bool) -> Self {
        let schema = Schema::new(url);
        let recycling_method = RecyclingMethod::Fast;
        let manager = Manager::from_config(pooler.parse().unwrap(), NoTls, ManagerConfig { recycling_method });
        let pool = Pool::builder(manager).max_size(4).build().unwrap();
        let postgres = options(&schema).wrap_and_listen(pool, url.parse().unwrap(), NoTls).unwrap();
        Self::of(url, schema, postgres, has_clock).await
    }

    async fn of(url: &str, schema: Schema, postgres: Postgres, has_clock: bool) -> Self {
        postgres.migrate().await.unwrap();
        let transport = postgres.clone().into();
        let backend = Self { url: url.to_owned(), postgres, transport, schema, has_clock };
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

    async fn run(&self, sql: &str) {
        self.postgres.pool().get().await.unwrap().batch_execute(sql).await.unwrap();
    }

    pub(crate) async fn drop_schema(self) {
        self.schema.end().await;
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
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn transport(&self) -> &DynTransport {
        &self.transport
    }

    fn timing(&self) -> Timing {
        Timing {
            lock: Duration::from_secs(15),
            receive_wait: Duration::from_millis(600),
            arrival: Duration::from_secs(7),
            margin: Duration::from_millis(2_900),
            ..Timing::default()
        }
    }

    fn now(&self) -> Boxed<'_, Timestamp> {
        Box::pin(async { self.postgres.now().await.unwrap() })
    }

    fn advance(&self, by: Duration) -> Boxed<'_, ()> {
        Box::pin(async move {
            if self.has_clock {
                let millis = by.as_millis();
                self.run(&format!("UPDATE {}.clock SET ahead = ahead + '{millis} ms'", self.schema)).await;
            } else {
                tokio::time::sleep(by).await;
            }
        })
    }

    fn url(&self) -> Result<(TransportRegistry, String), NoCall> {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        Ok((TransportRegistry::new().with(connector()), format!("{}{separator}schema={}", self.url, self.schema)))
    }

    /// Every connection of the pool is dropped before, so that it is another one that settles.
    fn settle_elsewhere(&self, lease: DynLease, disposition: Disposition) -> Boxed<'_, Result<(), SettleError>> {
        drop(self.postgres.pool().retain(|_, _| false));
        lease.settle(disposition)
    }

    /// Its connections end with it, and others find out by that.
    fn separate_receiver<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<SeparateReceiver, ReceiveError>> {
        let (url, own, options) = (self.url.clone(), path.clone(), options(&self.schema).connections(2));
        let connecting = async move {
            let postgres = options.connect(&url).await;
            let postgres = postgres.map_err(|error| ReceiveError::new(error.kind()).with_source(error))?;
            Ok(DynReceiver::new(postgres.receiver(own.as_str()).await?))
        };
        let (transport, path) = (self.transport.clone(), path.clone());
        Box::pin(async {
            let (process, receiver) = Process::start(connecting).await?;
            Ok(SeparateReceiver::new(receiver, |receiver, held| async move {
                let locked = async || transport.counts(&path).await.map(|counts| counts.locked).map_err(receive_error);
                let (before, lost) = (locked().await?, held.len());
                process.kill(receiver, held).await?;
                let noticed = async {
                    while locked().await? + lost > before {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    Ok(())
                };
                let late = |_| {
                    let why = "what a lost process held stays locked";
                    ReceiveError::new(ErrorKind::ServiceTimeout).with_detail(why)
                };
                tokio::time::timeout(NOTICED, noticed).await.map_err(late)?
            }))
        })
    }
}
