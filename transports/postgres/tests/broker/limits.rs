use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::{Counts, QueueSettings},
    message::{SequenceNumber, Value},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Delivery, ErrorKind, Lease, ReceiverExt, Sender},
};
use consign_postgres::{
    Postgres,
    deadpool_postgres::{ClientWrapper, Hook, HookError, Manager, Pool},
    tokio_postgres::NoTls,
};

use crate::{Fixture, LONGEST, QUEUE, options, repeated};

#[tokio::test]
async fn migrating_again_and_at_the_same_time_changes_nothing() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let other = fixture.other().await;
    let (one, two, three) = tokio::join!(other.migrate(), fixture.postgres.migrate(), fixture.postgres.migrate());
    one.and(two).and(three).unwrap();
    fixture.postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    fixture.run("UPDATE {s}.version SET version = 1000").await;
    assert_eq!(other.migrate().await.unwrap_err().kind(), ErrorKind::NotSupported);
    fixture.end().await;
}

#[tokio::test]
async fn a_missing_entity_is_named() {
    let Some(url) = crate::server::url().await else { return };
    for name in ["", "a$$b", "{l}", "a\0"] {
        let error = Postgres::options().schema(name).connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
    }
    let postgres = Postgres::options().schema("consign_test_nothing").connect(&url).await.unwrap();
    let error = postgres.sender("a").await.unwrap_err();
    assert!(!error.is_retryable() && error.to_string().contains("migrate"), "{error}");
    assert_eq!(Postgres::connect("nonsense://").await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    // Port 1 is nobody's.
    let error = Postgres::connect("postgresql://nobody@127.0.0.1:1/nothing").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");
    for settings in [
        QueueSettings::default().partitioned(true),
        QueueSettings::default().auto_delete_on_idle(Duration::from_secs(600)),
        QueueSettings::default().max_duplicate_ids(5),
    ] {
        let error = postgres.create_queue("a", settings).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    }
}

/// A row that nobody can read becomes a dead letter, and does not stop those behind it.
#[tokio::test]
async fn an_unreadable_row_is_dead_lettered() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let sender = postgres.sender(QUEUE).await.unwrap();
    sender.send(Message::new("bad")).await.unwrap();
    fixture.run(r#"UPDATE {s}.plain SET properties = '{"body": {"sections": [1000]}}'"#).await;
    sender.send(Message::new("good")).await.unwrap();
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"good"[..]));
    delivery.complete().await.unwrap();
    assert_eq!(postgres.counts(QUEUE).await.unwrap().dead_lettered, 1);
    let client = postgres.pool().get().await.unwrap();
    let sql = format!("SELECT reason, description FROM {}.messages", fixture.schema);
    let row = client.query_one(&sql, &[]).await.unwrap();
    assert!(row.get::<_, &str>(0) == "DeserializationFailed" && row.get::<_, &str>(1).contains("sections"));
    drop(client);
    // It can be peeked, and hides none behind it.
    sender.send(Message::new("worse")).await.unwrap();
    let worse = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    worse
        .settle(Disposition::DeadLetter(Box::new(DeadLetter::new(
            DeadLetterReason::Application("Worse".into()),
            "as said",
        ))))
        .await
        .unwrap();
    let dead = postgres.peek("queue/$DeadLetterQueue", SequenceNumber::new(0), 10).await.unwrap();
    let shown: Vec<_> = dead.iter().map(|dead| (dead.payload(), dead.dead_letter_reason())).collect();
    assert_eq!(shown, [(Some(&b"bad"[..]), Some("DeserializationFailed")), (Some(b"worse"), Some("Worse"))]);
    assert!(dead[0].dead_letter_description().is_some_and(|text| text.contains("sections")), "{dead:?}");
    assert_eq!(dead[0].received().map(|it| (it.sequence_number.get(), it.dead_lettered)), Some((1, true)));
    fixture.end().await;
}

/// It is not lost either where a message is removed as it is received.
#[tokio::test]
async fn an_unreadable_row_is_dead_lettered_in_receive_and_delete() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let sender = postgres.sender(QUEUE).await.unwrap();
    sender.send(Message::new("bad")).await.unwrap();
    fixture.run(r#"UPDATE {s}.plain SET properties = '{"body": {"sections": [1000]}}'"#).await;
    sender.send(Message::new("good")).await.unwrap();
    let mut receiver = postgres.receive_and_delete(QUEUE).await.unwrap();
    let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"good"[..]));
    let client = postgres.pool().get().await.unwrap();
    let sql = format!("SELECT part, number, reason, body FROM {}.messages", fixture.schema);
    let row = client.query_one(&sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, i16>(0), row.get::<_, i64>(1)), (1, 1));
    assert_eq!((row.get::<_, &str>(2), row.get::<_, &[u8]>(3)), ("DeserializationFailed", &b"bad"[..]));
    drop(client);
    fixture.end().await;
}

#[tokio::test]
async fn values_that_could_not_be_read_back_are_refused() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let deep = (0..100).fold(Value::from(1), |inner, _| Value::List(vec![inner]));
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    assert_eq!(sender.send(Message::new(deep)).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    fixture.end().await;
}

/// A pool that is there gives no notifications away: messages of other processes are found by looking.
#[tokio::test]
async fn a_wrapped_pool_finds_messages_of_others() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let wrapped = crate::options(&fixture.schema).wrap(fixture.other().await.pool().clone()).unwrap();
    let mut receiver = wrapped.receiver(QUEUE).await.unwrap();
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    let (received, sent) =
        tokio::join!(receiver.receive_within(Duration::from_secs(10)), sender.send(Message::new("a")));
    sent.unwrap();
    received.unwrap().complete().await.unwrap();
    fixture.end().await;
}

/// A receiver that waits takes nothing from what the others may hold.
#[tokio::test]
async fn a_waiting_receiver_does_not_block_others() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = crate::options(&fixture.schema).max_deliveries(1).connect(&fixture.url).await.unwrap();
    postgres.create_queue("idle", QueueSettings::default()).await.unwrap();
    let mut idle = postgres.receiver("idle").await.unwrap();
    assert!(idle.receive_within(Duration::from_millis(1)).await.is_err());
    let waiting = tokio::spawn(async move { idle.receive_within(Duration::from_secs(60)).await.is_ok() });
    tokio::time::sleep(Duration::from_millis(300)).await;
    postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    delivery.complete().await.unwrap();
    waiting.abort();
    fixture.end().await;
}

/// Rules: S-54.
/// Completions at the same time are one statement, and each has the answer that is its own.
#[tokio::test]
async fn completions_at_the_same_time_have_each_their_own_answer() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let sender = postgres.sender(QUEUE).await.unwrap();
    futures_util::future::join_all((0..300).map(|_| sender.send(Message::new("a")))).await;
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    let mut stale = Vec::new();
    while stale.len() < 300 {
        stale.extend(receiver.receive_batch(300 - stale.len()).await.unwrap());
    }
    // A third of them are delivered again.
    fixture
        .run(
            "SELECT {s}.pull(m.id, l.token) FROM {s}.locks AS l, {s}.members(l.ids, l.counts) AS m
            WHERE (l.number + m.position) % 3 = 0;
            UPDATE {s}.messages SET due = clock_timestamp() WHERE number % 3 = 0",
        )
        .await;
    let mut current = Vec::new();
    while current.len() < 100 {
        current.extend(receiver.receive_batch(100 - current.len()).await.unwrap());
    }
    let settled = stale.into_iter().chain(current).map(|delivery| {
        let received = delivery.message.received().unwrap();
        let is_lost = received.sequence_number.get() % 3 == 0 && received.delivery_count == 1;
        async move { (is_lost, delivery.complete().await) }
    });
    for (is_lost, settled) in futures_util::future::join_all(settled).await {
        assert_eq!(settled.err().map(|error| error.kind()), is_lost.then_some(ErrorKind::MessageLockLost));
    }
    assert_eq!(postgres.counts(QUEUE).await.unwrap(), Counts::default());
    fixture.end().await;
}

#[tokio::test]
async fn a_send_that_gets_no_connection_was_not_executed() {
    let timeout = Duration::from_secs(100);
    let options = |schema: &str| options(schema).connections(1).timeout(timeout);
    let Some(fixture) = Fixture::with(QueueSettings::default(), options).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    let only = fixture.postgres.pool().get().await.unwrap();
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let error = sender.send(Message::new("a")).await.unwrap_err();
    let took = began.elapsed();
    tokio::time::resume();
    assert!(took < 2 * timeout, "{took:?}");
    assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::ServiceBusy, false), "{error}");
    assert!(error.is_retryable() && error.to_string().contains("no connection was free"), "{error}");
    drop(only);
    sender.send(Message::new("a")).await.unwrap();
    assert_eq!(fixture.postgres.counts(QUEUE).await.unwrap().active, 1);
    fixture.end().await;
}

/// Rules: K-340.
/// Sends that wait for each other wait for a connection together.
#[tokio::test]
async fn waiting_sends_that_get_no_connection_fail_together() {
    let timeout = Duration::from_secs(100);
    let options = |schema: &str| options(schema).connections(1).timeout(timeout);
    let Some(fixture) = Fixture::with(QueueSettings::default(), options).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    sender.send(Message::new("a")).await.unwrap();
    let only = fixture.postgres.pool().get().await.unwrap();
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    for sent in futures_util::future::join_all((0..20).map(|_| sender.send(Message::new("a")))).await {
        let error = sent.unwrap_err();
        assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::ServiceBusy, false), "{error}");
        assert!(error.is_retryable() && error.to_string().contains("no connection was free"), "{error}");
    }
    let took = began.elapsed();
    tokio::time::resume();
    assert!(took < 3 * timeout, "{took:?}");
    drop(only);
    fixture.end().await;
}

/// Rules: K-340.
/// Also if they are more than one statement sends.
#[tokio::test]
async fn large_waiting_sends_that_get_no_connection_fail_together() {
    let timeout = Duration::from_secs(100);
    let options = |schema: &str| options(schema).connections(1).timeout(timeout);
    let settings = QueueSettings::default().max_message_size(2 << 20);
    let Some(fixture) = Fixture::with(settings, options).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    sender.send(Message::new("a")).await.unwrap();
    let only = fixture.postgres.pool().get().await.unwrap();
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let large = || Message::new(vec![0; 1 << 20]);
    for sent in futures_util::future::join_all((0..20).map(|_| sender.send(large()))).await {
        let error = sent.unwrap_err();
        assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::ServiceBusy, false), "{error}");
        assert!(error.is_retryable() && error.to_string().contains("no connection was free"), "{error}");
    }
    let took = began.elapsed();
    tokio::time::resume();
    assert!(took < 3 * timeout, "{took:?}");
    drop(only);
    fixture.end().await;
}

/// Rules: K-340.
#[tokio::test]
async fn sends_that_fail_together_fail_as_one_alone() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let other = fixture.other().await;
    let sender = other.sender(QUEUE).await.unwrap();
    sender.send(Message::new("a")).await.unwrap();
    other.pool().close();
    let alone = sender.send(Message::new("a")).await.unwrap_err();
    let (one, two) = tokio::join!(sender.send(Message::new("a")), sender.send(Message::new("a")));
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert_eq!((error.kind(), error.is_retryable()), (alone.kind(), alone.is_retryable()), "{error}");
        assert_eq!((error.condition(), error.description()), (alone.condition(), alone.description()), "{error}");
        assert!(std::error::Error::source(&error).is_some(), "{error}");
    }
    fixture.end().await;
}

/// The server has too many connections.
#[tokio::test]
async fn waiting_completions_that_get_no_connection_ask_for_one_together() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let (is_full, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let hook = {
        let (is_full, asked) = (Arc::clone(&is_full), Arc::clone(&asked));
        Hook::async_fn(move |client: &mut ClientWrapper, _| {
            let (is_full, asked) = (Arc::clone(&is_full), Arc::clone(&asked));
            Box::pin(async move {
                if !is_full.load(Ordering::Relaxed) {
                    return Ok(());
                }
                asked.fetch_add(1, Ordering::Relaxed);
                let refuse = "DO $$ BEGIN RAISE EXCEPTION 'too many' USING ERRCODE = '53300'; END $$";
                client.batch_execute(refuse).await.map_err(HookError::Backend)
            })
        })
    };
    let manager = Manager::new(fixture.url.parse().unwrap(), NoTls);
    let pool = Pool::builder(manager).max_size(2).post_create(hook).build().unwrap();
    // Its sweeps do not ask.
    let full = options(&fixture.schema).poll_every(Duration::from_secs(3_600)).wrap(pool).unwrap();
    let sender = full.sender(QUEUE).await.unwrap();
    futures_util::future::join_all((0..50).map(|_| sender.send(Message::new("a")))).await;
    let mut receiver = full.receiver(QUEUE).await.unwrap();
    let mut deliveries = Vec::new();
    while deliveries.len() < 50 {
        deliveries.extend(receiver.receive_batch(50 - deliveries.len()).await.unwrap());
    }
    is_full.store(true, Ordering::Relaxed);
    drop(full.pool().retain(|_, _| false));
    for completed in futures_util::future::join_all(deliveries.into_iter().map(Delivery::complete)).await {
        let error = completed.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ServiceBusy, "{error}");
    }
    let asked = asked.load(Ordering::Relaxed);
    assert!(asked < 10, "{asked} times");
    fixture.end().await;
}

/// An error of the server's storage may pass, as one of its memory does.
#[tokio::test]
async fn a_receive_that_fails_by_the_storage_of_the_server_is_retryable() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let mut receiver = fixture.postgres.receiver(QUEUE).await.unwrap();
    for code in ["58030", "58P01"] {
        fixture
            .run(&format!(
                "CREATE OR REPLACE FUNCTION {{s}}.now() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
                BEGIN RAISE EXCEPTION 'could not read' USING ERRCODE = '{code}'; END $$"
            ))
            .await;
        let error = receiver.receive().await.unwrap_err();
        assert!(error.is_retryable(), "{code}: {error:?}");
    }
    fixture.end().await;
}

/// A call that needs a place does not wait for it longer than for an answer.
#[tokio::test]
async fn an_accept_that_gets_no_place_is_throttled() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let sessions = QueueSettings::default().requires_session(true);
    fixture.postgres.create_queue("sessions", sessions).await.unwrap();
    fixture.postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let timeout = Duration::from_secs(5);
    let postgres = fixture.impatient(|schema| options(schema).max_deliveries(1).timeout(timeout)).await;
    let mut receiver = repeated(async || postgres.receiver(QUEUE).await).await;
    let held = repeated(async || receiver.receive().await).await;
    let accepted = tokio::time::timeout(LONGEST, postgres.accept_session("sessions", "one")).await.expect("it waits");
    assert_eq!(accepted.unwrap_err().kind(), ErrorKind::Throttled);
    let numbers = [SequenceNumber::new(1)];
    let deferred = tokio::time::timeout(LONGEST, postgres.receive_deferred(QUEUE, &numbers)).await.expect("it waits");
    assert_eq!(deferred.unwrap_err().kind(), ErrorKind::Throttled);
    drop(held);
    repeated(async || postgres.accept_session("sessions", "one").await).await;
    fixture.end().await;
}

/// Its job is tried again meanwhile.
#[tokio::test]
async fn a_release_ends_at_the_timeout_and_goes_on() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    fixture.postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let impatient = fixture.impatient(|schema| options(schema).timeout(Duration::from_secs(5))).await;
    let mut receiver = repeated(async || impatient.receiver(QUEUE).await).await;
    let delivery = repeated(async || receiver.receive().await).await;
    let client = fixture.postgres.pool().get().await.unwrap();
    client.batch_execute(&format!("BEGIN; SELECT FROM {}.locks FOR UPDATE", fixture.schema)).await.unwrap();
    let released = delivery.lease.release().await;
    assert_eq!(released.unwrap_err().kind(), ErrorKind::ServiceTimeout);
    client.batch_execute("COMMIT").await.unwrap();
    drop((client, receiver));
    let mut receiver = fixture.postgres.receiver(QUEUE).await.unwrap();
    let again = receiver.receive_within(LONGEST).await.unwrap();
    assert_eq!(again.message.received().unwrap().delivery_count, 1);
    again.complete().await.unwrap();
    fixture.end().await;
}

#[tokio::test]
async fn a_transaction_keeps_the_source_of_a_failure() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let other = fixture.other().await;
    let (sender, mut transaction) = (other.sender(QUEUE).await.unwrap(), other.begin());
    transaction.send(&sender, Message::new("a")).await.unwrap();
    other.pool().close();
    let error = transaction.send(&sender, Message::new("b")).await.unwrap_err();
    assert!(std::error::Error::source(&error).is_some(), "{error}");
    fixture.end().await;
}
