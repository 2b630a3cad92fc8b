//! What is done beside the calls, and in what portions.

use std::time::Duration;

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    time::Timestamp,
    transport::{ErrorKind, ReceiverExt, Sender, Session},
};
use consign_postgres::{
    Postgres,
    deadpool_postgres::{Manager, Pool},
    tokio_postgres::{Config, NoTls},
};

use crate::{Fixture, QUEUE, repeated, until, until_within};

const LONG: Duration = Duration::from_secs(20);

/// However much expires at once, one statement does a batch of it.
#[tokio::test]
async fn mass_expiry_is_done_in_portions() {
    let settings = QueueSettings::default().dead_letter_on_expiration(true);
    let Some(fixture) = Fixture::new(settings).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    let message = || Message::builder().time_to_live(Duration::from_secs(3_600)).build("a").unwrap();
    for _ in 0..5 {
        sender.send_batch((0..500).map(|_| message()).collect()).await.unwrap();
    }
    let client = fixture.postgres.pool().get().await.unwrap();
    // Nobody else does it meanwhile.
    let sql = format!(
        "BEGIN; LOCK TABLE {s}.numbers IN EXCLUSIVE MODE;
        UPDATE {s}.plain SET enqueued = clock_timestamp() - interval '1 hour'; UPDATE {s}.batches SET due = clock_timestamp()",
        s = fixture.schema
    );
    client.batch_execute(&sql).await.unwrap();
    let step = format!("SELECT leaving, more FROM {}.step((SELECT id FROM {0}.entities))", fixture.schema);
    let dead = format!("SELECT count(*) FROM {}.messages WHERE part = 1", fixture.schema);
    for expected in [1_000, 2_000, 2_500] {
        let more: bool = client.query_one(&step, &[]).await.unwrap().get(1);
        let dead: i64 = client.query_one(&dead, &[]).await.unwrap().get(0);
        assert_eq!((dead, more), (expected, expected < 2_500));
    }
    client.batch_execute("COMMIT").await.unwrap();
    drop(client);
    assert_eq!(fixture.postgres.counts(QUEUE).await.unwrap().dead_lettered, 2_500);
    fixture.end().await;
}

/// A process that seldom looks forgets as many as there are.
#[tokio::test]
async fn one_sweep_forgets_all_ids_whose_window_has_passed() {
    let seldom = |schema: &str| crate::options(schema).poll_every(Duration::from_secs(8));
    let Some(fixture) = Fixture::with(QueueSettings::default(), seldom).await else { return };
    fixture
        .run(
            "CREATE TABLE {s}.sweeps (at timestamptz);
            CREATE TABLE {s}.forgotten (sweeps bigint, count bigint);
            ALTER FUNCTION {s}.sweep(bigint) RENAME TO own_sweep;
            CREATE FUNCTION {s}.sweep(p_grace_ms bigint) RETURNS SETOF bigint LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO {s}.sweeps VALUES (clock_timestamp());
                RETURN QUERY SELECT {s}.own_sweep(p_grace_ms);
            END $$;
            CREATE FUNCTION {s}.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO {s}.forgotten SELECT (SELECT count(*) FROM {s}.sweeps), count(*) FROM removed;
                RETURN NULL;
            END $$;
            CREATE TRIGGER note AFTER DELETE ON {s}.ids REFERENCING OLD TABLE AS removed
            FOR EACH STATEMENT EXECUTE FUNCTION {s}.note();
            INSERT INTO {s}.ids (entity, id, until)
            SELECT e.id, convert_to(n::text, 'UTF8'), clock_timestamp()
            FROM {s}.entities AS e, generate_series(1, 25000) AS n",
        )
        .await;
    // Its process sweeps from here on.
    let _receiver = fixture.postgres.receiver(QUEUE).await.unwrap();
    let client = fixture.postgres.pool().get().await.unwrap();
    let left = format!("SELECT count(*) FROM {}.ids", fixture.schema);
    let longest = Duration::from_secs(60);
    until_within(longest, async || client.query_one(&left, &[]).await.unwrap().get::<_, i64>(0) == 0).await;
    let rounds = format!("SELECT array_agg(DISTINCT sweeps) FROM {}.forgotten WHERE count > 0", fixture.schema);
    let rounds: Vec<i64> = client.query_one(&rounds, &[]).await.unwrap().get(0);
    assert_eq!(rounds.len(), 1, "{rounds:?}");
    drop(client);
    fixture.end().await;
}

/// A transaction that sends to a queue that is deleted before its commit leaves nothing behind.
#[tokio::test]
async fn messages_sent_while_the_queue_is_deleted_are_deleted() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    sender.send_in(&transaction, [Message::new("late")]).await.unwrap();
    fixture.postgres.delete(QUEUE).await.unwrap();
    transaction.commit().await.unwrap();
    let left = format!("SELECT (SELECT count(*) FROM {0}.messages) + count(*) FROM {0}.plain", fixture.schema);
    until(async || client.query_one(&left, &[]).await.unwrap().get::<_, i64>(0) == 0).await;
    drop(client);
    fixture.end().await;
}

/// A message that an open transaction settles gets a row of its own there.
#[tokio::test]
async fn a_message_that_is_settled_while_the_queue_is_deleted_is_deleted() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let delivery = postgres.receiver(QUEUE).await.unwrap().receive_within(LONG).await.unwrap();
    let mut client = postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    delivery.lease.settle_in(&transaction, Disposition::ABANDON).await.unwrap();
    let other = postgres.clone();
    let deleting = tokio::spawn(async move { other.delete(QUEUE).await });
    until(async || fixture.waits_for_a_lock("remove(").await).await;
    transaction.commit().await.unwrap();
    deleting.await.unwrap().unwrap();
    let left = format!("SELECT (SELECT count(*) FROM {0}.messages) + count(*) FROM {0}.plain", fixture.schema);
    assert_eq!(client.query_one(&left, &[]).await.unwrap().get::<_, i64>(0), 0);
    drop(client);
    fixture.end().await;
}

/// Another receive has the numbers of the queue until after the end of the message.
#[tokio::test]
async fn a_message_that_expires_while_a_receive_waits_is_not_delivered() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let client = postgres.pool().get().await.unwrap();
    client.batch_execute(&format!("BEGIN; SELECT FROM {}.numbers FOR UPDATE", fixture.schema)).await.unwrap();
    let message = Message::builder().time_to_live(Duration::from_millis(500)).build("a").unwrap();
    postgres.sender(QUEUE).await.unwrap().send(message).await.unwrap();
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    let receiving = tokio::spawn(async move { receiver.receive_within(Duration::from_secs(2)).await.map(drop) });
    until(async || fixture.waits_for_a_lock("receive(").await).await;
    let ended = format!("SELECT count(*) = 0 FROM {}.batches WHERE due > clock_timestamp()", fixture.schema);
    until(async || client.query_one(&ended, &[]).await.unwrap().get(0)).await;
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(receiving.await.unwrap().unwrap_err().kind(), ErrorKind::ServiceTimeout);
    drop(client);
    fixture.end().await;
}

/// A server that is not written to any more is left, and the next connection may lead to another.
#[tokio::test]
async fn a_connection_that_is_read_only_is_given_up() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = crate::options(&fixture.schema).connections(1).poll_every(Duration::from_secs(3_600));
    let postgres = postgres.connect(&fixture.url).await.unwrap();
    let sender = postgres.sender(QUEUE).await.unwrap();
    let demote = "SET default_transaction_read_only = on";
    postgres.pool().get().await.unwrap().batch_execute(demote).await.unwrap();
    let error = sender.send(Message::new("a")).await.unwrap_err();
    assert!(error.is_retryable() && error.kind() == ErrorKind::CommunicationProblem, "{error:?}");
    sender.send(Message::new("a")).await.unwrap();
    fixture.end().await;
}

/// A session that is dropped while another transaction keeps its row is given up later.
#[tokio::test]
async fn a_session_that_is_dropped_is_given_up_when_its_row_is_free() {
    give_up_later("-c lock_timeout=300ms").await;
}

/// So is one whose statement ends by the limit of all statements.
#[tokio::test]
async fn a_session_that_is_dropped_is_given_up_after_a_statement_timeout() {
    give_up_later("-c statement_timeout=300ms").await;
}

/// The first attempt fails by that limit.
async fn give_up_later(limit: &str) {
    let Some(fixture) = Fixture::new(QueueSettings::default().requires_session(true)).await else { return };
    let mut config: Config = fixture.url.parse().unwrap();
    config.options(limit);
    let pool = Pool::builder(Manager::new(config, NoTls)).max_size(2).build().unwrap();
    let wrapped: Postgres = crate::options(&fixture.schema).wrap(pool).unwrap();
    let session = repeated(async || wrapped.accept_session(QUEUE, "one").await).await;
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let keep = format!("SELECT FROM {}.sessions FOR UPDATE", fixture.schema);
    transaction.execute(&keep, &[]).await.unwrap();
    let id = session.session_id().to_owned();
    drop(session);
    until(async || fixture.waits_for_a_lock("drop_session(").await).await;
    until(async || !fixture.waits_for_a_lock("drop_session(").await).await;
    transaction.commit().await.unwrap();
    drop(client);
    until(async || fixture.postgres.accept_session(QUEUE, &id).await.is_ok()).await;
    fixture.end().await;
}

/// The messages are there, and whoever schedules them again has them twice.
#[tokio::test]
async fn a_scheduled_message_without_a_number_is_not_an_error() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let mut config: Config = fixture.url.parse().unwrap();
    config.options("-c lock_timeout=50ms");
    let pool = Pool::builder(Manager::new(config, NoTls)).max_size(2).build().unwrap();
    let wrapped: Postgres = crate::options(&fixture.schema).wrap(pool).unwrap();
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    // Nobody numbers messages.
    transaction.execute(&format!("SELECT FROM {}.numbers FOR UPDATE", fixture.schema), &[]).await.unwrap();
    let at = Timestamp::from_millis(wrapped.now().await.unwrap().as_millis() + 3_600_000);
    let sender = wrapped.sender(QUEUE).await.unwrap();
    let error = sender.schedule(vec![Message::new("a")], at).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    transaction.commit().await.unwrap();
    drop(client);
    until(async || fixture.postgres.counts(QUEUE).await.unwrap().scheduled == 1).await;
    fixture.end().await;
}

/// Processes that do not look for an hour wake each other.
#[tokio::test]
async fn a_message_wakes_a_receiver_of_another_process() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let never = || crate::options(&fixture.schema).poll_every(Duration::from_secs(3_600));
    let one = never().connect(&fixture.url).await.unwrap();
    let sender = one.sender(QUEUE).await.unwrap();
    sender.send(Message::new("of the first")).await.unwrap();
    one.receiver(QUEUE).await.unwrap().receive().await.unwrap().complete().await.unwrap();
    let other = never().connect(&fixture.url).await.unwrap();
    let mut receiver = other.receiver(QUEUE).await.unwrap();
    assert!(receiver.receive_within(Duration::from_millis(500)).await.is_err());
    let waiting = tokio::spawn(async move {
        receiver.receive_within(Duration::from_secs(30)).await.unwrap().complete().await.unwrap();
    });
    // It waits when the message comes.
    tokio::time::sleep(Duration::from_millis(200)).await;
    sender.send(Message::new("a")).await.unwrap();
    waiting.await.unwrap();
    fixture.end().await;
}
