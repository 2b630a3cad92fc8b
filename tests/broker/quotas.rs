//! Batches, and what an entity holds at most.

use std::{task::Poll, time::Duration};

use bytes::Bytes;
use consign::{
    Disposition, Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Broker, QueueSender},
    message::SequenceNumber,
    settlement::DeadLetterReason,
    transport::{Batch, ErrorKind, ReceiverExt, Sender},
};

use tokio::time::Instant;
use tokio_test::task;

use crate::{
    namespace::{Namespace, bodies, counts, numbers, publish, receive, send, try_send, with_id},
    support::{Ended, START, settings},
    topics::{sql, sql_with_action, subscribe, subscribe_with},
};

const SECOND: Duration = Duration::from_secs(1);
/// What a message of [`message`] counts for.
const MESSAGE: u64 = QueueSettings::OVERHEAD + 500;

fn message() -> Message {
    Message::builder().message_id("m").build("x".repeat(499)).unwrap()
}

/// Rules: T-82.
#[test]
fn a_batch_is_accepted_or_refused_as_a_whole() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().max_size(3 * MESSAGE));
    let send = |messages| {
        let sent = queue.sender().unwrap().send_batch(Batch::from(vec![message(); messages])).wait();
        sent.map_err(|error| error.kind())
    };
    assert_eq!(send(4), Err(ErrorKind::QuotaExceeded));
    assert_eq!((counts(&queue), queue.counts().size), ([0; 5], 0));
    send(3).unwrap();
    assert_eq!((numbers(&queue), queue.counts().size), (vec![1, 2, 3], 3 * MESSAGE));
}

/// Rules: T-83.
#[test]
fn a_batch_of_several_has_1_mib_at_most() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().max_message_size(4 << 20));
    let send = |sizes: &[usize]| {
        let batch = sizes.iter().map(|&size| Message::new("x".repeat(size))).collect();
        queue.sender().unwrap().send_batch(batch).wait().map_err(|error| error.kind())
    };
    let most = QueueSender::MAX_BATCH;
    assert_eq!(most, 1 << 20);
    send(&[most - 7, 7]).unwrap();
    assert_eq!(send(&[most - 7, 8]), Err(ErrorKind::MessageSizeExceeded));
    assert_eq!(send(&[most / 2, most / 2, 1]), Err(ErrorKind::MessageSizeExceeded));
    let mut batch = Batch::with_max_size(most);
    for size in [most - 7, 7] {
        batch.try_add(Message::new("x".repeat(size))).unwrap();
    }
    batch.try_add(Message::new("x")).unwrap_err();
    queue.sender().unwrap().send_batch(batch).wait().unwrap();
    assert_eq!(counts(&queue), [4, 0, 0, 0, 0]);
    // One message alone, and a schedule call, are no such batch.
    send(&[most + 1]).unwrap();
    let scheduled = [most, 1].map(|size| Message::new("x".repeat(size)));
    queue.schedule(scheduled.into(), START.saturating_add(SECOND)).wait().unwrap();
    assert_eq!(counts(&queue), [5, 0, 0, 2, 0]);
}

/// Rules: T-82.
#[test]
fn duplicates_in_a_batch_are_dropped_one_by_one() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().duplicate_detection(60 * SECOND));
    let body = |id: &'static str, body: &'static str| Message::builder().message_id(id).build(body).unwrap();
    try_send(&queue.sender().unwrap(), with_id("old")).unwrap();
    let batch = Batch::from([body("a", "1"), body("b", "2"), body("a", "3"), body("old", "4"), body("c", "5")]);
    queue.sender().unwrap().send_batch(batch).wait().unwrap();
    assert_eq!(
        (bodies(&queue), numbers(&queue)),
        (["old", "1", "2", "5"].map(String::from).to_vec(), vec![1, 2, 3, 4])
    );
}

/// Rules: T-82.
#[test]
fn a_refused_batch_leaves_no_ids_behind() {
    let namespace = Namespace::new();
    let settings = settings().duplicate_detection(60 * SECOND).max_message_size(100);
    let queue = namespace.queue_with("orders", settings);
    let batch = Batch::from([with_id("a"), with_id("b"), Message::new("x".repeat(200))]);
    let refused = queue.sender().unwrap().send_batch(batch).wait().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MessageSizeExceeded);
    try_send(&queue.sender().unwrap(), with_id("a")).unwrap();
    assert_eq!((bodies(&queue), numbers(&queue)), (vec!["a".to_owned()], vec![1]));
}

/// Rules: T-85.
#[test]
fn the_largest_message_of_a_topic_is_its_setting() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().max_message_size(500);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let subscription = subscribe(&topic, "s");
    try_send(&topic.sender(), message()).unwrap();
    let longer = Message::builder().message_id("m").build("x".repeat(500)).unwrap();
    assert_eq!(try_send(&topic.sender(), longer), Err(ErrorKind::MessageSizeExceeded));
    assert_eq!(numbers(&subscription), [1]);
}

/// Rules: T-86, S-09.
#[test]
fn a_queue_can_be_filled_exactly() {
    assert_eq!((QueueSettings::default().max_size, TopicSettings::default().max_size), (1 << 30, 1 << 30));
    for (size, taken) in [(2 * MESSAGE - 1, 1), (2 * MESSAGE, 2), (2 * MESSAGE + 1, 2), (3 * MESSAGE - 1, 2)] {
        let namespace = Namespace::new();
        let queue = namespace.queue_with("orders", settings().max_size(size));
        let accepted = (0..3).filter(|_| try_send(&queue.sender().unwrap(), message()).is_ok()).count();
        assert_eq!((accepted, queue.counts().size), (taken, taken as u64 * MESSAGE), "{size}");
    }
}

/// Rules: T-86.
#[test]
fn dead_letters_scheduled_and_deferred_messages_count() {
    let namespace = Namespace::new();
    // What dead-lettering adds to a message counts too.
    let queue = namespace.queue_with("orders", settings().max_size(3 * MESSAGE + 40));
    let full = || try_send(&queue.sender().unwrap(), message()) == Err(ErrorKind::QuotaExceeded);
    let sender = queue.sender().unwrap();
    try_send(&sender, message()).unwrap();
    try_send(&sender, message()).unwrap();
    receive(&queue).settle(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "")).ok();
    assert_eq!(queue.counts().size, 2 * MESSAGE + "DeadLetterReason".len() as u64 + "HandlerPermanent".len() as u64);
    receive(&queue).defer().ok();
    let scheduled = queue.schedule(vec![message()], START.saturating_add(SECOND)).wait().unwrap();
    assert_eq!(counts(&queue), [0, 0, 1, 1, 1]);
    assert!(full());
    queue.cancel_scheduled(&scheduled).wait().unwrap();
    try_send(&sender, message()).unwrap();
    assert!(full());
    receive(&queue.dead_letter()).complete().ok();
    try_send(&sender, message()).unwrap();
    assert!(full());
    queue.receive_deferred(&[SequenceNumber::new(2)]).unwrap().remove(0).complete().ok();
    try_send(&sender, message()).unwrap();
    assert!(full());
}

/// Rules: T-86.
#[test]
fn a_schedule_call_is_refused_as_a_whole() {
    let namespace = Namespace::new();
    // The time of the call is a property that counts.
    let queue = namespace.queue_with("orders", settings().max_size(2 * (MESSAGE + 8)));
    let at = START.saturating_add(SECOND);
    let error = queue.schedule(vec![message(); 3], at).wait().unwrap_err();
    assert_eq!((error.kind(), counts(&queue)), (ErrorKind::QuotaExceeded, [0; 5]));
    assert_eq!(queue.schedule(vec![message(); 2], at).wait().unwrap().len(), 2);
}

/// Rules: T-86.
#[test]
fn a_message_dead_lettered_on_arrival_counts_its_reason() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let sessions = SubscriptionSettings::default().requires_session(true);
    topic.create_subscription("s", sessions).unwrap();
    try_send(&topic.sender(), message()).unwrap();
    let reason = "DeadLetterReason".len() + "Session ID is null.".len();
    assert_eq!(topic.counts().size, MESSAGE + reason as u64);
}

/// Rules: T-86.
#[test]
fn a_second_death_replaces_what_the_first_counted() {
    let namespace = Namespace::new();
    let last = namespace.queue("last");
    let first = namespace.queue_with("first", settings().forward_dead_letters_to("last"));
    let die = |queue, reason: &'static str, why: &'static str| {
        let reason = DeadLetterReason::Application(reason.into());
        receive(queue).settle(Disposition::dead_letter(reason, why)).ok();
    };
    try_send(&first.sender().unwrap(), message()).unwrap();
    die(&first, "a long reason", "and a description");
    let reason = "DeadLetterReason".len() + "a long reason".len();
    let description = "DeadLetterErrorDescription".len() + "and a description".len();
    assert_eq!(last.counts().size, MESSAGE + (reason + description) as u64);
    die(&last, "short", "");
    assert_eq!(last.counts().size, MESSAGE + ("DeadLetterReason".len() + "short".len()) as u64);
}

/// Rules: T-86.
#[test]
fn a_changed_copy_counts_what_was_sent_and_what_the_action_made_of_it() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().default_time_to_live(SECOND);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let subscription = subscribe(&topic, "s");
    subscription.delete_rule("$Default").unwrap();
    subscription.create_rule(sql_with_action("rule", "1 = 1", "SET seen = 'yes'")).unwrap();
    // The broker gives it an id and a time to live, neither of which counts.
    publish(&topic, "x".repeat(500));
    assert_eq!(topic.counts().size, MESSAGE + ("RuleName".len() + "rule".len() + "seen".len() + "yes".len()) as u64);
}

/// Rules: T-86, T-41.
#[test]
fn a_full_entity_accepts_operations_that_add_no_bytes() {
    let namespace = Namespace::new();
    let limited = settings().max_size(1_024).duplicate_detection(60 * SECOND);
    let queue = namespace.queue_with("orders", limited);
    let sender = queue.sender().unwrap();
    let filling = || Message::builder().message_id("m").build("x".repeat(1_024 - 256 - 1)).unwrap();
    try_send(&sender, filling()).unwrap();
    receive(&queue).settle(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "")).ok();
    assert!(queue.counts().size > 1_024);
    assert_eq!(try_send(&sender, with_id("other")), Err(ErrorKind::QuotaExceeded));
    assert_eq!(try_send(&sender, filling()), Ok(()));
    sender.send_batch(Batch::from(Vec::new())).wait().unwrap();
}

/// Rules: T-86.
#[test]
fn a_session_state_counts() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().requires_session(true).max_size(2 * MESSAGE));
    let sender = queue.sender().unwrap();
    let message = || Message::builder().message_id("m").session_id("s").build("x".repeat(498)).unwrap();
    try_send(&sender, message()).unwrap();
    let session = queue.accept_session("s").unwrap();
    session.set_state(Some(Bytes::from(vec![0; 300]))).wait().unwrap();
    assert!(queue.counts().size >= MESSAGE + 300);
    assert_eq!(try_send(&sender, message()), Err(ErrorKind::QuotaExceeded));
    session.set_state(None).wait().unwrap();
    try_send(&sender, message()).unwrap();
    assert_eq!(queue.counts().size, 2 * MESSAGE);
}

/// Rules: T-86.
#[test]
fn a_duplicate_is_accepted_by_an_entity_that_holds_more_than_it_may() {
    let namespace = Namespace::new();
    let settings = settings().duplicate_detection(Duration::from_secs(600)).max_size(2 * MESSAGE);
    let queue = namespace.queue_with("orders", settings.clone());
    let sender = queue.sender().unwrap();
    let message = |id: &'static str| Message::builder().message_id(id).build("x".repeat(499)).unwrap();
    for id in ["a", "b"] {
        try_send(&sender, message(id)).unwrap();
    }
    namespace.broker.update_queue("orders", settings.max_size(1_024)).unwrap();
    assert_eq!(try_send(&sender, message("c")), Err(ErrorKind::QuotaExceeded));
    try_send(&sender, message("a")).unwrap();
    assert_eq!(counts(&queue), [2, 0, 0, 0, 0]);
}

/// Rules: T-86.
/// A subscription has no size of its own.
#[test]
fn a_session_state_of_a_subscription_counts_for_its_topic() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().max_size(2 * MESSAGE).max_message_size(512);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let subscription = subscribe_with(&topic, "s", SubscriptionSettings::default().requires_session(true));
    let sessions = ["a", "b", "c"].map(|id| subscription.accept_session(id).unwrap());
    let set = |session: usize, bytes| sessions[session].set_state(Some(Bytes::from(vec![0; bytes]))).wait();
    assert_eq!(set(0, 513).unwrap_err().kind(), ErrorKind::MessageSizeExceeded);
    set(0, 512).unwrap();
    set(1, 100).unwrap();
    assert_eq!(set(2, 133).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    set(2, 132).unwrap();
    assert_eq!(topic.counts().size, 2 * MESSAGE);
}

/// Rules: T-86.
#[test]
fn a_send_to_a_full_topic_reaches_no_subscription() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().max_size(8 * MESSAGE);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let subscriptions = ["a", "b", "c"].map(|name| subscribe(&topic, name));
    let mut accepted = 0;
    loop {
        let before = namespace.snapshot();
        match try_send(&topic.sender(), message()) {
            Ok(()) => accepted += 1,
            Err(kind) => {
                assert_eq!((kind, namespace.snapshot()), (ErrorKind::QuotaExceeded, before));
                break;
            }
        }
        assert!(accepted <= 8, "it is never full");
    }
    // Three copies of each count, so the third send was too much.
    assert_eq!((accepted, topic.counts().size), (2, 6 * MESSAGE));
    // A copy that is removed makes room, and the refused send used up no number anywhere.
    receive(&subscriptions[0]).complete().ok();
    try_send(&topic.sender(), message()).unwrap();
    assert_eq!(
        subscriptions.each_ref().map(|subscription| numbers(subscription)),
        [vec![2, 3], vec![1, 2, 3], vec![1, 2, 3]]
    );
    assert_eq!(topic.counts().size, 8 * MESSAGE);
}

/// Rules: T-86.
#[test]
fn a_batch_too_large_for_its_topic_reaches_no_subscription() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().max_size(5 * MESSAGE);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let subscriptions = ["a", "b"].map(|name| subscribe(&topic, name));
    let before = namespace.snapshot();
    let refused = topic.sender().send_batch(Batch::from(vec![message(); 3])).wait().unwrap_err();
    assert_eq!((refused.kind(), namespace.snapshot()), (ErrorKind::QuotaExceeded, before));
    topic.sender().send_batch(Batch::from(vec![message(); 2])).wait().unwrap();
    assert!(subscriptions.iter().all(|subscription| numbers(subscription) == [1, 2]));
}

/// Rules: T-86.
#[test]
fn a_scheduled_message_counts_once_and_is_copied_whatever_space_is_left() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().max_size(2 * MESSAGE);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let subscriptions = ["a", "b", "c"].map(|name| subscribe(&topic, name));
    topic.schedule(vec![message()], START.saturating_add(SECOND)).wait().unwrap();
    assert!((MESSAGE..2 * MESSAGE).contains(&topic.counts().size), "{}", topic.counts().size);
    namespace.advance(SECOND);
    assert!(subscriptions.iter().all(|subscription| numbers(subscription) == [1]));
    publish_is_refused(&topic);
}

/// Rules: T-86.
/// What no rule wants takes no room, and what an action adds does.
#[test]
fn the_copies_of_a_topic_count_as_its_rules_make_them() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().max_size(3 * MESSAGE);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let wants = subscribe(&topic, "wants");
    let never = subscribe(&topic, "never");
    never.delete_rule("$Default").unwrap();
    never.create_rule(sql("never", "1 = 0")).unwrap();
    for _ in 0..3 {
        try_send(&topic.sender(), message()).unwrap();
    }
    publish_is_refused(&topic);
    wants.delete_rule("$Default").unwrap();
    // Nobody wants it now.
    try_send(&topic.sender(), message()).unwrap();
    assert_eq!((topic.counts().size, counts(&wants)[0], counts(&never)[0]), (3 * MESSAGE, 3, 0));
}

/// Rules: T-86.
/// Attacks: 98.
#[test]
fn a_smaller_size_by_an_update_refuses_the_next_send() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    for _ in 0..3 {
        try_send(&queue.sender().unwrap(), message()).unwrap();
    }
    namespace.broker.update_queue("orders", settings().max_size(2 * MESSAGE)).unwrap();
    assert_eq!(counts(&queue), [3, 0, 0, 0, 0]);
    assert_eq!(try_send(&queue.sender().unwrap(), message()), Err(ErrorKind::QuotaExceeded));
}

/// Rules: T-87.
#[test]
fn a_broker_holds_10_000_entities() {
    assert_eq!(Broker::MAX_ENTITIES, 10_000);
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    subscribe(&topic, "s");
    for number in 2..Broker::MAX_ENTITIES {
        namespace.queue(&number.to_string());
    }
    assert_eq!(namespace.broker.entities().len(), 10_000);
    let full = Some(ErrorKind::QuotaExceeded);
    assert_eq!(namespace.broker.create_queue("more", settings()).map_err(|error| error.kind()).err(), full);
    let created = namespace.broker.create_topic("more", TopicSettings::default());
    assert_eq!(created.map_err(|error| error.kind()).err(), full);
    assert_eq!(
        topic.create_subscription("more", SubscriptionSettings::default()).map_err(|error| error.kind()).err(),
        full
    );
    namespace.broker.delete("2").unwrap();
    subscribe(&topic, "more");
}

/// Rules: T-88.
#[tokio::test(start_paused = true)]
async fn a_receive_of_several_takes_what_is_there() {
    let broker = Broker::new();
    let queue = broker.create_queue("orders", settings()).unwrap();
    for body in ["a", "b", "c"] {
        send(&queue, body);
    }
    let began = Instant::now();
    let mut receiver = queue.receiver();
    let two = receiver.receive_batch(2).await.unwrap();
    let rest = receiver.receive_batch(5).await.unwrap();
    assert_eq!((two.len(), rest.len(), began.elapsed()), (2, 1, Duration::ZERO));

    let mut waiting = task::spawn(receiver.receive_batch(5));
    assert!(waiting.poll().is_pending());
    send(&queue, "d");
    assert!(waiting.is_woken());
    let Poll::Ready(received) = waiting.poll() else { panic!("it waits for more than the first") };
    assert_eq!(received.unwrap().len(), 1);
}

/// Rules: T-86.
#[test]
fn a_copy_larger_than_the_message_counts_as_it_is() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().max_size(2 * MESSAGE);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let subscription = subscribe(&topic, "s");
    subscription.delete_rule("$Default").unwrap();
    let action = format!("SET added = '{}'", "y".repeat(600));
    subscription.create_rule(sql_with_action("grows", "1 = 1", &action)).unwrap();
    try_send(&topic.sender(), message()).unwrap();
    let size = topic.counts().size;
    assert!(size > MESSAGE + 600 && size <= 2 * MESSAGE, "{size}");
    publish_is_refused(&topic);
    receive(&subscription).complete().ok();
    assert_eq!(topic.counts().size, 0);
    publish(&topic, "small");
}

fn publish_is_refused(topic: &consign::broker::Topic) {
    assert_eq!(try_send(&topic.sender(), message()), Err(ErrorKind::QuotaExceeded));
}
