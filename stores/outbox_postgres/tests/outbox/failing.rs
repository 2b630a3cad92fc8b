//! Many destinations that fail, and connections that end.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use consign::{
    Message,
    message::EntityPath,
    transport::{Batch, BoxFuture, ErrorKind, SendError, Sender},
};
use consign_outbox_postgres::{Destinations, To};
use tokio::{sync::Notify, time::Instant};

use crate::support::{Bench, Running, message};

/// How many destinations a relay keeps.
const MOST: usize = 1_024;

/// Takes the messages of the destination `healthy` alone.
#[derive(Clone, Default)]
struct Healthy {
    taken: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
struct Entity {
    is_healthy: bool,
    taken: Arc<Mutex<Vec<String>>>,
}

impl Destinations for Healthy {
    type Sender = Entity;

    async fn sender(&self, path: &EntityPath) -> Result<Entity, SendError> {
        Ok(Entity { is_healthy: path.as_str() == "healthy", taken: Arc::clone(&self.taken) })
    }
}

impl Sender for Entity {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let sent = if self.is_healthy {
            self.taken.lock().unwrap().extend(message.message_id().map(str::to_owned));
            Ok(())
        } else {
            Err(SendError::new(ErrorKind::ServiceBusy))
        };
        Box::pin(async { sent })
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        Box::pin(async { Err(SendError::new(ErrorKind::NotSupported)) })
    }
}

/// Rules.
/// The second time, more destinations fail than are kept.
#[tokio::test]
async fn a_healthy_destination_is_sent_to_while_as_many_as_are_kept_fail() {
    for failing in [MOST, MOST + 5] {
        let (mut bench, healthy) = (Bench::new().await, Healthy::default());
        bench.add("failing", [message("a")]).await;
        let sql = format!(
            "INSERT INTO {0} (destination, message_id, message) \
             SELECT 'failing-' || number, message_id, message FROM {0}, generate_series(2, {failing}) number",
            bench.name
        );
        bench.client.batch_execute(&sql).await.unwrap();
        let ids: Vec<_> = (0..150).map(|id| format!("{id:03}")).collect();
        bench.add("healthy", ids.iter().map(message)).await;
        let relay = bench.relay(healthy.clone()).backoff(Duration::from_millis(500), Duration::from_secs(1));
        let running = Running::start(relay);
        bench.until("NOT EXISTS (SELECT FROM {t} WHERE destination = 'healthy')").await;
        assert_eq!(running.stop().await.sent, 150);
        assert_eq!(*healthy.taken.lock().unwrap(), ids);
        let waiting = bench.outbox.waiting(&bench.client).await.unwrap();
        assert_eq!(usize::try_from(waiting).unwrap(), failing);
        bench.end().await;
    }
}

/// Rules: X-47.
/// The pause between two connections is at least half of 100 ms, 200 ms and so on.
#[tokio::test]
async fn a_connection_that_records_nothing_does_not_make_the_pauses_short_again() {
    let mut bench = Bench::new().await;
    bench.add("failing", [message("a")]).await;
    let hour = Duration::from_secs(3_600);
    let running = Running::start(bench.relay(Healthy::default()).backoff(hour, hour));
    bench.until("EXISTS (SELECT FROM {t} WHERE attempts = 1)").await;
    let began = Instant::now();
    let mut ended = 0;
    for _ in 0..6 {
        // Each has read the table, and no row.
        let reader = format!(
            "pg_stat_activity WHERE application_name = '{{t}}' AND pid <> {ended} AND state = 'idle' AND query LIKE 'SELECT id,%'"
        );
        bench.until(&format!("EXISTS (SELECT FROM {reader})")).await;
        let sql = format!("SELECT pid, pg_terminate_backend(pid) FROM {reader}").replace("{t}", &bench.name);
        ended = bench.client.query_one(&sql, &[]).await.unwrap().get(0);
    }
    assert!(began.elapsed() >= Duration::from_millis(50 * 31), "{:?}", began.elapsed());
    running.stop().await;
    bench.end().await;
}

/// Rules: X-49.
/// The server would go on with a read that the relay gives up, and the connection of that read has the lock.
#[tokio::test]
async fn the_server_ends_a_read_that_takes_as_long_as_the_relay_waits() {
    let mut bench = Bench::new().await;
    bench.add("orders", [message("1")]).await;
    // Rows for a connection whose statements end after 10 s.
    let sql = "ALTER TABLE {0} RENAME TO {0}_rows; CREATE VIEW {0} AS SELECT * FROM {0}_rows \
               WHERE current_setting('statement_timeout') = '10s'";
    bench.client.batch_execute(&sql.replace("{0}", &bench.name)).await.unwrap();
    let to = Recovering { has_recovered: Arc::new(AtomicBool::new(true)) };
    let running = Running::start(bench.relay(To::sender(to)));
    bench.until("(SELECT count(*) = 0 FROM {t}_rows)").await;
    running.stop().await;
    let sql = "DROP VIEW {0}; ALTER TABLE {0}_rows RENAME TO {0}";
    bench.client.batch_execute(&sql.replace("{0}", &bench.name)).await.unwrap();
    bench.end().await;
}

/// Takes no message at first.
#[derive(Clone, Default)]
struct Recovering {
    has_recovered: Arc<AtomicBool>,
}

impl Sender for Recovering {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, _: Message) -> Self::Send {
        let has_recovered = self.has_recovered.load(Ordering::SeqCst);
        Box::pin(async move { if has_recovered { Ok(()) } else { Err(SendError::new(ErrorKind::ServiceBusy)) } })
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        Box::pin(async { Err(SendError::new(ErrorKind::NotSupported)) })
    }
}

/// Rules: X-49.
#[tokio::test]
async fn a_destination_that_recovers_is_sent_to_though_the_reads_of_it_alone_fail() {
    let (mut bench, to) = (Bench::new().await, Recovering::default());
    // Two of them, so that the pause of one has ended while rows are left.
    for destination in ["a", "b"] {
        bench.add(destination, (0..150).map(|id| message(format!("{destination}{id}")))).await;
    }
    let name = &bench.name;
    let sql = format!(
        "ALTER TABLE {name} RENAME TO {name}_rows; CREATE SEQUENCE {name}_failed; CREATE VIEW {name} AS SELECT * FROM {name}_rows \
         WHERE current_query() NOT LIKE '%destination = ANY%' OR 1 / (nextval('{name}_failed') * 0) = 1"
    );
    bench.client.batch_execute(&sql).await.unwrap();
    let relay = bench.relay(To::sender(to.clone())).backoff(Duration::from_millis(1), Duration::from_millis(2));
    let running = Running::start(relay);
    bench.until("(SELECT is_called FROM {t}_failed)").await;
    to.has_recovered.store(true, Ordering::SeqCst);
    bench.until_sent().await;
    running.stop().await;
    let sql = format!("DROP VIEW {0}; ALTER TABLE {0}_rows RENAME TO {0}; DROP SEQUENCE {0}_failed", bench.name);
    bench.client.batch_execute(&sql).await.unwrap();
    bench.end().await;
}

/// Fails when it is told to.
#[derive(Clone, Default)]
struct Held {
    began: Arc<Notify>,
    fail: Arc<Notify>,
}

impl Sender for Held {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, _: Message) -> Self::Send {
        let this = self.clone();
        Box::pin(async move {
            this.began.notify_one();
            this.fail.notified().await;
            Err(SendError::new(ErrorKind::ServiceBusy))
        })
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        Box::pin(async { Err(SendError::new(ErrorKind::NotSupported)) })
    }
}

/// Rules: X-43.
#[tokio::test]
async fn a_row_that_is_set_to_refused_while_it_is_sent_stays_so_when_the_send_fails() {
    let (mut bench, held) = (Bench::new().await, Held::default());
    bench.add("orders", [message("a")]).await;
    let running = Running::start(bench.relay(To::sender(held.clone())));
    held.began.notified().await;
    bench.client.batch_execute(&format!("UPDATE {} SET refused = clock_timestamp()", bench.name)).await.unwrap();
    held.fail.notify_one();
    running.stop().await;
    let refused = bench.outbox.refused(&bench.client, 10).await.unwrap();
    assert_eq!(refused.iter().map(|one| one.attempts).collect::<Vec<_>>(), [1]);
    assert_eq!(bench.outbox.waiting(&bench.client).await.unwrap(), 0);
    bench.end().await;
}

/// Rules: X-50.
#[tokio::test]
async fn a_batch_has_a_message_or_as_many_as_fit_into_8_mib() {
    let (mut bench, healthy) = (Bench::new().await, Healthy::default());
    // Data sections.
    let sql = format!(
        "INSERT INTO {0} (destination, message_id, message) \
         VALUES ('healthy', 'large', '\\x005375b000900000'::bytea || convert_to(repeat('x', 9 << 20), 'UTF8')); \
         INSERT INTO {0} (destination, session, message_id, message) \
         SELECT 'failing', number, number, '\\x005375b000300000'::bytea || convert_to(repeat('x', 3 << 20), 'UTF8') \
         FROM generate_series(1, 6) number",
        bench.name
    );
    bench.client.batch_execute(&sql).await.unwrap();
    let hour = Duration::from_secs(3_600);
    let running = Running::start(bench.relay(healthy.clone()).backoff(hour, hour));
    bench.until("EXISTS (SELECT FROM {t} WHERE attempts > 0)").await;
    assert_eq!((running.stop().await.sent, healthy.taken.lock().unwrap().len()), (1, 1));
    bench.until("(SELECT count(*) = 2 FROM {t} WHERE attempts > 0)").await;
    bench.end().await;
}

/// Rules: X-47.
/// The pauses between nine connections would otherwise be 12 s at least.
#[tokio::test]
async fn a_relay_that_waits_for_the_lock_of_another_connects_again_after_a_short_pause() {
    let bench = Bench::new().await;
    let first = Running::start(bench.relay(Healthy::default()));
    let holder = "pg_stat_activity JOIN pg_locks USING (pid) WHERE application_name = '{t}' AND locktype = 'advisory'";
    bench.until(&format!("EXISTS (SELECT FROM {holder} AND granted)")).await;
    let sql = format!("SELECT pid FROM {holder} AND granted").replace("{t}", &bench.name);
    let holder: i32 = bench.client.query_one(&sql, &[]).await.unwrap().get(0);
    let second = Running::start(bench.relay(Healthy::default()));
    let began = Instant::now();
    let mut ended = 0;
    for _ in 0..9 {
        let standby = format!(
            "pg_stat_activity WHERE application_name = '{{t}}' AND pid NOT IN ({holder}, {ended}) AND state = 'idle' \
             AND query LIKE 'SELECT pg_try_advisory_lock%'"
        );
        bench.until(&format!("EXISTS (SELECT FROM {standby})")).await;
        let sql = format!("SELECT pid, pg_terminate_backend(pid) FROM {standby}").replace("{t}", &bench.name);
        ended = bench.client.query_one(&sql, &[]).await.unwrap().get(0);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    first.stop().await;
    second.stop().await;
    bench.end().await;
}
