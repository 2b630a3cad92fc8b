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
//! The example `transaction` of this crate is that with a pool of connections, duplicates and a failure.
//!
//! # Two ways
//!
//! | | effects of a message |
//! |---|---|
//! | the layer commits, after the handler | one as long as no process dies and no connection breaks between the effect and the commit, and no run outlasts its lease; else it may have another |
//! | the handler commits, by [`commit_in`](PostgresStore::commit_in) in the transaction of the effect | one, whatever breaks, as long as the id is known |
//!
//! The first way is that of every store, for effects of every kind. The second way is for an effect that is in this
//! database. Nothing else is needed for it to happen once: not the lease, not even the layer. The layer in front of it saves
//! a transaction for each duplicate, and lets a duplicate wait while its message is handled elsewhere. What it does after
//! the handler changes nothing: its commit finds the id committed, and so does its forget, when the handler's answer was
//! lost.
//!
//! Of several transactions for one id, the first one that ends well counts. So it does not matter whether a handler has
//! outlasted its lease and another one has begun: the second to come is told [`Claim::Duplicate`], after it has waited for
//! the first. When `commit_in` comes before the effect, as it should, the id is in progress from there until the end of the
//! transaction, whatever the lease says, and no other handler begins.
//!
//! Three things are left to you. A failure of a statement is a failure of the handler: PostgreSQL answers the commit of a
//! transaction in which one has failed by rolling it back, and the client reports that as success. A `Duplicate` rolls back
//! what the transaction did before. And a transaction that is left open by a machine that vanished is open until the
//! database gives that connection up (`tcp_keepalives_idle`, `idle_in_transaction_session_timeout`); its message waits.
//!
//! # What is in the table
//!
//! A row for each id that is reserved or committed: a keyed digest of 128 bits, whose secret is drawn with the table and
//! stands in a second one, who has it reserved, and until when. No id and no body. [`Table::sql`] shows both tables.
//!
//! Leases and windows are of the database's clock, to the microsecond. There is no limit to how many ids are known but the
//! disk, and none is forgotten early. One in 16 reservations forgets 64 ids at most whose time is over, the oldest first.
//!
//! # Failure
//!
//! What fails is a [`StoreError`](consign::middleware::dedup::StoreError) whose source is tokio-postgres's error,
//! [`NoAnswer`], or that of the pool. A statement whose connection was lost is asked once more on another one, so that a
//! restart of the database, or a firewall that ends idle connections, costs nothing. Each request has a time limit.
//!
//! A reservation whose answer was lost, or whose call was dropped, is forgotten in the background.
//!
//! # Connections
//!
//! A store has connections of its own, [4](Builder::CONNECTIONS) at most unless set, and waits for no lock longer than a
//! second. `commit_in` is a statement in a transaction of yours, and waits as long as yours do. It wants PostgreSQL 13 or
//! later, and a tokio runtime with I/O and time.
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
