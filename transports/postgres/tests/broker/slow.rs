//! Copies and numbers that take longer than the time limit of a call.

use std::time::Duration;

use consign::{
    Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    time::Timestamp,
    transport::{Batch, ErrorKind, Sender},
};
use consign_conformance::log::Lines;

use crate::{Fixture, LONGEST, QUEUE, options, repeated, until};

const TOPIC: &str = "topic";
const ONE: &str = "topic/Subscriptions/one";

/// A topic, each copy of which takes a while.
async fn with_slow_topic(timeout: Duration, copy: Duration) -> Option<Fixture> {
    let mut fixture = Fixture::new(QueueSettings::default()).await?;
    fixture.postgres.create_topic(TOPIC, TopicSettings::default()).await.unwrap();
    fixture.postgres.create_subscription(TOPIC, "one", SubscriptionSettings::default()).await.unwrap();
    let seconds = copy.as_secs_f64();
    fixture
        .run(&format!(
            "CREATE FUNCTION {{s}}.slow() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM pg_sleep({seconds});
                RETURN NEW;
            END $$;
            CREATE TRIGGER slow BEFORE INSERT ON {{s}}.plain FOR EACH ROW EXECUTE FUNCTION {{s}}.slow()"
        ))
        .await;
    fixture.postgres = fixture.impatient(|schema| options(schema).timeout(timeout)).await;
    Some(fixture)
}

/// Rules: K-337.
#[tokio::test]
async fn copies_that_take_longer_than_the_timeout_are_stored() {
    let Some(fixture) = with_slow_topic(Duration::from_secs(5), Duration::from_millis(400)).await else { return };
    let batch: Vec<Message> = (0..20).map(|n| Message::new(format!("{n}"))).collect();
    let sender = repeated(async || fixture.postgres.sender(TOPIC).await).await;
    sender.send_batch(batch.into_iter().collect::<Batch>()).await.unwrap();
    until(async || fixture.postgres.counts(ONE).await.is_ok_and(|counts| counts.active == 20)).await;
    fixture.end().await;
}

/// Rules: K-337.
#[tokio::test]
async fn an_entity_that_cannot_forward_for_long_is_logged() {
    let (lines, _guard) = Lines::capture();
    let Some(fixture) = with_slow_topic(Duration::from_millis(500), Duration::from_secs(1)).await else { return };
    repeated(async || fixture.postgres.sender(TOPIC).await?.send(Message::new("a")).await).await;
    let is_logged = |line: &String| line.contains("WARN") && line.contains("several attempts to forward");
    until(async || lines.all().iter().any(is_logged)).await;
    fixture.end().await;
}

/// A single failure may pass, and is not logged as a warning.
#[tokio::test]
async fn sweeps_that_fail_for_long_are_logged() {
    let (lines, _guard) = Lines::capture();
    let Some(mut fixture) = Fixture::new(QueueSettings::default()).await else { return };
    fixture
        .run(
            "CREATE OR REPLACE FUNCTION {s}.sweep(p_grace_ms bigint) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'busy' USING ERRCODE = '55P03'; END $$",
        )
        .await;
    fixture.postgres = fixture.impatient(|schema| options(schema).timeout(Duration::from_millis(500))).await;
    let _receiver = repeated(async || fixture.postgres.receiver(QUEUE).await).await;
    let is_logged = |line: &String| line.contains("WARN") && line.contains("the sweep failed");
    until(async || lines.all().iter().any(is_logged)).await;
    fixture.end().await;
}

/// Rules: K-338.
#[tokio::test]
async fn a_schedule_ends_when_messages_before_it_have_no_number() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    // As many as are before it, they never have one.
    fixture
        .run(
            "CREATE OR REPLACE FUNCTION {s}.numbers_of(p_entity bigint, p_ids bigint[]) RETURNS bigint[]
            LANGUAGE plpgsql AS $$ BEGIN RETURN ARRAY[NULL::bigint]; END $$",
        )
        .await;
    let impatient = fixture.impatient(|schema| options(schema).timeout(Duration::from_secs(3))).await;
    let sender = repeated(async || impatient.sender(QUEUE).await).await;
    let later = Timestamp::from_millis(fixture.postgres.now().await.unwrap().as_millis() + 3_600_000);
    let scheduled = sender.schedule(vec![Message::new("a")], later);
    let scheduled = tokio::time::timeout(LONGEST, scheduled).await.expect("it goes on");
    let error = scheduled.unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::ServiceTimeout, true), "{error}");
    assert!(error.to_string().contains("the messages are scheduled"), "{error}");
    assert_eq!(fixture.postgres.counts(QUEUE).await.unwrap().scheduled, 1);
    fixture.end().await;
}
