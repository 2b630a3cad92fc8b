//! What a queue accepts, and what it makes of it.

use std::time::Duration;

use consign::{
    Message,
    administration::{QueueSettings, SubscriptionSettings},
    settlement::DeadLetter,
    transport::{Batch, ErrorKind, Sender},
};

use crate::{
    namespace::{Namespace, peek, try_send},
    support::{Bench, MS, START, facts, settings, text, why},
    topics::sql_with_action,
};

/// What a message counts for beside its body and its properties.
const OVERHEAD: u64 = QueueSettings::OVERHEAD;

/// Rules: T-85, V-10.
#[test]
fn a_message_of_the_largest_size_fits() {
    assert_eq!(QueueSettings::default().max_message_size, 256 << 10);
    let bench = Bench::new(settings().max_message_size(1_000));
    // Four bytes of properties, counted with the body.
    let message = |body: usize| Message::builder().subject("s").property("key", "").build("x".repeat(body)).unwrap();
    bench.try_send(message(996)).unwrap();
    let error = bench.try_send(message(997)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded);
    assert_eq!(error.to_string(), "send: the message is too large (1001 bytes, at most 1000; queue `orders`)");
    assert!(!error.is_retryable());
}

/// Rules: T-85.
#[test]
fn the_largest_size_is_at_most_100_mib() {
    let bench = Bench::new(settings());
    for (size, allowed) in [(0, false), (1, true), (100 << 20, true), ((100 << 20) + 1, false)] {
        let created = bench.broker.create_queue(&format!("q{size}"), settings().max_message_size(size));
        assert_eq!(created.map_err(|error| error.kind()).err(), (!allowed).then_some(ErrorKind::InvalidArgument));
    }
}

/// Rules: T-86.
#[test]
fn a_full_queue_refuses() {
    assert_eq!(QueueSettings::default().max_size, 1 << 30);
    let bench = Bench::new(settings().max_size(2 * (OVERHEAD + 500)));
    let message = || Message::new("x".repeat(500));
    bench.try_send(message()).unwrap();
    bench.try_send(message()).unwrap();
    for refused in [message(), Message::new("")] {
        assert_eq!(bench.try_send(refused).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    }
    // A lock frees nothing, a removal does.
    let held = bench.receive();
    assert_eq!(bench.try_send(message()).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    held.complete().wait().unwrap();
    bench.try_send(message()).unwrap();
}

/// Rules: T-86.
#[test]
fn a_batch_is_accepted_or_refused_as_a_whole() {
    let bench = Bench::new(settings().max_size(2 * (OVERHEAD + 500)));
    let batch = |messages| Batch::from(vec![Message::new("x".repeat(500)); messages]);
    let sender = bench.queue.sender().unwrap();
    assert_eq!(sender.send_batch(batch(3)).wait().unwrap_err().kind(), ErrorKind::QuotaExceeded);
    assert_eq!(bench.queue.counts().size, 0);
    sender.send_batch(batch(2)).wait().unwrap();
    sender.send_batch(batch(0)).wait().unwrap();
    assert_eq!(bench.counts(), [2, 0, 0, 0]);
}

/// Rules: V-09.
#[test]
fn the_broker_checks_the_properties_again() {
    let bench = Bench::new(settings());
    let mut message = Message::new("a");
    message.properties_mut().application_properties_mut().insert("k", "x".repeat(40_000));
    let error = bench.try_send(message).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"k\""), "{error}");
}

/// Rules: M-11.
#[test]
fn a_message_without_an_id_gets_a_uuid() {
    let bench = Bench::new(settings());
    bench.send(["a", "b"]);
    let ids = [bench.receive(), bench.receive()].map(|delivery| delivery.message.message_id().unwrap().to_owned());
    assert!(ids.iter().all(|id| uuid::Uuid::parse_str(id).is_ok()));
    assert_ne!(ids[0], ids[1]);
}

/// Rules: M-15.
#[test]
fn an_enqueue_time_that_has_come_is_an_ordinary_send() {
    let bench = Bench::new(settings());
    for at in [0, 1] {
        let time = START.saturating_add(at * MS);
        bench.try_send(Message::builder().scheduled_enqueue_time(time).build("a").unwrap()).unwrap();
    }
    let counts = bench.queue.counts();
    assert_eq!((counts.active, counts.scheduled), (1, 1));
}

/// Rules: M-05, M-09.
/// Attacks: 53.
#[test]
fn a_sender_cannot_write_what_the_broker_sets() {
    let bench = Bench::new(settings());
    let forged = Message::builder()
        .property(DeadLetter::REASON, "forged")
        .property(DeadLetter::DESCRIPTION, "forged")
        .build("a")
        .unwrap();
    bench.try_send(forged).unwrap();
    let received = bench.receive().message;
    assert_eq!(why(&received), ("", ""));
    // What was received is sent on without what the broker said of it.
    bench.advance(Duration::from_secs(1));
    bench.try_send(received).unwrap();
    let [first, second] = [bench.receive(), bench.receive()];
    drop(first);
    let facts = facts(&second.message);
    assert_eq!((facts.sequence_number.get(), facts.delivery_count), (2, 1));
    assert_eq!((facts.enqueued_sequence_number.get(), facts.dead_lettered), (0, false));
    assert_eq!(text(&second.message), "a");
}

#[test]
fn a_send_keeps_its_own_copy() {
    let bench = Bench::new(settings());
    let mut message = Message::builder().subject("sent").build("a").unwrap();
    bench.try_send(message.clone()).unwrap();
    message.properties_mut().set_subject("changed");
    let received = bench.receive();
    assert_eq!(received.message.subject(), Some("sent"));
    let mut copy = received.message.clone();
    copy.properties_mut().set_subject("changed");
    drop(received);
    assert_eq!(bench.receive().message.subject(), Some("sent"));
}

/// Rules: V-06.
#[test]
fn no_message_has_a_session_and_another_partition_key() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let actions = ["SET sys.PartitionKey = 'other'", "SET sys.SessionId = 'other'"];
    let subscriptions = [0, 1].map(|at| {
        let rule = sql_with_action("action", "1 = 1", actions[at]);
        topic.create_subscription_with(&format!("s{at}"), SubscriptionSettings::default(), rule).unwrap()
    });
    let message = Message::builder().session_id("s").build("a").unwrap();
    assert_eq!(message.partition_key().unwrap_or("s"), "s");
    try_send(&topic.sender(), message).unwrap();
    // The one fails; the other takes the key along.
    let dead = &peek(&subscriptions[0].dead_letter())[0];
    assert_eq!((dead.dead_letter_reason(), dead.session_id()), (Some("RuleActionException"), Some("s")));
    let copy = &peek(&subscriptions[1])[0];
    assert_eq!((copy.session_id(), copy.partition_key().unwrap_or("other")), (Some("other"), "other"));
    let mut keyed = Message::builder().partition_key("k").build("b").unwrap();
    keyed.properties_mut().set_session_id("s").unwrap();
    assert_eq!(keyed.partition_key().unwrap_or("s"), "s");
    keyed.properties_mut().set_partition_key("k").unwrap_err();
}
