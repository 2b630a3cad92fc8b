//! What is in the files of format 1: every state of a message and every record. It stays as it is.

use bytes::Bytes;
use consign::{
    Disposition, Message,
    message::{ApplicationProperties, EntityPath, SequenceNumber},
    rules::{CorrelationFilter, Rule, SqlAction, SqlFilter},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    transport::{Delivery, Lease, PeekMessages, ReceiveDeferred, ReceiverExt, Sender, Session},
};
use consign_conformance::golden::{self, samples, shown};
use consign_nats::{Nats, NatsLease, NatsReceiver, NatsSession, QueueSettings, SubscriptionSettings, TopicSettings};
use serde_json::{Value as Json, json};

use crate::LONG;

/// The streams that the records are in.
pub(crate) const STREAMS: [&str; 11] = [
    "all",
    "all_x",
    "settled",
    "settled_x",
    "once",
    "once_x",
    "sessions",
    "sessions_x",
    "topic",
    "topic=2Fsubscriptions=2Fsub",
    "topic=2Fsubscriptions=2Fsub_x",
];

const SESSIONS: [&str; 3] = ["a", "é .*>", ""];

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

/// Makes everything, and returns what holds a session.
pub(crate) async fn fill(nats: &Nats) -> NatsSession {
    nats.create_queue("All", QueueSettings::default()).await.unwrap();
    let sender = nats.sender("all").await.unwrap();
    for message in samples::all().into_iter().chain([samples::without_id()]) {
        sender.send(message).await.unwrap();
    }
    settled(nats).await;
    topic(nats).await;
    sessions(nats).await
}

async fn settled(nats: &Nats) {
    let mut settings = QueueSettings::default();
    settings.max_bytes = Some(1 << 30);
    settings.max_age = Some(LONG * 1_000);
    settings.duplicate_detection = Some(LONG);
    nats.create_queue("settled", settings).await.unwrap();
    let sender = nats.sender("settled").await.unwrap();
    for id in ["abandoned", "released", "dead", "deferred"] {
        sender.send(with_id(id)).await.unwrap();
    }
    let mut receiver = nats.receiver("settled").await.unwrap();
    let mut deliveries = Vec::new();
    for _ in 0..4 {
        deliveries.push(receiver.receive_within(LONG).await.unwrap());
    }
    let mut deliveries = deliveries.into_iter();
    let mut next = || deliveries.next().unwrap();
    next().settle(Disposition::Abandon(Changes::from(changes()))).await.unwrap();
    next().lease.release().await.unwrap();
    next().dead_letter(broken()).await.unwrap();
    next().settle(Disposition::Defer(Changes::from(changes()))).await.unwrap();
    drop(receiver);
    let mut settings = QueueSettings::default();
    settings.max_delivery_count = 1;
    nats.create_queue("once", settings).await.unwrap();
    nats.sender("once").await.unwrap().send(samples::all().remove(0)).await.unwrap();
    nats.receiver("once").await.unwrap().receive_within(LONG).await.unwrap().abandon().await.unwrap();
}

async fn sessions(nats: &Nats) -> NatsSession {
    let mut settings = QueueSettings::default();
    settings.requires_session = true;
    nats.create_queue("sessions", settings).await.unwrap();
    let sender = nats.sender("sessions").await.unwrap();
    for id in SESSIONS {
        for nth in [1, 2] {
            sender.send(in_session(id, nth)).await.unwrap();
        }
    }
    let mut a = nats.accept_session("sessions", "a").await.unwrap();
    a.set_state(Some(Bytes::from_static(&[0, 0xff]))).await.unwrap();
    let first = a.receive_within(LONG).await.unwrap();
    first.settle(Disposition::Abandon(Changes::from(changes()))).await.unwrap();
    a.close().await.unwrap();
    for state in [Some(Bytes::new()), None] {
        let id = if state.is_some() { "empty state" } else { "no state" };
        let session = nats.accept_session("sessions", id).await.unwrap();
        session.set_state(Some(Bytes::from_static(b"before"))).await.unwrap();
        session.set_state(state).await.unwrap();
        session.close().await.unwrap();
    }
    let held = nats.accept_session("sessions", "held").await.unwrap();
    held.set_state(Some(Bytes::from_static(b"of a holder"))).await.unwrap();
    held
}

async fn topic(nats: &Nats) {
    nats.create_topic("topic", TopicSettings::default()).await.unwrap();
    nats.create_subscription("topic", "Sub", SubscriptionSettings::default()).await.unwrap();
    nats.delete_rule("topic", "Sub", "$Default").await.unwrap();
    for rule in rules() {
        nats.create_rule("topic", "Sub", &rule).await.unwrap();
    }
    let sender = nats.sender("topic").await.unwrap();
    for message in samples::all().into_iter().take(2) {
        sender.send(message).await.unwrap();
    }
    let copies = nats.peek(&path("topic/Subscriptions/Sub"), SequenceNumber::new(0), 10).await.unwrap();
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
        Rule::new("none", consign::rules::Filter::False).unwrap(),
    ]
}

/// What the crate receives and peeks, as JSON.
pub(crate) async fn received(nats: &Nats) -> Vec<Json> {
    let mut found = Vec::new();
    let mut receiver = nats.receiver("all").await.unwrap();
    for _ in 0..=samples::all().len() {
        found.push(next(&mut receiver).await);
    }
    for message in nats.peek(&path("settled"), SequenceNumber::new(0), 10).await.unwrap() {
        found.push(with_facts(&message));
    }
    let deferred = nats.receive_deferred(&path("settled"), &[SequenceNumber::new(4)]).await.unwrap();
    found.push(with_facts(&deferred[0].message));
    for queue in ["settled", "once"] {
        found.push(next(&mut nats.receiver(&format!("{queue}/$deadletterqueue")).await.unwrap()).await);
    }
    let mut receiver = nats.receiver("topic/Subscriptions/Sub").await.unwrap();
    for _ in 0..3 {
        found.push(next(&mut receiver).await);
    }
    for id in SESSIONS {
        let mut session = nats.accept_session("sessions", id).await.unwrap();
        for _ in 0..2 {
            let delivery = session.receive_within(LONG).await.unwrap();
            found.push(settled_and_shown(delivery).await);
        }
        session.close().await.unwrap();
    }
    for id in ["a", "empty state", "no state", "é .*>"] {
        let session = nats.accept_session("sessions", id).await.unwrap();
        found.push(json!({ "state": session.state().await.unwrap().as_deref().map(golden::bytes) }));
        session.close().await.unwrap();
    }
    found
}

async fn next(receiver: &mut NatsReceiver) -> Json {
    settled_and_shown(receiver.receive_within(LONG).await.unwrap()).await
}

async fn settled_and_shown(delivery: Delivery<NatsLease>) -> Json {
    let shown = with_facts(&delivery.message);
    delivery.complete().await.unwrap();
    shown
}

fn with_facts(message: &Message) -> Json {
    let received = message.received().unwrap();
    let (number, deliveries) = (received.sequence_number.get(), received.delivery_count);
    json!([number, deliveries, format!("{:?}", received.state), received.dead_lettered, shown(message)])
}

/// What is expected of [`received`], without a server. A dead letter by its count has this description.
pub(crate) fn expected(namespace: &str, by_count: &'static str) -> Vec<Json> {
    let fact = |number: u64, deliveries: u32, state: &str, dead: bool, message: &Message| {
        json!([number, deliveries, state, dead, shown(message)])
    };
    let merged = |mut message: Message| {
        message.properties_mut().application_properties_mut().merge(changes());
        message
    };
    let samples = samples::all();
    let mut all = samples.clone();
    let mut without_id = samples::without_id();
    let stamped = format!("{namespace}_all-{}", samples.len() + 1);
    without_id.properties_mut().stamp_message_id(stamped).unwrap();
    all.push(without_id);
    let mut expected: Vec<_> =
        (1..).zip(&all).map(|(number, message)| fact(number, 1, "Active", false, message)).collect();
    let deferred = merged(with_id("deferred"));
    expected.push(fact(1, 1, "Active", false, &merged(with_id("abandoned"))));
    expected.push(fact(2, 0, "Active", false, &with_id("released")));
    expected.push(fact(4, 0, "Deferred", false, &deferred));
    expected.push(fact(4, 1, "Active", false, &deferred));
    let mut dead = with_id("dead");
    broken().write_to(dead.properties_mut().application_properties_mut());
    expected.push(fact(3, 1, "Active", true, &dead));
    let mut exhausted = samples[0].clone();
    let why = DeadLetter::new(DeadLetterReason::MaxDeliveryCountExceeded, by_count);
    why.write_to(exhausted.properties_mut().application_properties_mut());
    expected.push(fact(1, 1, "Active", true, &exhausted));
    let mut copies = [samples[0].clone(), samples[0].clone(), samples[1].clone()];
    for nth in [1, 2] {
        let properties = copies[nth].properties_mut();
        properties.set_subject("changed");
        properties.application_properties_mut().remove("key 06");
        properties.application_properties_mut().insert("added", "it's");
        properties.application_properties_mut().insert("RuleName", "sql");
    }
    expected.extend((1..).zip(&copies).map(|(number, copy)| fact(number, 1, "Active", false, copy)));
    for (first, id) in [1, 3, 5].into_iter().zip(SESSIONS) {
        let message = in_session(id, 1);
        let (message, deliveries) = if id == "a" { (merged(message), 2) } else { (message, 1) };
        expected.push(fact(first, deliveries, "Active", false, &message));
        expected.push(fact(first + 1, 1, "Active", false, &in_session(id, 2)));
    }
    expected
        .extend([json!({ "hex": "00ff" }), json!(""), Json::Null, Json::Null].map(|state| json!({ "state": state })));
    expected
}

fn path(text: &str) -> EntityPath {
    EntityPath::new(text).unwrap()
}
