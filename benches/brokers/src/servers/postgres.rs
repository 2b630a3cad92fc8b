use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, Statement};

use super::variable;
use crate::{
    contestant::{Contestant, Entered, Error, Place, Step, Unexpected, body, body_of},
    exchange::{Left, exchange},
    processes::port_of,
};

/// Where `scripts/brokers` has it.
pub(crate) const ADDRESS: &str = "postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test";

/// A table of PostgreSQL as a queue.
struct Postgres {
    link: Link,
    /// One for each sender and each receiver that work at the same time.
    links: Vec<Link>,
    table: String,
    body: Vec<u8>,
}

/// How long a receiver waits that found nothing.
const IDLE: Duration = Duration::from_millis(1);

/// A connection with the statements of a table.
struct Link {
    client: Client,
    connection: JoinHandle<()>,
    insert: Statement,
    receive: Statement,
    delete: Statement,
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
    let (client, connection) = connect().await?;
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
    let link = Link::new(client, connection, &table, holds_transaction).await?;
    let contestant = Postgres { link, links: Vec::new(), table, body: body() };
    Ok(Entered { contestant: Box::new(contestant), settings: format!("PostgreSQL, {}", settings.join(", ")) })
}

async fn connect() -> Result<(Client, JoinHandle<()>), Error> {
    let (client, connection) = tokio_postgres::connect(&variable("CONSIGN_POSTGRES", ADDRESS), NoTls).await?;
    let connection = tokio::spawn(async move {
        // The next query returns the error.
        let _ = connection.await;
    });
    Ok((client, connection))
}

impl Link {
    async fn new(
        client: Client,
        connection: JoinHandle<()>,
        table: &str,
        holds_transaction: bool,
    ) -> Result<Self, Error> {
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
        Ok(Self { client, connection, insert, receive, delete, holds_transaction })
    }

    async fn send(&self, bodies: &[&[u8]]) -> Result<(), Error> {
        self.client.execute(&self.insert, &[&bodies]).await?;
        Ok(())
    }

    /// Receives and removes up to `max` messages, and returns how many there were.
    async fn take(&self, max: usize) -> Result<usize, Error> {
        if self.holds_transaction {
            self.client.batch_execute("BEGIN").await?;
        }
        let rows = self.client.query(&self.receive, &[&i64::try_from(max)?]).await?;
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        if !ids.is_empty() {
            self.client.execute(&self.delete, &[&ids]).await?;
        }
        if self.holds_transaction {
            self.client.batch_execute("COMMIT").await?;
        }
        Ok(ids.len())
    }
}

impl Contestant for Postgres {
    fn resize(&mut self, size: usize) {
        self.body = body_of(size);
    }

    fn port(&self) -> Option<u16> {
        port_of(&variable("CONSIGN_POSTGRES", ADDRESS))
    }

    /// Each sender and each receiver has a connection, and does one message after the other.
    fn exchange(&mut self, tasks: usize, messages: usize) -> Step<'_> {
        Box::pin(async move {
            while self.links.len() < 2 * tasks {
                let (client, connection) = connect().await?;
                self.links.push(Link::new(client, connection, &self.table, self.link.holds_transaction).await?);
            }
            let (senders, receivers) = self.links.split_at(tasks);
            let (body, left) = (&*self.body, Left::new(messages));
            let sending = senders.iter().take(tasks).enumerate().map(|(nth, link)| async move {
                for _ in (nth..messages).step_by(tasks) {
                    link.send(&[body]).await?;
                }
                Ok::<_, Error>(())
            });
            let receiving = receivers.iter().take(tasks).map(|link| async {
                loop {
                    if link.take(1).await? == 0 {
                        tokio::time::sleep(IDLE).await;
                    } else {
                        left.take();
                    }
                }
            });
            exchange(sending, receiving, &left).await?;
            for link in receivers.iter().filter(|link| link.holds_transaction) {
                // The last query of each was given up.
                link.client.batch_execute("ROLLBACK").await?;
            }
            Ok(())
        })
    }

    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move { self.link.send(&vec![&*self.body; window]).await })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            if self.link.take(window).await? != window {
                return Err(Unexpected("a message is missing").into());
            }
            Ok(())
        })
    }

    fn end(self: Box<Self>) -> Step<'static> {
        Box::pin(async move {
            self.link.client.batch_execute(&format!("DROP TABLE {}", self.table)).await?;
            for link in self.links.iter().chain([&self.link]) {
                link.connection.abort();
            }
            Ok(())
        })
    }
}
