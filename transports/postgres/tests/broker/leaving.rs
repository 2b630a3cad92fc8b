//! Messages that leave their entity: copies and forwards, whatever comes between.

use std::{future::Future, time::Duration};

use consign::{
    Disposition, Message,
    administration::{Administration, QueueSettings, SubscriptionSettings, TopicSettings},
    message::{EntityPath, MessageBody},
    rules::{CorrelationFilter, ManageRules, Rule, SqlFilter},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{Batch, ErrorKind, ReceiverExt, Sender},
};
use consign_conformance::log::Lines;
use consign_postgres::{
    Postgres,
    deadpool_postgres::{Manager, Pool},
    tokio_postgres::NoTls,
};

use crate::{Fixture, LONGEST, QUEUE, options, until};

const TOPIC: &str = "topic";
const ONE: &str = "topic/Subscriptions/one";
const TWO: &str = "topic/Subscriptions/two";

async fn with_topic() -> Option<Fixture> {
    let fixture = Fixture::new(QueueSettings::default()).await?;
    let postgres = &fixture.postgres;
    postgres.create_topic(TOPIC, TopicSettings::default()).await.unwrap();
    for name in ["one", "two"] {
        postgres.create_subscription(TOPIC, name, SubscriptionSettings::default()).await.unwrap();
    }
    Some(fixture)
}

async fn in_an_hour(postgres: &Postgres) -> Timestamp {
    Timestamp::from_millis(postgres.now().await.unwrap().as_millis() + 3_600_000)
}

/// Sends a message that is due only after `row` has changed it, as another version may have written it.
async fn send_changed(fixture: &Fixture, path: &str, row: &str) {
    let sender = fixture.postgres.sender(path).await.unwrap();
    let later = in_an_hour(&fixture.postgres).await;
    sender.schedule(vec![Message::new("a")], later).await.unwrap();
    let now = "at = clock_timestamp(), due = clock_timestamp()";
    fixture.run(&format!("UPDATE {{s}}.messages SET {now}, {row} WHERE state = 5")).await;
}

async fn dead_letter(postgres: &Postgres, path: &str) -> Message {
    let mut receiver = postgres.receiver(&format!("{path}/$DeadLetterQueue")).await.unwrap();
    let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    let message = delivery.message.clone();
    delivery.complete().await.unwrap();
    message
}

fn text<'m>(message: &'m Message, name: &str) -> &'m str {
    message.application_properties().get(name).unwrap().as_str().unwrap()
}

/// Ends after a while, however many others send.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONGEST, work).await.expect("it waits for others")
}

/// Rules: K-250.
/// A value of more levels can be read than can be written.
#[tokio::test]
async fn a_copy_that_cannot_be_stored_is_a_dead_letter() {
    let Some(fixture) = with_topic().await else { return };
    let levels = 35;
    let deep = format!("{}{{\"simple\":{{\"i32\":1}}}}{}", "{\"list\":[".repeat(levels), "]}".repeat(levels));
    let row =
        format!("properties = '{{\"message_id\":\"deep\",\"body\":\"value\"}}', body = convert_to('{deep}', 'UTF8')");
    send_changed(&fixture, TOPIC, &row).await;
    for path in [ONE, TWO] {
        until(async || fixture.postgres.counts(path).await.unwrap().dead_lettered == 1).await;
        let dead = dead_letter(&fixture.postgres, path).await;
        assert_eq!(dead.message_id(), Some("deep"));
        assert_eq!(text(&dead, DeadLetter::REASON), "SerializationFailed");
        assert!(text(&dead, DeadLetter::DESCRIPTION).contains("32 levels"), "{dead:?}");
        assert_eq!(fixture.postgres.counts(path).await.unwrap().active, 0);
    }
    fixture.end().await;
}

/// Rules: K-251.
/// Which messages it matches is unknown, and none is to be lost.
#[tokio::test]
async fn a_rule_that_cannot_be_read_makes_dead_letters() {
    let Some(fixture) = with_topic().await else { return };
    fixture
        .run(
            "UPDATE {s}.rules SET rule = '{\"name\":\"later\",\"filter\":{\"of_a_later_version\":1}}'
            WHERE subscription = (SELECT id FROM {s}.entities WHERE path LIKE '%one')",
        )
        .await;
    fixture.postgres.sender(TOPIC).await.unwrap().send(Message::new("a")).await.unwrap();
    until(async || fixture.postgres.counts(TWO).await.unwrap().active == 1).await;
    until(async || fixture.postgres.counts(ONE).await.unwrap().dead_lettered == 1).await;
    let dead = dead_letter(&fixture.postgres, ONE).await;
    assert_eq!((dead.body(), text(&dead, DeadLetter::REASON)), (&MessageBody::from("a"), "FilterException"));
    assert!(text(&dead, DeadLetter::DESCRIPTION).contains("$default"), "{dead:?}");
    fixture.end().await;
}

/// Rules: T-57.
#[tokio::test]
async fn one_rule_too_many_is_refused() {
    let Some(fixture) = with_topic().await else { return };
    fixture
        .run(
            "INSERT INTO {s}.rules (subscription, key, rule)
            SELECT id, 'r' || n, json_build_object('name', 'r' || n, 'filter', 'false')
            FROM {s}.entities, generate_series(2, 2000) AS n WHERE path LIKE '%one'",
        )
        .await;
    let (postgres, one) = (&fixture.postgres, EntityPath::new(ONE).unwrap());
    let rule = |number: usize| Rule::new(format!("own {number}"), SqlFilter::parse("n = 1").unwrap()).unwrap();
    let refused = postgres.create_rule(&one, &rule(1)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded, "{refused}");
    let correlation = CorrelationFilter::builder().subject("s").build().unwrap();
    postgres.create_rule(&one, &Rule::new("other", correlation).unwrap()).await.unwrap();
    postgres.delete_rule(&one, "r2").await.unwrap();
    postgres.create_rule(&one, &rule(2)).await.unwrap();
    // All of them are read.
    postgres.sender(TOPIC).await.unwrap().send(Message::new("a")).await.unwrap();
    until(async || postgres.counts(ONE).await.unwrap().active == 1).await;
    fixture.end().await;
}

/// Rules: K-252.
/// The error of the database for a text with a NUL does not keep other messages back.
#[tokio::test]
async fn a_row_that_cannot_be_read_keeps_no_other_back() {
    const ROW: &str = r#"properties = '{"application":{"k":{"\u0000":1}}}'"#;
    let Some(fixture) = with_topic().await else { return };
    let postgres = &fixture.postgres;
    send_changed(&fixture, TOPIC, ROW).await;
    postgres.sender(TOPIC).await.unwrap().send(Message::new("behind")).await.unwrap();
    until(async || postgres.counts(ONE).await.unwrap().active == 1).await;

    // The same in a queue, received in either mode.
    for deletes in [false, true] {
        send_changed(&fixture, QUEUE, ROW).await;
        let wait = Duration::from_secs(1);
        let received = if deletes {
            postgres.receive_and_delete(QUEUE).await.unwrap().receive_within(wait).await
        } else {
            postgres.receiver(QUEUE).await.unwrap().receive_within(wait).await
        };
        assert_eq!(received.unwrap_err().kind(), ErrorKind::ServiceTimeout);
        let expected = 1 + usize::from(deletes);
        until(async || postgres.counts(QUEUE).await.unwrap().dead_lettered == expected).await;
    }
    fixture.end().await;
}

/// Rules: K-253.
/// A process that ends between two steps leaves nothing that waits for the next send.
#[tokio::test]
async fn messages_left_in_transit_are_forwarded() {
    let Some(fixture) = with_topic().await else { return };
    let sender = fixture.postgres.sender(TOPIC).await.unwrap();
    let later = in_an_hour(&fixture.postgres).await;
    sender.schedule(vec![Message::new("a")], later).await.unwrap();
    fixture
        .run(
            "UPDATE {s}.messages SET at = clock_timestamp(), due = clock_timestamp() WHERE state = 5;
            SELECT {s}.step(id) FROM {s}.entities WHERE kind = 1",
        )
        .await;
    until(async || fixture.postgres.counts(ONE).await.unwrap().active == 1).await;
    fixture.end().await;
}

/// For each message that leaves another one arrives, as of clients that never stop.
async fn never_stop(fixture: &Fixture) {
    fixture
        .run(
            "CREATE FUNCTION {s}.others() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO {s}.messages (entity, enqueued, expires, size, properties, body)
                VALUES (old.entity, old.enqueued, 'infinity', old.size, old.properties, old.body);
                RETURN NULL;
            END $$;
            CREATE TRIGGER others AFTER DELETE ON {s}.messages
            FOR EACH ROW WHEN (old.state = 7) EXECUTE FUNCTION {s}.others()",
        )
        .await;
}

/// Rules: K-254.
#[tokio::test]
async fn a_send_does_not_wait_for_those_of_others() {
    let Some(fixture) = with_topic().await else { return };
    never_stop(&fixture).await;
    let sender = fixture.postgres.sender(TOPIC).await.unwrap();
    // More than one transaction copies.
    let batch = (0..150).map(|number| Message::new(format!("{number}"))).collect::<Batch>();
    in_time(sender.send_batch(batch)).await.unwrap();
    // Its own are there.
    assert!(in_time(fixture.postgres.counts(ONE)).await.unwrap().active >= 150);
    fixture.run("DROP TRIGGER others ON {s}.messages").await;
    fixture.end().await;
}

/// Rules: K-254.
#[tokio::test]
async fn a_circle_of_forwards_does_not_wait_for_others() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let forwards = QueueSettings::default().forward_to(QUEUE);
    fixture.postgres.create_queue("back", forwards).await.unwrap();
    fixture.run("UPDATE {s}.entities SET forward_to = 'back' WHERE key = 'queue'").await;
    never_stop(&fixture).await;
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    in_time(sender.send(Message::new("a"))).await.unwrap();
    fixture.run("DROP TRIGGER others ON {s}.messages").await;
    fixture.end().await;
}

/// Rules: T-63.
/// Also by a process that looks for itself once an hour.
#[tokio::test]
async fn a_dead_letter_of_a_users_transaction_is_forwarded_at_once() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let settings = QueueSettings::default().forward_dead_letters_to(QUEUE);
    fixture.postgres.create_queue("source", settings).await.unwrap();
    let rare = crate::options(&fixture.schema).poll_every(Duration::from_secs(3_600));
    let postgres = rare.connect(&fixture.url).await.unwrap();
    drop(fixture.postgres);
    postgres.sender("source").await.unwrap().send(Message::new("a")).await.unwrap();
    let delivery = postgres.receiver("source").await.unwrap().receive_within(Duration::from_secs(10)).await.unwrap();
    let mut client = postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "");
    delivery.lease.settle_in(&transaction, Disposition::DeadLetter(Box::new(dead_letter))).await.unwrap();
    transaction.commit().await.unwrap();
    drop(client);
    until(async || postgres.counts(QUEUE).await.unwrap().active == 1).await;
    fixture.schema.end().await;
}

/// A broker over connections that wait for locks as long as it takes, and which looks for itself once an hour.
fn patient(fixture: &Fixture) -> Postgres {
    let pool = Pool::builder(Manager::new(fixture.url.parse().unwrap(), NoTls)).max_size(4).build().unwrap();
    let options = crate::options(&fixture.schema).poll_every(Duration::from_secs(3_600));
    options.timeout(Duration::from_secs(120)).wrap(pool).unwrap()
}

/// Rules: K-254.
/// The locks of the messages run meanwhile.
#[tokio::test]
async fn a_receive_that_has_messages_does_not_wait_for_forwards() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let settings = QueueSettings::default().duplicate_detection(Duration::from_secs(3_600));
    fixture.postgres.create_queue("grave", settings).await.unwrap();
    let settings = QueueSettings::default().dead_letter_on_expiration(true).forward_dead_letters_to("grave");
    fixture.postgres.create_queue("source", settings).await.unwrap();
    let postgres = patient(&fixture);
    let sender = postgres.sender("source").await.unwrap();
    let named = || Message::builder().message_id("x");
    sender.send(named().time_to_live(Duration::from_secs(3_600)).build("dead").unwrap()).await.unwrap();
    sender.send(Message::new("alive")).await.unwrap();
    fixture
        .run(
            "UPDATE {s}.plain SET enqueued = clock_timestamp() - ttl_ms * interval '1 millisecond' WHERE ttl_ms IS NOT NULL;
            UPDATE {s}.batches SET due = clock_timestamp() WHERE due < 'infinity'",
        )
        .await;
    // Whether the dead letter is a duplicate in its target is open until this transaction ends.
    let mut client = fixture.postgres.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let grave = postgres.sender("grave").await.unwrap();
    grave.send_in(&transaction, [named().build("other").unwrap()]).await.unwrap();
    let mut receiver = postgres.receiver("source").await.unwrap();
    let delivery = in_time(receiver.receive()).await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"alive"[..]));
    delivery.complete().await.unwrap();
    transaction.rollback().await.unwrap();
    drop(client);
    until(async || postgres.counts("grave").await.unwrap().active == 1).await;
    fixture.end().await;
}

/// Rules: T-60.
#[tokio::test]
async fn a_message_that_is_numbered_while_its_queue_begins_to_forward_is_forwarded() {
    for is_update_first in [false, true] {
        let settings = QueueSettings::default();
        let Some(fixture) = Fixture::new(settings.clone()).await else { return };
        let postgres = fixture.postgres.clone();
        postgres.create_queue("target", QueueSettings::default()).await.unwrap();
        let mut client = postgres.pool().get().await.unwrap();
        let numbering = client.transaction().await.unwrap();
        numbering.batch_execute(&format!("SELECT FROM {}.numbers FOR UPDATE", &*fixture.schema)).await.unwrap();
        // A scheduled message has a row of its own and is numbered before it is received.
        let later = in_an_hour(&postgres).await;
        let message = Message::builder().message_id("a").scheduled_enqueue_time(later).build("a").unwrap();
        postgres.sender(QUEUE).await.unwrap().send(message).await.unwrap();
        fixture.run("UPDATE {s}.messages SET at = clock_timestamp(), due = clock_timestamp()").await;
        let other = fixture.other().await;
        let (mut counting, mut updating) = (None, None);
        for is_update in [is_update_first, !is_update_first] {
            let other = other.clone();
            if is_update {
                let (queue, settings) = (EntityPath::new(QUEUE).unwrap(), settings.clone().forward_to("target").into());
                let task = tokio::spawn(async move { other.update(&queue, &settings).await });
                let lock = "numbers WHERE entity = $1 FOR UPDATE";
                until(async || task.is_finished() || fixture.waits_for_a_lock(lock).await).await;
                updating = Some(task);
            } else {
                counting = Some(tokio::spawn(async move { other.counts(QUEUE).await }));
                until(|| fixture.waits_for_a_lock("step(")).await;
            }
        }
        numbering.commit().await.unwrap();
        counting.unwrap().await.unwrap().unwrap();
        updating.unwrap().await.unwrap().unwrap();
        let mut target = postgres.receiver("target").await.unwrap();
        let delivery = target.receive_within(Duration::from_secs(10)).await.unwrap();
        assert_eq!(delivery.message.message_id(), Some("a"));
        delivery.complete().await.unwrap();
        drop(client);
        fixture.end().await;
    }
}

/// Rules: T-60, S-96.
#[tokio::test]
async fn a_message_is_not_forwarded_to_a_queue_that_is_full() {
    let (lines, _guard) = Lines::capture();
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    postgres.create_queue("target", QueueSettings::default().max_size(4_096)).await.unwrap();
    postgres.create_queue("source", QueueSettings::default().forward_to("target")).await.unwrap();
    let sender = postgres.sender("source").await.unwrap();
    for body in ["first", "second"] {
        let message = Message::builder().message_id(body).build(vec![0_u8; 2_500]).unwrap();
        sender.send(message).await.unwrap();
    }
    let dead = dead_letter(postgres, "source").await;
    assert_eq!((dead.message_id(), dead.dead_letter_reason()), (Some("second"), Some("ForwardTargetUnavailable")));
    let description = dead.dead_letter_description().unwrap();
    assert!(description.contains("4096 bytes") && description.contains("forwarded to target: "), "{description}");
    assert_eq!(postgres.counts("target").await.unwrap().active, 1);
    let all = lines.of("consign::postgres");
    assert!(all.len() == 1 && all[0].contains("cannot be forwarded"), "{all:?}");
    assert!(all[0].contains("entity=source target_entity=target error=send: the entity is full"), "{all:?}");
    // However many there are, a second has at most ten lines.
    sender.send_batch((0..200).map(|_| Message::new(vec![0_u8; 2_500])).collect::<Batch>()).await.unwrap();
    until(async || postgres.counts("source").await.unwrap().dead_lettered >= 200).await;
    let count = lines.of("consign::postgres").len();
    assert!(count < 200, "{count}");
    fixture.end().await;
}

/// Rules: T-60.
#[tokio::test]
async fn a_sender_forwards_when_its_queue_has_begun_to() {
    // No sweep forwards instead.
    let seldom = |schema: &str| options(schema).poll_every(Duration::from_secs(3_600));
    let Some(fixture) = Fixture::with(QueueSettings::default(), seldom).await else { return };
    let postgres = &fixture.postgres;
    postgres.create_queue("target", QueueSettings::default()).await.unwrap();
    let sender = postgres.sender(QUEUE).await.unwrap();
    let settings = QueueSettings::default().forward_to("target").into();
    postgres.update(&EntityPath::new(QUEUE).unwrap(), &settings).await.unwrap();
    sender.send(Message::builder().message_id("a").build("a").unwrap()).await.unwrap();
    let mut target = postgres.receiver("target").await.unwrap();
    let delivery = target.receive_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(delivery.message.message_id(), Some("a"));
    delivery.complete().await.unwrap();
    fixture.end().await;
}
