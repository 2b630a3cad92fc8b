//! A schema of an earlier version, with messages in every state, is migrated.

use consign::transport::{ReceiverExt, Sender};
use consign_conformance::golden;
use consign_postgres::Postgres;

use crate::{
    FORMAT_1, FORMAT_2, FORMAT_3, FORMAT_4,
    contents::{expected, received},
    raw::Raw,
    server::{self, Schema},
};

/// The first versions as they were released.
const VERSIONS: [&[&str]; 5] = [
    &[
        include_str!("../../schema/1/tables.sql"),
        include_str!("../../schema/1/due.sql"),
        include_str!("../../schema/1/send.sql"),
        include_str!("../../schema/1/receive.sql"),
        include_str!("../../schema/1/settle.sql"),
        include_str!("../../schema/1/manage.sql"),
        include_str!("../../schema/1/sessions.sql"),
        include_str!("../../schema/1/upkeep.sql"),
    ],
    &[include_str!("../../schema/2/reply_queues.sql"), include_str!("../../schema/2/clients.sql")],
    &[
        include_str!("../../schema/3/tables.sql"),
        include_str!("../../schema/3/due.sql"),
        include_str!("../../schema/3/send.sql"),
        include_str!("../../schema/3/receive.sql"),
        include_str!("../../schema/3/settle.sql"),
        include_str!("../../schema/3/upkeep.sql"),
        include_str!("../../schema/3/clients.sql"),
    ],
    &[
        include_str!("../../schema/4/tables.sql"),
        include_str!("../../schema/4/due.sql"),
        include_str!("../../schema/4/send.sql"),
        include_str!("../../schema/4/receive.sql"),
        include_str!("../../schema/4/settle.sql"),
        include_str!("../../schema/4/upkeep.sql"),
        include_str!("../../schema/4/clients.sql"),
    ],
    &[
        include_str!("../../schema/5/receive.sql"),
        include_str!("../../schema/5/due.sql"),
        include_str!("../../schema/5/settle.sql"),
        include_str!("../../schema/5/upkeep.sql"),
        include_str!("../../schema/5/sessions.sql"),
    ],
];
/// What each of them has stored. Version 5 has the tables of version 4.
const FORMATS: [&str; 5] = [FORMAT_1, FORMAT_2, FORMAT_3, FORMAT_4, FORMAT_4];

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

/// Stores rows by a version, and what others it has by SQL, and migrates them.
async fn migrated(version: usize, rows: &str, others: &str) -> Option<(Postgres, Raw, Schema)> {
    let url = server::url().await?;
    let schema = Schema::new(&url);
    let postgres = Postgres::options().schema(&*schema).connections(4).connect(&url).await.unwrap();
    let client = postgres.pool().get().await.unwrap();
    let fill = |sql: &str| sql.replace("{s}", &schema).replace("{l}", &format!("'{}'", &*schema));
    client
        .batch_execute(&fill("CREATE SCHEMA {s}; CREATE TABLE {s}.version (version integer NOT NULL)"))
        .await
        .unwrap();
    for (sqls, number) in VERSIONS[..version].iter().zip(1..) {
        for sql in *sqls {
            client.batch_execute(&fill(sql)).await.unwrap();
        }
        client.batch_execute(&fill(&format!("INSERT INTO {{s}}.version VALUES ({number})"))).await.unwrap();
    }
    let sequence = if version < 3 { "arrivals" } else { "sends" };
    let raw = Raw::new(&url, &schema).await;
    raw.write(&golden::entries(rows)).await;
    client.batch_execute(&fill(&format!("SELECT setval('{{s}}.{sequence}', 1000); {others}"))).await.unwrap();
    drop(client);
    postgres.migrate().await.unwrap();
    Some((postgres, raw, schema))
}

#[tokio::test]
async fn a_filled_store_of_each_version_is_migrated() {
    for (rows, version) in FORMATS.iter().zip(1..) {
        let Some((postgres, _raw, schema)) = migrated(version, rows, "SELECT 1").await else { return };
        golden::assert_same("received", &received(&postgres).await, &expected());
        schema.end().await;
    }
}

#[tokio::test]
async fn messages_of_every_state_are_migrated() {
    for version in 1..=VERSIONS.len() {
        every_state_is_migrated(version).await;
    }
}

/// The queue of the tests is not one of the stored.
const IDS: &str = "SELECT setval(pg_get_serial_sequence('{s}.entities', 'id'), 100)";

async fn every_state_is_migrated(version: usize) {
    let Some((postgres, _raw, schema)) = migrated(version, "", &format!("{IDS}; {OTHERS}")).await else { return };
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
    schema.end().await;
}

/// What version 3 has of the common path: two messages of one lock, one of which was completed, and two that wait, of a send
/// from which one was received.
const PLAIN: &str = "
    INSERT INTO {s}.entities (
        key, path, kind, status, max_deliveries, lock_ms, max_size, max_message_size, dead_on_expiry, dead_on_filter_error, sessions
    ) VALUES ('plain', 'plain', 0, 0, 10, 60000, 1073741824, 262144, false, false, false);
    INSERT INTO {s}.numbers SELECT id, 2 FROM {s}.entities WHERE key = 'plain';
    INSERT INTO {s}.messages (id, entity, state, enqueued, expires, ttl_ms, origin, hops, source, size, properties, body)
    SELECT
        r.id, e.id, -1, clock_timestamp(), coalesce(clock_timestamp() + r.ttl_ms * interval '1 millisecond', 'infinity'), r.ttl_ms,
        r.origin, r.hops, r.source, 1, json_build_object('message_id', r.name), convert_to(r.name, 'UTF8')
    FROM {s}.entities AS e, (VALUES
        (204801, 'locked', NULL, 7, 2, 'elsewhere'), (204802, 'first', 3600000, 0, 0, NULL), (204803, 'second', NULL, 0, 0, NULL)
    ) AS r (id, name, ttl_ms, origin, hops, source) WHERE e.key = 'plain';
    INSERT INTO {s}.locks (token, entity, until, number, ids, counts)
    SELECT '00000000-0000-4000-8000-000000000002', id, clock_timestamp() + interval '1 hour', 1, '{204800}', '{2}'
    FROM {s}.entities WHERE key = 'plain';
    INSERT INTO {s}.batches (entity, id, count, taken, size, due)
    SELECT id, 204800, 4, 2, 1, clock_timestamp() + interval '1 hour' FROM {s}.entities WHERE key = 'plain'";

#[tokio::test]
async fn messages_of_the_common_path_are_migrated() {
    let Some((postgres, _raw, schema)) = migrated(3, "", &format!("{IDS}; {PLAIN}")).await else { return };
    let counts = postgres.counts("plain").await.unwrap();
    assert_eq!((counts.locked, counts.active, counts.size), (1, 2, 3 * (1 + 256)));
    let client = postgres.pool().get().await.unwrap();
    // The second number of the lock, whose first message is completed. It is released as it was forwarded.
    let abandon = format!("SELECT {schema}.client_abandon(204801, '00000000-0000-4000-8000-000000000002')");
    assert!(client.query_one(&abandon, &[]).await.unwrap().get::<_, bool>(0));
    let forwarded = format!("SELECT origin, hops, source, failures FROM {schema}.messages");
    let row = client.query_one(&forwarded, &[]).await.unwrap();
    let forwarded: (i64, i16, &str, i32) = (row.get(0), row.get(1), row.get(2), row.get(3));
    assert_eq!(forwarded, (7, 2, "elsewhere", 1));
    let mut receiver = postgres.receiver("plain").await.unwrap();
    let mut found = Vec::new();
    for _ in 0..3 {
        let delivery = receiver.receive().await.unwrap();
        let body = String::from_utf8(delivery.message.payload().unwrap().to_vec()).unwrap();
        let ttl = delivery.message.time_to_live().map(|ttl| ttl.as_secs());
        let received = delivery.message.received().unwrap();
        found.push((body, received.sequence_number.get(), received.delivery_count, ttl));
        delivery.complete().await.unwrap();
    }
    let expected = [("locked", 2, 2, None), ("first", 3, 1, Some(3_600)), ("second", 4, 1, None)];
    assert_eq!(found, expected.map(|(body, number, deliveries, ttl)| (body.to_owned(), number, deliveries, ttl)));
    // Clients of version 3 are told, also one whose call has waited for the migration.
    for old in [
        "SELECT * FROM {s}.receive(1, 0::smallint, NULL, NULL, 1, 1, NULL, NULL)",
        "SELECT * FROM {s}.send(1, 0, 0::smallint, NULL, '{}', '{}', '{}', NULL, NULL, NULL, NULL)",
    ] {
        let error = client.query(&old.replace("{s}", &schema), &[]).await.unwrap_err();
        assert!(error.as_db_error().unwrap().message().contains("update the library"), "{error}");
    }
    let late = format!(
        "INSERT INTO {schema}.messages (entity, state, enqueued, expires, size, properties, body)
        VALUES (1, -1, clock_timestamp(), 'infinity', 1, '{{}}', '')"
    );
    let error = client.batch_execute(&late).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().constraint(), Some("messages_are_not_plain"), "{error}");
    drop(client);
    schema.end().await;
}
