use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, Statement};

use super::variable;
use crate::{
    contestant::{Contestant, Entered, Error, Place, Step, Unexpected, body, body_of},
    processes::port_of,
};

/// Where `scripts/brokers` has it.
pub(crate) const ADDRESS: &str = "postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test";

/// A table of PostgreSQL as a queue.
struct Postgres {
    client: Client,
    connection: JoinHandle<()>,
    table: String,
    insert: Statement,
    receive: Statement,
    delete: Statement,
    body: Vec<u8>,
    /// Whether a message is locked by its row, in the transaction that handles it; else by a time in the row.
    holds_transaction: bool,
}

/// A loop by hand: rows are locked while they are handled, and deleted in the same transaction.
pub(crate) fn enter_skip_locked(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(entered(place, true))
}

/// What a lock by time takes, as pgmq has it: the row is written when it is received, and deleted later.
pub(crate) fn enter_timed(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(entered(place, false))
}

async fn entered(place: Place<'_>, holds_transaction: bool) -> Result<Entered, Error> {
    let address = variable("CONSIGN_POSTGRES", ADDRESS);
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
    let connection = tokio::spawn(async move {
        // The next query returns the error.
        let _ = connection.await;
    });
    let mut settings = Vec::new();
    for name in ["server_version", "fsync", "synchronous_commit"] {
        let row = client.query_one(&format!("SHOW {name}"), &[]).await?;
        settings.push(format!("{name} {}", row.get::<_, &str>(0)));
    }
    let table = place.name.to_owned();
    let create = format!(
        "CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
             enqueued timestamptz NOT NULL DEFAULT now(), visible timestamptz NOT NULL DEFAULT now(),
             deliveries integer NOT NULL DEFAULT 0, body bytea NOT NULL)"
    );
    client.batch_execute(&create).await?;
    if !holds_transaction {
        client.batch_execute(&format!("CREATE INDEX ON {table} (visible)")).await?;
    }
    let insert = client.prepare(&format!("INSERT INTO {table} (body) SELECT unnest($1::bytea[])")).await?;
    let receive = if holds_transaction {
        format!("SELECT id, body FROM {table} ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED")
    } else {
        format!(
            "UPDATE {table} SET visible = clock_timestamp() + interval '5 min', deliveries = deliveries + 1
             WHERE id = ANY (ARRAY(SELECT id FROM {table} WHERE visible <= clock_timestamp()
                                   ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
             RETURNING id, body"
        )
    };
    let receive = client.prepare(&receive).await?;
    let delete = client.prepare(&format!("DELETE FROM {table} WHERE id = ANY ($1)")).await?;
    let contestant = Postgres { client, connection, table, insert, receive, delete, body: body(), holds_transaction };
    Ok(Entered { contestant: Box::new(contestant), settings: format!("PostgreSQL, {}", settings.join(", ")) })
}

impl Contestant for Postgres {
    fn resize(&mut self, size: usize) {
        self.body = body_of(size);
    }

    fn port(&self) -> Option<u16> {
        port_of(&variable("CONSIGN_POSTGRES", ADDRESS))
    }

    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let bodies = vec![&*self.body; window];
            self.client.execute(&self.insert, &[&bodies]).await?;
            Ok(())
        })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            if self.holds_transaction {
                self.client.batch_execute("BEGIN").await?;
            }
            let rows = self.client.query(&self.receive, &[&i64::try_from(window)?]).await?;
            if rows.len() != window {
                return Err(Unexpected("a message is missing").into());
            }
            let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
            self.client.execute(&self.delete, &[&ids]).await?;
            if self.holds_transaction {
                self.client.batch_execute("COMMIT").await?;
            }
            Ok(())
        })
    }

    fn end(self: Box<Self>) -> Step<'static> {
        Box::pin(async move {
            self.client.batch_execute(&format!("DROP TABLE {}", self.table)).await?;
            self.connection.abort();
            Ok(())
        })
    }
}
