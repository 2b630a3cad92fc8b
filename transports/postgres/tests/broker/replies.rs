//! Queues for replies whose requester is killed, and the functions for clients in other languages.

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    message::PropertyValue,
    transport::{ErrorKind, ReceiverExt, Sender},
};
use consign_conformance::killed::{self, Killed};

use crate::{Fixture, QUEUE, repeated, server, until};

const LONG: Duration = Duration::from_secs(20);

/// The requester that is killed: its argument is the schema and a file for the path of its queue.
#[tokio::test]
async fn the_requester_that_is_killed() {
    let Some(argument) = killed::argument() else { return };
    let (schema, file) = argument.split_once(' ').unwrap();
    let postgres = crate::options(schema).connect(&server::url().await.unwrap()).await.unwrap();
    let path = repeated(async || postgres.create_reply_queue().await).await;
    let mut replies = postgres.receiver(&path).await.unwrap();
    postgres.sender(&path).await.unwrap().send(Message::new("first")).await.unwrap();
    let _delivery = replies.receive_within(LONG).await.unwrap();
    std::fs::write(file, &path).unwrap();
    killed::ready().await;
}

/// Rules: K-204.
#[tokio::test]
async fn the_reply_queue_of_a_killed_requester_is_deleted() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("path");
    let argument = format!("{} {}", &*fixture.schema, file.display());
    let process = Killed::run("replies::the_requester_that_is_killed", &argument).await.unwrap();
    let path = std::fs::read_to_string(file).unwrap();
    let sender = fixture.postgres.sender(&path).await.unwrap();
    // While its requester lives, it stays for longer than the grace.
    tokio::time::sleep(Duration::from_secs(1)).await;
    sender.send(Message::new("late")).await.unwrap();
    process.kill().await.unwrap();
    until(async || fixture.postgres.receiver(&path).await.is_err_and(|e| e.kind() == ErrorKind::EntityNotFound)).await;
    assert_eq!(sender.send(Message::new("too late")).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    let client = fixture.postgres.pool().get().await.unwrap();
    let left = format!("SELECT (SELECT count(*) FROM {0}.messages) + count(*) FROM {0}.plain", &*fixture.schema);
    assert_eq!(client.query_one(&left, &[]).await.unwrap().get::<_, i64>(0), 0, "no message is left");
    drop(client);
    fixture.end().await;
}

#[tokio::test]
async fn a_wrapped_pool_that_does_not_listen_has_no_reply_queues() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let wrapped = crate::options(&fixture.schema).wrap(fixture.postgres.pool().clone()).unwrap();
    assert_eq!(wrapped.create_reply_queue().await.unwrap_err().kind(), ErrorKind::NotSupported);
    fixture.end().await;
}

/// Rules: K-204.
#[tokio::test]
async fn a_reply_queue_needs_the_connection_that_it_belongs_to() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let name = format!("{}_replies", fixture.schema);
    let requester = crate::options(&fixture.schema).connect(&fixture.url_of(&name)).await.unwrap();
    repeated(async || requester.create_reply_queue().await).await;
    let is_refused =
        async || requester.create_reply_queue().await.is_err_and(|error| error.kind() == ErrorKind::InvalidOperation);
    // Others have removed what the connection holds, and it does not know.
    fixture.run("DELETE FROM {s}.holders").await;
    assert!(is_refused().await);
    // It is lost, and the next one is not opened.
    fixture.run("ALTER TABLE {s}.holders RENAME TO other").await;
    crate::lost::cut(&fixture, &name).await;
    until(is_refused).await;
    fixture.run("ALTER TABLE {s}.other RENAME TO holders").await;
    until(async || requester.create_reply_queue().await.is_ok()).await;
    fixture.end().await;
}

/// Properties of JSON are those of the model, in both directions.
#[tokio::test]
async fn a_client_in_sql_sends_and_receives_properties() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    fixture
        .run(
            r#"SELECT {s}.client_send('Queue', 'body', '{
                "subject": "order", "content_type": "text/plain", "correlation_id": null, "time_to_live_ms": 60000.0,
                "application": {"text": "a", "whole": 5, "unsigned": 18446744073709551615, "fraction": -1.5, "large": 1e300, "yes": true, "none": null}
            }')"#,
        )
        .await;
    let postgres = &fixture.postgres;
    let delivery = postgres.receiver(QUEUE).await.unwrap().receive_within(LONG).await.unwrap();
    let message = delivery.message.clone();
    delivery.complete().await.unwrap();
    assert_eq!((message.subject(), message.content_type()), (Some("order"), Some("text/plain")));
    assert_eq!((message.payload(), message.correlation_id()), (Some(&b"body"[..]), None));
    assert_eq!(message.time_to_live(), Some(Duration::from_secs(60)));
    let expected = [
        ("text", PropertyValue::from("a")),
        ("whole", 5_i64.into()),
        ("unsigned", u64::MAX.into()),
        ("fraction", (-1.5_f64).into()),
        ("large", 1e300_f64.into()),
        ("yes", true.into()),
        ("none", PropertyValue::Null),
    ];
    for (key, value) in &expected {
        assert_eq!(message.application_properties().get(key), Some(value), "{key}");
    }
    postgres.sender(QUEUE).await.unwrap().send(message).await.unwrap();
    let client = postgres.pool().get().await.unwrap();
    let receive = format!(
        "SELECT properties -> 'application' = $1::text::jsonb FROM {}.client_receive('queue')",
        &*fixture.schema
    );
    let application = r#"{"text": "a", "whole": 5, "unsigned": 18446744073709551615, "fraction": -1.5, "large": 1e300, "yes": true, "none": null}"#;
    assert!(client.query_one(&receive, &[&application]).await.unwrap().get::<_, bool>(0));
    drop(client);
    fixture.end().await;
}

/// JSON has NUL in text, and `jsonb` does not.
#[tokio::test]
async fn a_client_in_sql_receives_a_message_with_nul_in_a_property() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let texts = ["\0", "a\0\0b", "\\\0", "\\u0000", "\\\\\0\\u0000"];
    let shown = ["\u{fffd}", "a\u{fffd}\u{fffd}b", "\\\u{fffd}", "\\u0000", "\\\\\u{fffd}\\u0000"];
    let mut message = Message::builder().subject("\0");
    for (index, text) in texts.iter().enumerate() {
        message = message.property(format!("p{index}"), *text);
    }
    postgres.sender(QUEUE).await.unwrap().send(message.build("a").unwrap()).await.unwrap();
    let client = postgres.pool().get().await.unwrap();
    client.batch_execute("SET standard_conforming_strings = off").await.unwrap();
    let receive = format!("SELECT id, lock, properties::text FROM {}.client_receive('queue')", &*fixture.schema);
    let row = client.query_one(&receive, &[]).await.unwrap();
    let properties: serde_json::Value = serde_json::from_str(row.get(2)).unwrap();
    assert_eq!(properties["subject"], "\u{fffd}");
    for (index, shown) in shown.iter().enumerate() {
        assert_eq!(properties["application"][format!("p{index}")], *shown);
    }
    let (id, lock): (i64, uuid::Uuid) = (row.get(0), row.get(1));
    let settle = format!("SELECT {}.client_dead_letter($1, $2, 'Broken')", &*fixture.schema);
    assert!(client.query_one(&settle, &[&id, &lock]).await.unwrap().get::<_, bool>(0));
    client.batch_execute("RESET standard_conforming_strings").await.unwrap();
    drop(client);
    let mut dead = postgres.receiver(&format!("{QUEUE}/$DeadLetterQueue")).await.unwrap();
    let delivery = dead.receive_within(LONG).await.unwrap();
    assert_eq!((delivery.message.subject(), delivery.message.dead_letter_reason()), (Some("\0"), Some("Broken")));
    for (index, text) in texts.iter().enumerate() {
        let property = delivery.message.application_properties().get(&format!("p{index}"));
        assert_eq!(property.and_then(|value| value.as_str()), Some(*text));
    }
    delivery.complete().await.unwrap();
    fixture.end().await;
}

#[tokio::test]
async fn the_commit_of_a_client_in_sql_waits_for_the_disk_after_a_receive_and_a_renewal() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    fixture.postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let receive = format!("SELECT id, lock FROM {}.client_receive('queue')", &*fixture.schema);
    let letter = transaction.query_one(&receive, &[]).await.unwrap();
    let setting = async || {
        let row = transaction.query_one("SELECT current_setting('synchronous_commit')", &[]).await.unwrap();
        row.get::<_, String>(0)
    };
    assert_eq!(setting().await, "on");
    let renew = format!("SELECT {}.client_renew($1, $2) IS NOT NULL", &*fixture.schema);
    let (id, lock): (i64, uuid::Uuid) = (letter.get(0), letter.get(1));
    assert!(transaction.query_one(&renew, &[&id, &lock]).await.unwrap().get::<_, bool>(0));
    assert_eq!(setting().await, "on");
    drop(transaction);
    drop(client);
    fixture.end().await;
}

/// So many application properties.
fn many(count: usize) -> String {
    let each: Vec<_> = (0..count).map(|at| format!(r#""k{at}": null"#)).collect();
    format!(r#"{{"application": {{{}}}}}"#, each.join(","))
}

/// Properties of so many bytes in all.
fn large(bytes: usize) -> String {
    let (name, id) = (1, 1);
    let half = "a".repeat(32_000);
    let rest = "b".repeat(bytes - id - 2 * name - half.len());
    format!(
        r#"{{"message_id": "m", "application": {{"a": "{half}", "b": "{}"}}, "subject": "{}"}}"#,
        &rest[..32_000],
        &rest[32_000..]
    )
}

#[tokio::test]
async fn a_client_in_sql_dead_letters_without_a_reason_or_a_description() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let mut sent = Message::new("a");
    sent.properties_mut().application_properties_mut().insert("DeadLetterReason", "of another time");
    for (reason, description) in [(None, None), (Some(""), Some("")), (Some("Broken"), None), (None, Some("why"))] {
        postgres.sender(QUEUE).await.unwrap().send(sent.clone()).await.unwrap();
        let client = postgres.pool().get().await.unwrap();
        let receive = format!("SELECT id, lock FROM {}.client_receive('queue')", &*fixture.schema);
        let row = client.query_one(&receive, &[]).await.unwrap();
        let (id, lock) = (row.get::<_, i64>(0), row.get::<_, uuid::Uuid>(1));
        let settle = format!("SELECT {}.client_dead_letter($1, $2, $3, $4)", &*fixture.schema);
        let settled = client.query_one(&settle, &[&id, &lock, &reason, &description]).await.unwrap();
        assert!(settled.get::<_, bool>(0));
        drop(client);
        let mut receiver = postgres.receiver("queue/$deadletterqueue").await.unwrap();
        let letter = receiver.receive_within(LONG).await.unwrap();
        let shown = [reason, description].map(|text| text.filter(|text| !text.is_empty()));
        assert_eq!([letter.message.dead_letter_reason(), letter.message.dead_letter_description()], shown);
        assert_eq!(letter.message.payload(), Some(&b"a"[..]));
        letter.complete().await.unwrap();
    }
    fixture.end().await;
}

#[tokio::test]
async fn a_client_in_sql_is_told_what_it_did_wrong() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let client = fixture.postgres.pool().get().await.unwrap();
    let send = format!("SELECT {}.client_send($1, '', $2::text::jsonb)", &*fixture.schema);
    for (path, properties, cause) in [
        ("queue", r#"{"colour": "red"}"#, "colour"),
        ("queue", r#"{"sesion_id": null}"#, "no such property: sesion_id"),
        ("queue", r#"{"message_id": 42}"#, "message_id is text"),
        ("queue", r#"{"time_to_live_ms": 1.5}"#, "time_to_live_ms"),
        ("queue", r#"{"application": []}"#, "application is an object"),
        ("queue", r#"["subject"]"#, "the properties are an object"),
        ("queue", &format!(r#"{{"application": {{"é": "{}"}}}}"#, "a".repeat(32_766)), "at most 32767 bytes"),
        ("queue", &many(1_025), "at most 1024 application properties"),
        ("queue", &large(65_535), "at most 65534 bytes"),
        ("queue", r#"{"subject": 5}"#, "subject is text"),
        ("queue", r#"{"time_to_live_ms": 0}"#, "time_to_live_ms"),
        ("queue", r#"{"application": {"list": []}}"#, "an application property is"),
        ("queue", r#"{"message_id": ""}"#, "message_id is empty"),
        ("queue", &format!(r#"{{"message_id": "{}"}}"#, "🦀".repeat(65)), "at most 128 UTF-16 code units"),
        ("queue", &format!(r#"{{"session_id": "{}"}}"#, "a".repeat(129)), "at most 128 UTF-16 code units"),
        ("queue", r#"{"session_id": "a", "partition_key": "b"}"#, "partition_key differs"),
        ("other", "{}", "no such entity: other"),
        ("queue/$DeadLetterQueue", "{}", "sub-queue"),
    ] {
        let error = client.query(&send, &[&path, &properties]).await.unwrap_err();
        let message = error.as_db_error().unwrap().message();
        assert!(message.contains(cause), "{message}");
    }
    let error =
        client.query(&format!("SELECT {}.client_send('queue', NULL)", &*fixture.schema), &[]).await.unwrap_err();
    assert!(error.as_db_error().unwrap().message().contains("the body is null"), "{error}");
    for max in [0, -1] {
        let receive = format!("SELECT {}.client_receive('queue', {max})", &*fixture.schema);
        let error = client.query(&receive, &[]).await.unwrap_err();
        assert!(error.as_db_error().unwrap().message().contains("max is at least 1"), "{error}");
    }
    // At the limits the message can be read, and sent by the library.
    for properties in [many(1_024), large(65_534)] {
        client.query(&send, &[&"queue", &properties]).await.unwrap();
        let delivery = fixture.postgres.receiver(QUEUE).await.unwrap().receive_within(LONG).await.unwrap();
        delivery.message.check().unwrap();
        delivery.complete().await.unwrap();
    }
    let id = "🦀".repeat(64);
    let properties = format!(r#"{{"message_id": "{id}", "session_id": "é", "partition_key": "é"}}"#);
    client.query(&send, &[&"queue", &properties]).await.unwrap();
    let delivery = fixture.postgres.receiver(QUEUE).await.unwrap().receive_within(LONG).await.unwrap();
    assert_eq!(delivery.message.message_id(), Some(&*id));
    drop((client, delivery));
    fixture.end().await;
}
