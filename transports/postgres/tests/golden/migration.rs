//! A schema of an earlier version, with messages in every state, is migrated.

use consign_conformance::golden;
use consign_postgres::Postgres;

use crate::{
    FORMAT_2,
    contents::{expected, received},
    raw::Raw,
    server::{self, Schema},
};

/// Version 2 as it was released.
const VERSION_2: [&str; 10] = [
    include_str!("../../schema/1/tables.sql"),
    include_str!("../../schema/1/due.sql"),
    include_str!("../../schema/1/send.sql"),
    include_str!("../../schema/1/receive.sql"),
    include_str!("../../schema/1/settle.sql"),
    include_str!("../../schema/1/manage.sql"),
    include_str!("../../schema/1/sessions.sql"),
    include_str!("../../schema/1/upkeep.sql"),
    include_str!("../../schema/2/reply_queues.sql"),
    include_str!("../../schema/2/clients.sql"),
];

/// Messages of each other state, in a queue of their own: some that have no number yet, one that is locked, one that is locked
/// and deferred, one that is delayed, and one that was scheduled and is due.
const OTHERS: &str = "
    INSERT INTO {s}.entities (
        key, path, kind, status, max_deliveries, lock_ms, max_size, max_message_size, dead_on_expiry, dead_on_filter_error, sessions
    ) VALUES ('states', 'states', 0, 0, 10, 60000, 1073741824, 262144, false, false, false);
    INSERT INTO {s}.numbers SELECT id, 4 FROM {s}.entities WHERE key = 'states';
    INSERT INTO {s}.messages (entity, number, state, due, token, at, failures, enqueued, expires, size, properties, body)
    SELECT
        e.id, r.number, r.state, r.due, r.token, r.at, r.failures, clock_timestamp(), 'infinity', 1,
        json_build_object('message_id', r.name), convert_to(r.name, 'UTF8')
    FROM {s}.entities AS e, (VALUES
        ('locked', 1, 2, clock_timestamp() + interval '1 hour', '00000000-0000-4000-8000-000000000001'::uuid, NULL, 1),
        ('deferred and locked', 2, 4, clock_timestamp() - interval '1 second', gen_random_uuid(), NULL, 0),
        ('delayed', 3, 6, clock_timestamp() - interval '1 second', NULL, NULL, 1),
        ('scheduled', 4, 5, clock_timestamp() - interval '1 second', NULL, clock_timestamp() - interval '1 second', 0),
        ('arrived', NULL, 0, 'infinity', NULL, NULL, 0),
        ('arrived later', NULL, 0, 'infinity', NULL, NULL, 0)
    ) AS r (name, number, state, due, token, at, failures) WHERE e.key = 'states'";

async fn migrated(rows: &str, others: &str) -> Option<(Postgres, Raw, Schema)> {
    let url = server::url().await?;
    let schema = Schema::new(&url);
    let postgres = Postgres::options().schema(&*schema).connections(4).connect(&url).await.unwrap();
    let client = postgres.pool().get().await.unwrap();
    let fill = |sql: &str| sql.replace("{s}", &schema).replace("{l}", &format!("'{}'", &*schema));
    client
        .batch_execute(&fill("CREATE SCHEMA {s}; CREATE TABLE {s}.version (version integer NOT NULL)"))
        .await
        .unwrap();
    for sql in VERSION_2 {
        client.batch_execute(&fill(sql)).await.unwrap();
    }
    client.batch_execute(&fill("INSERT INTO {s}.version VALUES (1), (2)")).await.unwrap();
    let raw = Raw::new(&url, &schema).await;
    raw.write(&golden::entries(rows)).await;
    client.batch_execute(&fill(&format!("SELECT setval('{{s}}.arrivals', 1000); {others}"))).await.unwrap();
    drop(client);
    postgres.migrate().await.unwrap();
    Some((postgres, raw, schema))
}

#[tokio::test]
async fn a_filled_store_of_version_2_is_migrated() {
    let Some((postgres, _raw, schema)) = migrated(FORMAT_2, "SELECT 1").await else { return };
    golden::assert_same("received", &received(&postgres).await, &expected());
    schema.end(&postgres).await;
}

#[tokio::test]
async fn messages_of_every_state_are_migrated() {
    use consign::transport::{ReceiverExt, Sender};

    let ids = "SELECT setval(pg_get_serial_sequence('{s}.entities', 'id'), 100)";
    let Some((postgres, _raw, schema)) = migrated("", &format!("{ids}; {OTHERS}")).await else { return };
    let counts = postgres.counts("states").await.unwrap();
    assert_eq!((counts.locked, counts.deferred, counts.active, counts.scheduled), (1, 1, 4, 0));
    postgres.sender("states").await.unwrap().send(consign::Message::new("new")).await.unwrap();
    // The lock of the first is settled by a client of SQL, as before.
    let client = postgres.pool().get().await.unwrap();
    let settle = format!(
        "SELECT {schema}.client_complete(id, '00000000-0000-4000-8000-000000000001') FROM {schema}.messages WHERE number = 1"
    );
    assert!(client.query_one(&settle, &[]).await.unwrap().get::<_, bool>(0));
    let mut receiver = postgres.receiver("states").await.unwrap();
    let mut found = Vec::new();
    for _ in 0..5 {
        let delivery = receiver.receive().await.unwrap();
        let received = delivery.message.received().unwrap();
        let body = String::from_utf8(delivery.message.payload().unwrap().to_vec()).unwrap();
        found.push((body, received.sequence_number.get(), received.delivery_count));
        delivery.complete().await.unwrap();
    }
    let expected = [("delayed", 3, 2), ("arrived", 5, 1), ("arrived later", 6, 1), ("scheduled", 7, 1), ("new", 8, 1)];
    assert_eq!(found, expected.map(|(body, number, deliveries)| (body.to_owned(), number, deliveries)));
    let deferred = postgres.receive_deferred("states", &[consign::message::SequenceNumber::new(2)]).await.unwrap();
    assert_eq!(deferred[0].message.received().unwrap().delivery_count, 2);
    drop(deferred);
    // A client of an earlier version is told.
    let old = format!("SELECT * FROM {schema}.receive(1, 0::smallint, 1, 1, NULL, NULL, NULL, NULL)");
    let error = client.query(&old, &[]).await.unwrap_err();
    assert!(error.as_db_error().unwrap().message().contains("update the library"), "{error}");
    drop(client);
    schema.end(&postgres).await;
}
