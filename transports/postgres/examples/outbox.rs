//! Messages that are sent if, and only if, the application's own rows are written: `cargo run -p consign-postgres --example
//! outbox`, with what `scripts/brokers` has at hand.
//!
//! An order is placed in one transaction: its row and its event. Another that fails leaves neither. Then a handler bills it,
//! again in one transaction: the bill, the settlement of the event, and what it sends on. It fails once after it has written
//! the bill, and there is one bill.

use std::{env, error::Error};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    transport::{Delivery, ReceiverExt},
};
use consign_postgres::{Postgres, PostgresLease, PostgresSender, tokio_postgres::Client};

const TABLES: &str = "
    DROP SCHEMA IF EXISTS consign_example_shop CASCADE;
    CREATE SCHEMA consign_example_shop;
    CREATE TABLE consign_example_shop.orders (id text PRIMARY KEY);
    CREATE TABLE consign_example_shop.bills (order_id text NOT NULL)";

async fn place(client: &mut Client, events: &PostgresSender, id: &str) -> Result<(), Box<dyn Error>> {
    let transaction = client.transaction().await?;
    events.send_in(&transaction, [Message::builder().message_id(id.to_owned()).build("placed")?]).await?;
    transaction.execute("INSERT INTO consign_example_shop.orders VALUES ($1)", &[&id]).await?;
    Ok(transaction.commit().await?)
}

async fn bill(
    client: &mut Client,
    bills: &PostgresSender,
    event: Delivery<PostgresLease>,
) -> Result<(), Box<dyn Error>> {
    let Delivery { message, lease } = event;
    let id = message.message_id().unwrap_or_default();
    let transaction = client.transaction().await?;
    transaction.execute("INSERT INTO consign_example_shop.bills VALUES ($1)", &[&id]).await?;
    if message.received().is_some_and(|received| received.delivery_count == 1) {
        // The transaction and the lease are dropped: no bill, and the message comes again.
        return Err("as if the process failed here".into());
    }
    bills.send_in(&transaction, [Message::builder().subject(format!("bill of {id}")).build("billed")?]).await?;
    lease.settle_in(&transaction, Disposition::Complete).await?;
    Ok(transaction.commit().await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("CONSIGN_POSTGRES");
    let url = url.as_deref().unwrap_or("postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test");
    let postgres = Postgres::options().schema("consign_example_outbox").connect(url).await?;
    let mut client = postgres.pool().get().await?;
    client.batch_execute("DROP SCHEMA IF EXISTS consign_example_outbox CASCADE").await?;
    client.batch_execute(TABLES).await?;
    postgres.migrate().await?;
    for queue in ["orders", "bills"] {
        postgres.create_queue(queue, QueueSettings::default()).await?;
    }

    let events = postgres.sender("orders").await?;
    place(&mut client, &events, "order-1").await?;
    let again = place(&mut client, &events, "order-1").await;
    println!("an order that exists is refused, and with it its event: {}", again.is_err());

    let (bills, mut orders) = (postgres.sender("bills").await?, postgres.receiver("orders").await?);
    for attempt in 1..=2 {
        let billed = bill(&mut client, &bills, orders.receive().await?).await;
        println!("attempt {attempt}: billed: {}", billed.is_ok());
    }
    let rows: i64 = client.query_one("SELECT count(*) FROM consign_example_shop.bills", &[]).await?.get(0);
    let (orders, bills) = (postgres.counts("orders").await?, postgres.counts("bills").await?);
    println!("{rows} bill, {} events left, {} sent on", orders.active + orders.locked, bills.active);
    assert_eq!((rows, orders.active + orders.locked, bills.active), (1, 0, 1));

    client
        .batch_execute("DROP SCHEMA consign_example_outbox CASCADE; DROP SCHEMA consign_example_shop CASCADE")
        .await?;
    Ok(())
}
