//! What is in a store of format 1: every state of a message, every kind of value, every setting. It stays as it is; what
//! only a later format can say is in a store of its own.

use std::{any::Any, time::Duration};

use bytes::Bytes;
use consign::{
    Message,
    administration::{QueueSettings, Status, SubscriptionSettings, TopicSettings},
    broker::{Broker, Queue, QueueLease},
    message::{MessageBody, PropertyValue, Value},
    rules::{CorrelationFilter, Filter, Rule, SqlAction, SqlFilter},
    settlement::{DeadLetter, DeadLetterReason},
    time::{ManualClock, Timestamp},
    transport::{Delivery, Lease, ReceiverExt, Sender},
};

use crate::support::{START, receive};

pub(super) const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3_600);
const SIXTEEN: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x7f, 0x80, 0xff];

/// What holds locks, until it is dropped.
pub(super) type Held = Vec<Box<dyn Any + Send>>;

pub(super) fn later() -> Timestamp {
    START.saturating_add(3_600 * SECOND)
}

/// Fills a broker that is empty, on a clock that stands at [`START`].
pub(super) async fn fill(broker: &Broker, clock: &ManualClock) -> Held {
    let mut held = Held::new();
    states(broker, clock, &mut held).await;
    values(broker).await;
    broker.flush().await.unwrap();
    sessions(broker, &mut held).await;
    broker.flush().await.unwrap();
    partitions(broker).await;
    topics(broker).await;
    forwards(broker).await;
    broker.flush().await.unwrap();
    // Its number is not given again.
    broker.create_queue("gone", QueueSettings::default()).unwrap();
    broker.delete("gone").unwrap();
    let disabled = QueueSettings::default().status(Status::ReceiveDisabled);
    let queue = broker.create_queue("closed", QueueSettings::default()).unwrap();
    send(&queue, "behind a closed door").await;
    broker.update_queue("closed", disabled).unwrap();
    held
}

async fn send(queue: &Queue, id: &'static str) {
    let message = Message::builder().message_id(id).build(id).unwrap();
    queue.sender().unwrap().send(message).await.unwrap();
}

async fn one(queue: &Queue) -> Delivery<QueueLease> {
    receive(queue).await.remove(0)
}

fn broken(description: &'static str) -> DeadLetter {
    DeadLetter::new(DeadLetterReason::Application("Broken".into()), description)
}

/// Every state that a message can be in.
async fn states(broker: &Broker, clock: &ManualClock, held: &mut Held) {
    let settings = QueueSettings::default()
        .lock_duration(30 * SECOND)
        .max_delivery_count(2)
        .default_time_to_live(30 * DAY)
        .dead_letter_on_expiration(true)
        .max_size(1 << 20)
        .max_message_size(64 << 10)
        .duplicate_detection(7 * DAY)
        .max_duplicate_ids(50)
        .auto_delete_on_idle(90 * DAY);
    let queue = broker.create_queue("Shop/Orders", settings).unwrap();
    let dead = queue.dead_letter();
    for id in ["completed", "deferred", "dead", "dead and deferred", "dead and locked", "worn", "abandoned", "locked"] {
        send(&queue, id).await;
    }
    let mut deliveries = receive(&queue).await.into_iter();
    let mut next = || deliveries.next().unwrap();
    next().complete().await.unwrap();
    next().defer().await.unwrap();
    next().dead_letter(broken("it is")).await.unwrap();
    next().dead_letter(broken("and deferred")).await.unwrap();
    next().dead_letter(broken("and locked")).await.unwrap();
    let worn = next();
    next().abandon().await.unwrap();
    let locked = next();
    clock.advance(SECOND);
    worn.abandon().await.unwrap();
    // The first of those that wait: its second delivery fails too.
    one_of(&queue, "worn").await.abandon().await.unwrap();
    held.push(Box::new(locked));
    let mut deliveries = receive(&dead).await.into_iter();
    deliveries.next().unwrap().lease.release().await.unwrap();
    deliveries.next().unwrap().defer().await.unwrap();
    held.push(Box::new(deliveries.next().unwrap()));
    for rest in deliveries {
        rest.lease.release().await.unwrap();
    }
    let short = Message::builder().message_id("expired").time_to_live(SECOND).build("expired").unwrap();
    queue.sender().unwrap().send(short).await.unwrap();
    clock.advance(SECOND);
    for id in ["scheduled", "cancelled"] {
        let message = Message::builder().message_id(id).build(id).unwrap();
        let numbers = queue.schedule(vec![message], later()).await.unwrap();
        if id == "cancelled" {
            queue.cancel_scheduled(&numbers).await.unwrap();
        }
    }
    send(&queue, "ready").await;
}

/// The delivery of this message. The others go back without a count.
async fn one_of(queue: &Queue, id: &str) -> Delivery<QueueLease> {
    let mut found = None;
    for delivery in receive(queue).await {
        if delivery.message.message_id() == Some(id) {
            found = Some(delivery);
        } else {
            delivery.lease.release().await.unwrap();
        }
    }
    found.unwrap()
}

fn every_simple_value() -> Vec<PropertyValue> {
    vec![
        PropertyValue::Null,
        true.into(),
        u8::MAX.into(),
        u16::MAX.into(),
        u32::MAX.into(),
        u64::MAX.into(),
        i8::MIN.into(),
        i16::MIN.into(),
        i32::MIN.into(),
        i64::MIN.into(),
        (-0.0_f32).into(),
        f64::MIN_POSITIVE.into(),
        '\u{10ffff}'.into(),
        "a \"text\" of\n\u{0}€ characters".into(),
        PropertyValue::Decimal(SIXTEEN),
        PropertyValue::Uuid(SIXTEEN),
        Timestamp::from_millis(1_700_000_000_123).into(),
        PropertyValue::DateTimeOffset(638_000_000_000_000_001),
        PropertyValue::TimeSpan(-1),
        PropertyValue::Uri("amqp://host/é".into()),
        Bytes::from_static(&[0, 0x80, 0xff]).into(),
    ]
}

fn every_value() -> Vec<Value> {
    let simple: Vec<Value> = every_simple_value().into_iter().map(Value::Simple).collect();
    vec![
        Value::Symbol("a:symbol".into()),
        Value::List(simple.clone()),
        Value::List(vec![]),
        Value::Map(simple.iter().map(|value| (value.clone(), Value::Symbol("".into()))).collect()),
        Value::Array(vec![1.into(), 2.into()]),
        Value::Described(Box::new((Value::Symbol("d".into()), Value::List(simple)))),
    ]
}

/// Every property and every body.
async fn values(broker: &Broker) {
    let queue = broker.create_queue("values", QueueSettings::default()).unwrap();
    let sender = queue.sender().unwrap();
    let mut message = Message::builder()
        .content_type("application/json")
        .message_id("m")
        .correlation_id("c")
        .subject("s")
        .reply_to("r")
        .to("t")
        .session_id("p")
        .reply_to_session_id("é")
        .partition_key("p")
        .transaction_partition_key("p")
        .time_to_live(Duration::from_millis(86_400_001))
        .build(vec![0, 0xff, 0x80])
        .unwrap();
    let properties = message.properties_mut();
    for (nth, value) in every_simple_value().into_iter().enumerate() {
        properties.application_properties_mut().insert(format!("key {nth:02}"), value);
    }
    let rest = properties.pass_through_mut();
    rest.user_id = Some(Bytes::from_static(&[0xff]));
    rest.content_encoding = Some("gzip".into());
    rest.group_sequence = Some(u32::MAX);
    rest.creation_time = Some(Timestamp::MAX);
    (rest.durable, rest.priority, rest.first_acquirer) = (Some(true), Some(9), Some(false));
    rest.force_persistence = true;
    rest.annotations = every_value().into_iter().map(|value| ("x-opt-a".into(), value)).collect();
    rest.footer = vec![("f".into(), Value::from(1))];
    sender.send(message).await.unwrap();
    let mut bodies = vec![
        MessageBody::empty(),
        MessageBody::from("text"),
        MessageBody::sections(vec![Bytes::from_static(b"a"), Bytes::new(), Bytes::from_static(&[0xff])]),
        MessageBody::Sequence([].into()),
        MessageBody::Sequence([vec![], every_value()].into()),
    ];
    bodies.extend(every_value().into_iter().map(MessageBody::from));
    bodies.extend(every_simple_value().into_iter().map(|value| MessageBody::from(Value::Simple(value))));
    for (nth, body) in bodies.into_iter().enumerate() {
        let message = Message::builder().message_id(format!("value {nth}")).build(body);
        sender.send(message.unwrap()).await.unwrap();
    }
}

async fn sessions(broker: &Broker, held: &mut Held) {
    let queue = broker.create_queue("sessions", QueueSettings::default().requires_session(true)).unwrap();
    let sender = queue.sender().unwrap();
    for (session, body) in [("a", "first"), ("b", "other"), ("a", "second"), ("a", "deferred")] {
        let message = Message::builder().message_id(body).session_id(session).build(body);
        sender.send(message.unwrap()).await.unwrap();
    }
    let mut a = queue.accept_session("a").unwrap();
    let mut deliveries = a.receive_batch(3).await.unwrap().into_iter();
    deliveries.next().unwrap().abandon().await.unwrap();
    let second = deliveries.next().unwrap();
    deliveries.next().unwrap().defer().await.unwrap();
    second.lease.release().await.unwrap();
    a.set_state(Some(Bytes::from_static(&[0, 0xff]))).await.unwrap();
    queue.accept_session("empty state").unwrap().set_state(Some(Bytes::new())).await.unwrap();
    let cleared = queue.accept_session("no state").unwrap();
    cleared.set_state(Some(Bytes::from_static(b"x"))).await.unwrap();
    cleared.set_state(None).await.unwrap();
    // Its lock ends with the process.
    held.push(Box::new(a));
}

async fn partitions(broker: &Broker) {
    let settings = QueueSettings::default().partitioned(true);
    let queue = broker.create_queue("partitions", settings.clone()).unwrap();
    // Those without a key go round.
    for id in ["first", "second", "third"] {
        send(&queue, id).await;
    }
    let once = broker.create_queue("once", settings.duplicate_detection(600 * SECOND)).unwrap();
    for key in ["a", "b", "a"] {
        for queue in [&queue, &once] {
            let message = Message::builder().message_id("same").partition_key(key).build(key);
            queue.sender().unwrap().send(message.unwrap()).await.unwrap();
        }
    }
    send(&once, "same").await;
}

async fn topics(broker: &Broker) {
    let settings = TopicSettings::default()
        .default_time_to_live(60 * DAY)
        .duplicate_detection(20 * SECOND)
        .max_duplicate_ids(17)
        .max_size(18 << 20)
        .max_message_size(19 << 10)
        .auto_delete_on_idle(90 * DAY);
    let topic = broker.create_topic("Prices", settings).unwrap();
    broker.create_queue("sink", QueueSettings::default()).unwrap();
    let all = topic.create_subscription("All", SubscriptionSettings::default().forward_to("sink")).unwrap();
    let mut settings = SubscriptionSettings::default()
        .lock_duration(21 * SECOND)
        .max_delivery_count(22)
        .default_time_to_live(20 * DAY)
        .dead_letter_on_expiration(true)
        .dead_letter_on_filter_error(true)
        .auto_delete_on_idle(91 * DAY);
    let sql = SqlFilter::parse("colour = 'it''s' AND  [a b] > 1.5").unwrap();
    let action = SqlAction::parse("SET a = b; SET sys.Subject = 'changed'; REMOVE colour").unwrap();
    let rule = Rule::new("sql", sql).unwrap().with_action(action);
    let audit = topic.create_subscription_with("Audit", settings.clone(), rule).unwrap();
    let every = CorrelationFilter::builder()
        .content_type("1")
        .correlation_id("2")
        .message_id("3")
        .subject("4")
        .reply_to("5")
        .session_id("6")
        .reply_to_session_id("7")
        .to("8")
        .property("text", "9")
        .property("number", 10_i64);
    audit.create_rule(Rule::new("every", every.build().unwrap()).unwrap()).unwrap();
    audit.create_rule(Rule::new("False", Filter::False).unwrap()).unwrap();
    let failing = Rule::new("divides", SqlFilter::parse("1 / divisor = 1").unwrap()).unwrap();
    audit.create_rule(failing).unwrap();
    settings = SubscriptionSettings::default().requires_session(true).dead_letter_on_filter_error(false);
    settings = settings.status(Status::ReceiveDisabled);
    topic.create_subscription("by session", settings).unwrap();
    let sender = topic.sender();
    let builder = || Message::builder().session_id("s");
    let wanted =
        builder().property("colour", "it's").property("a b", 2_i64).property("b", 3_i64).property("divisor", 2);
    sender.send(wanted.message_id("once").build("wanted").unwrap()).await.unwrap();
    sender.send(builder().message_id("once").build("twice").unwrap()).await.unwrap();
    sender.send(builder().message_id("fails").property("divisor", 0).build("fails").unwrap()).await.unwrap();
    topic.schedule(vec![builder().message_id("at the topic").build("scheduled").unwrap()], later()).await.unwrap();
    assert_eq!(all.rules().len(), 1);
}

/// What was handed over, and what could not be.
async fn forwards(broker: &Broker) {
    let closed = QueueSettings::default().status(Status::SendDisabled);
    broker.create_queue("closed to senders", closed).unwrap();
    let stuck = QueueSettings::default().forward_to("closed to senders");
    send(&broker.create_queue("stuck", stuck).unwrap(), "stuck").await;
    let mourned = QueueSettings::default().forward_dead_letters_to("sink");
    let queue = broker.create_queue("mourned", mourned).unwrap();
    send(&queue, "mourned").await;
    one(&queue).await.dead_letter(broken("far away")).await.unwrap();
    // The last of a chain that is too long.
    let last = QueueSettings::default().forward_to("sink").forward_dead_letters_to("sink");
    broker.create_queue("hop 4", last).unwrap();
    for hop in (0..4).rev() {
        let settings = QueueSettings::default().forward_to(format!("hop {}", hop + 1));
        broker.create_queue(&format!("hop {hop}"), settings).unwrap();
    }
    send(&broker.queue("hop 0").unwrap(), "too far").await;
    let via = broker.create_queue("via", QueueSettings::default()).unwrap();
    let target = broker.queue("closed to senders").unwrap();
    let mut transaction = broker.transaction();
    let message = Message::builder().message_id("kept").build("not handed over").unwrap();
    transaction.send(&target.sender().unwrap().via(&via), message).unwrap();
    transaction.commit().await.unwrap();
}
