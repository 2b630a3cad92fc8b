//! What is in the files of format 1: every state of a message, every column. It stays as it is.

use bytes::Bytes;
use consign::{
    Disposition, Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    message::{ApplicationProperties, EntityPath, SequenceNumber},
    rules::{CorrelationFilter, Filter, ManageRules, Rule, SqlAction, SqlFilter},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{Delivery, Lease, ReceiverExt, Sender, Session},
};
use consign_conformance::golden::{self, samples, shown};
use consign_postgres::{Postgres, PostgresLease};
use serde_json::{Value as Json, json};

use crate::LONG;

const FIRST: SequenceNumber = SequenceNumber::new(0);
const SESSIONS: [&str; 3] = ["a", "é \u{0}", ""];
/// Long after all of this.
const FAR: Timestamp = Timestamp::from_millis(4_102_444_800_123);
const SUBSCRIPTION: &str = "topic/Subscriptions/Sub";

fn changes() -> ApplicationProperties {
    let mut changes = ApplicationProperties::new();
    for (nth, value) in samples::every_simple_value().into_iter().enumerate() {
        changes.insert(format!("changed {nth}"), value);
    }
    changes
}

fn broken() -> DeadLetter {
    let mut dead_letter = DeadLetter::new(DeadLetterReason::Application("Broken".into()), "it \"is\",\nand é ");
    dead_letter.changes = changes().into();
    dead_letter
}

fn with_id(id: &'static str) -> Message {
    Message::builder().message_id(id).property("first", 1).build(id).unwrap()
}

fn in_session(id: &'static str, nth: u64) -> Message {
    Message::builder().message_id(format!("in {id} {nth}")).session_id(id).build("x").unwrap()
}

fn every() -> Vec<Message> {
    samples::all().into_iter().chain(samples::timed()).collect()
}

pub(crate) async fn fill(postgres: &Postgres) {
    let settings = QueueSettings::default().duplicate_detection(LONG * 30);
    postgres.create_queue("All", settings).await.unwrap();
    let sender = postgres.sender("all").await.unwrap();
    for message in every() {
        sender.send(message).await.unwrap();
    }
    settled(postgres).await;
    sessions(postgres).await;
    topic(postgres).await;
    forwards(postgres).await;
    // A message has a number from the first look on.
    for path in ["all", "settled", "sessions"] {
        postgres.peek(path, FIRST, 1_000).await.unwrap();
    }
}

async fn settled(postgres: &Postgres) {
    postgres.create_queue("settled", QueueSettings::default()).await.unwrap();
    let sender = postgres.sender("settled").await.unwrap();
    for id in ["abandoned", "released", "dead", "deferred"] {
        sender.send(with_id(id)).await.unwrap();
    }
    let mut receiver = postgres.receiver("settled").await.unwrap();
    let mut deliveries = Vec::new();
    for _ in 0..4 {
        deliveries.push(receiver.receive_within(LONG).await.unwrap());
    }
    drop(receiver);
    let mut deliveries = deliveries.into_iter();
    let mut next = || deliveries.next().unwrap();
    next().settle(Disposition::Abandon(Changes::from(changes()))).await.unwrap();
    next().lease.release().await.unwrap();
    next().dead_letter(broken()).await.unwrap();
    next().settle(Disposition::Defer(Changes::from(changes()))).await.unwrap();
    sender.schedule(vec![with_id("scheduled")], FAR).await.unwrap();
    sender.send(samples::without_id()).await.unwrap();
    let once = QueueSettings::default().max_delivery_count(1);
    postgres.create_queue("once", once).await.unwrap();
    postgres.sender("once").await.unwrap().send(every().remove(0)).await.unwrap();
    postgres.receiver("once").await.unwrap().receive_within(LONG).await.unwrap().abandon().await.unwrap();
}

async fn sessions(postgres: &Postgres) {
    postgres.create_queue("sessions", QueueSettings::default().requires_session(true)).await.unwrap();
    let sender = postgres.sender("sessions").await.unwrap();
    for id in SESSIONS {
        for nth in [1, 2] {
            sender.send(in_session(id, nth)).await.unwrap();
        }
    }
    for (id, state) in [("a", Some(&b"\0\xff"[..])), ("empty state", Some(b"")), ("no state", None)] {
        let session = postgres.accept_session("sessions", id).await.unwrap();
        session.set_state(Some(Bytes::from_static(b"before"))).await.unwrap();
        session.set_state(state.map(Bytes::from_static)).await.unwrap();
        session.close().await.unwrap();
    }
    let mut a = postgres.accept_session("sessions", "a").await.unwrap();
    let first = a.receive_within(LONG).await.unwrap();
    first.settle(Disposition::Abandon(Changes::from(changes()))).await.unwrap();
    a.close().await.unwrap();
}

async fn topic(postgres: &Postgres) {
    postgres.create_topic("topic", TopicSettings::default()).await.unwrap();
    postgres.create_subscription("topic", "Sub", SubscriptionSettings::default()).await.unwrap();
    let subscription = EntityPath::new(SUBSCRIPTION).unwrap();
    postgres.delete_rule(&subscription, "$Default").await.unwrap();
    for rule in rules() {
        postgres.create_rule(&subscription, &rule).await.unwrap();
    }
    let sender = postgres.sender("topic").await.unwrap();
    for message in every().into_iter().take(2) {
        sender.send(message).await.unwrap();
    }
    let copies = postgres.peek(SUBSCRIPTION, FIRST, 10).await.unwrap();
    assert_eq!(copies.len(), 3);
}

/// One for each kind of filter, the first with every kind of value.
fn rules() -> [Rule; 4] {
    let mut every = CorrelationFilter::builder().content_type("c").correlation_id("%").message_id("é");
    every = every.subject("s").reply_to("r").session_id("i").reply_to_session_id("r").to("");
    for (nth, value) in samples::every_simple_value().into_iter().enumerate() {
        every = every.property(format!("k {nth}"), value);
    }
    let sql = SqlFilter::parse("[key 05] > 1 OR sys.MessageId = 'every property'").unwrap();
    let action = SqlAction::parse("SET added = 'it''s'; SET sys.Subject = 'changed'; REMOVE [key 06]").unwrap();
    [
        Rule::new("every é", every.build().unwrap()).unwrap(),
        Rule::new("sql", sql).unwrap().with_action(action),
        Rule::new("one", CorrelationFilter::builder().to("t").build().unwrap()).unwrap(),
        Rule::new("none", Filter::False).unwrap(),
    ]
}

/// What has the number and the path of another entity.
async fn forwards(postgres: &Postgres) {
    postgres.create_queue("sink", QueueSettings::default()).await.unwrap();
    let settings = QueueSettings::default().forward_dead_letters_to("sink").max_delivery_count(1);
    postgres.create_queue("mourned", settings).await.unwrap();
    postgres.create_queue("forwards", QueueSettings::default().forward_to("sink")).await.unwrap();
    for (path, sunk) in [("forwards", 1), ("mourned", 2)] {
        postgres.sender(path).await.unwrap().send(with_id(path)).await.unwrap();
        if path == "mourned" {
            let delivery = postgres.receiver(path).await.unwrap().receive_within(LONG).await.unwrap();
            delivery.dead_letter(broken()).await.unwrap();
        }
        assert_eq!(postgres.peek("sink", FIRST, 10).await.unwrap().len(), sunk);
    }
}

/// What the crate receives and peeks, as JSON.
pub(crate) async fn received(postgres: &Postgres) -> Vec<Json> {
    let mut found = Vec::new();
    for _ in every() {
        found.push(next(postgres, "all").await);
    }
    found.extend(postgres.peek("settled", FIRST, 10).await.unwrap().iter().map(with_facts));
    let deferred = postgres.receive_deferred("settled", &[SequenceNumber::new(4)]).await.unwrap();
    found.extend(deferred.iter().map(|delivery| with_facts(&delivery.message)));
    for path in ["settled/$deadletterqueue", "once/$deadletterqueue", "sink", "sink"] {
        found.push(next(postgres, path).await);
    }
    for _ in 0..3 {
        found.push(next(postgres, SUBSCRIPTION).await);
    }
    for id in SESSIONS {
        let mut session = postgres.accept_session("sessions", id).await.unwrap();
        for _ in 0..2 {
            let delivery = session.receive_within(LONG).await.unwrap();
            found.push(settled_and_shown(delivery).await);
        }
        session.close().await.unwrap();
    }
    for id in ["a", "empty state", "no state"] {
        let session = postgres.accept_session("sessions", id).await.unwrap();
        found.push(json!({ "state": session.state().await.unwrap().as_deref().map(golden::bytes) }));
        session.close().await.unwrap();
    }
    // An id is still a duplicate.
    let sender = postgres.sender("all").await.unwrap();
    sender.send(every().remove(0)).await.unwrap();
    found.push(json!(postgres.peek("all", FIRST, 10).await.unwrap().len()));
    found
}

async fn next(postgres: &Postgres, path: &str) -> Json {
    settled_and_shown(postgres.receiver(path).await.unwrap().receive_within(LONG).await.unwrap()).await
}

async fn settled_and_shown(delivery: Delivery<PostgresLease>) -> Json {
    let shown = with_facts(&delivery.message);
    delivery.complete().await.unwrap();
    shown
}

/// An id that this crate has made differs in each run.
fn with_facts(message: &Message) -> Json {
    let mut message = message.clone();
    if message.is_message_id_stamped() {
        message.properties_mut().stamp_message_id("made").unwrap();
    }
    let received = message.received().unwrap();
    let (number, origin, deliveries) =
        (received.sequence_number.get(), received.enqueued_sequence_number.get(), received.delivery_count);
    let lives = received.expires_at.as_millis().checked_sub(received.enqueued_time.as_millis());
    let lives = lives.filter(|_| received.expires_at != Timestamp::MAX);
    json!([
        [number, origin, deliveries, lives, format!("{:?}", received.state), received.dead_lettered],
        shown(&message)
    ])
}

/// What is expected of [`received`], without a server.
pub(crate) fn expected() -> Vec<Json> {
    let fact = |number: u64, deliveries: u32, state: &str, dead: bool, message: &Message| {
        let lives = message.time_to_live().map(|ttl| ttl.as_millis().to_string().parse::<u64>().unwrap());
        json!([[number, 0, deliveries, lives, state, dead], shown(message)])
    };
    let merged = |mut message: Message| {
        message.properties_mut().application_properties_mut().merge(changes());
        message
    };
    let all = every();
    let mut expected: Vec<_> =
        (1..).zip(&all).map(|(number, message)| fact(number, 1, "Active", false, message)).collect();
    let deferred = merged(with_id("deferred"));
    expected.push(fact(1, 1, "Active", false, &merged(with_id("abandoned"))));
    expected.push(fact(2, 0, "Active", false, &with_id("released")));
    expected.push(fact(4, 0, "Deferred", false, &deferred));
    let mut scheduled = with_id("scheduled");
    scheduled.properties_mut().set_scheduled_enqueue_time(FAR);
    expected.push(fact(5, 0, "Scheduled", false, &scheduled));
    let mut without_id = samples::without_id();
    without_id.properties_mut().stamp_message_id("made").unwrap();
    expected.push(fact(6, 0, "Active", false, &without_id));
    expected.push(fact(4, 1, "Active", false, &deferred));
    let dead = |mut message: Message, why: DeadLetter| {
        why.write_to(message.properties_mut().application_properties_mut());
        message
    };
    expected.push(fact(3, 1, "Active", true, &dead(with_id("dead"), broken())));
    let why = DeadLetter::new(
        DeadLetterReason::MaxDeliveryCountExceeded,
        "Message could not be consumed after 1 delivery attempts.",
    );
    expected.push(fact(1, 1, "Active", true, &dead(all[0].clone(), why)));
    let mut forwarded = fact(1, 1, "Active", false, &with_id("forwards"));
    forwarded[0][1] = json!(1);
    expected.push(forwarded);
    let mourned = dead(with_id("mourned"), broken()).with_dead_letter_source("mourned");
    let mut forwarded = fact(2, 1, "Active", false, &mourned);
    forwarded[0][1] = json!(1);
    expected.push(forwarded);
    let mut copies = [all[0].clone(), all[0].clone(), all[1].clone()];
    for copy in &mut copies[1..] {
        let properties = copy.properties_mut();
        properties.set_subject("changed");
        properties.application_properties_mut().remove("key 06");
        properties.application_properties_mut().insert("added", "it's");
        properties.application_properties_mut().insert("RuleName", "sql");
    }
    for (nth, copy) in (1..).zip(&copies) {
        let mut copy = fact(nth, 1, "Active", false, copy);
        copy[0][1] = json!(if nth < 3 { 1 } else { 2 });
        expected.push(copy);
    }
    for (first, id) in [1, 3, 5].into_iter().zip(SESSIONS) {
        let message = in_session(id, 1);
        let (message, deliveries) = if id == "a" { (merged(message), 2) } else { (message, 1) };
        expected.push(fact(first, deliveries, "Active", false, &message));
        expected.push(fact(first + 1, 1, "Active", false, &in_session(id, 2)));
    }
    expected.extend([json!({ "hex": "00ff" }), json!(""), Json::Null].map(|state| json!({ "state": state })));
    expected.push(json!(0));
    expected
}
