use std::{sync::Arc, time::Duration};

use consign_core::transport::{ErrorKind, ManageError};
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod};
use tokio_postgres::{
    Config, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use crate::{Postgres, database::Database, failure::Failure, listener::Connector, schema::Schema};

/// The options of a connection to a broker. [`Postgres::options`] creates them, and one of the last four methods connects.
#[derive(Clone, Debug)]
#[must_use = "nothing is connected until `connect` or `wrap` is called"]
pub struct Options {
    pub(crate) schema: String,
    connections: usize,
    pub(crate) timeout: Duration,
    pub(crate) poll: Duration,
    pub(crate) grace: Duration,
    pub(crate) max_deliveries: usize,
}

impl Options {
    /// The schema by default.
    pub const SCHEMA: &'static str = "consign";
    /// The maximum of connections by default, beside the listening one.
    pub const CONNECTIONS: usize = 8;
    /// How long an answer may take by default.
    pub const TIMEOUT: Duration = Duration::from_secs(10);
    /// How often an idle receiver polls, by default.
    pub const POLL: Duration = Duration::from_secs(1);
    /// How long the locks of a process outlive its connection by default.
    pub const GRACE: Duration = Duration::from_secs(5);
    /// The maximum of unsettled deliveries by default.
    pub const MAX_DELIVERIES: usize = 10_000;

    pub(crate) fn new() -> Self {
        Self {
            schema: Self::SCHEMA.into(),
            connections: Self::CONNECTIONS,
            timeout: Self::TIMEOUT,
            poll: Self::POLL,
            grace: Self::GRACE,
            max_deliveries: Self::MAX_DELIVERIES,
        }
    }

    /// Sets the schema of the tables: 1 to 40 bytes, and neither `{` nor `$$`. Brokers in different schemas are independent.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets the maximum of connections, at least 1, and one more that listens. An existing pool has its own maximum.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Sets how long a call waits for a connection and for each answer. After that it fails as
    /// [`ServiceTimeout`](ErrorKind::ServiceTimeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how often an idle receiver polls, and how often each process handles what is due on entities without receivers: at
    /// least 10 ms.
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.poll = interval.max(Duration::from_millis(10));
        self
    }

    /// Sets how long the locks of a process hold after its connection has broken. A process that reconnects within it keeps its
    /// locks; after it its messages are redelivered, and the delivery does not count.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how many deliveries of all receivers may be unsettled at the same time, at least 1. Receivers wait beyond that.
    pub fn max_deliveries(mut self, deliveries: usize) -> Self {
        self.max_deliveries = deliveries.clamp(1, 1 << 20);
        self
    }

    /// Connects to the database at `url`, as `postgresql://user@host/database`, or in the other form of libpq.
    ///
    /// With `sslmode=require` the connection is encrypted, and the certificate is checked against those that the system trusts.
    /// The same applies without an `sslmode`, unless every host is this machine. `sslmode=disable` encrypts nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a URL that cannot be read; [`NotSupported`](ErrorKind::NotSupported)
    /// if it requires TLS and the crate has neither of the features for it;
    /// [`CommunicationProblem`](ErrorKind::CommunicationProblem); [`Unauthorized`](ErrorKind::Unauthorized).
    pub async fn connect(self, url: &str) -> Result<Postgres, ManageError> {
        let config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            ManageError::new(ErrorKind::InvalidArgument).with_detail("the URL cannot be read").with_source(error)
        })?;
        if crate::tls::is_wanted(&config) {
            #[cfg(any(feature = "tls-aws-lc", feature = "tls-ring"))]
            return self.connect_with(config, crate::tls::connector()?).await;
            #[cfg(not(any(feature = "tls-aws-lc", feature = "tls-ring")))]
            return Err(ManageError::new(ErrorKind::NotSupported).with_detail("built without TLS"));
        }
        self.connect_with(config, tokio_postgres::NoTls).await
    }

    /// Connects by a configuration and a connector of your own: [`NoTls`](tokio_postgres::NoTls), or one for TLS.
    ///
    /// # Errors
    ///
    /// Those of [`Options::connect`].
    pub async fn connect_with<T>(self, config: Config, tls: T) -> Result<Postgres, ManageError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync + 'static,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let connector = Connector::new(config.clone(), tls.clone());
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let prepare = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
            Box::pin(async move { client.batch_execute(crate::listener::SESSION).await.map_err(HookError::Backend) })
        });
        let pool = Pool::builder(Manager::from_config(config, tls, recycling));
        // The connection that was used last has its plans and pages cached.
        let pool = pool.max_size(self.connections).queue_mode(QueueMode::Lifo).post_create(prepare).build();
        let pool = pool
            .map_err(|error| ManageError::new(ErrorKind::General).with_detail(error.to_string()).with_source(error))?;
        let postgres = self.build(pool, Some(connector))?;
        postgres.ping().await?;
        Ok(postgres)
    }

    /// Uses connections of an existing pool. Such a pool does not pass notifications on. Without [`Options::wrap_and_listen`]
    /// senders of this process wake receivers, which otherwise poll as often as [`Options::poll_every`]; and locks of a dead
    /// process run out.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for the name of the schema.
    pub fn wrap(self, pool: Pool) -> Result<Postgres, ManageError> {
        self.build(pool, None)
    }

    /// As [`Options::wrap`], with a listening connection of its own.
    ///
    /// # Errors
    ///
    /// Those of [`Options::wrap`].
    pub fn wrap_and_listen<T>(self, pool: Pool, config: Config, tls: T) -> Result<Postgres, ManageError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync + 'static,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.build(pool, Some(Connector::new(config, tls)))
    }

    fn build(self, pool: Pool, connector: Option<Arc<Connector>>) -> Result<Postgres, ManageError> {
        if !(1..=40).contains(&self.schema.len()) || self.schema.contains(['\0', '{']) || self.schema.contains("$$") {
            let refused = ManageError::new(ErrorKind::InvalidArgument);
            return Err(refused.with_detail("the name of a schema has 1 to 40 bytes, and neither { nor $$"));
        }
        let schema = Schema::new(&self.schema);
        let database = Database { pool, timeout: self.timeout };
        Ok(Postgres::new(database, schema, self, connector))
    }
}

impl Postgres {
    async fn ping(&self) -> Result<(), ManageError> {
        self.inner.database.rows("SELECT 1", &[]).await.map(drop).map_err(|failure: Failure| failure.into())
    }
}
