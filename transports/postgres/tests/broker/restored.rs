//! A database that is as it was before, with other entities of the same ids.

use consign::{
    Message,
    administration::{Counts, QueueSettings},
    transport::{ErrorKind, Sender},
};

use crate::{Fixture, QUEUE, until};

#[tokio::test]
async fn a_sender_does_not_send_to_another_entity_of_its_id() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    sender.send(Message::new("a")).await.unwrap();
    fixture.run("UPDATE {s}.entities SET key = 'other', path = 'other'").await;
    fixture.postgres.create_queue(QUEUE, QueueSettings::default()).await.unwrap();
    // As after another connection, on which changes may have been missed.
    let notify = format!("SELECT pg_notify('consign {0}', '=' || id) FROM {0}.entities", &*fixture.schema);
    until(async || {
        // This process may not listen yet.
        fixture.run(&notify).await;
        sender.send(Message::new("b")).await.is_err_and(|error| error.kind() == ErrorKind::EntityNotFound)
    })
    .await;
    assert_eq!(fixture.postgres.counts(QUEUE).await.unwrap(), Counts::default());
    fixture.end().await;
}

/// Each process would take the lock of the other, for ever.
#[tokio::test]
async fn a_new_process_does_not_get_the_holder_of_another() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let client = fixture.postgres.pool().get().await.unwrap();
    let holders = async || {
        let sql = format!("SELECT id FROM {}.holders", fixture.schema);
        let rows = client.query(&sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>()
    };
    let mut ids = Vec::new();
    for _ in 0..2 {
        // The database is as it was at first.
        fixture.run("DELETE FROM {s}.holders; ALTER TABLE {s}.holders ALTER COLUMN id RESTART").await;
        let known = holders().await;
        let process = fixture.other().await;
        let receiver = process.receiver(QUEUE).await.unwrap();
        let others = async || holders().await.into_iter().find(|id| !known.contains(id));
        until(async || others().await.is_some()).await;
        ids.extend(others().await);
        drop((receiver, process));
    }
    assert_ne!(ids[0], ids[1]);
    drop(client);
    fixture.end().await;
}
