//! Many destinations that fail, and connections that end.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use consign::{
    Message,
    message::EntityPath,
    transport::{Batch, BoxFuture, ErrorKind, SendError, Sender},
};
use consign_outbox_postgres::{Destinations, To};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

use crate::support::{self, Bench, Running, message};

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
        let Some(mut bench) = Bench::new().await else { return };
        let healthy = Healthy::default();
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
    let Some(mut bench) = Bench::new().await else { return };
    bench.add("failing", [message("a")]).await;
    let hour = Duration::from_secs(3_600);
    let running = Running::start(bench.relay(Healthy::default()).backoff(hour, hour));
    bench.until("EXISTS (SELECT FROM {t} WHERE attempts = 1)").await;
    let began = Instant::now();
    let mut ended = 0;
    for _ in 0..6 {
        // Each has read the table, and no row.
        let reader = format!(
            "pg_stat_activity WHERE application_name = '{{t}}' AND pid <> {ended} AND query LIKE 'WITH RECURSIVE%'"
        );
        bench.until(&format!("EXISTS (SELECT FROM {reader} AND state = 'idle')")).await;
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
    let Some(mut bench) = Bench::new().await else { return };
    bench.add("orders", [message("1")]).await;
    // Rows for a connection whose statements end after 10 s.
    let sql = "ALTER TABLE {0} RENAME TO {0}_rows; CREATE VIEW {0} AS SELECT * FROM {0}_rows \
               WHERE current_setting('statement_timeout') = '10s'";
    bench.client.batch_execute(&sql.replace("{0}", &bench.name)).await.unwrap();
    let running = Running::start(bench.relay(To::sender(Sessions::default())));
    bench.until("(SELECT count(*) = 0 FROM {t}_rows)").await;
    running.stop().await;
    let sql = "DROP VIEW {0}; ALTER TABLE {0}_rows RENAME TO {0}";
    bench.client.batch_execute(&sql.replace("{0}", &bench.name)).await.unwrap();
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
    let Some(mut bench) = Bench::new().await else { return };
    let held = Held::default();
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

/// Refuses the messages of `refused` for good, and tells of each.
#[derive(Clone)]
struct Refusing(mpsc::Sender<()>);

impl Sender for Refusing {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let is_refused = message.message_id() == Some("refused");
        if is_refused {
            self.0.try_send(()).unwrap();
        }
        Box::pin(async move { if is_refused { Err(SendError::new(ErrorKind::MessageSizeExceeded)) } else { Ok(()) } })
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        Box::pin(async { Err(SendError::new(ErrorKind::NotSupported)) })
    }
}

/// Rules.
#[tokio::test]
async fn a_refused_message_whose_row_is_locked_does_not_end_the_connection() {
    let Some(mut bench) = Bench::new().await else { return };
    let mut locking = support::client().await;
    bench.add("orders", [message("refused")]).await;
    let transaction = locking.transaction().await.unwrap();
    transaction.execute(&format!("SELECT FROM {} FOR UPDATE", bench.name), &[]).await.unwrap();

    let (refuses, mut refused) = mpsc::channel(64);
    let running = Running::start(bench.relay(To::sender(Refusing(refuses))));
    let pid = format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{}'", bench.name);
    let mut pids = Vec::new();
    for id in 0..3 {
        refused.recv().await.unwrap();
        let row = bench.client.query_one(&pid, &[]).await.unwrap();
        pids.push(row.get::<_, i32>(0));
        bench.add("others", [message(id.to_string())]).await;
        bench.until("NOT EXISTS (SELECT FROM {t} WHERE destination = 'others')").await;
    }
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    assert_eq!(bench.outbox.waiting(&bench.client).await.unwrap(), 1);
    transaction.rollback().await.unwrap();
    bench.until("NOT EXISTS (SELECT FROM {t} WHERE refused IS NULL)").await;
    let relayed = running.stop().await;
    assert_eq!((relayed.sent, relayed.refused), (3, 1));
    let rows = bench.outbox.refused(&bench.client, 10).await.unwrap();
    assert_eq!(rows.iter().map(|one| (&*one.message_id, one.attempts)).collect::<Vec<_>>(), [("refused", 1)]);
    bench.end().await;
}

/// Rules.
#[tokio::test]
async fn a_sent_message_whose_row_is_locked_is_not_sent_again_and_does_not_end_the_connection() {
    let Some(mut bench) = Bench::new().await else { return };
    let mut locking = support::client().await;
    let healthy = Healthy::default();
    bench.add("healthy", in_session("locked", 0..1)).await;
    let transaction = locking.transaction().await.unwrap();
    transaction.execute(&format!("SELECT FROM {} FOR UPDATE", bench.name), &[]).await.unwrap();

    let running = Running::start(bench.relay(healthy.clone()));
    let pid = format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{}'", bench.name);
    let mut pids = Vec::new();
    for id in 1..4 {
        bench.add("healthy", in_session("free", id..id + 1)).await;
        bench.until("(SELECT count(*) = 1 FROM {t})").await;
        pids.push(bench.client.query_one(&pid, &[]).await.unwrap().get::<_, i32>(0));
    }
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    bench.add("healthy", in_session("locked", 4..5)).await;
    transaction.rollback().await.unwrap();
    bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 5);
    let mut taken = healthy.taken.lock().unwrap().clone();
    taken.sort_unstable();
    assert_eq!(taken, ["free001", "free002", "free003", "locked000", "locked004"]);
    bench.end().await;
}

/// Rules: X-50.
/// The second time, another session fails already.
#[tokio::test]
async fn a_batch_has_a_message_or_as_many_as_fit_into_8_mib() {
    for fails_before in [false, true] {
        let Some(mut bench) = Bench::new().await else { return };
        let healthy = Healthy::default();
        let hour = Duration::from_secs(3_600);
        let running = Running::start(bench.relay(healthy.clone()).backoff(hour, hour));
        if fails_before {
            bench.add("orders", [message("a")]).await;
            bench.until("EXISTS (SELECT FROM {t} WHERE attempts > 0)").await;
        }
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
        bench.until("EXISTS (SELECT FROM {t} WHERE destination = 'failing' AND attempts > 0)").await;
        bench.until("NOT EXISTS (SELECT FROM {t} WHERE destination = 'healthy')").await;
        assert_eq!((running.stop().await.sent, healthy.taken.lock().unwrap().len()), (1, 1));
        let sql = format!("SELECT count(*) FROM {} WHERE destination = 'failing' AND attempts > 0", bench.name);
        assert_eq!(bench.client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0), 2);
        bench.end().await;
    }
}

/// Rules: X-47.
/// The pauses between fourteen connections would otherwise be 36 s at least.
#[tokio::test]
async fn a_relay_that_waits_for_the_lock_of_another_connects_again_after_a_short_pause() {
    let Some(bench) = Bench::new().await else { return };
    let first = Running::start(bench.relay(Healthy::default()));
    let holder = "pg_stat_activity JOIN pg_locks USING (pid) WHERE application_name = '{t}' AND locktype = 'advisory'";
    bench.until(&format!("EXISTS (SELECT FROM {holder} AND granted)")).await;
    let sql = format!("SELECT pid FROM {holder} AND granted").replace("{t}", &bench.name);
    let holder: i32 = bench.client.query_one(&sql, &[]).await.unwrap().get(0);
    let second = Running::start(bench.relay(Healthy::default()));
    let began = Instant::now();
    let mut ended = 0;
    for _ in 0..14 {
        let standby = format!(
            "pg_stat_activity WHERE application_name = '{{t}}' AND pid NOT IN ({holder}, {ended}) \
             AND (query LIKE 'SELECT pg_try_advisory_lock%' OR query LIKE 'WITH lock AS%')"
        );
        bench.until(&format!("EXISTS (SELECT FROM {standby} AND state = 'idle')")).await;
        let sql = format!("SELECT pid, pg_terminate_backend(pid) FROM {standby}").replace("{t}", &bench.name);
        ended = bench.client.query_one(&sql, &[]).await.unwrap().get(0);
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    first.stop().await;
    second.stop().await;
    bench.end().await;
}

/// Takes the messages of all sessions but one.
#[derive(Clone, Default)]
struct Sessions {
    failing: Arc<Mutex<Option<&'static str>>>,
    taken: Arc<Mutex<Vec<String>>>,
}

impl Sessions {
    fn but(session: &'static str) -> Self {
        Self { failing: Arc::new(Mutex::new(Some(session))), taken: Arc::default() }
    }
}

impl Sender for Sessions {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let failing = *self.failing.lock().unwrap();
        let sent = if failing.is_some() && message.session_id() == failing {
            Err(SendError::new(ErrorKind::ServiceBusy))
        } else {
            self.taken.lock().unwrap().extend(message.message_id().map(str::to_owned));
            Ok(())
        };
        Box::pin(async { sent })
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        Box::pin(async { Err(SendError::new(ErrorKind::NotSupported)) })
    }
}

fn in_session(session: &str, ids: std::ops::Range<i32>) -> Vec<Message> {
    let message =
        |id| Message::builder().message_id(format!("{session}{id:03}")).session_id(session.to_owned()).build("");
    ids.map(|id| message(id).unwrap()).collect()
}

/// Rules.
#[tokio::test]
async fn a_session_is_sent_while_more_than_a_batch_of_another_one_fails() {
    let Some(mut bench) = Bench::new().await else { return };
    let to = Sessions::but("a");
    bench.add("orders", in_session("a", 0..300)).await;
    bench.add("orders", in_session("b", 0..20)).await;
    let running = Running::start(bench.relay(To::sender(to.clone())).batch_size(10));
    bench.until("NOT EXISTS (SELECT FROM {t} WHERE session = 'b')").await;
    *to.failing.lock().unwrap() = None;
    bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 320);
    let ids =
        |session, ids| in_session(session, ids).iter().filter_map(|one| one.message_id().map(str::to_owned)).collect();
    let sent: Vec<String> = [ids("b", 0..20), ids("a", 0..300)].into_iter().flat_map(|ids: Vec<_>| ids).collect();
    assert_eq!(*to.taken.lock().unwrap(), sent);
    bench.end().await;
}

/// Rules: X-48.
#[tokio::test]
async fn a_message_is_sent_at_once_while_another_session_of_its_destination_pauses() {
    let Some(mut bench) = Bench::new().await else { return };
    let to = Sessions::but("a");
    let hour = Duration::from_secs(3_600);
    let running = Running::start(bench.relay(To::sender(to.clone())).poll_interval(hour).backoff(hour, hour));
    bench.add("orders", in_session("a", 0..2)).await;
    bench.until("EXISTS (SELECT FROM {t} WHERE attempts = 1)").await;
    for id in 0..3 {
        bench.add("orders", in_session("b", id..id + 1)).await;
        bench.until("NOT EXISTS (SELECT FROM {t} WHERE session = 'b')").await;
    }
    running.stop().await;
    bench.until("(SELECT sum(attempts) = 1 FROM {t})").await;
    bench.end().await;
}

/// Rules: X-49.
/// Rows of another program: an empty session differs from none, and an empty destination is refused.
#[tokio::test]
async fn groups_with_empty_names_are_found_while_another_one_fails() {
    let Some(mut bench) = Bench::new().await else { return };
    let to = Sessions::but("a");
    let hour = Duration::from_secs(3_600);
    let running = Running::start(bench.relay(To::sender(to.clone())).backoff(hour, hour));
    bench.add("orders", in_session("a", 0..1)).await;
    bench.until("EXISTS (SELECT FROM {t} WHERE attempts = 1)").await;
    let sql = format!(
        "INSERT INTO {} (destination, session, message_id, message) SELECT destination, session, number, '\\x005375a00178' \
         FROM (VALUES (1, '', NULL), (2, '', ''), (3, 'orders', NULL), (4, 'orders', '')) r (number, destination, session)",
        bench.name
    );
    bench.client.batch_execute(&sql).await.unwrap();
    bench.until("(SELECT count(*) = 1 FROM {t} WHERE refused IS NULL)").await;
    let relayed = running.stop().await;
    assert!(relayed.refused >= 2 && relayed.sent + relayed.refused == 4, "{relayed:?}");
    bench.end().await;
}

/// Rules: X-49.
/// The statements that look for groups read a few rows of many, with and without the statistics of the planner.
#[tokio::test]
async fn a_lap_passes_many_messages_of_a_session_by_the_index() {
    for is_analyzed in [false, true] {
        let Some(bench) = Bench::new().await else { return };
        let healthy = Healthy::default();
        let sql = format!(
            "INSERT INTO {} (destination, session, message_id, message) \
             SELECT CASE WHEN number = 20000 THEN 'healthy' ELSE 'failing' END, number / 15000, number, '\\x005375a00178' \
             FROM generate_series(1, 20000) number",
            bench.name
        );
        let setup = support::client().await;
        setup.batch_execute(&sql).await.unwrap();
        if is_analyzed {
            setup.batch_execute(&format!("ANALYZE {}", bench.name)).await.unwrap();
        }
        drop(setup);
        let running = Running::start(bench.relay(healthy.clone()));
        bench.until("NOT EXISTS (SELECT FROM {t} WHERE id = 20000)").await;
        running.stop().await;
        let used = "(SELECT sum(idx_scan) > 0 FROM pg_stat_user_indexes WHERE indexrelname = '{t}_groups')";
        bench.until(used).await;
        bench.until("(SELECT seq_tup_read < 20000 FROM pg_stat_user_tables WHERE relname = '{t}')").await;
        bench.end().await;
    }
}
