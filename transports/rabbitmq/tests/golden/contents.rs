//! What is in the files of each format: every state of a message, and every record. It stays as it is.

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Disposition, Message,
    message::{ApplicationProperties, PropertyValue},
    rules::{CorrelationFilter, Rule},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock, Timestamp},
    transport::{Delivery, ReceiverExt, Sender, Session},
};
use consign_conformance::golden::{self, samples, shown};
use consign_rabbitmq::{QueueSettings, RabbitMq, RabbitMqLease, TopicSettings};
use serde_json::{Value as Json, json};

use crate::{LONG, raw::TIME};

const SESSIONS: [&str; 3] = ["a", "é .*>", ""];
/// So long that a message waits in the first queue of the chain.
const DELAY: Duration = Duration::from_secs(30 * 24 * 3_600);

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
    samples::all().into_iter().chain(samples::timed()).chain([samples::without_id()]).collect()
}

/// The queues that have messages, and how many.
pub(crate) fn queues() -> [(&'static str, usize); 8] {
    [
        ("/all", every().len()),
        ("/settled", 1),
        ("/settled/$deadletterqueue", 1),
        ("/once/$deadletterqueue", 1),
        ("/sessions/$slot-00-01", 2 * SESSIONS.len()),
        // Each change of a record is one more.
        ("/sessions/$note-00-01", 6),
        ("/topic/Subscriptions/Sub", 2),
        ("-delays.level-25", 1),
    ]
}

/// Declares what the messages are sent to.
pub(crate) async fn declare(rabbit: &RabbitMq, prefix: &str) {
    let mut once = QueueSettings::default();
    once.max_delivery_count = 1;
    let mut sessions = QueueSettings::default();
    (sessions.requires_session, sessions.session_slots) = (true, 1);
    let plain = QueueSettings::default;
    for (name, settings) in
        [("all", plain()), ("settled", plain()), ("once", once), ("sessions", sessions), ("delayed", plain())]
    {
        rabbit.create_queue(&format!("{prefix}/{name}"), settings).await.unwrap();
    }
    let topic = format!("{prefix}/topic");
    rabbit.create_topic(&topic, TopicSettings::default()).await.unwrap();
    let path = rabbit.create_subscription(&topic, "Sub", QueueSettings::default()).await.unwrap();
    rabbit.delete_rule(path.as_str(), Rule::default().name()).await.unwrap();
    for rule in rules() {
        rabbit.create_rule(path.as_str(), &rule).await.unwrap();
    }
}

/// One for each message that is sent to the topic: its properties, and its application properties.
fn rules() -> [Rule; 2] {
    let message = &samples::all()[0];
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let system = CorrelationFilter::builder()
        .content_type(text(message.content_type()))
        .correlation_id(text(message.correlation_id()))
        .message_id(text(message.message_id()))
        .subject(text(message.subject()))
        .reply_to(text(message.reply_to()))
        .session_id(text(message.session_id()))
        .reply_to_session_id(text(message.reply_to_session_id()))
        .to(text(message.to()));
    let mut own = CorrelationFilter::builder();
    for (key, value) in samples::all()[1].application_properties().iter() {
        if *value != PropertyValue::Null {
            own = own.property(key, value.clone());
        }
    }
    [Rule::new("system", system.build().unwrap()).unwrap(), Rule::new("own", own.build().unwrap()).unwrap()]
}

pub(crate) async fn fill(rabbit: &RabbitMq, prefix: &str) {
    let sender = rabbit.sender(&format!("{prefix}/all")).unwrap();
    for message in every() {
        sender.send(message).await.unwrap();
    }
    let path = format!("{prefix}/settled");
    for id in ["abandoned", "dead"] {
        rabbit.sender(&path).unwrap().send(with_id(id)).await.unwrap();
    }
    let mut receiver = rabbit.receiver(&path).unwrap();
    let first = receiver.receive_within(LONG).await.unwrap();
    let second = receiver.receive_within(LONG).await.unwrap();
    drop(receiver);
    first.settle(Disposition::Abandon(Changes::from(changes()))).await.unwrap();
    second.dead_letter(broken()).await.unwrap();
    let path = format!("{prefix}/once");
    rabbit.sender(&path).unwrap().send(every().remove(0)).await.unwrap();
    rabbit.receiver(&path).unwrap().receive_within(LONG).await.unwrap().abandon().await.unwrap();
    let sender = rabbit.sender(&format!("{prefix}/topic")).unwrap();
    for message in every().into_iter().take(2) {
        sender.send(message).await.unwrap();
    }
    let at = SystemClock::new().now().utc.saturating_add(DELAY);
    rabbit.sender(&format!("{prefix}/delayed")).unwrap().schedule(vec![with_id("delayed")], at).await.unwrap();
    sessions(rabbit, &format!("{prefix}/sessions")).await;
}

async fn sessions(rabbit: &RabbitMq, path: &str) {
    let sender = rabbit.sender(path).unwrap();
    for id in SESSIONS {
        for nth in [1, 2] {
            sender.send(in_session(id, nth)).await.unwrap();
        }
    }
    let mut a = rabbit.accept_session(path, "a").await.unwrap();
    a.set_state(Some(Bytes::from_static(&[0, 0xff]))).await.unwrap();
    a.receive_within(LONG).await.unwrap().abandon().await.unwrap();
    for (id, state) in [("empty state", Some(Bytes::new())), ("no state", None)] {
        let session = rabbit.accept_session(path, id).await.unwrap();
        session.set_state(Some(Bytes::from_static(b"before"))).await.unwrap();
        session.set_state(state).await.unwrap();
        session.close().await.unwrap();
    }
    a.close().await.unwrap();
}

/// What the crate receives, as JSON.
pub(crate) async fn received(rabbit: &RabbitMq, prefix: &str) -> Vec<Json> {
    let mut found = Vec::new();
    let mut receiver = rabbit.receiver(&format!("{prefix}/all")).unwrap();
    for _ in every() {
        let delivery = receiver.receive_within(LONG).await.unwrap();
        found.push(settled_and_shown(delivery).await);
    }
    for name in ["settled", "settled/$deadletterqueue", "once/$deadletterqueue"] {
        found.push(next(rabbit, &format!("{prefix}/{name}")).await);
    }
    let path = format!("{prefix}/sessions");
    for id in SESSIONS {
        let mut session = rabbit.accept_session(&path, id).await.unwrap();
        for _ in 0..2 {
            let delivery = session.receive_within(LONG).await.unwrap();
            found.push(settled_and_shown(delivery).await);
        }
        session.close().await.unwrap();
    }
    for id in ["a", "empty state", "no state"] {
        let session = rabbit.accept_session(&path, id).await.unwrap();
        found.push(json!({ "state": session.state().await.unwrap().as_deref().map(golden::bytes) }));
        session.close().await.unwrap();
    }
    for _ in 0..2 {
        found.push(next(rabbit, &format!("{prefix}/topic/Subscriptions/Sub")).await);
    }
    found.push(next(rabbit, &format!("{prefix}/delayed")).await);
    found
}

async fn next(rabbit: &RabbitMq, path: &str) -> Json {
    settled_and_shown(rabbit.receiver(path).unwrap().receive_within(LONG).await.unwrap()).await
}

async fn settled_and_shown(delivery: Delivery<RabbitMqLease>) -> Json {
    let received = delivery.message.received().unwrap();
    let (number, enqueued, deliveries) =
        (received.sequence_number.get(), received.enqueued_time.as_millis(), received.delivery_count);
    let shown = json!([number, enqueued, deliveries, received.dead_lettered, shown(&delivery.message)]);
    delivery.complete().await.unwrap();
    shown
}

/// Returns how many messages are sent to the first queue. The last one has no MessageId.
pub(crate) fn count() -> i64 {
    every().len().try_into().unwrap()
}

/// What is expected of [`received`], without a server: the first sequence number, the id that a sender has made, and
/// the description of a dead letter by its count.
pub(crate) fn expected(first: i64, id: &str, by_count: &'static str) -> Vec<Json> {
    let mut number = first - 1;
    let mut fact = |deliveries: u32, dead: bool, message: &Message| {
        number += 1;
        json!([number, TIME, deliveries, dead, shown(message)])
    };
    let mut all = every();
    all.last_mut().unwrap().properties_mut().stamp_message_id(id.to_owned()).unwrap();
    let mut expected: Vec<_> = all.iter().map(|message| fact(1, false, message)).collect();
    let mut abandoned = with_id("abandoned");
    abandoned.properties_mut().application_properties_mut().merge(changes());
    expected.push(fact(2, false, &abandoned));
    let dead = |mut message: Message, why: DeadLetter| {
        why.write_to(message.properties_mut().application_properties_mut());
        message
    };
    expected.push(fact(1, true, &dead(with_id("dead"), broken())));
    let why = DeadLetter::new(DeadLetterReason::MaxDeliveryCountExceeded, by_count);
    expected.push(fact(2, true, &dead(all[0].clone(), why)));
    for id in SESSIONS {
        expected.push(fact(if id == "a" { 2 } else { 1 }, false, &in_session(id, 1)));
        expected.push(fact(1, false, &in_session(id, 2)));
    }
    expected.extend([json!({ "hex": "00ff" }), json!(""), Json::Null].map(|state| json!({ "state": state })));
    expected.extend(all[..2].iter().map(|message| fact(1, false, message)));
    let mut delayed = with_id("delayed");
    delayed.properties_mut().set_scheduled_enqueue_time(Timestamp::from_millis(TIME));
    expected.push(fact(1, false, &delayed));
    expected
}
