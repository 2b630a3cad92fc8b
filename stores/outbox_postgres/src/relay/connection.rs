//! The connection of a relay: it reads the table, listens, and holds the lock of the one relay that sends.

use std::{pin::Pin, sync::Arc, time::Duration};

use consign_postgres_connect::connect_first;
use futures_util::{StreamExt, future::BoxFuture, stream::poll_fn};
use tokio::{sync::Notify, task::JoinHandle, time::timeout};
use tokio_postgres::{
    AsyncMessage, Client, Config, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use super::holder::Backend;
use crate::{Outbox, OutboxError, OutboxErrorKind, outbox::CHANNEL};

/// The lock of the table `$1`. It has the table's number, so that its name in another schema or search path makes no difference.
pub(super) const KEY: &str = "hashtextextended('consign outbox ' || $1::text::regclass::oid::text, 0)";

/// The server closes a connection that does not answer for 30 s, and its lock ends: the process of a relay may have lost its
/// network, or its machine.
const SESSION: &str = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4; \
    SET tcp_user_timeout = '30s'";

/// Opens connections.
pub(super) struct Connector {
    config: Config,
    open: Box<dyn Fn(Config) -> BoxFuture<'static, Result<Opened, tokio_postgres::Error>> + Send + Sync>,
}

/// A connection that is not prepared.
struct Opened {
    client: Client,
    arrived: Arc<Notify>,
    driver: Driver,
}

impl Connector {
    pub(super) fn new<T>(config: Config, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync + 'static,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let open = Box::new(move |config: Config| -> BoxFuture<'static, _> {
            let tls = tls.clone();
            Box::pin(async move {
                let (client, mut connection) = config.connect(tls).await?;
                let arrived = Arc::new(Notify::new());
                let notified = Arc::clone(&arrived);
                let driver = tokio::spawn(async move {
                    let mut messages = poll_fn(|cx| Pin::new(&mut connection).poll_message(cx));
                    while let Some(Ok(message)) = messages.next().await {
                        if let AsyncMessage::Notification(_) = message {
                            notified.notify_one();
                        }
                    }
                    // The waiting relay finds the connection closed.
                    notified.notify_one();
                });
                Ok(Opened { client, arrived, driver: Driver(driver) })
            })
        });
        Self { config, open }
    }

    /// Opens a connection that listens. The server ends a statement that takes longer than `statement`: a relay that gives up would
    /// otherwise leave it running, and the lock of its connection taken, until it ends.
    pub(super) async fn connect(
        &self,
        outbox: &Outbox,
        limit: Duration,
        statement: Duration,
    ) -> Result<Connection, OutboxError> {
        within(limit, async {
            let Opened { client, arrived, driver } = connect_first(&self.config, limit, &self.open).await?;
            outbox.check(&client).await?;
            let statement = statement.as_millis();
            client.batch_execute(&format!("SET statement_timeout = {statement}; {SESSION}; LISTEN {CHANNEL}")).await?;
            let backend = Backend::of(&client).await?;
            Ok(Connection { client, arrived, backend, _driver: driver })
        })
        .await
    }
}

pub(super) struct Connection {
    pub(super) client: Client,
    /// A message may have been added.
    pub(super) arrived: Arc<Notify>,
    /// The process of the server.
    pub(super) backend: Backend,
    _driver: Driver,
}

impl Connection {
    /// Locks the table for this relay, as long as the connection lasts. `false` if another relay has the lock.
    pub(super) async fn lock(&self, outbox: &Outbox, limit: Duration) -> Result<bool, OutboxError> {
        let sql = format!("SELECT pg_try_advisory_lock({KEY})");
        let row = within(limit, async { Ok(self.client.query_one(&sql, &[&outbox.table.quoted()]).await?) }).await?;
        Ok(row.try_get(0)?)
    }
}

/// The task of a connection.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    /// Closes the connection at once. The lock ends with it.
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Limits the time that a step at the database takes.
pub(super) async fn within<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, OutboxError>>,
) -> Result<T, OutboxError> {
    timeout(limit, step)
        .await
        .unwrap_or_else(|_| Err(OutboxError::new(OutboxErrorKind::Database, format!("no answer within {limit:?}"))))
}
