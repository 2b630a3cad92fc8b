//! A queue over a pool that an application has: `cargo run -p consign-postgres --example wrap_pool`, with what `scripts/brokers`
//! has at hand.

use std::{env, error::Error};

use consign::{
    Message,
    administration::QueueSettings,
    transport::{ReceiverExt, Sender},
};
use consign_postgres::{
    Postgres,
    deadpool_postgres::{Manager, Pool},
    tokio_postgres::NoTls,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("CONSIGN_POSTGRES");
    let url = url.as_deref().unwrap_or("postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test");
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).build()?;

    let postgres = Postgres::options().schema("consign_example_wrap_pool").wrap(pool.clone())?;
    postgres.migrate().await?;
    postgres.create_queue("orders", QueueSettings::default()).await?;
    postgres.sender("orders").await?.send(Message::new("one order")).await?;
    let delivery = postgres.receiver("orders").await?.receive().await?;
    println!("{}", String::from_utf8_lossy(delivery.message.payload().unwrap_or_default()));
    delivery.complete().await?;

    pool.get().await?.batch_execute("DROP SCHEMA consign_example_wrap_pool CASCADE").await?;
    Ok(())
}
