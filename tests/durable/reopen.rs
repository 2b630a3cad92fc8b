//! A broker that is opened again has the state of the one before.

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Disposition, Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Broker, Durability},
    message::{MessageBody, SequenceNumber, Value},
    rules::{CorrelationFilter, Rule},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{Capability, ErrorKind, Level, ReceiverExt, Sender},
};
use futures_util::FutureExt;

use crate::{
    log::captured,
    support::{Disk, START, receive, text, texts},
};

const SECOND: Duration = Duration::from_secs(1);

/// Rules: D-02.
#[tokio::test]
async fn every_state_of_a_message_survives() {
    let mut disk = Disk::new();
    let (broker, _) = disk.open();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let sender = queue.sender().unwrap();
    for body in ["deferred", "dead", "abandoned", "locked", "completed", "ready"] {
        sender.send(Message::builder().property("body", body).build(body).unwrap()).await.unwrap();
    }
    queue.schedule(vec![Message::new("scheduled")], START.saturating_add(60 * SECOND)).await.unwrap();
    let mut held = queue.receiver().receive_batch(5).await.unwrap();
    let (completed, locked) = (held.pop().unwrap(), held.pop().unwrap());
    completed.complete().await.unwrap();
    held.pop().unwrap().abandon().await.unwrap();
    let dead_letter = DeadLetter::new(DeadLetterReason::Application("Broken".into()), "it is");
    held.pop().unwrap().dead_letter(dead_letter).await.unwrap();
    held.pop().unwrap().defer().await.unwrap();
    broker.close().await.unwrap();
    // What a lease does when it is dropped is too late.
    drop(locked);

    disk.advance(30 * SECOND);
    let (broker, clock) = disk.open();
    let queue = broker.queue("orders").unwrap();
    let counts = queue.counts();
    assert_eq!((counts.active, counts.locked, counts.deferred), (3, 0, 1));
    assert_eq!((counts.scheduled, counts.dead_lettered), (1, 1));
    let ready = receive(&queue).await;
    assert_eq!(texts(&ready), ["abandoned", "locked", "ready"]);
    let seen = |at: usize| ready[at].message.received().unwrap();
    assert_eq!([0, 1, 2].map(|at| seen(at).delivery_count), [2, 1, 1]);
    assert_eq!([0, 1, 2].map(|at| seen(at).sequence_number.get()), [3, 4, 6]);
    assert_eq!(ready[0].message.application_properties().get("body").and_then(|body| body.as_str()), Some("abandoned"));
    let deferred = queue.receive_deferred(&[SequenceNumber::new(1)]).unwrap();
    assert_eq!(texts(&deferred), ["deferred"]);
    let dead = receive(&queue.dead_letter()).await;
    assert_eq!(texts(&dead), ["dead"]);
    let dead = &dead[0].message;
    assert_eq!(
        dead.application_properties().get(DeadLetter::REASON).and_then(|reason| reason.as_str()),
        Some("Broken")
    );
    clock.advance(29 * SECOND);
    assert_eq!(queue.counts().scheduled, 1);
    clock.advance(SECOND);
    let due = receive(&queue).await;
    assert_eq!(texts(&due), ["scheduled"]);
    // Numbers go on behind the last one: 7 was that of the scheduled message, and 8 is when it became active.
    queue.sender().unwrap().send(Message::new("next")).await.unwrap();
    let next = receive(&queue).await;
    assert_eq!(next[0].message.received().unwrap().sequence_number.get(), 9);
    for delivery in ready.into_iter().chain(due).chain(next) {
        delivery.settle(Disposition::Complete).await.unwrap();
    }
}

/// Rules: D-02.
#[tokio::test]
async fn topics_rules_sessions_and_ids_survive() {
    let mut disk = Disk::new();
    let (broker, _) = disk.open();
    let topic = broker.create_topic("events", TopicSettings::default()).unwrap();
    let red = topic.create_subscription("red", SubscriptionSettings::default()).unwrap();
    let filter = CorrelationFilter::builder().property("colour", "red").build().unwrap();
    red.delete_rule("$Default").unwrap();
    red.create_rule(Rule::new("red", filter).unwrap()).unwrap();
    let window = QueueSettings::default().duplicate_detection(60 * SECOND);
    let once = broker.create_queue("once", window).unwrap();
    let sessions = broker.create_queue("sessions", QueueSettings::default().requires_session(true)).unwrap();
    let id = || Message::builder().message_id("a").build("first").unwrap();
    once.sender().unwrap().send(id()).await.unwrap();
    let of_session = Message::builder().session_id("s").build("hello").unwrap();
    sessions.sender().unwrap().send(of_session).await.unwrap();
    let session = sessions.accept_session("s").unwrap();
    session.set_state(Some(Bytes::from_static(b"state"))).await.unwrap();
    sessions.accept_session("empty").unwrap().set_state(Some(Bytes::new())).await.unwrap();
    broker.create_queue("gone", QueueSettings::default()).unwrap().sender().unwrap().send(id()).await.unwrap();
    broker.delete("gone").unwrap();
    broker.close().await.unwrap();
    drop(session);

    disk.advance(59 * SECOND);
    let (broker, clock) = disk.open();
    assert_eq!(broker.entities().len(), 4);
    let topic = broker.topic("events").unwrap();
    for colour in ["red", "blue"] {
        topic.sender().send(Message::builder().property("colour", colour).build(colour).unwrap()).await.unwrap();
    }
    assert_eq!(texts(&receive(&broker.queue("events/subscriptions/red").unwrap()).await), ["red"]);
    let once = broker.queue("once").unwrap();
    once.sender().unwrap().send(id()).await.unwrap();
    assert_eq!(once.counts().active, 1, "the id is known for a second more");
    clock.advance(SECOND);
    once.sender().unwrap().send(id()).await.unwrap();
    assert_eq!(once.counts().active, 2);
    let sessions = broker.queue("sessions").unwrap();
    assert_eq!(sessions.sessions(), ["empty", "s"]);
    let before = Timestamp::from_millis(START.as_millis() - 1);
    assert_eq!(sessions.sessions_updated_after(before), ["empty", "s"]);
    assert_eq!(sessions.sessions_updated_after(START), [""; 0]);
    let rules = topic.subscription("red").unwrap().rules();
    assert_eq!(rules[0].created(), Some(START));
    let mut session = sessions.accept_session("s").unwrap();
    assert_eq!(session.state().unwrap().as_deref(), Some(&b"state"[..]));
    assert_eq!(text(&session.receive().await.unwrap().message), "hello");
}

/// Rules: D-02.
#[tokio::test]
async fn a_session_state_that_was_cleared_stays_cleared() {
    let disk = Disk::new();
    let (broker, _) = disk.open();
    let queue = broker.create_queue("sessions", QueueSettings::default().requires_session(true)).unwrap();
    let session = queue.accept_session("s").unwrap();
    session.set_state(Some(Bytes::from_static(b"state"))).await.unwrap();
    session.set_state(None).await.unwrap();
    broker.close().await.unwrap();
    drop(session);
    let (broker, _) = disk.open();
    assert_eq!(broker.queue("sessions").unwrap().accept_session("s").unwrap().state().unwrap(), None);
}

/// Rules: D-09.
#[tokio::test]
async fn a_relaxed_broker_answers_before_the_disk_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let relaxed = Durability::Relaxed { max_delay: Duration::from_secs(3_600) };
    let broker = Broker::options().durability(relaxed).open(folder.path()).unwrap();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    queue.sender().unwrap().send(Message::new("one order")).now_or_never().expect("it does not wait").unwrap();
    broker.close().await.unwrap();
    let broker = Broker::open(folder.path()).unwrap();
    assert_eq!(broker.queue("orders").unwrap().counts().active, 1);
}

/// Rules: D-09.
/// Until they are written messages stay in memory, whatever the budget.
#[tokio::test]
async fn much_is_written_before_the_delay_is_over() {
    let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let relaxed = Durability::Relaxed { max_delay: Duration::from_secs(3_600) };
    let broker = Broker::options().durability(relaxed).open(folder.path()).unwrap();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let sender = queue.sender().unwrap();
    for _ in 0..50 {
        sender.send(Message::new(vec![7; 200_000])).await.unwrap();
    }
    // A copy has what is on the disk.
    for nth in 0.. {
        let to = copies.path().join(nth.to_string());
        broker.backup(&to).unwrap();
        let copy = Broker::open(&to).unwrap();
        if copy.queue("orders").is_ok_and(|queue| queue.counts().active >= 40) {
            break;
        }
        copy.close().await.unwrap();
        std::fs::remove_dir_all(to).unwrap();
        assert!(nth < 1_000, "nothing is written");
    }
}

/// Rules: D-09.
#[test]
fn a_relaxed_broker_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let relaxed = Durability::Relaxed { max_delay: Duration::from_millis(7) };
    let open = |durability| captured(|| Broker::options().durability(durability).open(folder.path()).unwrap());
    for _ in 0..2 {
        let (broker, log) = open(relaxed);
        assert_eq!(log.lines().filter(|line| line.starts_with("WARN")).count(), 1, "{log}");
        assert!(log.contains("may lose") && log.contains("max_delay=7ms"), "{log}");
        assert_eq!(broker.durability(), Some(relaxed));
        let refused = broker.capabilities().require(Capability::Acceptance).unwrap_err();
        assert_eq!(refused.capability(), Capability::Acceptance);
        let others = broker.capabilities().with(Capability::Acceptance, Level::Native);
        assert_eq!(others, Broker::CAPABILITIES, "nothing else is another");
        let settings = QueueSettings::default();
        let sender = broker.declare_queue("orders", settings).unwrap().sender().unwrap();
        assert_eq!(sender.capabilities(), broker.capabilities());
    }
    let (broker, log) = open(Durability::Durable);
    assert!(!log.contains("WARN"), "{log}");
    assert_eq!((broker.durability(), broker.capabilities()), (Some(Durability::Durable), Broker::CAPABILITIES));
    let (broker, log) = captured(Broker::new);
    assert_eq!((broker.durability(), broker.capabilities(), log.as_str()), (None, Broker::CAPABILITIES, ""));
}

/// Rules: D-10.
#[tokio::test]
async fn a_value_that_is_too_deep_is_refused() {
    let disk = Disk::new();
    let (broker, _) = disk.open();
    let sender = broker.create_queue("orders", QueueSettings::default()).unwrap().sender().unwrap();
    let nested = |depth| (0..depth).fold(Value::from(1_u8), |inner, _| Value::List(vec![inner]));
    sender.send(Message::new(MessageBody::Value(Box::new(nested(31))))).await.unwrap();
    let refused = sender.send(Message::new(MessageBody::Value(Box::new(nested(32))))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

/// Rules: T-73.
#[tokio::test]
async fn a_number_that_a_transaction_returned_is_not_assigned_again() {
    let disk = Disk::new();
    let (broker, _) = disk.open();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let mut transaction = broker.transaction();
    let later = START.saturating_add(60 * SECOND);
    let number = transaction.schedule_numbered(&queue.sender().unwrap(), Message::new("a"), later).unwrap();
    drop(transaction);
    broker.close().await.unwrap();
    let (broker, _) = disk.open();
    let queue = broker.queue("orders").unwrap();
    queue.sender().unwrap().send(Message::new("b")).await.unwrap();
    let next = receive(&queue).await[0].message.received().unwrap().sequence_number;
    assert_eq!(next, number.next());
}
