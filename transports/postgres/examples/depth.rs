//! How long a receive and a completion take while so many messages wait: `cargo run --release -p consign-postgres --example
//! depth -- 1000 1000000`, with what `scripts/brokers` has at hand.

use std::{env, error::Error, time::Duration};

use consign::{
    Message,
    administration::QueueSettings,
    time::{Clock, SystemClock},
    transport::{Batch, ReceiverExt, Sender},
};
use consign_postgres::Postgres;

const ROUNDS: usize = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("CONSIGN_POSTGRES");
    let url = url.as_deref().unwrap_or("postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test");
    let depths: Vec<u64> = env::args().skip(1).map(|depth| depth.parse()).collect::<Result<_, _>>()?;
    let depths = if depths.is_empty() { vec![1_000, 100_000] } else { depths };
    let schema = format!("consign_depth_{}", std::process::id());
    let postgres = Postgres::options().schema(&schema).timeout(Duration::from_secs(600)).connect(url).await?;
    postgres.migrate().await?;
    for depth in depths {
        let measured = measure(&postgres, &schema, depth).await?;
        println!("{depth} waiting: {:.3} ms for a send, a receive and a completion", measured.as_secs_f64() * 1e3);
    }
    let client = postgres.pool().get().await?;
    client.batch_execute(&format!("SET lock_timeout = 0; DROP SCHEMA {schema} CASCADE")).await?;
    Ok(())
}

/// The median.
async fn measure(postgres: &Postgres, schema: &str, depth: u64) -> Result<Duration, Box<dyn Error>> {
    let (queue, clock) = (format!("depth-{depth}"), SystemClock::new());
    postgres.create_queue(&queue, QueueSettings::default()).await?;
    let sender = postgres.sender(&queue).await?;
    sender.send_batch(Batch::from([Message::new("0123456789")])).await?;
    // The rest are rows as sends would have made them, of copies of the first.
    let client = postgres.pool().get().await?;
    let fill = format!(
        "SET lock_timeout = 0;
        WITH first AS MATERIALIZED (
            SELECT b.entity, b.due, p.* FROM {schema}.entities AS e
            JOIN {schema}.batches AS b ON b.entity = e.id JOIN {schema}.plain AS p ON p.id = b.id WHERE e.key = '{queue}'
        ), sent AS (
            INSERT INTO {schema}.batches (entity, id, count, size, due)
            SELECT entity, {schema}.next_id(), 1, size, due FROM first, generate_series(2, {depth}) RETURNING id
        )
        INSERT INTO {schema}.plain (id, enqueued, size, properties, body)
        SELECT sent.id, first.enqueued, first.size, first.properties, first.body FROM sent, first"
    );
    client.batch_execute(&fill).await?;
    client.batch_execute(&format!("VACUUM (ANALYZE) {schema}.plain, {schema}.batches")).await?;
    drop(client);
    let mut receiver = postgres.receiver(&queue).await?;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let began = clock.now().elapsed;
        sender.send(Message::new("0123456789")).await?;
        receiver.receive().await?.complete().await?;
        times.push(clock.now().elapsed.saturating_sub(began));
    }
    times.sort_unstable();
    Ok(times[ROUNDS / 2])
}
