//! The size of a topic where the copies depend on what the broker sets when it accepts a message.

use std::time::Duration;

use consign::{
    Message,
    administration::{QueueSettings, Status, TopicSettings},
    broker::{Subscription, Topic},
    message::SequenceNumber,
    transport::{Batch, ErrorKind, Sender},
};

use crate::{
    namespace::{Namespace, counts, numbers, receive, try_send, with_id},
    support::{Ended, START, settings},
    topics::{sql, subscribe},
};

const SECOND: Duration = Duration::from_secs(1);
/// What a message of [`message`] counts for.
const MESSAGE: u64 = QueueSettings::OVERHEAD + 500;

fn message() -> Message {
    Message::builder().message_id("m").build("x".repeat(499)).unwrap()
}

/// Rules: T-86.
/// A rule may read what the broker sets when it accepts a message.
#[test]
fn rules_see_the_number_and_the_time_to_live_when_the_size_is_checked() {
    for filter in [
        "sys.SequenceNumber > 0",
        "sys.SequenceNumber % 10 <> 0",
        "sys.TimeToLive IS NOT NULL",
        "sys.ExpiresAtUtc < latest",
    ] {
        let namespace = Namespace::new();
        let settings = TopicSettings::default().max_size(2 * MESSAGE).default_time_to_live(SECOND);
        let topic = namespace.broker.create_topic("events", settings).unwrap();
        let subscription = only(&topic, "s", filter);
        let latest = START.saturating_add(2 * SECOND);
        let message = || {
            let builder = Message::builder().message_id("m").property("latest", latest);
            builder.build("x".repeat(499 - "latest".len() - 8)).unwrap()
        };
        for _ in 0..2 {
            try_send(&topic.sender(), message()).unwrap();
        }
        assert_eq!(try_send(&topic.sender(), message()), Err(ErrorKind::QuotaExceeded), "{filter}");
        assert_eq!((numbers(&subscription), topic.counts().size), (vec![1, 2], 2 * MESSAGE), "{filter}");
    }
}

/// Rules: T-86.
#[test]
fn a_full_topic_accepts_what_no_rule_wants_by_its_number() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().max_size(2 * MESSAGE);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let even = only(&topic, "even", "sys.SequenceNumber % 2 = 0");
    let first = only(&topic, "first", "sys.SequenceNumber < 2");
    let send = |messages| {
        let sent = topic.sender().send_batch(Batch::from(vec![message(); messages])).wait();
        sent.map_err(|error| error.kind())
    };
    assert_eq!(send(4), Err(ErrorKind::QuotaExceeded));
    send(3).unwrap();
    assert_eq!((topic.counts().size, counts(&even)[0], counts(&first)[0]), (2 * MESSAGE, 1, 1));
    // The fourth is for a subscription.
    assert_eq!(send(1), Err(ErrorKind::QuotaExceeded));
    receive(&first).complete().ok();
    send(2).unwrap();
    assert_eq!(send(1), Err(ErrorKind::QuotaExceeded));
    assert_eq!((topic.counts().size, counts(&even)[0]), (2 * MESSAGE, 2));
}

/// Rules: T-86.
/// A scheduled message may have its number before the commit, and a dead letter takes one.
#[test]
fn the_size_for_a_transaction_is_by_the_numbers_of_the_commit() {
    let namespace = Namespace::new();
    let limited = TopicSettings::default().max_size(4 * MESSAGE);
    let topic = namespace.broker.create_topic("events", limited).unwrap();
    only(&topic, "s", "sys.SequenceNumber = 4");
    let target = namespace.queue("target");
    let mut transaction = namespace.broker.transaction();
    let at = START.saturating_add(SECOND);
    assert_eq!(transaction.schedule_numbered(&topic.sender(), with_id("a"), at).unwrap(), SequenceNumber::new(1));
    transaction.schedule(&topic.sender(), with_id("b"), at).unwrap();
    let via = target.sender().unwrap().via_topic(&topic);
    transaction.send(&via, message()).unwrap();
    let filling = Message::builder().message_id("m").build("x".repeat(3_500)).unwrap();
    transaction.send(&topic.sender(), filling).unwrap();
    namespace.broker.update_queue("target", settings().status(Status::Disabled)).unwrap();
    let before = namespace.snapshot();
    assert_eq!(transaction.commit().wait().unwrap_err().kind(), ErrorKind::QuotaExceeded);
    assert_eq!(namespace.snapshot(), before);
}

/// A subscription with this rule alone.
fn only(topic: &Topic, name: &str, filter: &str) -> Subscription {
    let subscription = subscribe(topic, name);
    subscription.delete_rule("$Default").unwrap();
    subscription.create_rule(sql("rule", filter)).unwrap();
    subscription
}
