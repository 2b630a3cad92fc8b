//! The connection that has the lock of a table.
//!
//! The server does not notice at once that a connection has broken without a word, and until then its lock stays.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::{Client, types::Type};

use super::connection::{Connection, KEY, within};
use crate::{Outbox, OutboxError, log};

/// How often a holder of the lock that does nothing is looked for.
const LOOK: Duration = Duration::from_secs(30);

/// A process of the server, which serves one connection. Its number is used again by later ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    process: i32,
    began: String,
}

impl Backend {
    /// A role that is not that of the login does not see when its own process began. Such a process is never ended from here.
    pub(super) async fn of(client: &Client) -> Result<Self, OutboxError> {
        let sql = "SELECT pid, coalesce(extract(epoch FROM backend_start)::text, '') FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        let row = client.query_one(sql, &[]).await?;
        Ok(Self { process: row.try_get(0)?, began: row.try_get(1)? })
    }
}

/// A relay that waits for the lock.
pub(super) struct WaitingForLock {
    /// The connection that this relay had before, if it may still have the lock.
    before: Option<Backend>,
    next_look: Instant,
    /// A relay that has the lock asks the database more often than that.
    idle: Duration,
}

impl WaitingForLock {
    pub(super) fn new(before: Option<Backend>, idle: Duration) -> Self {
        Self { before, next_look: Instant::now() + LOOK, idle }
    }

    /// The lock is not free. Ends the connection that has it if this relay had that one before, and logs one that does nothing
    /// while messages wait.
    pub(super) async fn refused(
        &mut self,
        connection: &Connection,
        outbox: &Outbox,
        limit: Duration,
    ) -> Result<(), OutboxError> {
        if self.before.is_none() && Instant::now() < self.next_look {
            return Ok(());
        }
        self.next_look = Instant::now() + LOOK;
        let before = self.before.take();
        let (process, began) = before.as_ref().map_or((0, ""), |one| (one.process, one.began.as_str()));
        let sql = format!(
            "WITH lock AS (SELECT {KEY} AS key), holder AS (\
               SELECT pid, extract(epoch FROM backend_start)::text AS began, \
                 extract(epoch FROM clock_timestamp() - state_change)::float8 > $4 AS is_idle \
               FROM lock, pg_locks JOIN pg_stat_activity USING (pid) \
               WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid = (key >> 32 & 4294967295)::oid \
               AND objid = (key & 4294967295)::oid \
               AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())) \
             SELECT pid, CASE WHEN pid = $2 AND began = $3 THEN pg_terminate_backend(pid) ELSE false END, \
               coalesce(is_idle, false) AND EXISTS (SELECT FROM {} WHERE refused IS NULL) FROM holder",
            outbox.table.quoted()
        );
        let (table, idle) = (outbox.table.quoted(), self.idle.as_secs_f64());
        let asked = async {
            let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] =
                [(&table, Type::TEXT), (&process, Type::INT4), (&began, Type::TEXT), (&idle, Type::FLOAT8)];
            Ok(connection.client.query_typed(&sql, &parameters).await?)
        };
        let Some(row) = within(limit, asked).await?.into_iter().next() else { return Ok(()) };
        let (holder, is_own, is_idle): (i32, bool, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if is_own {
            // Until it has ended.
            self.before = before;
        } else if is_idle {
            log::locked(holder, self.idle);
        }
        Ok(())
    }
}
