//! The ids of handled messages in PostgreSQL: a [`DedupStore`](consign::middleware::dedup::DedupStore) that processes on
//! many machines share, and that can commit an id in the same transaction as the effect of its handler.
//!
//! ```no_run
//! use std::time::Duration;
//! use consign::{Disposition, Message, middleware::dedup::{DedupLayer, DedupKey}};
//! use consign_store_postgres::{Claim, PostgresStore, tokio_postgres::{Client, Config, NoTls}};
//! use tower::{BoxError, ServiceBuilder, service_fn};
//!
//! async fn pay(store: &PostgresStore, client: &mut Client, order: &Message) -> Result<Disposition, BoxError> {
//!     let id = order.original_message_id().ok_or("an order without an id")?;
//!     let transaction = client.transaction().await?;
//!     if store.commit_in(&transaction, DedupKey::new("orders", id.as_bytes())).await? == Claim::New {
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
//! | the layer commits, after the handler | once, if no process dies and no connection breaks between the effect and the commit, and no run of the handler outlasts its lease; otherwise perhaps more than once |
//! | the handler commits, by [`commit_in`](PostgresStore::commit_in) in the transaction of the effect | once in all cases, as long as the store has the id |
//!
//! The commit of the layer works with every store and for effects of every kind. The commit of the handler is for effects in
//! the same database. For a single effect it is sufficient alone, without a lease and without the layer. The layer saves a
//! transaction for each duplicate, and lets a duplicate wait while the same message is handled elsewhere. When the handler
//! has committed the id, the layer does not change it any more. It cannot forget the id either, if the handler fails because
//! the answer to its commit was lost.
//!
//! Of several transactions for one id, the first one that commits counts. So it does not matter whether a handler has
//! outlasted its lease and another one has begun: the second gets [`Claim::Duplicate`], after it has waited for the first.
//! Call `commit_in` before the effect. Then no other handler can begin an effect for this id until the end of the
//! transaction, even if the lease has ended.
//!
//! The application has three duties. If a statement fails, return an error from the handler: PostgreSQL rolls the transaction
//! back at its commit, and the client reports that as success. If `commit_in` returns `Duplicate`, roll back what the
//! transaction did before. Set `tcp_keepalives_idle` or `idle_in_transaction_session_timeout` in the database: a transaction
//! of a machine that has failed stays open until the database closes its connection, and its message waits that long.
//!
//! # Contents of the table
//!
//! The table has a row for each id that is reserved or committed: a keyed digest of the id with 128 bits, the holder of the
//! reservation, and its end. The secret key of the digests is generated when the table is created, and is in a second table.
//! Neither table has an id or a body in plain text. [`Table::sql`] shows both tables.
//!
//! Leases and windows use the database's clock, to the microsecond. Only the disk limits the number of ids, and no id is
//! forgotten before its window ends. One in 16 reservations, and one in 16 calls of `commit_in`, deletes at most 64 expired ids,
//! the oldest first. `commit_in` does it in the background, outside of your transaction.
//!
//! # Failure
//!
//! A failure is a [`StoreError`](consign::middleware::dedup::StoreError) whose source is tokio-postgres's error, [`NoAnswer`],
//! or that of the pool. A statement whose connection was lost is run once more on another one. A connection that was idle for a
//! second is checked first, by an empty statement, and replaced if it does not answer within a fifth of
//! [`timeout`](Builder::timeout). A connection that cannot be opened is tried again, after pauses of 50 to 500 ms, until
//! `timeout` is over. So a restart of the database that takes less than that, or a firewall that ends idle connections, with or
//! without a word, causes no failure. Each request has a time limit, and its statement is cancelled at
//! the server. A connection that becomes silent during a statement is a failure of that request.
//!
//! A reservation whose answer was lost, or whose call was dropped, is forgotten in the background.
//!
//! # Connections
//!
//! Several hosts are tried in their order, and so are the addresses of a name. One that does not accept the connection and answer
//! on it is left for the next one. That takes `connect_timeout`, or otherwise an equal part of what is left of
//! [`timeout`](Builder::timeout).
//!
//! A store has connections of its own, [4](Builder::CONNECTIONS) at most by default, and waits for no lock longer than a
//! second. They have settings and prepared statements of their own, so connect a store to the server itself. A pooler that
//! lends connections for one transaction, such as `pgbouncer` with `pool_mode = transaction`, breaks them; `commit_in` works through
//! such a pooler. `commit_in` is a statement in a transaction of your own, and waits as long as yours do. The crate requires
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
