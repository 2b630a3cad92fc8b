//! A handler whose effect is a row.

use std::{
    future::{Future, pending, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use consign::{Disposition, Message, middleware::dedup::DedupKey};
use consign_store_postgres::{
    Claim, PostgresStore,
    tokio_postgres::{Client, NoTls},
};
use deadpool_postgres::{Manager, Pool};
use tokio::time::sleep;
use tower::BoxError;

use super::{
    DELIVERY, LEASE,
    fault::{Delivery, Fault, Point},
};
use crate::support::{self, Bench};

pub(super) struct Handler {
    store: PostgresStore,
    /// Those of the transactions.
    connections: Pool,
    /// Ends other connections.
    admin: Client,
    add_effect: String,
    end_store: String,
    duplicates: AtomicU64,
}

impl Handler {
    pub(super) async fn new(bench: &Bench, connections: usize) -> Self {
        let pool = Pool::builder(Manager::new(support::config(), NoTls)).max_size(connections).build().unwrap();
        Self {
            store: PostgresStore::clone(bench.store()),
            connections: pool,
            admin: support::client().await,
            add_effect: bench.add_effect(),
            end_store: format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{}'",
                bench.name
            ),
            duplicates: AtomicU64::new(0),
        }
    }

    /// How many messages were found to be duplicates by their transaction.
    pub(super) fn duplicates(&self) -> u64 {
        self.duplicates.load(Ordering::Relaxed)
    }

    pub(super) async fn handle(self: Arc<Self>, message: Message) -> Result<Disposition, BoxError> {
        let delivery = DELIVERY.get();
        let id = message.message_id().unwrap();
        let mut client = self.connections.get().await?;
        let transaction = client.transaction().await?;
        let pid: i32 = match delivery.fault() {
            Some(Fault::EndConnection(_)) => transaction.query_one("SELECT pg_backend_pid()", &[]).await?.get(0),
            _ => 0,
        };
        let at = async |point| self.at(&delivery, point, pid).await;

        at(Point::Begun).await?;
        if self.store.commit_in(&transaction, DedupKey::new(super::SCOPE, id.as_bytes())).await? == Claim::Duplicate {
            self.duplicates.fetch_add(1, Ordering::Relaxed);
            return Ok(Disposition::Complete);
        }
        at(Point::Claimed).await?;
        transaction.execute(&self.add_effect, &[&id]).await?;
        at(Point::Done).await?;
        {
            let mut commit = pin!(transaction.commit());
            // It is sent at the first poll.
            if let Poll::Ready(committed) = poll_fn(|cx| Poll::Ready(commit.as_mut().poll(cx))).await {
                committed?;
            } else {
                at(Point::Committing).await?;
                commit.await?;
            }
        }
        at(Point::Committed).await?;
        Ok(Disposition::Complete)
    }

    async fn at(&self, delivery: &Delivery, point: Point, pid: i32) -> Result<(), BoxError> {
        if delivery.comes(Fault::Drop(point)) {
            give_up(delivery).await;
        }
        if delivery.comes(Fault::Die(point)) {
            delivery.die();
            give_up(delivery).await;
        }
        if delivery.comes(Fault::EndConnection(point)) {
            self.admin.execute("SELECT pg_terminate_backend($1)", &[&pid]).await?;
        }
        if delivery.comes(Fault::EndStore(point)) {
            self.admin.batch_execute(&self.end_store).await?;
        }
        if delivery.comes(Fault::Outlast(point)) {
            sleep(LEASE + Duration::from_millis(20)).await;
        }
        if delivery.comes(Fault::Fail(point)) { Err("on purpose".into()) } else { Ok(()) }
    }
}

async fn give_up(delivery: &Delivery) {
    delivery.give_up.notify_one();
    pending::<()>().await;
}
