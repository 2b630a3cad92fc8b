//! The size of an entity whose messages take long to sum up, or cannot be.

use std::time::Duration;

use consign::{
    Message,
    administration::{Administration, QueueSettings},
    message::EntityPath,
    transport::{ErrorKind, Sender},
};
use consign_conformance::log::Lines;

use crate::{Fixture, QUEUE, options, repeated, until};

/// Has the sum of an entity do this, and counts the calls.
async fn replace_sum(fixture: &Fixture, work: &str) {
    fixture
        .run(&format!(
            "CREATE SEQUENCE IF NOT EXISTS {{s}}.sums;
            CREATE OR REPLACE FUNCTION {{s}}.used(p_entity bigint) RETURNS bigint LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM nextval('{{s}}.sums');
                {work};
                RETURN 0;
            END $$"
        ))
        .await;
}

async fn is_summed(fixture: &Fixture) -> bool {
    let sql = format!("SELECT is_called FROM {}.sums", fixture.schema);
    fixture.postgres.pool().get().await.unwrap().query_one(&sql, &[]).await.unwrap().get(0)
}

/// A send gives the sum a quarter of its timeout.
async fn with_endless_sum() -> Option<Fixture> {
    let mut fixture = Fixture::new(QueueSettings::default()).await?;
    replace_sum(&fixture, "PERFORM pg_sleep(300)").await;
    fixture.postgres = fixture.impatient(|schema| options(schema).timeout(Duration::from_secs(8))).await;
    Some(fixture)
}

fn large() -> Message {
    Message::new(vec![0_u8; 200_000])
}

/// Rules: K-336.
#[tokio::test]
async fn sends_go_on_when_the_sum_fails() {
    let (lines, _guard) = Lines::capture();
    let Some(fixture) = Fixture::new(QueueSettings::default().max_size(8 << 20)).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    sender.send(Message::new("a")).await.unwrap();
    replace_sum(&fixture, "RAISE 'it fails'").await;
    for _ in 0..10 {
        sender.send(large()).await.unwrap();
    }
    assert!(is_summed(&fixture).await);
    // One that has no sum so far.
    let other = fixture.other().await;
    other.sender(QUEUE).await.unwrap().send(large()).await.unwrap();
    let is_logged = |line: &String| line.contains("WARN") && line.contains("could not be summed up");
    assert!(lines.all().iter().any(is_logged), "{:?}", lines.all());
    drop((sender, other));
    fixture.end().await;
}

/// Rules: K-336.
#[tokio::test]
async fn a_full_entity_is_full_until_it_is_summed_up_again() {
    let Some(fixture) = Fixture::new(QueueSettings::default().max_size(5 << 20)).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    let refused = loop {
        if let Err(refused) = sender.send(large()).await {
            break refused;
        }
    };
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded, "{refused}");
    replace_sum(&fixture, "RAISE 'it fails'").await;
    until(async || {
        let refused = sender.send(large()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QuotaExceeded, "{refused}");
        is_summed(&fixture).await
    })
    .await;
    replace_sum(&fixture, "NULL").await;
    until(async || sender.send(large()).await.is_ok()).await;
    fixture.end().await;
}

/// Rules: K-336.
/// The server does not go on with a sum that has no reader any more.
#[tokio::test]
async fn sends_do_not_wait_for_a_long_sum() {
    let Some(fixture) = with_endless_sum().await else { return };
    let sender = repeated(async || fixture.postgres.sender(QUEUE).await).await;
    for _ in 0..3 {
        sender.send(Message::new("a")).await.unwrap();
    }
    assert!(is_summed(&fixture).await);
    let sql = "SELECT count(*) = 0 FROM pg_stat_activity \
               WHERE state = 'active' AND pid <> pg_backend_pid() AND position($1 IN replace(query, '\"', '')) > 0";
    let named = format!("{}.used(", &*fixture.schema);
    until(async || {
        let client = fixture.postgres.pool().get().await.unwrap();
        client.query_one(sql, &[&named]).await.unwrap().get(0)
    })
    .await;
    fixture.end().await;
}

/// Rules: K-336.
#[tokio::test]
async fn an_entity_without_a_limit_is_not_summed_up() {
    let Some(fixture) = Fixture::new(QueueSettings::default().max_size(u64::MAX)).await else { return };
    replace_sum(&fixture, "NULL").await;
    fixture.postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    assert!(!is_summed(&fixture).await);
    fixture.end().await;
}

/// Rules: K-336.
#[tokio::test]
async fn a_send_that_is_not_checked_is_logged() {
    let (lines, _guard) = Lines::capture();
    let Some(fixture) = with_endless_sum().await else { return };
    let sender = repeated(async || fixture.postgres.sender(QUEUE).await).await;
    sender.send(Message::new("a")).await.unwrap();
    let is_logged = |line: &String| line.contains("WARN") && line.contains("could not be summed up in time");
    assert!(lines.all().iter().any(is_logged), "{:?}", lines.all());
    fixture.end().await;
}

/// Rules: T-60.
/// With one connection too: its transaction does not wait for another one.
#[tokio::test]
async fn forwarded_messages_of_one_transaction_do_not_exceed_the_size_of_their_target() {
    for connections in [1, 4] {
        let options = |schema: &str| options(schema).connections(connections);
        let Some(fixture) = Fixture::with(QueueSettings::default(), options).await else { return };
        let postgres = &fixture.postgres;
        postgres.create_queue("target", QueueSettings::default().max_size(8 << 20)).await.unwrap();
        let sender = postgres.sender(QUEUE).await.unwrap();
        for _ in 0..60 {
            sender.send(large()).await.unwrap();
        }
        let settings = QueueSettings::default().forward_to("target").into();
        postgres.update(&EntityPath::new(QUEUE).unwrap(), &settings).await.unwrap();
        let (source, target) = (postgres.counts(QUEUE).await.unwrap(), postgres.counts("target").await.unwrap());
        // As many as fit, with 256 bytes of each message beside its body.
        assert_eq!((target.active, source.dead_lettered), (41, 19));
        fixture.end().await;
    }
}
