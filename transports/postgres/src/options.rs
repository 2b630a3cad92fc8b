use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use consign_core::transport::{ErrorKind, ManageError, ServerAddress};
use consign_postgres_connect::{Canceller, manager};
use deadpool_postgres::{Hook, HookError, Pool, QueueMode};
use tokio_postgres::{
    Config, Socket,
    config::Host,
    tls::{MakeTlsConnect, TlsConnect},
    types::Type,
};

use crate::{
    Postgres,
    database::{Database, Prepares},
    failure::Failure,
    listener::Connector,
    schema::Schema,
};

/// The longest timeout and interval.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 3_600);
pub(crate) const SHORTEST_POLL: Duration = Duration::from_millis(10);
pub(crate) const MAX_CONNECTIONS: RangeInclusive<usize> = 1..=4_096;
pub(crate) const MAX_DELIVERIES: RangeInclusive<usize> = 1..=1 << 20;

/// Returns whether a schema may have this name.
pub(crate) fn is_schema_name(name: &str) -> bool {
    (1..=40).contains(&name.len()) && !name.contains(['\0', '{']) && !name.contains("$$")
}

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
    prepares: bool,
    /// That of the listening connection, if the pool has another one.
    pub(crate) listening: Option<Config>,
    /// Of authorities.
    pub(crate) certificates: Option<String>,
    /// Of the client, and its key.
    pub(crate) client_certificate: Option<(String, String)>,
    /// The only host of the URL.
    pub(crate) server: Option<ServerAddress>,
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
            prepares: true,
            listening: None,
            certificates: None,
            client_certificate: None,
            server: None,
        }
    }

    /// Sets the schema of the tables: 1 to 40 bytes, and neither `{` nor `$$`. Brokers in different schemas are independent.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets the maximum of connections, 1 to 4,096, and one more that listens. An existing pool has its own maximum.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.clamp(*MAX_CONNECTIONS.start(), *MAX_CONNECTIONS.end());
        self
    }

    /// Sets how long a call waits for a connection and for each answer. At most a day.
    ///
    /// Without a connection in time, the call is not executed, and fails as [`ServiceBusy`](ErrorKind::ServiceBusy). Without an
    /// answer in time, it fails as [`ServiceTimeout`](ErrorKind::ServiceTimeout).
    ///
    /// A statement without an answer is cancelled at the server, where its connection would stay beyond
    /// [`Options::connections`]. Statements of an existing pool are not cancelled: set a `statement_timeout` there.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(LONGEST);
        self
    }

    /// Sets how often an idle receiver polls, and how often each process handles what is due on entities without receivers: at
    /// least 10 ms, and at most a day.
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.poll = interval.clamp(SHORTEST_POLL, LONGEST);
        self
    }

    /// Sets how long the locks of a process hold after its connection has broken. A process that reconnects within it keeps its
    /// locks; after it its messages are redelivered, and the delivery does not count. At most a day.
    ///
    /// The connection is checked after each third of it, but after 0.5 to 10 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace.min(LONGEST);
        self
    }

    /// Sets how many deliveries of all receivers may be unsettled at the same time, at least 1. Receivers wait beyond that.
    pub fn max_deliveries(mut self, deliveries: usize) -> Self {
        self.max_deliveries = deliveries.clamp(*MAX_DELIVERIES.start(), *MAX_DELIVERIES.end());
        self
    }

    /// Sets whether statements are prepared, which saves the server work: `true` by default. A pooler that shares connections
    /// between transactions may not support that, and may execute the statement of another process that has the same name. So
    /// statements of an existing pool are never prepared. Those of a URL are no longer prepared when a connection is found to be one
    /// of a pooler: its process of the server is older than the connection by more than [`Options::timeout`].
    ///
    /// Behind such a pooler use [`Options::listen_on`], or [`Options::wrap_and_listen`].
    pub fn prepared_statements(mut self, is_on: bool) -> Self {
        self.prepares = is_on;
        self
    }

    /// Sets the configuration of the listening connection, which has to reach the server itself. For a URL of a pooler that shares
    /// connections between transactions: statements are not prepared then, and connections of the pooler have no settings of this
    /// transport. [`Options::wrap_and_listen`] takes both configurations for a pool of your own.
    pub fn listen_on(mut self, config: Config) -> Self {
        self.listening = Some(config);
        self
    }

    /// Adds certificates of authorities that are trusted besides those of the system: PEM.
    pub fn certificates(mut self, pem: impl Into<String>) -> Self {
        self.certificates = Some(pem.into());
        self
    }

    /// Sets the certificate of the client with its chain, and its private key: PEM.
    pub fn client_certificate(mut self, chain: impl Into<String>, key: impl Into<String>) -> Self {
        self.client_certificate = Some((chain.into(), key.into()));
        self
    }

    /// Connects to the database at `url`, as `postgresql://user@host/database`, or in the other form of libpq.
    ///
    /// With `sslmode=require` the connection is encrypted, and the certificate is checked against those that the system trusts
    /// and [`Options::certificates`].
    /// The same applies without an `sslmode`, unless every host is this machine. `sslmode=disable` encrypts nothing.
    ///
    /// Several hosts are tried in their order, and so are the addresses of a name. One that does not accept the connection and
    /// answer on it within `connect_timeout` is left for the next one. Without that each has an equal part of
    /// [`Options::timeout`].
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a URL that cannot be read, or certificates that are not PEM; [`NotSupported`](ErrorKind::NotSupported)
    /// if it requires TLS, and the crate has no feature for it or there is no cryptography provider;
    /// [`CommunicationProblem`](ErrorKind::CommunicationProblem); [`Unauthorized`](ErrorKind::Unauthorized).
    pub async fn connect(self, url: &str) -> Result<Postgres, ManageError> {
        let config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            ManageError::new(ErrorKind::InvalidArgument).with_detail("the URL cannot be parsed").with_source(error)
        })?;
        self.connect_config(config).await
    }

    /// Connects by the configuration of a URL.
    pub(crate) async fn connect_config(self, config: Config) -> Result<Postgres, ManageError> {
        if crate::tls::is_wanted(&config) {
            #[cfg(feature = "tls")]
            {
                let tls = crate::tls::connector(&self)?;
                return self.connect_with(config, tls).await;
            }
            #[cfg(not(feature = "tls"))]
            return Err(ManageError::new(ErrorKind::NotSupported).with_detail("built without TLS"));
        }
        self.connect_with(config, tokio_postgres::NoTls).await
    }

    /// Connects by a configuration and a connector of your own: [`NoTls`](tokio_postgres::NoTls), or one for TLS.
    ///
    /// # Errors
    ///
    /// Those of [`Options::connect`].
    pub async fn connect_with<T>(mut self, config: Config, tls: T) -> Result<Postgres, ManageError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync + 'static,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.server = server_of(&config);
        let listening = self.listening.take();
        let is_pooler = listening.is_some();
        let connector = Connector::new(listening.unwrap_or_else(|| config.clone()), tls.clone(), self.timeout);
        let settings: Arc<str> = crate::listener::settings(self.timeout).into();
        let (prepares, longest) = (Prepares::new(self.prepares && !is_pooler), self.timeout);
        let pooled = prepares.clone();
        let prepare = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, metrics| {
            let (settings, pooled) = (Arc::clone(&settings), pooled.clone());
            Box::pin(async move {
                // The settings would be those of other clients of a pooler too.
                if is_pooler || is_older(client, metrics.age() + longest).await.map_err(HookError::Backend)? {
                    pooled.never();
                    return Ok(());
                }
                client.batch_execute(&settings).await.map_err(HookError::Backend)
            })
        });
        let canceller = Canceller::new(tls.clone());
        let pool = Pool::builder(manager(config, tls, self.timeout));
        // The connection that was used last has its plans and pages cached.
        let pool = pool.max_size(self.connections).queue_mode(QueueMode::Lifo).post_create(prepare).build();
        let pool = pool
            .map_err(|error| ManageError::new(ErrorKind::General).with_detail(error.to_string()).with_source(error))?;
        let server = self.server.clone();
        let postgres = self.build(pool, Some(connector), Some(canceller), prepares)?;
        postgres.ping().await.map_err(|error| of_server(error, server.as_ref()))?;
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
        self.build(pool, None, None, Prepares::new(false))
    }

    /// Connects over an existing pool, like [`Options::wrap`], with a listening connection of its own.
    ///
    /// That connection has to reach the server itself, also if those of the pool are of a pooler that shares connections between
    /// transactions. Through such a pooler it gets no notifications, and the locks of this process would depend on a connection
    /// that others use. When that is detected the broker works as by [`Options::wrap`], and a `WARN` line is logged.
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
        let connector = Connector::new(config, tls, self.timeout);
        self.build(pool, Some(connector), None, Prepares::new(false))
    }

    /// A pool of the application has no `canceller`.
    fn build(
        self,
        pool: Pool,
        connector: Option<Arc<Connector>>,
        canceller: Option<Canceller>,
        prepares: Prepares,
    ) -> Result<Postgres, ManageError> {
        let is_wrapped = canceller.is_none();
        if !is_schema_name(&self.schema) {
            let refused = ManageError::new(ErrorKind::InvalidArgument);
            return Err(refused.with_detail("the name of a schema has 1 to 40 bytes, and neither { nor $$"));
        }
        let schema = Schema::new(&self.schema);
        let database = Database::new(pool, self.timeout, prepares, canceller);
        Ok(Postgres::new(database, schema, self, connector, is_wrapped))
    }
}

impl Postgres {
    async fn ping(&self) -> Result<(), ManageError> {
        self.inner.database.rows("SELECT 1", &[]).await.map(drop).map_err(|failure: Failure| failure.into())
    }
}

/// Returns whether the process of the server has run for longer than a connection can have: it is that of a pooler.
async fn is_older(client: &tokio_postgres::Client, than: Duration) -> Result<bool, tokio_postgres::Error> {
    const OLDER: &str = "SELECT extract(epoch FROM clock_timestamp() - backend_start)::float8 > $1
        FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()";
    let rows = client.query_typed(OLDER, &[(&than.as_secs_f64(), Type::FLOAT8)]).await?;
    rows.first().map_or(Ok(false), |row| row.try_get(0))
}

/// Returns an error with the server in its text.
fn of_server(error: ManageError, server: Option<&ServerAddress>) -> ManageError {
    match (server, error.description()) {
        (Some(server), Some(detail)) => {
            let detail = format!("{server}: {detail}");
            error.with_detail(detail)
        }
        _ => error,
    }
}

/// The only host of a configuration, or the address of a host without a name.
fn server_of(config: &Config) -> Option<ServerAddress> {
    let host: Box<str> = match (config.get_hosts(), config.get_hostaddrs()) {
        ([Host::Tcp(name)], _) => name.as_str().into(),
        #[cfg(unix)]
        ([Host::Unix(path)], _) => return Some(ServerAddress::new(path.to_string_lossy())),
        ([], [address]) => address.to_string().into(),
        _ => return None,
    };
    Some(ServerAddress::new(host).with_port(config.get_ports().first().copied().unwrap_or(5432)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_the_only_host() {
        for (url, expected) in [
            ("postgres://one", Some("one:5432")),
            ("postgres://user:secret@one:6432/orders", Some("one:6432")),
            ("postgres://one,two", None),
            ("hostaddr=::1", Some("[::1]:5432")),
            ("host=one hostaddr=127.0.0.1", Some("one:5432")),
            ("host=/run/postgresql", Some("/run/postgresql")),
        ] {
            let server = server_of(&url.parse().unwrap()).map(|server| server.to_string());
            assert_eq!(server.as_deref(), expected, "{url}");
        }
    }
}
