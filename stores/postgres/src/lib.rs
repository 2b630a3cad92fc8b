//! The ids of handled messages in PostgreSQL: a [`DedupStore`](consign::middleware::dedup::DedupStore) that processes on
//! many machines share, and that can commit an id in the same transaction as the effect of its handler.
//!
//! ```no_run
//! use std::time::Duration;
//! use consign::{Disposition, Message, middleware::dedup::{DedupLayer, Key}};
//! use consign_dedup_postgres::{Claim, PostgresStore, tokio_postgres::{Client, Config, NoTls}};
//! use tower::{BoxError, ServiceBuilder, service_fn};
//!
//! async fn pay(store: &PostgresStore, client: &mut Client, order: &Message) -> Result<Disposition, BoxError> {
//!     let id = order.original_message_id().ok_or("an order without an id")?;
//!     let transaction = client.transaction().await?;
//!     if store.commit_in(&transaction, Key::new("orders", id.as_bytes())).await? == Claim::New {
//!         transaction.execute("INSERT INTO payments (order_id) VALUES ($1)", &[&id]).await?;
//!         transaction.commit().await?;
//!     }
//!     Ok(Disposition::Complete)
//! }
//!
//! # async fn connect() -> Result<Client, BoxError> { unimplemented!() }
//! # async fn stack() -> Result<(), BoxError> {
//! let config: Config = "postgresql://shop@127.0.0.1/shop".parse()?;
//! // Ids are known for a day after their message was handled.
//! let store = PostgresStore::builder(Duration::from_secs(24 * 3_600)).create_table().connect(config, NoTls).await?;
//! let stack = ServiceBuilder::new().layer(DedupLayer::new(store.clone(), "orders")).service(service_fn(
//!     move |order: Message| {
//!         let store = store.clone();
//!         async move { pay(&store, &mut connect().await?, &order).await }
//!     },
//! ));
//! # let _ = stack;
//! # Ok(())
//! # }
//! ```
//!
//! The example `transaction` of this crate does that with a pool of connections, duplicates and a failure.
//!
//! # Two commits
//!
//! | | effects of a message |
//! |---|---|
//! | the layer commits, after the handler | one if no process dies and no connection breaks between the effect and the commit, and no run outlasts its lease; otherwise there may be another |
//! | the handler commits, by [`commit_in`](PostgresStore::commit_in) in the transaction of the effect | one in all cases, as long as the id is known |
//!
//! The first commit is that of every store, for effects of every kind. The second is for an effect in this database. It needs
//! nothing else for a single effect: not the lease, not even the layer. The layer in front of it saves a transaction for each
//! duplicate, and lets a duplicate wait while its message is handled elsewhere. After the handler the layer changes nothing:
//! its commit finds the id committed, and so does its forget, when the handler's answer was lost.
//!
//! Of several transactions for one id, the first one that commits counts. So it does not matter whether a handler has outlasted
//! its lease and another one has begun: the second gets [`Claim::Duplicate`], after it has waited for the first. Call
//! `commit_in` before the effect. Then the id is in progress from there until the end of the transaction, whatever the lease
//! says, and no other handler begins.
//!
//! The application has three duties. A failed statement must fail the handler: PostgreSQL rolls back a transaction with a
//! failed statement at its commit, and the client reports that as success. A `Duplicate` must roll back what the transaction
//! did before. And a transaction that a vanished machine has left open stays open until the database closes that connection
//! (`tcp_keepalives_idle`, `idle_in_transaction_session_timeout`); its message waits.
//!
//! # Contents of the table
//!
//! A row for each id that is reserved or committed: a keyed digest of 128 bits, the holder of the reservation, and its end. The
//! secret of the digests is drawn with the table and is in a second table. There is no id and no body. [`Table::sql`] shows
//! both tables.
//!
//! Leases and windows use the database's clock, to the microsecond. Only the disk limits the number of known ids, and none is
//! forgotten early. One in 16 reservations forgets at most 64 expired ids, the oldest first.
//! # Failure
//!
//! A failure is a [`StoreError`](consign::middleware::dedup::StoreError) whose source is tokio-postgres's error, [`NoAnswer`],
//! or that of the pool. A statement whose connection was lost is run once more on another one. So a restart of the database, or
//! a firewall that ends idle connections, causes no failure. Each request has a time limit.
//!
//! A reservation whose answer was lost, or whose call was dropped, is forgotten in the background.
//!
//! # Connections
//!
//! A store has connections of its own, [4](Builder::CONNECTIONS) at most by default, and waits for no lock longer than a
//! second. `commit_in` is a statement in a transaction of your own, and waits as long as yours do. The crate requires
//! PostgreSQL 13 or later, and a tokio runtime with I/O and time.
#![forbid(unsafe_code)]

mod builder;
mod connections;
mod statements;
mod store;
mod table;

pub use tokio_postgres;

pub use crate::{
    builder::Builder,
    connections::NoAnswer,
    store::{Claim, PostgresStore, PostgresToken},
    table::{InvalidTable, Table},
};
