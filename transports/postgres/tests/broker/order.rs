//! Numbers: dense, and in the order of arrival.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    transport::{Delivery, ReceiverExt, Sender},
};
use consign_postgres::{PostgresLease, PostgresReceiver};
use tokio::time::{Instant, timeout};

use crate::{Fixture, QUEUE, until};

async fn take(receiver: &mut PostgresReceiver) -> (u64, Vec<u8>) {
    let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    let number = delivery.message.received().unwrap().sequence_number.get();
    let body = delivery.message.payload().unwrap().to_vec();
    delivery.complete().await.unwrap();
    (number, body)
}

/// Rules: Q-02.
/// Receivers that number what they take at the same time, others that number ahead, and sends that are rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_dense_however_many_receive() {
    const MESSAGES: usize = 600;
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let sender = postgres.sender(QUEUE).await.unwrap();
    let sending = async {
        for round in 0..MESSAGES / 20 {
            if round % 5 == 0 {
                let mut client = postgres.pool().get().await.unwrap();
                let transaction = client.transaction().await.unwrap();
                sender.send_in(&transaction, [Message::new("never")]).await.unwrap();
                transaction.rollback().await.unwrap();
            }
            if round % 7 == 0 {
                postgres.peek(QUEUE, consign::message::SequenceNumber::new(0), 5).await.unwrap();
            }
            futures_util::future::try_join_all((0..20).map(|_| sender.send(Message::new("a")))).await.unwrap();
        }
    };
    let taken = AtomicUsize::new(0);
    let until = Instant::now() + Duration::from_secs(60);
    let receiving = (1..=3).map(|width| {
        let (broker, taken) = (postgres.clone(), &taken);
        async move {
            let (mut receiver, mut seen) = (broker.receiver(QUEUE).await.unwrap(), Vec::new());
            loop {
                match timeout(Duration::from_secs(3), receiver.receive_batch(width * 7)).await {
                    Ok(batch) => {
                        for delivery in batch.unwrap() {
                            seen.push(delivery.message.received().unwrap().sequence_number.get());
                            delivery.complete().await.unwrap();
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    // And none came twice.
                    Err(_) if taken.load(Ordering::Relaxed) >= MESSAGES => return seen,
                    Err(_) => assert!(Instant::now() < until, "{taken:?} of {MESSAGES} came"),
                }
            }
        }
    });
    let (seen, ()) = tokio::join!(futures_util::future::join_all(receiving), sending);
    let all: Vec<u64> = seen.concat();
    let different: BTreeSet<u64> = all.iter().copied().collect();
    assert_eq!(all.len(), MESSAGES, "one of them came twice, or not");
    assert_eq!(different, (1..=MESSAGES as u64).collect());
    fixture.end().await;
}

/// Rules: Q-02.
/// One has read which messages have no numbers, and before it numbers them another does.
#[tokio::test]
async fn messages_numbered_by_another_process_are_left_to_it() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let (postgres, slow) = (&fixture.postgres, format!("{}_slow", fixture.schema));
    let sender = postgres.sender(QUEUE).await.unwrap();
    for _ in 0..5 {
        sender.send(Message::new("a")).await.unwrap();
    }
    // Whoever looks at the counter waits, of the connections of one process.
    let held = format!("hashtext('{slow}')");
    fixture
        .run(&format!(
            "CREATE FUNCTION {{s}}.pause() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
                IF current_setting('application_name') = '{slow}' THEN
                    PERFORM pg_advisory_xact_lock_shared({held});
                END IF;
                RETURN true;
            END $$;
            ALTER TABLE {{s}}.numbers RENAME TO counters;
            CREATE VIEW {{s}}.numbers AS SELECT * FROM {{s}}.counters WHERE {{s}}.pause()"
        ))
        .await;
    let client = postgres.pool().get().await.unwrap();
    client.batch_execute(&format!("SELECT pg_advisory_lock({held})")).await.unwrap();

    let other = crate::options(&fixture.schema).connect(&fixture.url_of(&slow)).await.unwrap();
    let mut second = other.receiver(QUEUE).await.unwrap();
    let second = tokio::spawn(async move { second.receive_batch(5).await });
    let waits = format!(
        "SELECT FROM pg_stat_activity WHERE application_name = '{slow}' AND wait_event = 'advisory'
        AND query LIKE '%.receive(%'"
    );
    until(async || !client.query(&waits, &[]).await.unwrap().is_empty()).await;
    let first = postgres.receiver(QUEUE).await.unwrap().receive_batch(1).await.unwrap();
    client.batch_execute(&format!("SELECT pg_advisory_unlock({held})")).await.unwrap();

    let second = second.await.unwrap().unwrap();
    assert_eq!(numbers(&first), [1]);
    assert_eq!(numbers(&second), [2, 3, 4, 5]);
    for delivery in first.into_iter().chain(second) {
        delivery.complete().await.unwrap();
    }
    drop(client);
    fixture.end().await;
}

fn numbers(deliveries: &[Delivery<PostgresLease>]) -> Vec<u64> {
    deliveries.iter().map(|delivery| delivery.message.received().unwrap().sequence_number.get()).collect()
}

/// Messages of one sender keep their order when the clock of the server is set back.
#[tokio::test]
async fn a_clock_that_goes_back_changes_no_order() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    sender.send(Message::new("first")).await.unwrap();
    fixture
        .run(
            "CREATE OR REPLACE FUNCTION {s}.now() RETURNS timestamptz LANGUAGE sql VOLATILE
            AS $$ SELECT clock_timestamp() - interval '1 hour' $$",
        )
        .await;
    sender.send(Message::new("second")).await.unwrap();
    let mut receiver = fixture.postgres.receiver(QUEUE).await.unwrap();
    assert_eq!(take(&mut receiver).await, (1, b"first".to_vec()));
    assert_eq!(take(&mut receiver).await, (2, b"second".to_vec()));
    fixture.end().await;
}

/// Of large messages a receive takes a few.
#[tokio::test]
async fn a_receive_has_a_bound_of_bytes() {
    let settings = QueueSettings::default().max_message_size(20 << 20);
    let Some(fixture) = Fixture::new(settings).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    for _ in 0..3 {
        sender.send(Message::new(vec![0; 9 << 20])).await.unwrap();
    }
    let mut receiver = fixture.postgres.receiver(QUEUE).await.unwrap();
    let batch = receiver.receive_batch(10).await.unwrap();
    assert_eq!(batch.len(), 2);
    let rest = receiver.receive_batch(10).await.unwrap();
    assert_eq!(rest.len(), 1);
    drop((batch, rest));
    fixture.end().await;
}
