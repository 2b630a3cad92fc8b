//! Messages that cannot be read, and are removed as they are received.

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    transport::{ReceiverExt, Sender},
};
use consign_conformance::log::Lines;

use crate::{Fixture, QUEUE};

/// Receives one that is unreadable, whose dead letter cannot be stored as long as `fails` holds for the number of the attempt.
async fn receive_unreadable(fails: &str) -> Option<Fixture> {
    let fixture = Fixture::new(QueueSettings::default()).await?;
    fixture
        .run(&format!(
            "CREATE SEQUENCE {{s}}.attempts;
            CREATE FUNCTION {{s}}.fail() RETURNS trigger LANGUAGE plpgsql AS $$
            DECLARE
                n bigint := nextval('{{s}}.attempts');
            BEGIN
                IF {fails} THEN RAISE 'the disk is full' USING ERRCODE = '53100'; END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER fail BEFORE INSERT ON {{s}}.messages FOR EACH ROW EXECUTE FUNCTION {{s}}.fail()"
        ))
        .await;
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    sender.send(Message::new("bad")).await.unwrap();
    fixture.run(r#"UPDATE {s}.plain SET properties = '{"body": {"sections": [1000]}}'"#).await;
    sender.send(Message::new("good")).await.unwrap();
    let mut receiver = fixture.postgres.receive_and_delete(QUEUE).await.unwrap();
    let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"good"[..]));
    Some(fixture)
}

/// Rules: K-252.
#[tokio::test]
async fn the_dead_letter_of_a_removed_message_is_tried_twice() {
    let Some(fixture) = receive_unreadable("n = 1").await else { return };
    assert_eq!(fixture.postgres.counts(QUEUE).await.unwrap().dead_lettered, 1);
    fixture.end().await;
}

/// Rules: K-252.
#[tokio::test]
async fn a_removed_message_that_is_lost_is_logged_as_lost() {
    let (lines, _guard) = Lines::capture();
    let Some(fixture) = receive_unreadable("true").await else { return };
    let lines = lines.all();
    assert!(lines.iter().any(|line| line.contains("WARN") && line.contains("it is lost")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("tried again")), "{lines:?}");
    fixture.end().await;
}
