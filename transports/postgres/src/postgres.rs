use std::{fmt, sync::Arc};

use consign_core::{
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{Capabilities, Delivery, ErrorKind, ManageError, ReceiveError, SendError},
};
use deadpool_postgres::Pool;

use crate::{
    Inner, Options, PostgresLease, PostgresReceiver, PostgresSender, PostgresSession, PostgresSessions, Transaction,
    capabilities::CAPABILITIES,
    database::Database,
    entity::part_of,
    failure::{receive_error, send_error},
    listener::Connector,
    receiver::{self, Source},
    schema::Schema,
    session,
};

/// A broker in a PostgreSQL database. Clones are handles to one.
#[derive(Clone)]
pub struct Postgres {
    pub(crate) inner: Arc<Inner>,
}

impl Postgres {
    /// The capabilities: all native but two. Request and reply takes two queues; and other processes detect a lost connection,
    /// whose messages they redeliver, by an advisory lock.
    pub const CAPABILITIES: Capabilities = CAPABILITIES;

    pub(crate) fn new(
        database: Database,
        schema: Schema,
        options: Options,
        connector: Option<Arc<Connector>>,
        is_wrapped: bool,
    ) -> Self {
        Self { inner: Inner::new(database, schema, options, connector, is_wrapped) }
    }

    /// Returns the options of a connection.
    pub fn options() -> Options {
        Options::new()
    }

    /// Connects to the database at `url` with the defaults of [`Options`]: [`Options::connect`].
    pub async fn connect(url: &str) -> Result<Self, ManageError> {
        Self::options().connect(url).await
    }

    /// Uses connections of an existing pool, with the defaults of [`Options`]: [`Options::wrap`].
    pub fn wrap(pool: Pool) -> Result<Self, ManageError> {
        Self::options().wrap(pool)
    }

    /// Creates the schema with its tables and functions, or migrates it to the version of this library. If it is up to date
    /// nothing is written. Several processes may call it at the same time. A change requires the right to create a schema in
    /// the database.
    ///
    /// # Errors
    ///
    /// [`Unauthorized`](ErrorKind::Unauthorized); [`NotSupported`](ErrorKind::NotSupported) for a database that is not in
    /// UTF-8, and for a schema of a newer version of this library; [`ServiceTimeout`](ErrorKind::ServiceTimeout) after a
    /// minute, or [`Options::timeout`] if that is longer.
    pub async fn migrate(&self) -> Result<(), ManageError> {
        self.inner.schema.migrate(&self.inner.database).await
    }

    /// Returns the time of the database, which is that of every message and every lock.
    pub async fn now(&self) -> Result<Timestamp, ManageError> {
        Ok(self.inner.now().await?)
    }

    /// Returns the connections of this broker.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.inner.database.pool
    }

    /// Creates a sender to the queue or the topic at `path`.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound), [`InvalidOperation`](ErrorKind::InvalidOperation) for a subscription and
    /// a sub-queue.
    pub async fn sender(&self, path: &str) -> Result<PostgresSender, SendError> {
        let path = EntityPath::new(path)?;
        let entity = self.inner.find(&path).await.map_err(send_error)?;
        self.inner.start();
        PostgresSender::new(Arc::clone(&self.inner), &path, entity)
    }

    /// Creates a receiver in peek-lock mode from the queue, the subscription or the dead-letter sub-queue at `path`.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub async fn receiver(&self, path: &str) -> Result<PostgresReceiver, ReceiveError> {
        let source = self.source(path, false).await?;
        Ok(PostgresReceiver::new(Arc::clone(&self.inner), source))
    }

    /// Creates a receiver in receive-and-delete mode: a message is removed when it is delivered. A message that is lost in
    /// transit is lost.
    ///
    /// # Errors
    ///
    /// Those of [`Postgres::receiver`].
    pub async fn receive_and_delete(&self, path: &str) -> Result<PostgresReceiver, ReceiveError> {
        let source = self.source(path, true).await?;
        Ok(PostgresReceiver::new(Arc::clone(&self.inner), source))
    }

    /// Locks deferred messages by their sequence numbers: all of them, or none. Messages of a session are fetched by
    /// [`Session::receive_deferred`](consign_core::transport::Session::receive_deferred).
    ///
    /// # Errors
    ///
    /// [`MessageNotFound`](ErrorKind::MessageNotFound) if one of them is not deferred here, or has expired; those of a receive.
    pub async fn receive_deferred(
        &self,
        path: &str,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<PostgresLease>>, ReceiveError> {
        let source = self.source(path, false).await?;
        receiver::receive_deferred(&self.inner, &source, numbers).await
    }

    /// Locks the session of this id, which may be empty so far. It does not wait for a session that another holds.
    ///
    /// # Errors
    ///
    /// [`Throttled`](ErrorKind::Throttled) if [`Options::max_deliveries`] are unsettled for as long as [`Options::timeout`].
    /// [`SessionCannotBeLocked`](ErrorKind::SessionCannotBeLocked) while another holds it,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for an id of more than 128 UTF-16 code units,
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) on an entity without sessions or a sub-queue.
    pub async fn accept_session(&self, path: &str, id: &str) -> Result<PostgresSession, ReceiveError> {
        let source = self.with_sessions(path).await?;
        session::accept(Arc::clone(&self.inner), source.entity, id.to_owned()).await
    }

    /// Returns an acceptor for the sessions of the queue or the subscription at `path`.
    ///
    /// # Errors
    ///
    /// Those of [`Postgres::receiver`], and [`InvalidOperation`](ErrorKind::InvalidOperation) on an entity without sessions or
    /// a sub-queue.
    pub async fn sessions(&self, path: &str) -> Result<PostgresSessions, ReceiveError> {
        let source = self.with_sessions(path).await?;
        Ok(PostgresSessions::new(Arc::clone(&self.inner), source.entity))
    }

    /// Begins a transaction of settlements and sends. To include your own writes use a transaction of your own:
    /// [`PostgresSender::send_in`], [`PostgresLease::settle_in`].
    pub fn begin(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.inner))
    }

    async fn with_sessions(&self, path: &str) -> Result<Source, ReceiveError> {
        let source = self.source(path, false).await?;
        if source.part != 0 {
            return Err(ReceiveError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue has no sessions"));
        }
        if !source.entity.requires_session {
            return Err(ReceiveError::new(ErrorKind::InvalidOperation).with_detail("the entity has no sessions"));
        }
        Ok(source)
    }

    async fn source(&self, path: &str, deletes: bool) -> Result<Source, ReceiveError> {
        let path = EntityPath::new(path)?;
        let part = part_of(&path).map_err(receive_error)?;
        let entity = self.inner.find(&path).await.map_err(receive_error)?;
        self.inner.start();
        Ok(Source { entity, part, deletes, session: None })
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("schema", &self.inner.options.schema).finish_non_exhaustive()
    }
}
