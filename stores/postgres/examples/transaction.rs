//! An effect that happens once: `cargo run -p consign-store-postgres --example transaction`, with what `scripts/brokers` has
//! at hand.
//!
//! Three orders are paid, each in the transaction that commits its id. One is sent twice, and of one the process does not
//! learn that it was paid.

use std::{env, error::Error, time::Duration};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::Broker,
    consumer::Consumer,
    middleware::dedup::{DedupKey, DedupLayer},
    transport::Sender,
};
use consign_store_postgres::{
    Claim, PostgresStore, Table,
    tokio_postgres::{Config, NoTls},
};
use deadpool_postgres::{Manager, Pool};
use tokio::time::sleep;
use tower::{BoxError, ServiceBuilder, service_fn};

const ORDERS: &str = "orders";

#[derive(Clone)]
struct Payments {
    store: PostgresStore,
    connections: Pool,
}

impl Payments {
    async fn pay(self, order: Message) -> Result<Disposition, BoxError> {
        let id = order.original_message_id().ok_or("an order without an id")?;
        let mut client = self.connections.get().await?;
        let transaction = client.transaction().await?;
        if self.store.commit_in(&transaction, DedupKey::new(ORDERS, id.as_bytes())).await? == Claim::Duplicate {
            // What is left of the transaction is rolled back.
            return Ok(Disposition::Complete);
        }
        transaction.execute("INSERT INTO consign_example.payments VALUES ($1)", &[&id]).await?;
        transaction.commit().await?;
        println!("{id} is paid");

        let deliveries = order.received().map_or(0, |received| received.delivery_count);
        if id == "order-3" && deliveries == 1 {
            return Err("as if the answer to the commit were lost".into());
        }
        Ok(Disposition::Complete)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = env::var("CONSIGN_POSTGRES");
    let address = address.as_deref().unwrap_or("postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test");
    let config: Config = address.parse()?;
    let connections = Pool::builder(Manager::new(config.clone(), NoTls)).max_size(4).build()?;
    let fresh = "
        DROP SCHEMA IF EXISTS consign_example CASCADE;
        CREATE SCHEMA consign_example;
        CREATE TABLE consign_example.payments (order_id text NOT NULL)";
    connections.get().await?.batch_execute(fresh).await?;

    // Ids are known for a day after their message was handled.
    let store = PostgresStore::builder(Duration::from_secs(24 * 3_600)).table(Table::new("consign_example.handled")?);
    let store = store.create_table().connect(config, NoTls).await?;
    let dedup = DedupLayer::new(store.clone(), ORDERS);
    let stats = dedup.stats();

    let queue = Broker::new().create_queue(ORDERS, QueueSettings::default())?;
    for id in ["order-1", "order-2", "order-2", "order-3"] {
        queue.sender()?.send(Message::builder().message_id(id).build("an order")?).await?;
    }
    let payments = Payments { store, connections: connections.clone() };
    let stack = ServiceBuilder::new().layer(dedup).service(service_fn(move |order| payments.clone().pay(order)));
    let all_are_settled = async {
        while queue.counts().active + queue.counts().locked > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    Consumer::new(queue.receiver(), stack).run_until(all_are_settled).await?;

    let client = connections.get().await?;
    let payments: i64 = client.query_one("SELECT count(*) FROM consign_example.payments", &[]).await?.get(0);
    println!("{payments} payments for 4 messages; {} duplicates", stats.duplicates());
    assert_eq!((payments, stats.duplicates()), (3, 2));
    client.batch_execute("DROP SCHEMA consign_example CASCADE").await?;
    Ok(())
}

#[test]
fn the_example_runs() -> Result<(), Box<dyn Error>> {
    main()
}
