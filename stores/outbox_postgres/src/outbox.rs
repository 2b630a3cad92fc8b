use std::{sync::Arc, time::Duration};

use consign_core::{Message, message::EntityPath};
use tokio_postgres::{
    Client, GenericClient, Transaction,
    types::{ToSql, Type},
};
use uuid::Uuid;

use crate::{OutboxError, OutboxErrorKind, Table, encoding, relay::MESSAGE_ID};

/// The channel that a relay listens to.
pub(crate) const CHANNEL: &str = "consign_outbox";

/// Stores messages in transactions of the application; see the [crate](crate).
///
/// Clones are cheap. It has no connection: each operation uses that of the caller.
#[derive(Clone, Debug)]
pub struct Outbox {
    pub(crate) table: Arc<Table>,
    insert: Arc<str>,
}

/// The columns of a message that is added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxRow {
    /// The path of a queue or a topic.
    pub destination: String,
    /// Its SessionId.
    pub session: Option<String>,
    /// Its MessageId, which is random if the message had none.
    pub message_id: String,
    /// The message, encoded as AMQP 1.0.
    pub message: Vec<u8>,
}

/// A message that waits, and whose last send has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failing {
    /// The number of its row.
    pub id: i64,
    /// The destination that it was added for.
    pub destination: String,
    /// The session of its row. Later messages of the same destination and session wait for it.
    pub session: Option<String>,
    /// Its MessageId: the first 129 characters of the column.
    pub message_id: String,
    /// The error of the last send.
    pub error: String,
    /// How often sending has failed.
    pub attempts: i32,
}

/// A message that was not sent, because its broker refused it or it could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The number of its row.
    pub id: i64,
    /// The destination that it was added for.
    pub destination: String,
    /// Its MessageId: the first 129 characters of the column.
    pub message_id: String,
    /// The error of the send.
    pub error: String,
    /// How often sending has failed.
    pub attempts: i32,
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new(Table::default())
    }
}

impl Outbox {
    /// Creates an outbox over a table. It does no I/O.
    #[must_use]
    pub fn new(table: Table) -> Self {
        let name = table.quoted();
        // What is returned is no column, which would need the privilege to read it.
        let insert = format!(
            "WITH added AS (INSERT INTO {name} (destination, session, message_id, message) VALUES ($1, $2, $3, $4) \
             RETURNING 1) SELECT pg_notify('{CHANNEL}', '') FROM added"
        );
        Self { table: Arc::new(table), insert: insert.into() }
    }

    /// Creates the table if it is missing, by [`Table::sql`]. Several processes may do so at the same time. If the table exists in
    /// this version, or in one that it cannot change, it takes no lock. A table without a schema is found by the `search_path` of
    /// the connection.
    ///
    /// # Errors
    ///
    /// [`Database`](OutboxErrorKind::Database); [`Version`](OutboxErrorKind::Version) if a table of another version exists;
    /// [`Encoding`](OutboxErrorKind::Encoding) if the encoding of the database is not UTF8.
    pub async fn create_table(&self, client: &Client) -> Result<(), OutboxError> {
        /// The number of the lock under which tables are created: without it all but one of several creations would fail.
        const CREATING: i64 = i64::from_be_bytes(*b"outbox\0\0");
        // The statements wait for each transaction that has added messages, and those that add later wait for them.
        if self.exists(client).await? {
            return Ok(());
        }
        // Another process may create or change the table before this one has the lock.
        let sql = format!("SELECT pg_advisory_xact_lock({CREATING}); {}", self.table.sql());
        // Several statements in one request are one transaction.
        match client.batch_execute(&sql).await {
            Err(error) if error.code().is_some_and(|code| code.code() == Table::OTHER_VERSION) => {}
            created => created?,
        }
        self.check(client).await
    }

    /// Returns whether the table exists in the version of this crate. A version that is not an earlier one is an error.
    async fn exists(&self, client: &Client) -> Result<bool, OutboxError> {
        check_encoding(client).await?;
        let sql = "SELECT to_regclass($1) IS NOT NULL, to_regclass($2) IS NOT NULL";
        let names: [&(dyn ToSql + Sync); 2] = [&self.table.quoted(), &self.table.quoted_version()];
        let row = client.query_one(sql, &names).await?;
        let (has_table, has_version): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
        let version = if has_version { self.version(client).await? } else { None };
        match version {
            Some(version) if !(1..=Table::VERSION).contains(&version) => Err(other_version(Some(version))),
            version => Ok(has_table && version == Some(Table::VERSION)),
        }
    }

    async fn version(&self, client: &impl GenericClient) -> Result<Option<i32>, OutboxError> {
        let sql = format!("SELECT version FROM {}", self.table.quoted_version());
        Ok(client.query_opt(&sql, &[]).await?.map(|row| row.try_get(0)).transpose()?)
    }

    /// Returns an error if the database has another encoding, or the table another version.
    pub(crate) async fn check(&self, client: &impl GenericClient) -> Result<(), OutboxError> {
        check_encoding(client).await?;
        match self.version(client).await? {
            Some(Table::VERSION) => Ok(()),
            other => Err(other_version(other)),
        }
    }

    /// Stores a message in a transaction. It is sent to `destination`, the path of a queue or a topic, when the transaction has
    /// committed. It is not sent if the transaction is rolled back.
    ///
    /// A message without a MessageId gets a random one here. The relay sends the same id each time.
    ///
    /// # Errors
    ///
    /// [`InvalidMessage`](OutboxErrorKind::InvalidMessage) for a destination that is not the path of a queue or a topic, and for
    /// a message that breaks a rule or that AMQP 1.0 cannot encode. Examples are a ContentType that is not ASCII, and a NUL in
    /// the MessageId or the SessionId. The transaction is not touched.
    /// [`Database`](OutboxErrorKind::Database) after which the transaction can only be rolled back.
    pub async fn add(
        &self,
        transaction: &Transaction<'_>,
        destination: &str,
        message: &Message,
    ) -> Result<(), OutboxError> {
        let row = self.row(destination, message)?;
        let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
            (&row.destination, Type::TEXT),
            (&row.session, Type::TEXT),
            (&row.message_id, Type::TEXT),
            (&row.message, Type::BYTEA),
        ];
        transaction.query_typed(&self.insert, &parameters).await?;
        Ok(())
    }

    /// Returns the row that [`add`](Self::add) inserts, for another client of PostgreSQL, which runs
    /// [`insert_sql`](Self::insert_sql) in its transaction. It does no I/O.
    ///
    /// # Errors
    ///
    /// [`InvalidMessage`](OutboxErrorKind::InvalidMessage), as for `add`.
    pub fn row(&self, destination: &str, message: &Message) -> Result<OutboxRow, OutboxError> {
        let destination = EntityPath::new(destination)?;
        if destination.is_sub_queue() || destination.subscription().is_some() {
            let detail = "a sub-queue or a subscription is not a destination";
            return Err(OutboxError::new(OutboxErrorKind::InvalidMessage, detail));
        }
        let with_id;
        let (message, message_id) = if let Some(id) = message.message_id() {
            (message, id.to_owned())
        } else {
            let (mut copy, id) = (message.clone(), Uuid::new_v4().simple().to_string());
            copy.properties_mut().set_message_id(id.clone())?;
            with_id = copy;
            (&with_id, id)
        };
        if message_id.contains('\0') || message.session_id().is_some_and(|id| id.contains('\0')) {
            let detail = "the MessageId or the SessionId has a NUL, which PostgreSQL does not store";
            return Err(OutboxError::new(OutboxErrorKind::InvalidMessage, detail));
        }
        Ok(OutboxRow {
            destination: destination.as_str().to_owned(),
            session: message.session_id().map(str::to_owned),
            message_id,
            message: encoding::encode(message)?.into(),
        })
    }

    /// Returns the statement that inserts a row and notifies the relay. Its parameters `$1` to `$4` are the destination, the session,
    /// the MessageId and the message of an [`OutboxRow`].
    #[must_use]
    pub fn insert_sql(&self) -> &str {
        &self.insert
    }

    /// Returns how many messages wait to be sent.
    ///
    /// # Errors
    ///
    /// [`Database`](OutboxErrorKind::Database).
    pub async fn waiting(&self, client: &impl GenericClient) -> Result<u64, OutboxError> {
        let sql = format!("SELECT count(*) FROM {} WHERE refused IS NULL", self.table.quoted());
        let count: i64 = client.query_one(&sql, &[]).await?.try_get(0)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Returns refused messages, at most `max`, the oldest first.
    ///
    /// # Errors
    ///
    /// [`Database`](OutboxErrorKind::Database).
    pub async fn refused(&self, client: &impl GenericClient, max: u32) -> Result<Vec<Refused>, OutboxError> {
        let sql = format!(
            "SELECT id, destination, {MESSAGE_ID}, coalesce(error, ''), attempts FROM {} WHERE refused IS NOT NULL ORDER BY id \
             LIMIT $1",
            self.table.quoted()
        );
        let rows = client.query(&sql, &[&i64::from(max)]).await?;
        let read = |row: tokio_postgres::Row| {
            Ok(Refused {
                id: row.try_get(0)?,
                destination: row.try_get(1)?,
                message_id: row.try_get(2)?,
                error: row.try_get(3)?,
                attempts: row.try_get(4)?,
            })
        };
        rows.into_iter().map(read).collect()
    }

    /// Returns waiting messages whose last send has failed, at most `max`, those that failed most often first.
    ///
    /// # Errors
    ///
    /// [`Database`](OutboxErrorKind::Database).
    pub async fn failing(&self, client: &impl GenericClient, max: u32) -> Result<Vec<Failing>, OutboxError> {
        let sql = format!(
            "SELECT id, destination, session, {MESSAGE_ID}, coalesce(error, ''), attempts FROM {} \
             WHERE refused IS NULL AND attempts > 0 ORDER BY attempts DESC, id LIMIT $1",
            self.table.quoted()
        );
        let rows = client.query(&sql, &[&i64::from(max)]).await?;
        let read = |row: tokio_postgres::Row| {
            Ok(Failing {
                id: row.try_get(0)?,
                destination: row.try_get(1)?,
                session: row.try_get(2)?,
                message_id: row.try_get(3)?,
                error: row.try_get(4)?,
                attempts: row.try_get(5)?,
            })
        };
        rows.into_iter().map(read).collect()
    }

    /// Refuses waiting messages, by the numbers of their rows, so that later ones of their sessions are sent, after the pause of the
    /// last failure. They keep the error of that. Returns how many there were. A message that a relay is sending may still be
    /// sent: then its row is deleted.
    ///
    /// # Errors
    ///
    /// [`Database`](OutboxErrorKind::Database).
    pub async fn refuse(&self, client: &impl GenericClient, ids: &[i64]) -> Result<u64, OutboxError> {
        let sql = format!(
            "UPDATE {} SET refused = clock_timestamp(), error = coalesce(error, 'it was refused by Outbox::refuse') \
             WHERE refused IS NULL AND id = ANY($1)",
            self.table.quoted()
        );
        Ok(client.execute(&sql, &[&ids]).await?)
    }

    /// Makes refused messages wait again, in their old order, by the numbers of their rows. Returns how many there were.
    ///
    /// # Errors
    ///
    /// [`Database`](OutboxErrorKind::Database).
    pub async fn retry_refused(&self, client: &impl GenericClient, ids: &[i64]) -> Result<u64, OutboxError> {
        let table = self.table.quoted();
        let sql = format!("UPDATE {table} SET refused = NULL WHERE refused IS NOT NULL AND id = ANY($1)");
        let changed = client.execute(&sql, &[&ids]).await?;
        client.batch_execute(&format!("NOTIFY {CHANNEL}")).await?;
        Ok(changed)
    }

    /// Deletes messages that were refused longer than `age` ago. Returns how many there were. Sent messages are deleted when
    /// they are sent.
    ///
    /// # Errors
    ///
    /// [`Database`](OutboxErrorKind::Database).
    pub async fn delete_refused(&self, client: &impl GenericClient, age: Duration) -> Result<u64, OutboxError> {
        let table = self.table.quoted();
        let sql = format!("DELETE FROM {table} WHERE refused <= clock_timestamp() - make_interval(secs => $1)");
        // PostgreSQL has no points in time before that.
        let age = age.min(Duration::from_secs(1_000 * 366 * 24 * 3_600));
        Ok(client.execute(&sql, &[&age.as_secs_f64()]).await?)
    }
}

/// In another encoding, texts of other programs may have bytes that are no characters: each read of such a row would fail. Ids and
/// errors may have characters that it cannot store.
async fn check_encoding(client: &impl GenericClient) -> Result<(), OutboxError> {
    let row = client.query_one("SELECT current_setting('server_encoding')", &[]).await?;
    let encoding: String = row.try_get(0)?;
    if encoding == "UTF8" {
        Ok(())
    } else {
        Err(OutboxError::new(OutboxErrorKind::Encoding, format!("it is {encoding}")))
    }
}

fn other_version(found: Option<i32>) -> OutboxError {
    let found = found.map_or_else(|| "none".to_owned(), |version| version.to_string());
    OutboxError::new(OutboxErrorKind::Version, format!("{found}, and this crate has {}", Table::VERSION))
}
