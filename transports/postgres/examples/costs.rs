//! What a message costs the server, and how a receive slows down beside a long transaction: `cargo run --release -p
//! consign-postgres --example costs`, on a server without other load.

use std::{collections::BTreeMap, env, error::Error, time::Duration};

use consign::{
    Message,
    administration::QueueSettings,
    time::{Clock, SystemClock},
    transport::{Batch, Delivery, ReceiverExt, Sender, Transport},
};
use consign_postgres::{
    Postgres, PostgresReceiver, PostgresSender,
    deadpool_postgres::Object,
    tokio_postgres::{self, NoTls},
};

const WINDOW: usize = 64;
/// Messages of each measurement.
const MESSAGES: usize = 25_000;
/// Receives whose median is taken.
const ROUNDS: usize = 50;

type Failed = Box<dyn Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let url = env::var("CONSIGN_POSTGRES");
    let url = url.as_deref().unwrap_or("postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test");
    let schema = format!("consign_costs_{}", std::process::id());
    let postgres = Postgres::options().schema(&schema).connect(url).await?;
    postgres.migrate().await?;
    let client = postgres.pool().get().await?;
    // Dead rows are counted, and not removed.
    for table in ["messages", "plain", "numbers", "batches", "locks"] {
        let off = format!("ALTER TABLE IF EXISTS {schema}.{table} SET (autovacuum_enabled = off)");
        client.batch_execute(&off).await?;
    }
    let (sender, mut receiver) = queue(&postgres, "costs").await?;
    cycles(&sender, &mut receiver, ROUNDS).await?;

    let (wal, dead) = (wal(&client).await?, dead(&client, &schema).await?);
    cycles(&sender, &mut receiver, MESSAGES / WINDOW).await?;
    let messages = f64::from(u32::try_from(MESSAGES / WINDOW * WINDOW)?);
    let bytes = f64::from(u32::try_from(self::wal(&client).await? - wal)?) / messages;
    println!("{bytes:.0} bytes of WAL for each message of 1 KiB, sent and completed in windows of {WINDOW}");
    for (table, after) in self::dead(&client, &schema).await? {
        let before = dead.get(&table).copied().unwrap_or_default();
        println!("{:.3} dead rows of {table} for each message", f64::from(u32::try_from(after - before)?) / messages);
    }

    client.batch_execute(&format!("VACUUM {schema}.plain, {schema}.numbers")).await?;
    let (sender, mut receiver) = queue(&postgres, "long").await?;
    let (long, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let before = cycles(&sender, &mut receiver, ROUNDS).await?;
    long.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await?;
    cycles(&sender, &mut receiver, MESSAGES / WINDOW).await?;
    let after = cycles(&sender, &mut receiver, ROUNDS).await?;
    long.batch_execute("COMMIT").await?;
    println!(
        "{:.3} ms for a receive of {WINDOW}, and {:.3} ms after {MESSAGES} messages beside a transaction",
        before.as_secs_f64() * 1e3,
        after.as_secs_f64() * 1e3
    );
    drop(client);
    Transport::close(&postgres).await?;
    long.batch_execute(&format!("SET lock_timeout = '30s'; DROP SCHEMA {schema} CASCADE")).await?;
    Ok(())
}

async fn queue(postgres: &Postgres, path: &str) -> Result<(PostgresSender, PostgresReceiver), Failed> {
    postgres.create_queue(path, QueueSettings::default()).await?;
    Ok((postgres.sender(path).await?, postgres.receiver(path).await?))
}

/// Sends, receives and completes windows. Returns the median of the receives.
async fn cycles(sender: &PostgresSender, receiver: &mut PostgresReceiver, count: usize) -> Result<Duration, Failed> {
    let clock = SystemClock::new();
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        sender.send_batch((0..WINDOW).map(|_| Message::new(vec![0xA5; 1_024])).collect::<Batch>()).await?;
        let (began, mut received) = (clock.now().elapsed, Vec::new());
        while received.len() < WINDOW {
            received.extend(receiver.receive_batch(WINDOW - received.len()).await?);
        }
        times.push(clock.now().elapsed.saturating_sub(began));
        Delivery::complete_all(received).await?;
    }
    times.sort_unstable();
    Ok(times[count / 2])
}

async fn wal(client: &Object) -> Result<i64, Failed> {
    let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";
    Ok(client.query_one(sql, &[]).await?.try_get(0)?)
}

/// Rows that were updated and deleted, by table.
async fn dead(client: &Object, schema: &str) -> Result<BTreeMap<String, i64>, Failed> {
    // Each backend reports its counts once a second at most.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let sql =
        "SELECT relname::text, n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE schemaname = $1 AND n_tup_ins > 0";
    let rows = client.query(sql, &[&schema]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
