//! What is sent, in which order, and what becomes of a message that is not.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    broker::Broker,
    message::EntityPath,
    transport::{
        Batch, BoxFuture, DynSender, DynTransport, ErrorKind, ReceiveMode, ReceiverExt, SendError, SendService, Sender,
        Transport,
    },
};
use consign_conformance::log::Lines;
use consign_outbox_postgres::{Destinations, OutboxErrorKind, Relay, Table, To, tokio_postgres::NoTls};
use consign_postgres::Postgres;
use tokio::time::Instant;
use tower::{ServiceBuilder, ServiceExt};

use crate::support::{self, Bench, LONG, Running, message};

async fn receive(broker: &Broker, queue: &str, count: usize) -> Vec<Message> {
    let mut receiver =
        Transport::receiver(broker, &EntityPath::new(queue).unwrap(), ReceiveMode::PeekLock).await.unwrap();
    let mut all = Vec::new();
    for _ in 0..count {
        let delivery = receiver.receive_within(LONG).await.unwrap();
        all.push(delivery.message.clone());
        delivery.complete().await.unwrap();
    }
    all
}

fn ids(messages: &[Message]) -> Vec<&str> {
    messages.iter().filter_map(Message::message_id).collect()
}

/// Rules.
#[tokio::test]
async fn a_message_is_sent_if_its_transaction_commits() {
    let Some(mut bench) = Bench::new().await else { return };
    let broker = Broker::new();
    broker.create_queue("orders", QueueSettings::default()).unwrap();
    let running = Running::start(bench.relay(broker.clone()));
    for (id, is_committed) in [("a", true), ("b", false), ("c", true)] {
        let transaction = bench.client.transaction().await.unwrap();
        let order = Message::builder().message_id(id).subject("placed").property("count", 7).build("an order").unwrap();
        bench.outbox.add(&transaction, "orders", &order).await.unwrap();
        bench.outbox.add(&transaction, "orders", &Message::new("without an id")).await.unwrap();
        if is_committed {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
    }
    let sent = receive(&broker, "orders", 4).await;
    let found = ids(&sent);
    assert_eq!((found.len(), found[0], found[2]), (4, "a", "c"));
    assert!(found[1] != found[3] && found[1].len() == 32, "{found:?}");
    assert_eq!((sent[0].subject(), sent[0].payload()), (Some("placed"), Some(&b"an order"[..])));
    assert_eq!(sent[0].application_properties().get("count"), Some(&7.into()));
    bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 4);
    assert_eq!(bench.outbox.waiting(&bench.client).await.unwrap(), 0);
    bench.end().await;
}

/// A sender that refuses as it is told, and records what it takes.
#[derive(Clone, Default)]
struct Recorder {
    taken: Arc<Mutex<Vec<String>>>,
    failures: Arc<Mutex<HashMap<String, Vec<ErrorKind>>>>,
    attempts: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    fn fail(&self, id: &str, kinds: &[ErrorKind]) {
        self.failures.lock().unwrap().insert(id.to_owned(), kinds.to_vec());
    }

    fn taken(&self) -> Vec<String> {
        self.taken.lock().unwrap().clone()
    }
}

impl Sender for Recorder {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let this = self.clone();
        Box::pin(async move {
            let id = message.message_id().unwrap_or_default().to_owned();
            tokio::task::yield_now().await;
            this.attempts.lock().unwrap().push(id.clone());
            let mut failures = this.failures.lock().unwrap();
            if let Some(kinds) = failures.get_mut(&id)
                && !kinds.is_empty()
            {
                return Err(SendError::new(kinds.remove(0)).with_detail("as it was told"));
            }
            this.taken.lock().unwrap().push(id);
            Ok(())
        })
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        Box::pin(async { Err(SendError::new(ErrorKind::NotSupported)) })
    }
}

/// Rules: X-42.
#[tokio::test]
async fn a_message_that_fails_is_sent_before_later_ones_of_its_session() {
    let Some(mut bench) = Bench::new().await else { return };
    let recorder = Recorder::default();
    recorder.fail("a1", &[ErrorKind::ServiceBusy, ErrorKind::CommunicationProblem, ErrorKind::QuotaExceeded]);
    recorder.fail("n2", &[ErrorKind::ServiceBusy]);
    let in_session = |id: &str, session: &'static str| {
        Message::builder().message_id(id.to_owned()).session_id(session).build("").unwrap()
    };
    bench.add("orders", [in_session("a1", "a"), in_session("b1", "b"), in_session("a2", "a"), message("n1")]).await;
    bench.add("orders", [message("n2"), in_session("b2", "b"), message("n3"), in_session("a3", "a")]).await;
    bench.add("others", [message("o1"), message("o2")]).await;
    let running = Running::start(bench.relay(To::sender(recorder.clone())));
    bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 10);
    let taken = recorder.taken();
    for prefix in ["a", "b", "n", "o"] {
        let own: Vec<_> = taken.iter().filter(|id| id.starts_with(prefix)).collect();
        assert!(own.is_sorted(), "{taken:?}");
    }
    assert_eq!(taken.len(), 10, "{taken:?}");
    bench.end().await;
}

/// Makes senders of which the first does not answer.
struct DeadLink {
    made: AtomicU32,
    recorder: Recorder,
}

impl Destinations for DeadLink {
    type Sender = DynSender;

    async fn sender(&self, _: &EntityPath) -> Result<DynSender, SendError> {
        Ok(match self.made.fetch_add(1, Ordering::Relaxed) {
            0 => DynSender::new(Silent),
            _ => DynSender::new(self.recorder.clone()),
        })
    }
}

/// A sender that does not answer.
struct Silent;

impl Sender for Silent {
    type Send = std::future::Pending<Result<(), SendError>>;

    fn send(&self, _: Message) -> Self::Send {
        std::future::pending()
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        std::future::pending()
    }
}

/// Rules: X-41.
#[tokio::test]
async fn a_sender_that_does_not_answer_is_not_kept() {
    let Some(mut bench) = Bench::new().await else { return };
    let recorder = Recorder::default();
    bench.add("orders", [message("a")]).await;
    let relay = bench.relay(DeadLink { made: AtomicU32::new(0), recorder: recorder.clone() });
    let running = Running::start(relay.send_timeout(Duration::from_millis(50)));
    bench.until_sent().await;
    running.stop().await;
    assert_eq!(recorder.taken(), ["a"]);
    bench.end().await;
}

/// Rules: X-43.
#[tokio::test]
async fn a_refused_message_stays_with_its_error_and_blocks_nothing() {
    let Some(mut bench) = Bench::new().await else { return };
    let broker = Broker::new();
    broker.create_queue("orders", QueueSettings::default()).unwrap();
    bench.add("missing", [message("lost")]).await;
    bench.add("orders", [message("a")]).await;
    // A row of another program.
    let sql = format!(
        "INSERT INTO {} (destination, message_id, message) VALUES ('orders', 'bytes', 'no message'), ('', 'path', '')",
        bench.name
    );
    bench.client.batch_execute(&sql).await.unwrap();
    bench.add("orders", [message("b")]).await;
    let transport = DynTransport::from(broker.clone());
    let running = Running::start(bench.relay(transport));
    assert_eq!(ids(&receive(&broker, "orders", 2).await), ["a", "b"]);
    bench.until_sent().await;
    let refused = bench.outbox.refused(&bench.client, 10).await.unwrap();
    let shown: Vec<_> = refused.iter().map(|one| (one.message_id.as_str(), one.attempts)).collect();
    assert_eq!(shown, [("lost", 1), ("bytes", 1), ("path", 1)]);
    assert!(refused[0].error.contains("EntityNotFound") || refused[0].error.contains("no such entity"), "{refused:?}");
    assert!(refused[1].error.starts_with("the row is not a message"), "{refused:?}");

    broker.create_queue("missing", QueueSettings::default()).unwrap();
    assert_eq!(bench.outbox.retry_refused(&bench.client, &[refused[0].id, -1]).await.unwrap(), 1);
    assert_eq!(ids(&receive(&broker, "missing", 1).await), ["lost"]);
    bench.until_sent().await;
    let relayed = running.stop().await;
    assert_eq!((relayed.sent, relayed.refused), (3, 3));
    assert_eq!(bench.outbox.delete_refused(&bench.client, LONG).await.unwrap(), 0);
    assert_eq!(bench.outbox.delete_refused(&bench.client, Duration::ZERO).await.unwrap(), 2);
    bench.end().await;
}

/// Rules.
#[tokio::test]
async fn a_row_of_another_program_has_the_ids_of_its_columns() {
    let Some(bench) = Bench::new().await else { return };
    let broker = Broker::new();
    broker.create_queue("orders", QueueSettings::default()).unwrap();
    // A data section alone, and the same behind a section with a MessageId.
    let sql = format!(
        "INSERT INTO {} (destination, session, message_id, message) VALUES \
         ('orders', 's', 'order-7', '\\x005375a00178'), ('orders', NULL, 'other', '\\x005373c00401a10161005375a00178'), \
         ('orders', NULL, '', '\\x005375a00178')",
        bench.name
    );
    bench.client.batch_execute(&sql).await.unwrap();
    let running = Running::start(bench.relay(DynTransport::from(broker.clone())));
    let received = receive(&broker, "orders", 1).await;
    assert_eq!((received[0].message_id(), received[0].session_id()), (Some("order-7"), Some("s")));
    bench.until_sent().await;
    let refused = bench.outbox.refused(&bench.client, 10).await.unwrap();
    assert!(refused[0].error.contains("message_id has another id"), "{refused:?}");
    assert!(refused[1].error.contains("neither the column nor the message has a MessageId"), "{refused:?}");
    running.stop().await;
    bench.end().await;
}

/// Rules.
/// A transaction of the application holds the id of the message, by which the queue detects duplicates.
#[tokio::test]
async fn in_the_same_database_a_destination_that_waits_for_a_lock_delays_no_other() {
    let Some(mut bench) = Bench::new().await else { return };
    let postgres = Postgres::options().schema(bench.name.as_str()).connect(&support::address()).await.unwrap();
    postgres.migrate().await.unwrap();
    let detecting = QueueSettings::default().duplicate_detection(Duration::from_secs(600));
    postgres.create_queue("slow", detecting).await.unwrap();
    postgres.create_queue("orders", QueueSettings::default()).await.unwrap();
    bench.add("slow", [message("a")]).await;
    bench.add("orders", [message("b")]).await;
    let mut other = support::client().await;
    let holding = other.transaction().await.unwrap();
    postgres.sender("slow").await.unwrap().send_in(&holding, [message("a")]).await.unwrap();
    let relay = Relay::same_database(bench.outbox.clone(), bench.named(), NoTls, postgres.clone());
    let relay =
        relay.send_timeout(Duration::from_millis(200)).backoff(Duration::from_millis(5), Duration::from_millis(50));
    let stop = Arc::new(tokio::sync::Notify::new());
    let stopped = Arc::clone(&stop);
    let running = tokio::spawn(relay.run_until(async move { stopped.notified().await }));
    let receive = async |queue: &str| {
        let path = EntityPath::new(queue).unwrap();
        let mut receiver = Transport::receiver(&postgres, &path, ReceiveMode::PeekLock).await.unwrap();
        let delivery = receiver.receive_within(LONG).await.unwrap();
        let id = delivery.message.message_id().map(str::to_owned);
        delivery.complete().await.unwrap();
        id
    };
    assert_eq!(receive("orders").await.as_deref(), Some("b"));
    holding.rollback().await.unwrap();
    assert_eq!(receive("slow").await.as_deref(), Some("a"));
    bench.until_sent().await;
    stop.notify_one();
    let relayed = running.await.unwrap().unwrap();
    assert_eq!((relayed.sent, relayed.refused), (2, 0));
    bench.end_with(&postgres).await;
}

/// Rules: X-41.
#[tokio::test]
async fn one_relay_sends_and_the_next_one_follows_it() {
    let Some(mut bench) = Bench::new().await else { return };
    let recorder = Recorder::default();
    let relays: Vec<_> = (0..3).map(|_| Running::start(bench.relay(To::sender(recorder.clone())))).collect();
    for nth in 0..6 {
        bench.add("orders", (0..5).map(|index| message(format!("{nth}-{index}")))).await;
        bench.until_sent().await;
        // The database ends the connection of the relay that has the lock, and its lock with it.
        let sql = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity JOIN pg_locks USING (pid) \
                   WHERE application_name = $1 AND locktype = 'advisory' AND granted";
        assert_eq!(bench.client.query_one(sql, &[&bench.name]).await.unwrap().get::<_, i64>(0), 1);
    }
    let mut sent = 0;
    for relay in relays {
        sent += relay.stop().await.sent;
    }
    let taken = recorder.taken();
    assert_eq!((sent, taken.len(), taken.is_sorted()), (30, 30, true), "{taken:?}");
    bench.end().await;
}

/// Rules: X-44.
#[tokio::test]
async fn a_stack_of_layers_is_a_destination() {
    let Some(mut bench) = Bench::new().await else { return };
    let recorder = Recorder::default();
    let stack = ServiceBuilder::new()
        .map_request(|mut message: Message| {
            message.properties_mut().set_subject("layered");
            message
        })
        .service(SendService::new(recorder.clone()));
    bench.add("orders", [message("a")]).await;
    let running = Running::start(bench.relay(To::service(stack.map_err(SendError::from))));
    bench.until_sent().await;
    running.stop().await;
    assert_eq!(recorder.taken(), ["a"]);
    bench.end().await;
}

/// Rules: X-45.
#[tokio::test]
async fn in_the_same_database_one_transaction_sends_and_deletes() {
    let Some(mut bench) = Bench::new().await else { return };
    let postgres = Postgres::options().schema(bench.name.as_str()).connect(&support::address()).await.unwrap();
    postgres.migrate().await.unwrap();
    let settings = QueueSettings::default().max_message_size(1_000);
    postgres.create_queue("orders", settings).await.unwrap();
    let large = Message::builder().message_id("large").build("x".repeat(2_000)).unwrap();
    bench.add("orders", [message("a"), large, message("b")]).await;
    bench.add("missing", [message("lost")]).await;
    let relay = Relay::same_database(bench.outbox.clone(), bench.named(), NoTls, postgres.clone());
    let stop = Arc::new(tokio::sync::Notify::new());
    let stopped = Arc::clone(&stop);
    let running = tokio::spawn(relay.run_until(async move { stopped.notified().await }));
    let mut receiver =
        Transport::receiver(&postgres, &EntityPath::new("orders").unwrap(), ReceiveMode::PeekLock).await.unwrap();
    for id in ["a", "b"] {
        let delivery = receiver.receive_within(LONG).await.unwrap();
        assert_eq!(delivery.message.message_id(), Some(id));
        delivery.complete().await.unwrap();
    }
    bench.until_sent().await;
    stop.notify_one();
    let relayed = running.await.unwrap().unwrap();
    assert_eq!((relayed.sent, relayed.refused), (2, 2));
    let refused = bench.outbox.refused(&bench.client, 10).await.unwrap();
    assert_eq!(refused.iter().map(|one| one.message_id.as_str()).collect::<Vec<_>>(), ["large", "lost"]);
    bench.end_with(&postgres).await;
}

/// Rules.
#[tokio::test]
async fn what_cannot_be_stored_is_refused_with_its_kind() {
    let Some(mut bench) = Bench::new().await else { return };
    let transaction = bench.client.transaction().await.unwrap();
    let cyrillic = Message::builder().content_type("ключ").build("").unwrap();
    let nul = Message::builder().session_id("a\0b").build("").unwrap();
    for (destination, message) in [
        ("", message("a")),
        ("orders/$deadletterqueue", message("a")),
        ("events/Subscriptions/all", message("a")),
        ("orders", cyrillic),
        ("orders", nul),
        ("orders", message("a\0")),
    ] {
        let refused = bench.outbox.add(&transaction, destination, &message).await.unwrap_err();
        assert_eq!(refused.kind(), OutboxErrorKind::InvalidMessage, "{refused}");
    }
    // The transaction is usable.
    bench.outbox.add(&transaction, "orders", &message("b")).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(bench.outbox.waiting(&bench.client).await.unwrap(), 1);

    bench.client.batch_execute(&format!("UPDATE {}_version SET version = 3", bench.name)).await.unwrap();
    let created = bench.outbox.create_table(&bench.client).await.unwrap_err();
    let ran = bench.relay(Broker::new()).run_until(std::future::pending()).await.unwrap_err();
    assert_eq!((created.kind(), ran.kind()), (OutboxErrorKind::Version, OutboxErrorKind::Version));
    bench.end().await;
}

/// Rules.
/// The pause between two connections is at least half of 100 ms, 200 ms and so on.
#[tokio::test]
async fn a_relay_that_cannot_delete_what_it_has_sent_sends_it_again_less_and_less_often() {
    let (lines, _guard) = Lines::capture();
    let Some(mut bench) = Bench::new().await else { return };
    let recorder = Recorder::default();
    bench.add("orders", [message("a")]).await;
    bench.client.batch_execute(&format!("REVOKE DELETE ON {} FROM CURRENT_USER", bench.name)).await.unwrap();
    let began = Instant::now();
    let running = Running::start(bench.relay(To::sender(recorder.clone())));
    let sent_again = async {
        while recorder.taken().len() < 6 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, sent_again).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(50 * 31), "{:?}", began.elapsed());
    let lines = lines.of("consign::outbox");
    assert!(lines.iter().any(|line| line.starts_with("WARN") && line.contains("are sent again")), "{lines:?}");
    bench.client.batch_execute(&format!("GRANT DELETE ON {} TO CURRENT_USER", bench.name)).await.unwrap();
    bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 1);
    bench.end().await;
}

/// Rules: X-47.
/// Another relay has the lock in each of its pauses.
#[tokio::test]
async fn the_pauses_of_a_relay_that_records_nothing_grow_while_another_has_the_lock() {
    let Some(mut bench) = Bench::new().await else { return };
    let (recorder, other) = (Recorder::default(), support::client().await);
    bench.add("orders", [message("a")]).await;
    bench.client.batch_execute(&format!("REVOKE DELETE ON {} FROM CURRENT_USER", bench.name)).await.unwrap();
    let key = format!("hashtextextended('consign outbox ' || '{}'::regclass::oid::text, 0)", bench.name);
    let mut pause = Duration::ZERO;
    let running = Running::start(bench.relay(To::sender(recorder.clone())));
    for sent in 1..=7 {
        let sending = async {
            while recorder.taken().len() < sent {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, sending).await.unwrap();
        if sent < 7 {
            let began = Instant::now();
            other.batch_execute(&format!("SELECT pg_advisory_lock({key})")).await.unwrap();
            bench
                .until(
                    "EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '{t}' AND state = 'idle' \
                     AND query LIKE 'SELECT pg_try_advisory_lock%')",
                )
                .await;
            pause = began.elapsed();
            other.batch_execute(&format!("SELECT pg_advisory_unlock({key})")).await.unwrap();
        }
    }
    // The sixth one is 1.6 s at least, less what passes before this test sees that it has begun. The first one is 100 ms at most.
    assert!(pause >= Duration::from_secs(1), "{pause:?}");
    bench.client.batch_execute(&format!("GRANT DELETE ON {} TO CURRENT_USER", bench.name)).await.unwrap();
    bench.until_sent().await;
    running.stop().await;
    bench.end().await;
}

/// Rules: X-47.
#[tokio::test]
async fn the_longest_intervals_are_no_panic() {
    let Some(mut bench) = Bench::new().await else { return };
    let recorder = Recorder::default();
    recorder.fail("a", &[ErrorKind::ServiceBusy]);
    let relay = bench.relay(To::sender(recorder.clone())).send_timeout(Duration::MAX);
    let running = Running::start(relay.poll_interval(Duration::MAX).backoff(Duration::ZERO, Duration::MAX));
    bench.add("orders", [message("a")]).await;
    bench.until_sent().await;
    bench.add("orders", [message("b")]).await;
    bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 2);
    bench.end().await;
}

/// Rules: X-46.
/// An index waits for the end of each transaction that has added, and those that add later wait for the index.
#[tokio::test]
async fn a_table_that_exists_is_not_locked() {
    let Some(mut bench) = Bench::new().await else { return };
    let transaction = bench.client.transaction().await.unwrap();
    bench.outbox.add(&transaction, "orders", &message("a")).await.unwrap();
    let other = support::client().await;
    other.batch_execute("SET lock_timeout = 1").await.unwrap();
    bench.outbox.create_table(&other).await.unwrap();
    transaction.rollback().await.unwrap();
    bench.end().await;
}

/// Rules: X-46.
#[tokio::test]
async fn a_table_of_version_1_gets_its_indexes() {
    let Some(bench) = Bench::new().await else { return };
    let sql = format!("UPDATE {0}_version SET version = 1; DROP INDEX {0}_refused, {0}_groups", bench.name);
    bench.client.batch_execute(&sql).await.unwrap();
    bench.outbox.create_table(&bench.client).await.unwrap();
    bench.until("(SELECT version = 2 FROM {t}_version)").await;
    bench.until("to_regclass('{t}_groups') IS NOT NULL").await;
    let sql = format!(
        "INSERT INTO {0} (destination, message_id, message) SELECT 'orders', number, '' FROM generate_series(1, 20000) number; \
         UPDATE {0} SET refused = clock_timestamp() WHERE id % 10000 = 0; ANALYZE {0}",
        bench.name
    );
    bench.client.batch_execute(&sql).await.unwrap();
    let sql = format!("EXPLAIN SELECT id FROM {} WHERE refused IS NOT NULL ORDER BY id LIMIT 100", bench.name);
    let plan: Vec<String> = bench.client.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(plan.iter().any(|line| line.contains(&format!("{}_refused", bench.name))), "{plan:?}");
    bench.end().await;
}

/// Rules: X-46.
/// The second time, the version changes while the creation waits for that of another process.
#[tokio::test]
async fn a_table_of_a_later_version_is_not_changed() {
    for is_later in [true, false] {
        let Some(bench) = Bench::new().await else { return };
        let other = support::client().await;
        let set = |version| format!("UPDATE {}_version SET version = {version}", bench.name);
        bench.client.batch_execute(&format!("DROP INDEX {0}_refused, {0}_groups", bench.name)).await.unwrap();
        bench.client.batch_execute(&set(if is_later { 3 } else { 1 })).await.unwrap();
        other.batch_execute(&format!("SET application_name = '{}'", bench.name)).await.unwrap();
        let lock = i64::from_be_bytes(*b"outbox\0\0");
        bench.client.batch_execute(&format!("SELECT pg_advisory_lock({lock})")).await.unwrap();
        let changing = async {
            if !is_later {
                bench.until("EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '{t}' AND wait_event = 'advisory')").await;
                bench.client.batch_execute(&set(3)).await.unwrap();
            }
            bench.client.batch_execute(&format!("SELECT pg_advisory_unlock({lock})")).await.unwrap();
        };
        let (created, ()) = tokio::join!(bench.outbox.create_table(&other), changing);
        assert_eq!(created.unwrap_err().kind(), OutboxErrorKind::Version);
        bench.until("to_regclass('{t}_groups') IS NULL AND to_regclass('{t}_refused') IS NULL").await;
        bench.end().await;
    }
}

/// Rules: X-46.
#[tokio::test]
async fn the_statements_of_a_migration_do_not_change_a_table_of_a_later_version() {
    let Some(bench) = Bench::new().await else { return };
    let sql = Table::new(&bench.name).unwrap().sql();
    let set =
        |version| format!("UPDATE {0}_version SET version = {version}; DROP INDEX {0}_refused, {0}_groups", bench.name);
    bench.client.batch_execute(&set(3)).await.unwrap();
    let error = bench.client.batch_execute(&sql).await.unwrap_err();
    let expected = format!("the table \"{}\" has version 3, and these statements are those of version 2", bench.name);
    assert_eq!(error.as_db_error().map(|error| (error.code().code(), error.message())), Some(("OUTBX", &*expected)));
    bench.until("to_regclass('{t}_groups') IS NULL AND (SELECT version = 3 FROM {t}_version)").await;
    let earlier = format!("UPDATE {}_version SET version = 1", bench.name);
    bench.client.batch_execute(&earlier).await.unwrap();
    for _ in 0..2 {
        bench.client.batch_execute(&sql).await.unwrap();
        bench.until("to_regclass('{t}_groups') IS NOT NULL AND (SELECT version = 2 FROM {t}_version)").await;
    }
    bench.end().await;
}

/// Sends to a broker, and loses the first answer.
struct LostAnswer {
    broker: Broker,
    is_lost: Arc<AtomicBool>,
}

#[derive(Clone)]
struct Losing {
    sender: DynSender,
    is_lost: Arc<AtomicBool>,
}

impl Destinations for LostAnswer {
    type Sender = Losing;

    async fn sender(&self, path: &EntityPath) -> Result<Losing, SendError> {
        let sender = DynSender::new(Transport::sender(&self.broker, path).await?);
        Ok(Losing { sender, is_lost: Arc::clone(&self.is_lost) })
    }
}

impl Sender for Losing {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let this = self.clone();
        Box::pin(async move {
            this.sender.send(message).await?;
            if this.is_lost.swap(true, Ordering::SeqCst) {
                return Ok(());
            }
            Err(SendError::new(ErrorKind::CommunicationProblem))
        })
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        Box::pin(async { Err(SendError::new(ErrorKind::NotSupported)) })
    }
}

/// Rules: X-41.
#[tokio::test]
async fn a_queue_that_detects_duplicates_has_one_message_after_a_lost_answer() {
    let Some(mut bench) = Bench::new().await else { return };
    let broker = Broker::new();
    let settings = QueueSettings::default().duplicate_detection(Duration::from_secs(600));
    broker.create_queue("orders", settings).unwrap();
    bench.add("orders", [message("a"), message("b")]).await;
    let is_lost = Arc::new(AtomicBool::new(false));
    let running = Running::start(bench.relay(LostAnswer { broker: broker.clone(), is_lost: Arc::clone(&is_lost) }));
    bench.until_sent().await;
    assert_eq!((running.stop().await.sent, is_lost.load(Ordering::SeqCst)), (2, true));
    // A copy of `a` would be before `b`.
    assert_eq!(ids(&receive(&broker, "orders", 2).await), ["a", "b"]);
    bench.end().await;
}
