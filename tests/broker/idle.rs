//! Entities that nobody uses.

use std::time::Duration;

use consign::{
    Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Queue, Subscription, Topic},
    message::SequenceNumber,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, Lease, ReceiverExt, Sender},
};
use tokio_test::task;

use crate::{
    log::captured,
    namespace::{Namespace, almost, bodies, counts, numbers, peek, publish, receive, send, try_take},
    support::{Ended, LOCK, MS, START, settings},
    topics::{sql, subscribe, subscribe_with},
};

/// The shortest time after which an entity is deleted, and the longest that a lock may last.
const IDLE: Duration = Duration::from_secs(300);

fn idling() -> QueueSettings {
    settings().lock_duration(IDLE).auto_delete_on_idle(IDLE)
}

fn exists(namespace: &Namespace, path: &str) -> bool {
    namespace.broker.entities().iter().any(|entity| entity.path.as_str() == path)
}

/// The entity was used just now: it is there for as long as it may be idle, and not a millisecond more.
#[track_caller]
fn is_as_new(namespace: &Namespace, path: &str) {
    namespace.advance(almost(IDLE));
    assert!(exists(namespace, path));
    namespace.advance(MS);
    assert!(!exists(namespace, path));
}

/// Rules: T-11, S-08.
#[test]
fn an_unused_queue_is_deleted_with_its_messages() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", idling());
    send(&queue, "a");
    let held = receive(&queue);
    is_as_new(&namespace, "orders");
    assert_eq!(namespace.broker.queue("orders").unwrap_err().kind(), ErrorKind::EntityNotFound);
    assert_eq!(held.complete().refused(), ErrorKind::MessageLockLost);
    assert_eq!(try_take(&queue, 1).unwrap_err(), ErrorKind::EntityNotFound);
    // Its path is free, and what is there is another queue.
    namespace.queue_with("orders", idling());
    assert_eq!(counts(&queue), [0; 5]);
    assert_eq!(try_take(&queue, 1).unwrap_err(), ErrorKind::EntityNotFound);
}

/// Rules: T-11.
#[test]
fn uses_of_a_queue() {
    type Use = fn(&Namespace, &Queue);
    let uses: [Use; 10] = [
        |_, queue| send(queue, "a"),
        |_, queue| assert!(try_take(queue, 1).unwrap().is_empty()),
        |_, queue| assert!(try_take(&queue.dead_letter(), 1).unwrap().is_empty()),
        |_, queue| assert!(peek(queue).is_empty()),
        |_, queue| assert_eq!(queue.delete_messages(1, None).wait().unwrap(), 0),
        |_, queue| queue.cancel_scheduled(&[]).wait().unwrap(),
        |_, queue| assert!(queue.receive_deferred(&[]).unwrap().is_empty()),
        |namespace, _| namespace.broker.update_queue("orders", idling()).unwrap(),
        |namespace, queue| {
            let mut transaction = namespace.broker.transaction();
            transaction.send(&queue.sender().unwrap(), Message::new("a")).unwrap();
            transaction.commit().wait().unwrap();
        },
        |namespace, _| {
            namespace.queue_with("source", settings().forward_to("orders"));
            send(&namespace.broker.queue("source").unwrap(), "a");
        },
    ];
    for (at, used) in uses.into_iter().enumerate() {
        let namespace = Namespace::new();
        let queue = namespace.queue_with("orders", idling());
        namespace.advance(almost(IDLE));
        used(&namespace, &queue);
        namespace.advance(MS);
        assert!(exists(&namespace, "orders"), "{at}");
        namespace.advance(IDLE - 2 * MS);
        assert!(exists(&namespace, "orders"), "{at}");
        namespace.advance(MS);
        assert!(!exists(&namespace, "orders"), "{at}");
    }
}

/// Rules: T-11.
#[test]
fn settlements_use_the_queue() {
    type Use = fn(&Namespace, consign::transport::Delivery<consign::broker::QueueLease>);
    let uses: [Use; 6] = [
        |_, held| held.complete().ok(),
        |_, held| held.lease.renew().ok(),
        |_, held| held.lease.release().ok(),
        |_, held| drop(held),
        |namespace, held| {
            let mut transaction = namespace.broker.transaction();
            transaction.settle(held.lease, consign::Disposition::Complete).unwrap();
            transaction.commit().wait().unwrap();
        },
        |namespace, held| {
            let mut transaction = namespace.broker.transaction();
            transaction.renew(&held.lease).unwrap();
            transaction.commit().wait().unwrap();
            // Until then it is nobody's to drop.
            std::mem::forget(held);
        },
    ];
    for (at, used) in uses.into_iter().enumerate() {
        let namespace = Namespace::new();
        let queue = namespace.queue_with("orders", idling());
        send(&queue, "a");
        let held = receive(&queue);
        namespace.advance(almost(IDLE));
        used(&namespace, held);
        namespace.advance(almost(IDLE));
        assert!(exists(&namespace, "orders"), "{at}");
        namespace.advance(MS);
        assert!(!exists(&namespace, "orders"), "{at}");
    }
}

/// Rules: T-11.
#[test]
fn session_operations_use_the_queue() {
    type Use = fn(consign::broker::SessionReceiver) -> Option<consign::broker::SessionReceiver>;
    let uses: [Use; 6] = [
        |session| {
            session.set_state(None).wait().unwrap();
            Some(session)
        },
        |session| {
            session.state().unwrap();
            Some(session)
        },
        |mut session| {
            session.renew().unwrap();
            Some(session)
        },
        |mut session| {
            assert!(session.peek(1).is_empty());
            Some(session)
        },
        |session| {
            session.close().unwrap();
            None
        },
        |session| {
            drop(session);
            None
        },
    ];
    for (at, used) in uses.into_iter().enumerate() {
        let namespace = Namespace::new();
        let queue = namespace.queue_with("orders", idling().requires_session(true));
        namespace.advance(MS);
        let session = queue.accept_session("a").unwrap();
        namespace.advance(almost(IDLE));
        let session = used(session);
        namespace.advance(almost(IDLE));
        assert!(exists(&namespace, "orders"), "{at}");
        namespace.advance(MS);
        assert!(!exists(&namespace, "orders"), "{at}");
        drop(session);
    }
}

/// Rules: T-11.
#[test]
fn to_ask_about_a_queue_or_to_be_refused_is_no_use() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", idling().max_message_size(100));
    namespace.advance(almost(IDLE));
    let _ = queue.counts();
    let _ = queue.ages();
    let _ = queue.sessions();
    queue.settings().unwrap();
    namespace.broker.queue("orders").unwrap();
    queue.sender().unwrap().send(Message::new("x".repeat(200))).wait().unwrap_err();
    namespace.advance(MS);
    assert!(!exists(&namespace, "orders"));
}

/// Rules: T-11.
#[test]
fn a_scheduled_message_keeps_its_entity_and_its_time_is_a_use() {
    for cancel in [false, true] {
        let namespace = Namespace::new();
        let queue = namespace.queue_with("orders", idling());
        let given = queue.schedule(vec![Message::new("a")], START.saturating_add(3 * IDLE)).wait().unwrap();
        namespace.advance(almost(3 * IDLE));
        assert!(exists(&namespace, "orders"));
        if cancel {
            queue.cancel_scheduled(&given).wait().unwrap();
        } else {
            // Nobody looks when it is due.
            namespace.advance(MS);
        }
        is_as_new(&namespace, "orders");
    }
}

/// Rules: T-11.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_waits_keeps_its_entity() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", idling());
    let sessions = namespace.queue_with("sessions", idling().requires_session(true));
    let (mut receiver, mut acceptor) = (queue.receiver(), sessions.session_acceptor().unwrap());
    let mut receiving = task::spawn(receiver.receive());
    let mut accepting = task::spawn(acceptor.accept_next());
    assert!(receiving.poll().is_pending() && accepting.poll().is_pending());
    namespace.advance(10 * IDLE);
    assert!(exists(&namespace, "orders") && exists(&namespace, "sessions"));
    drop((receiving, accepting));
    namespace.advance(almost(IDLE));
    assert!(exists(&namespace, "orders") && exists(&namespace, "sessions"));
    namespace.advance(MS);
    assert!(!exists(&namespace, "orders") && !exists(&namespace, "sessions"));
}

/// A topic that is deleted when it is idle.
fn idling_topic(namespace: &Namespace) -> Topic {
    namespace.broker.create_topic("events", TopicSettings::default().auto_delete_on_idle(IDLE)).unwrap()
}

/// Rules: T-11.
#[test]
fn a_topic_is_used_by_sends_schedules_and_updates() {
    let namespace = Namespace::new();
    let topic = idling_topic(&namespace);
    namespace.advance(almost(IDLE));
    publish(&topic, "a");
    namespace.advance(almost(IDLE));
    namespace.broker.update_topic("events", topic.settings().unwrap()).unwrap();
    namespace.advance(almost(IDLE));
    topic.schedule(vec![Message::new("b")], START.saturating_add(6 * IDLE)).wait().unwrap();
    namespace.advance(6 * IDLE - 3 * almost(IDLE));
    is_as_new(&namespace, "events");
}

/// Rules: T-11.
#[test]
fn uses_of_a_subscription_use_its_topic() {
    type Use = fn(&Namespace, &Topic, &Subscription);
    let uses: [Use; 9] = [
        |_, _, subscription| assert!(peek(subscription).is_empty()),
        |_, _, subscription| assert!(try_take(subscription, 1).unwrap().is_empty()),
        |_, _, subscription| assert!(try_take(&subscription.dead_letter(), 1).unwrap().is_empty()),
        |_, _, subscription| assert_eq!(subscription.delete_messages(1, None).wait().unwrap(), 0),
        |_, _, subscription| subscription.create_rule(sql("new", "1 = 1")).unwrap(),
        |_, topic, _| topic.update_subscription("s", SubscriptionSettings::default()).unwrap(),
        |_, topic, subscription| {
            drop(topic.declare_subscription("s", subscription.subscription_settings().unwrap()).unwrap());
        },
        |_, topic, _| drop(subscribe(topic, "another")),
        |namespace, _, _| namespace.broker.delete("events/subscriptions/s").unwrap(),
    ];
    for (at, used) in uses.into_iter().enumerate() {
        let namespace = Namespace::new();
        let topic = idling_topic(&namespace);
        let subscription = subscribe(&topic, "s");
        namespace.advance(almost(IDLE));
        used(&namespace, &topic, &subscription);
        namespace.advance(almost(IDLE));
        assert!(exists(&namespace, "events"), "{at}");
        namespace.advance(MS);
        assert!(namespace.broker.entities().is_empty(), "{at}");
    }
}

/// Rules: T-11.
#[test]
fn the_topic_of_an_unused_subscription_is_deleted_with_it() {
    let namespace = Namespace::new();
    let topic = idling_topic(&namespace);
    let subscription = subscribe(&topic, "s");
    publish(&topic, "a");
    namespace.advance(almost(IDLE));
    let _ = (subscription.counts(), topic.counts());
    assert!(topic.peek(SequenceNumber::new(0), 1).is_empty());
    namespace.advance(MS);
    assert!(namespace.broker.entities().is_empty());
    assert_eq!(try_take(&subscription, 1).unwrap_err(), ErrorKind::EntityNotFound);
}

/// Rules: T-11.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_waits_at_a_subscription_keeps_the_topic() {
    let namespace = Namespace::new();
    let topic = idling_topic(&namespace);
    let subscription = subscribe(&topic, "s");
    let mut receiver = subscription.receiver();
    let mut receiving = task::spawn(receiver.receive());
    assert!(receiving.poll().is_pending());
    namespace.advance(10 * IDLE + MS);
    assert!(exists(&namespace, "events"));
    namespace.advance(almost(IDLE));
    drop(receiving);
    is_as_new(&namespace, "events");
    assert!(namespace.broker.entities().is_empty());
}

/// Rules: T-11, T-65.
#[test]
fn a_subscription_that_forwards_keeps_the_topic() {
    type End = fn(&Namespace, &Topic);
    let ends: [End; 2] = [
        |_, topic| topic.update_subscription("s", SubscriptionSettings::default()).unwrap(),
        |namespace, _| namespace.broker.delete("events/subscriptions/s").unwrap(),
    ];
    for end in ends {
        let namespace = Namespace::new();
        namespace.queue_with("target", settings());
        let topic = idling_topic(&namespace);
        subscribe_with(&topic, "s", SubscriptionSettings::default().forward_to("target"));
        namespace.advance(10 * IDLE + almost(IDLE));
        assert!(exists(&namespace, "events"));
        end(&namespace, &topic);
        is_as_new(&namespace, "events");
    }
}

/// Rules: T-11.
/// It was idle for longer than its topic.
#[test]
fn the_last_use_of_an_idle_subscription_that_is_deleted_counts_for_its_topic() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().auto_delete_on_idle(2 * IDLE);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let subscription = subscribe_with(&topic, "s", SubscriptionSettings::default().auto_delete_on_idle(IDLE));
    namespace.advance(almost(IDLE));
    assert!(peek(&subscription).is_empty());
    namespace.advance(IDLE);
    assert!(topic.subscriptions().is_empty());
    // Its use was an idle time ago, and its deletion is none.
    is_as_new(&namespace, "events");
}

/// Rules: T-11.
#[test]
fn a_subscription_is_not_used_by_what_its_topic_gets() {
    type Use = fn(&Subscription);
    let uses: [Use; 4] = [
        |subscription| drop(receive(subscription)),
        |subscription| assert_eq!(bodies(subscription), ["a"]),
        |subscription| subscription.create_rule(sql("new", "1 = 1")).unwrap(),
        |subscription| drop(subscription.delete_rule("$Default").unwrap()),
    ];
    let idle = || SubscriptionSettings::default().lock_duration(LOCK).auto_delete_on_idle(IDLE);
    for (at, used) in uses.into_iter().enumerate() {
        let namespace = Namespace::new();
        let topic = namespace.topic("events");
        let subscription = subscribe_with(&topic, "s", idle());
        namespace.advance(almost(IDLE));
        publish(&topic, "a");
        used(&subscription);
        namespace.advance(almost(IDLE));
        assert_eq!(topic.subscriptions(), ["s"], "{at}");
        publish(&topic, "b");
        namespace.advance(MS);
        assert!(topic.subscriptions().is_empty(), "{at}");
        assert!(exists(&namespace, "events"));
    }
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    subscribe_with(&topic, "s", idle());
    namespace.advance(almost(IDLE));
    topic.update_subscription("s", idle()).unwrap();
    namespace.advance(almost(IDLE));
    assert_eq!(topic.subscriptions(), ["s"]);
    namespace.advance(MS);
    assert!(topic.subscriptions().is_empty());
    // Another of that name begins with nothing.
    assert!(numbers(&subscribe(&topic, "s")).is_empty());
}

/// Rules: T-11.
/// Nothing else was asked of the broker meanwhile.
#[test]
fn an_entity_that_was_idle_has_no_settings() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", idling());
    namespace.advance(IDLE);
    assert_eq!(queue.settings().unwrap_err().kind(), ErrorKind::EntityNotFound);
    let topic = namespace.broker.create_topic("events", TopicSettings::default()).unwrap();
    let settings = SubscriptionSettings::default().auto_delete_on_idle(IDLE);
    let subscription = subscribe_with(&topic, "s", settings);
    namespace.advance(IDLE);
    assert_eq!(subscription.subscription_settings().unwrap_err().kind(), ErrorKind::EntityNotFound);
}

/// What is logged when all entities are deleted that are idle.
fn deletion(namespace: &Namespace) -> String {
    let (left, log) = captured(|| {
        namespace.advance(IDLE);
        namespace.broker.entities().len()
    });
    assert_eq!(left, 0);
    log
}

/// Rules: T-11.
#[test]
fn the_deletion_of_an_idle_entity_is_logged() {
    let namespace = Namespace::new();
    namespace.queue_with("orders", idling());
    let log = deletion(&namespace);
    assert!(log.starts_with("INFO") && log.contains("entity=orders") && log.contains("messages=0"), "{log}");
}

/// Rules: T-11.
/// Those of a topic are those of its subscriptions too.
#[test]
fn the_deletion_of_an_idle_entity_with_messages_is_a_warning() {
    let namespace = Namespace::new();
    send(&namespace.queue_with("orders", idling()), "a");
    let log = deletion(&namespace);
    assert!(log.starts_with("WARN") && log.contains("entity=orders") && log.contains("messages=1"), "{log}");
    let topic = idling_topic(&namespace);
    let subscriptions = [subscribe(&topic, "one"), subscribe(&topic, "two")];
    publish(&topic, "a");
    receive(&subscriptions[0]).dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).ok();
    let log = deletion(&namespace);
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.starts_with("WARN") && log.contains("entity=events") && log.contains("messages=2"), "{log}");
}
