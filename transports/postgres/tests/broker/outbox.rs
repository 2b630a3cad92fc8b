use std::time::Duration;

use consign::{
    Disposition, Message,
    administration::{Counts, QueueSettings, SubscriptionSettings, TopicSettings},
    message::SequenceNumber,
    settlement::{Changes, DeadLetterReason},
    transport::{ErrorKind, ReceiverExt, Sender, Session},
};
use consign_postgres::{
    deadpool_postgres::{Manager, Pool},
    tokio_postgres::{IsolationLevel, NoTls},
};

use crate::{Fixture, LOCKS_END, QUEUE, options, until};

const LONG: Duration = Duration::from_secs(30);

/// A statement that waits for another transaction does so for longer than the test, not for a few seconds.
async fn with_endless_locks(settings: QueueSettings) -> Option<Fixture> {
    let mut fixture = Fixture::new(settings).await?;
    let pool = Pool::builder(Manager::new(fixture.url.parse().unwrap(), NoTls)).max_size(4).build().unwrap();
    fixture.postgres = options(&fixture.schema).timeout(Duration::from_secs(120)).wrap(pool).unwrap();
    Some(fixture)
}

/// Rules: T-71.
/// The application's row, a settlement and a send happen together, or not at all.
#[tokio::test]
async fn a_transaction_of_the_application_settles_and_sends() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    fixture.run("CREATE TABLE {s}.effects (name text)").await;
    postgres.create_queue("other", QueueSettings::default()).await.unwrap();
    let (sender, other) = (postgres.sender(QUEUE).await.unwrap(), postgres.sender("other").await.unwrap());
    sender.send(Message::new("a")).await.unwrap();
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    let insert = format!("INSERT INTO {}.effects VALUES ('done')", fixture.schema);
    let mut client = postgres.pool().get().await.unwrap();
    for commits in [false, true] {
        let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute(&insert).await.unwrap();
        other.send_in(&transaction, [Message::new("b"), Message::new("c")]).await.unwrap();
        let disposition = if commits { Disposition::Complete } else { Disposition::ABANDON };
        delivery.lease.settle_in(&transaction, disposition).await.unwrap();
        // Nobody sees any of it, and nobody waits for it: others receive and send meanwhile.
        assert_eq!(postgres.peek("other", SequenceNumber::new(0), 10).await.unwrap().len(), 0);
        sender.send(Message::new("meanwhile")).await.unwrap();
        let meanwhile = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
        assert_eq!(meanwhile.message.payload(), Some(&b"meanwhile"[..]));
        meanwhile.complete().await.unwrap();
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
            // The lock is as it was until it runs out.
            assert_eq!(postgres.counts(QUEUE).await.unwrap().locked, 1);
            fixture.run(LOCKS_END).await;
        }
    }
    let texts = postgres.peek("other", SequenceNumber::new(0), 10).await.unwrap();
    let numbers: Vec<u64> = texts.iter().map(|message| message.received().unwrap().sequence_number.get()).collect();
    // What was rolled back has left no gap.
    assert_eq!(numbers, [1, 2]);
    assert_eq!(postgres.counts(QUEUE).await.unwrap(), Counts::default());
    let rows = client.query(&format!("SELECT 1 FROM {}.effects", fixture.schema), &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
    drop(client);
    fixture.end().await;
}

/// Rules: T-51.
/// What is sent to a topic in such a transaction is copied after it, by whoever listens.
#[tokio::test]
async fn a_transaction_of_the_application_sends_to_a_topic() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    postgres.create_topic("topic", TopicSettings::default()).await.unwrap();
    postgres.create_subscription("topic", "one", SubscriptionSettings::default()).await.unwrap();
    let sender = postgres.sender("topic").await.unwrap();
    let mut receiver = postgres.receiver("topic/Subscriptions/one").await.unwrap();
    let mut client = postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    sender.send_in(&transaction, [Message::new("a")]).await.unwrap();
    transaction.commit().await.unwrap();
    receiver.receive_within(Duration::from_secs(10)).await.unwrap().complete().await.unwrap();
    drop(client);
    fixture.end().await;
}

/// Rules: Q-02.
/// Transactions commit in another order than they insert in. Numbers have no gap and do not go back.
#[tokio::test]
async fn numbers_follow_the_commits() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let sender = postgres.sender(QUEUE).await.unwrap();
    let mut client = postgres.pool().get().await.unwrap();
    let first = client.transaction().await.unwrap();
    sender.send_in(&first, [Message::new("late")]).await.unwrap();
    sender.send(Message::new("early")).await.unwrap();
    let peeked = postgres.peek(QUEUE, SequenceNumber::new(0), 10).await.unwrap();
    assert_eq!(peeked[0].payload(), Some(&b"early"[..]));
    first.commit().await.unwrap();
    let peeked = postgres.peek(QUEUE, SequenceNumber::new(0), 10).await.unwrap();
    let numbers: Vec<u64> = peeked.iter().map(|message| message.received().unwrap().sequence_number.get()).collect();
    assert_eq!((numbers, peeked[1].payload()), (vec![1, 2], Some(&b"late"[..])));
    drop(client);
    fixture.end().await;
}

/// Rules: S-54.
/// A stale lease changes nothing in a transaction of the application, which goes on.
#[tokio::test]
async fn a_lost_lock_is_reported_and_the_transaction_is_left_alone() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    let stale = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    fixture.run(LOCKS_END).await;
    let current = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    let mut client = postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let refused = stale.lease.settle_in(&transaction, Disposition::Complete).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MessageLockLost);
    current.lease.settle_in(&transaction, Disposition::Complete).await.unwrap();
    transaction.commit().await.unwrap();
    drop(client);
    until(async || postgres.counts(QUEUE).await.unwrap() == Counts::default()).await;
    fixture.end().await;
}

/// Rules: N-08.
/// A transaction of the application that outlasts the lock of a session keeps that session to itself, and nobody else waiting.
#[tokio::test]
async fn an_open_transaction_keeps_its_session_only() {
    let Some(fixture) = with_endless_locks(QueueSettings::default().requires_session(true)).await else { return };
    let postgres = &fixture.postgres;
    let sender = postgres.sender(QUEUE).await.unwrap();
    let of = |session: &'static str| Message::builder().session_id(session).build("a").unwrap();
    sender.send(of("one")).await.unwrap();
    let mut session = postgres.accept_session(QUEUE, "one").await.unwrap();
    let delivery = session.receive_within(Duration::from_secs(10)).await.unwrap();
    let mut client = postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    delivery.lease.settle_in(&transaction, Disposition::Complete).await.unwrap();
    fixture.run("UPDATE {s}.sessions SET until = clock_timestamp()").await;
    sender.send(of("two")).await.unwrap();
    let mut sessions = postgres.sessions(QUEUE).await.unwrap();
    let mut other = sessions.next_within(LONG).await.unwrap();
    other.receive_within(LONG).await.unwrap().complete().await.unwrap();
    let held = postgres.accept_session(QUEUE, "one").await.unwrap_err();
    assert_eq!(held.kind(), ErrorKind::SessionCannotBeLocked);
    transaction.commit().await.unwrap();
    postgres.accept_session(QUEUE, "one").await.unwrap();
    assert_eq!(postgres.counts(QUEUE).await.unwrap(), Counts::default());
    drop(client);
    fixture.end().await;
}

#[tokio::test]
async fn a_snapshot_from_before_the_receive_does_not_have_the_lock() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let mut client = postgres.pool().get().await.unwrap();
    for (is_before, expected) in [(true, Err(ErrorKind::MessageLockLost)), (false, Ok(()))] {
        postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
        let transaction =
            client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
        if is_before {
            transaction.batch_execute("SELECT 1").await.unwrap();
        }
        let delivery = postgres.receiver(QUEUE).await.unwrap().receive_within(Duration::from_secs(10)).await.unwrap();
        let settled = delivery.lease.settle_in(&transaction, Disposition::Complete).await;
        assert_eq!(settled.map_err(|error| error.kind()), expected);
        transaction.commit().await.unwrap();
    }
    drop(client);
    fixture.end().await;
}

/// Rules: N-08.
#[tokio::test]
async fn a_session_that_a_transaction_keeps_does_not_delay_the_release_of_others() {
    let Some(fixture) = with_endless_locks(QueueSettings::default().requires_session(true)).await else { return };
    let postgres = &fixture.postgres;
    let sender = postgres.sender(QUEUE).await.unwrap();
    for session in ["kept", "other"] {
        sender.send(Message::builder().session_id(session).build("a").unwrap()).await.unwrap();
    }
    let mut kept = postgres.accept_session(QUEUE, "kept").await.unwrap();
    let delivery = kept.receive_within(Duration::from_secs(10)).await.unwrap();
    let mut client = postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    delivery.lease.settle_in(&transaction, Disposition::Complete).await.unwrap();
    drop(kept);
    let mut other = postgres.accept_session(QUEUE, "other").await.unwrap();
    drop(other.receive_within(Duration::from_secs(10)).await.unwrap());
    drop(other);
    let process = fixture.other().await;
    let mut sessions = process.sessions(QUEUE).await.unwrap();
    let mut again = sessions.next_within(LONG).await.unwrap();
    assert_eq!(again.session_id(), "other");
    again.receive_within(LONG).await.unwrap().complete().await.unwrap();
    transaction.commit().await.unwrap();
    drop(client);
    fixture.end().await;
}

/// Rules: N-08.
#[tokio::test]
async fn a_lost_session_that_is_dropped_does_not_keep_it_from_the_next() {
    let Some(fixture) = Fixture::new(QueueSettings::default().requires_session(true)).await else { return };
    let postgres = &fixture.postgres;
    postgres.sender(QUEUE).await.unwrap().send(Message::builder().session_id("one").build("a").unwrap()).await.unwrap();
    let mut session = postgres.accept_session(QUEUE, "one").await.unwrap();
    let delivery = session.receive_within(Duration::from_secs(10)).await.unwrap();
    fixture.run("UPDATE {s}.sessions SET until = clock_timestamp()").await;
    // What drops it has not ended yet.
    let mut client = postgres.pool().get().await.unwrap();
    let dropping = client.transaction().await.unwrap();
    let sql = format!("SELECT {0}.drop_session(entity, session, token) FROM {0}.sessions", &*fixture.schema);
    assert!(!dropping.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0));
    let mut next = postgres.accept_session(QUEUE, "one").await.unwrap();
    next.receive_within(Duration::from_secs(10)).await.unwrap().complete().await.unwrap();
    dropping.commit().await.unwrap();
    drop((delivery, client));
    fixture.end().await;
}

/// A session that is given up while a transaction sets one of its messages aside does not bring it back.
#[tokio::test]
async fn a_message_deferred_while_its_session_is_released_stays_deferred() {
    let Some(fixture) = Fixture::new(QueueSettings::default().requires_session(true)).await else { return };
    let postgres = &fixture.postgres;
    let message = Message::builder().session_id("one").build("a").unwrap();
    postgres.sender(QUEUE).await.unwrap().send(message).await.unwrap();
    let mut session = postgres.accept_session(QUEUE, "one").await.unwrap();
    let delivery = session.receive_within(Duration::from_secs(10)).await.unwrap();
    let mut client = postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    delivery.lease.settle_in(&transaction, Disposition::Defer(Changes::NONE)).await.unwrap();
    let closing = tokio::spawn(session.close());
    let waits = format!(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{}\".close_session%'",
        fixture.schema
    );
    until(async || !postgres.pool().get().await.unwrap().query(&waits, &[]).await.unwrap().is_empty()).await;
    transaction.commit().await.unwrap();
    closing.await.unwrap().unwrap();
    let counts = postgres.counts(QUEUE).await.unwrap();
    assert_eq!((counts.deferred, counts.active), (1, 0));
    drop(client);
    fixture.end().await;
}

/// Rules: T-71.
/// A hundred locks, which are handled at once, have run out and are left to the transaction.
#[tokio::test]
async fn an_open_transaction_with_many_lost_locks_keeps_no_other_message() {
    let settings = QueueSettings::default().lock_duration(Duration::from_secs(5));
    let Some(fixture) = Fixture::new(settings).await else { return };
    let postgres = &fixture.postgres;
    let (sender, mut receiver) = (postgres.sender(QUEUE).await.unwrap(), postgres.receiver(QUEUE).await.unwrap());
    let mut client = postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    for _ in 0..100 {
        sender.send(Message::new("kept")).await.unwrap();
        let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
        delivery.lease.settle_in(&transaction, Disposition::Complete).await.unwrap();
    }
    let ended = format!("SELECT count(*) = 100 FROM {}.locks WHERE until <= clock_timestamp()", fixture.schema);
    let other = postgres.pool().get().await.unwrap();
    until(async || other.query_one(&ended, &[]).await.unwrap().get(0)).await;
    drop(other);
    sender.send(Message::new("other")).await.unwrap();
    let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"other"[..]));
    delivery.complete().await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(postgres.counts(QUEUE).await.unwrap(), Counts::default());
    drop(client);
    fixture.end().await;
}

/// Rules: T-71.
#[tokio::test]
async fn a_settlement_that_is_refused_leaves_the_lock() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let delivery = postgres.receiver(QUEUE).await.unwrap().receive_within(Duration::from_secs(10)).await.unwrap();
    let mut client = postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let reason = DeadLetterReason::Application("x".repeat(5_000).into());
    let refused = delivery.lease.settle_in(&transaction, Disposition::dead_letter(reason, "")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    transaction.commit().await.unwrap();
    drop(client);
    // An abandoned message would be redelivered.
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    assert_eq!(
        receiver.receive_within(Duration::from_millis(500)).await.unwrap_err().kind(),
        ErrorKind::ServiceTimeout
    );
    assert_eq!(postgres.counts(QUEUE).await.unwrap().locked, 1);
    fixture.end().await;
}
