//! Entities: how they are made, found, changed, listed, counted and deleted.

use std::{task::Poll, time::Duration};

use consign::{
    Disposition, Message,
    administration::{
        Administration, EntityKind, EntitySettings, QueueSettings, Status, SubscriptionSettings, TopicSettings,
    },
    broker::Queue,
    message::{EntityPath, Field, SequenceNumber},
    rules::{ManageRules, Rule},
    settlement::DeadLetterReason,
    transport::{ErrorKind, Lease, ReceiverExt},
};
use tokio_test::{block_on, task};

use crate::{
    namespace::{Namespace, almost, bodies, counts, numbers, peek, publish, receive, send, try_send, try_take},
    support::{Ended, LOCK, MS, START, facts, settings, text},
    topics::{sql, subscribe, subscribe_with},
};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3_600);

fn kind<T, E: Into<Kind>>(result: Result<T, E>) -> Option<ErrorKind> {
    result.err().map(|error| error.into().0)
}

/// The kind of any error.
struct Kind(ErrorKind);

macro_rules! kinds {
    ($($error:ident)*) => {$(
        impl From<consign::transport::$error> for Kind {
            fn from(error: consign::transport::$error) -> Self {
                Self(error.kind())
            }
        }
    )*};
}

kinds! { ManageError SendError ReceiveError SettleError }

fn dead() -> Disposition {
    Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "no")
}

/// Errors name what the call was for, as those of other calls do.
#[tokio::test(start_paused = true)]
async fn errors_of_receives_name_the_entity_and_the_session() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    let sessions = namespace.queue_with("talks", settings().requires_session(true));
    let held = sessions.accept_session("eu\n1").unwrap();
    let error = sessions.accept_session("eu\n1").unwrap_err();
    assert_eq!(error.to_string(), r"receive: another receiver holds the session (talks: session eu\n1)");
    let mut acceptor = sessions.session_acceptor().unwrap();
    let (mut receiver, mut dead) = (queue.receive_and_delete(), queue.dead_letter().receiver());
    for path in ["orders", "talks"] {
        namespace.broker.delete(path).unwrap();
    }
    let of_orders = [
        receiver.receive().await.unwrap_err(),
        dead.receive().await.unwrap_err(),
        queue.receive_deferred(&[]).unwrap_err(),
    ];
    let of_talks = [
        sessions.accept_session("b").unwrap_err(),
        acceptor.accept_next().await.unwrap_err(),
        held.receive_deferred(&[]).unwrap_err(),
    ];
    assert!(of_orders.iter().all(|error| error.to_string() == "receive: no such entity (orders)"), "{of_orders:?}");
    assert!(of_talks.iter().all(|error| error.to_string() == "receive: no such entity (talks)"), "{of_talks:?}");
}

/// Rules: V-13.
#[test]
fn a_path_or_a_name_that_breaks_a_rule_makes_no_entity() {
    let namespace = Namespace::new();
    let (longest, longer) = ("x".repeat(260), "x".repeat(261));
    let topic = namespace.topic("events");
    let invalid = Some(ErrorKind::InvalidArgument);
    for bad in [&longer, "", "a@b", "a?b", "a#b", "a*b", "a\\b", "a//b", "$a", "a\u{202e}b", &"x/".repeat(131)] {
        assert_eq!(kind(namespace.broker.create_queue(bad, settings())), invalid, "{bad}");
        assert_eq!(kind(namespace.broker.create_topic(bad, TopicSettings::default())), invalid, "{bad}");
        assert_eq!(kind(topic.create_subscription(bad, SubscriptionSettings::default())), invalid, "{bad}");
    }
    // A subscription's name is one segment.
    assert_eq!(kind(topic.create_subscription("a/b", SubscriptionSettings::default())), invalid);
    assert_eq!(kind(topic.create_subscription(&"x".repeat(51), SubscriptionSettings::default())), invalid);
    assert_eq!(namespace.broker.entities().len(), 1);
    namespace.queue(&longest);
    subscribe(&topic, &"x".repeat(50));
}

/// Rules: V-13.
#[test]
fn a_rule_has_a_name_of_1_to_50_characters() {
    Rule::new("x".repeat(50), consign::rules::Filter::True).unwrap();
    for bad in [&*"x".repeat(51), "", "a?b", "a#b", "a*b", "a@b"] {
        Rule::new(bad, consign::rules::Filter::True).unwrap_err();
    }
}

/// Rules: V-13.
#[test]
fn a_reserved_path_is_no_path_of_an_entity() {
    let namespace = Namespace::new();
    namespace.topic("events");
    namespace.queue("orders");
    for path in ["orders/$deadletterqueue", "orders/$Transfer/$DeadLetterQueue", "events/Subscriptions/s"] {
        namespace.broker.create_queue(path, settings()).unwrap_err();
        namespace.broker.create_topic(path, TopicSettings::default()).unwrap_err();
    }
    assert_eq!(namespace.broker.entities().len(), 2);
}

/// Rules: S-01, S-02, S-03.
#[test]
fn a_setting_out_of_its_range_makes_no_entity() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    for (name, queue) in [
        ("lock_duration", settings().lock_duration(almost(5 * SECOND))),
        ("lock_duration", settings().lock_duration(300 * SECOND + MS)),
        ("max_delivery_count", settings().max_delivery_count(0)),
        ("default_time_to_live", settings().default_time_to_live(almost(SECOND))),
    ] {
        let error = namespace.broker.create_queue("orders", queue.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(name), "{error}");
        let mut subscription = SubscriptionSettings::default();
        subscription.lock_duration = queue.lock_duration;
        subscription.max_delivery_count = queue.max_delivery_count;
        subscription.default_time_to_live = queue.default_time_to_live;
        assert_eq!(kind(topic.create_subscription("s", subscription)), Some(ErrorKind::InvalidArgument), "{name}");
    }
    let settings = TopicSettings::default().default_time_to_live(almost(SECOND));
    assert_eq!(kind(namespace.broker.create_topic("more", settings)), Some(ErrorKind::InvalidArgument));
    assert_eq!(namespace.broker.entities().len(), 1);
}

/// Rules: S-05, S-06, S-08, S-10, S-11.
#[test]
fn default_settings() {
    let queue = QueueSettings::default();
    assert!(!queue.requires_session && !queue.partitioned && queue.duplicate_detection.is_none());
    assert!(queue.forward_to.is_none() && queue.forward_dead_letters_to.is_none());
    assert_eq!((queue.auto_delete_on_idle, queue.status), (None, Status::Active));
    let topic = TopicSettings::default();
    assert!(!topic.partitioned && topic.duplicate_detection.is_none() && topic.auto_delete_on_idle.is_none());
    assert_eq!((topic.default_time_to_live, topic.status), (None, Status::Active));
    let subscription = SubscriptionSettings::default();
    assert!(subscription.dead_letter_on_filter_error && !subscription.dead_letter_on_expiration);
    assert!(!subscription.requires_session && subscription.default_time_to_live.is_none());
    assert_eq!((subscription.lock_duration, subscription.max_delivery_count), (60 * SECOND, 10));
    assert!(subscription.forward_to.is_none() && subscription.forward_dead_letters_to.is_none());
}

/// Rules: S-06.
#[test]
fn settings_fixed_at_creation_cannot_be_updated() {
    let namespace = Namespace::new();
    let window = 60 * SECOND;
    let all = [
        settings(),
        settings().requires_session(true),
        settings().duplicate_detection(window),
        settings().partitioned(true),
    ];
    for (at, made) in all.iter().enumerate() {
        let queue = namespace.queue_with(&format!("q{at}"), made.clone());
        for changed in all.iter().filter(|changed| *changed != made) {
            let changed = changed.clone().max_delivery_count(3);
            let updated = namespace.broker.update_queue(&format!("q{at}"), changed);
            assert_eq!(kind(updated), Some(ErrorKind::InvalidOperation));
            assert_eq!(&queue.settings().unwrap(), made, "nothing of a refused update holds");
        }
        namespace.broker.update_queue(&format!("q{at}"), made.clone().max_delivery_count(3)).unwrap();
        assert_eq!(queue.settings().unwrap().max_delivery_count, 3);
    }
    let topic = namespace.topic("events");
    for changed in [TopicSettings::default().partitioned(true), TopicSettings::default().duplicate_detection(window)] {
        assert_eq!(kind(namespace.broker.update_topic("events", changed)), Some(ErrorKind::InvalidOperation));
        assert_eq!(topic.settings().unwrap(), TopicSettings::default());
    }
    subscribe(&topic, "s");
    let changed = SubscriptionSettings::default().requires_session(true);
    assert_eq!(kind(topic.update_subscription("s", changed)), Some(ErrorKind::InvalidOperation));
}

/// Rules: S-07.
#[test]
fn a_window_of_duplicate_detection_is_20_s_to_7_days() {
    let namespace = Namespace::new();
    for (window, allowed) in [(almost(20 * SECOND), false), (20 * SECOND, true), (7 * DAY, true), (7 * DAY + MS, false)]
    {
        let expected = (!allowed).then_some(ErrorKind::InvalidArgument);
        let queue = namespace.broker.create_queue("orders", settings().duplicate_detection(window));
        assert_eq!(kind(queue), expected, "{window:?}");
        let settings = TopicSettings::default().duplicate_detection(window);
        assert_eq!(kind(namespace.broker.create_topic("events", settings)), expected, "{window:?}");
        for path in ["orders", "events"] {
            assert_eq!(namespace.broker.delete(path).is_ok(), allowed);
        }
    }
}

/// Rules: S-08.
#[test]
fn an_idle_entity_is_deleted_after_5_min_at_least() {
    let shortest = 300 * SECOND;
    let namespace = Namespace::new();
    let invalid = Some(ErrorKind::InvalidArgument);
    let queue = settings().auto_delete_on_idle(almost(shortest));
    assert_eq!(kind(namespace.broker.create_queue("orders", queue)), invalid);
    let topic = TopicSettings::default().auto_delete_on_idle(almost(shortest));
    assert_eq!(kind(namespace.broker.create_topic("events", topic)), invalid);
    namespace.queue_with("orders", settings().auto_delete_on_idle(shortest));
    namespace.queue("kept");
    namespace.advance(almost(shortest));
    assert_eq!(namespace.broker.entities().len(), 2);
    namespace.advance(MS);
    assert_eq!(paths(&namespace), ["kept"]);
    assert_eq!(kind(namespace.broker.queue("orders")), Some(ErrorKind::EntityNotFound));
}

/// Rules: S-09.
#[test]
fn a_size_out_of_its_range_makes_no_entity() {
    let namespace = Namespace::new();
    let invalid = Some(ErrorKind::InvalidArgument);
    assert_eq!(kind(namespace.broker.create_queue("orders", settings().max_size(1_023))), invalid);
    assert_eq!(kind(namespace.broker.create_topic("events", TopicSettings::default().max_size(1_023))), invalid);
    namespace.queue_with("orders", settings().max_size(1_024));
}

fn paths(namespace: &Namespace) -> Vec<String> {
    namespace.broker.entities().iter().map(|entity| entity.path.as_str().to_owned()).collect()
}

#[test]
fn entities_are_listed_in_the_order_of_their_paths() {
    let namespace = Namespace::new();
    assert!(namespace.broker.entities().is_empty());
    namespace.queue("orders");
    let topic = namespace.topic("events");
    subscribe(&topic, "second");
    subscribe(&topic, "first");
    namespace.queue("a/b");
    let listed: Vec<_> = namespace.broker.entities().into_iter().map(|entity| (entity.path, entity.kind)).collect();
    let listed: Vec<_> = listed.iter().map(|(path, kind)| (path.as_str(), *kind)).collect();
    assert_eq!(
        listed,
        [
            ("a/b", EntityKind::Queue),
            ("events", EntityKind::Topic),
            ("events/Subscriptions/first", EntityKind::Subscription),
            ("events/Subscriptions/second", EntityKind::Subscription),
            ("orders", EntityKind::Queue),
        ]
    );
    assert_eq!(topic.subscriptions(), ["first", "second"]);
}

#[test]
fn an_entity_is_made_once() {
    let namespace = Namespace::new();
    namespace.queue("orders");
    let topic = namespace.topic("events");
    subscribe(&topic, "s");
    let exists = Some(ErrorKind::AlreadyExists);
    for path in ["Orders", "EVENTS"] {
        assert_eq!(kind(namespace.broker.create_queue(path, settings())), exists);
        assert_eq!(kind(namespace.broker.create_topic(path, TopicSettings::default())), exists);
    }
    assert_eq!(kind(topic.create_subscription("S", SubscriptionSettings::default())), exists);
    // A program on a disk that creates its queue fails at its second start, and this is all that it prints.
    let error = namespace.broker.create_queue("orders", settings()).expect_err("it exists");
    assert!(error.to_string().contains("orders: to use the one that exists, declare it instead"), "{error}");
}

#[test]
fn an_entity_that_is_not_there_is_not_found() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    namespace.queue("orders");
    let missing = Some(ErrorKind::EntityNotFound);
    let broker = &namespace.broker;
    assert_eq!(kind(broker.queue("none")), missing);
    assert_eq!(kind(broker.topic("none")), missing);
    assert_eq!(kind(broker.queue("events/Subscriptions/none")), missing);
    assert_eq!(kind(broker.queue("none/Subscriptions/none")), missing);
    assert_eq!(kind(topic.subscription("none")), missing);
    assert_eq!(kind(broker.delete("none")), missing);
    assert_eq!(kind(broker.update_queue("none", settings())), missing);
    assert_eq!(kind(broker.update_topic("none", TopicSettings::default())), missing);
    assert_eq!(kind(topic.update_subscription("none", SubscriptionSettings::default())), missing);
    // A topic is no queue, and the other way round.
    assert_eq!(kind(broker.update_queue("events", settings())), missing);
    assert_eq!(kind(broker.update_topic("orders", TopicSettings::default())), missing);
    assert_eq!(broker.entities().len(), 2);
}

#[test]
fn rules_are_made_listed_and_deleted() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let subscription = subscribe(&topic, "s");
    subscription.create_rule(sql("second", "1 = 1")).unwrap();
    subscription.create_rule(sql("First", "1 = 0")).unwrap();
    assert_eq!(kind(subscription.create_rule(sql("first", "1 = 1"))), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(subscription.delete_rule("third")), Some(ErrorKind::EntityNotFound));
    let names: Vec<_> = subscription.rules().iter().map(|rule| rule.name().to_owned()).collect();
    assert_eq!(names, ["$Default", "First", "second"]);
    assert_eq!(subscription.rules()[1], sql("First", "1 = 0"));
    subscription.delete_rule("FIRST").unwrap();
    assert_eq!(subscription.rules().len(), 2);
    // Handles share one subscription.
    assert_eq!(topic.subscription("S").unwrap().rules().len(), 2);
}

/// Rules: T-57.
#[test]
fn a_topic_has_2000_subscriptions() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    for number in 0..2_000 {
        topic.create_subscription(&number.to_string(), SubscriptionSettings::default()).unwrap();
    }
    let refused = topic.create_subscription("more", SubscriptionSettings::default());
    assert_eq!(kind(refused), Some(ErrorKind::QuotaExceeded));
    subscribe(&namespace.topic("other"), "more");
}

#[test]
fn an_update_holds_from_then_on() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    send(&queue, "before");
    let changed = settings().max_message_size(10).default_time_to_live(SECOND).max_delivery_count(1);
    namespace.broker.update_queue("ORDERS", changed.clone()).unwrap();
    assert_eq!(queue.settings().unwrap(), changed);
    let sender = queue.sender().unwrap();
    assert_eq!(try_send(&sender, Message::new("x".repeat(11))), Err(ErrorKind::MessageSizeExceeded));
    try_send(&sender, Message::builder().message_id("i").build("after").unwrap()).unwrap();
    // What was accepted before keeps its time to live.
    namespace.advance(SECOND);
    assert_eq!(bodies(&queue), ["before"]);
    receive(&queue).abandon().ok();
    assert_eq!(counts(&queue), [0, 0, 0, 0, 1]);
}

/// By the traits that all brokers implement.
#[test]
fn entities_of_each_kind_are_managed_without_knowing_the_broker() {
    let Namespace { broker, .. } = Namespace::new();
    let cases: [(&str, EntitySettings, EntitySettings); 3] = [
        ("orders", settings().into(), settings().max_delivery_count(3).into()),
        ("events", TopicSettings::default().into(), TopicSettings::default().max_message_size(9).into()),
        (
            "events/Subscriptions/audit",
            SubscriptionSettings::default().into(),
            SubscriptionSettings::default().max_delivery_count(3).into(),
        ),
    ];
    let cases = cases.map(|(path, before, after)| (EntityPath::new(path).unwrap(), before, after));
    for (path, before, after) in &cases {
        let settings = || block_on(Administration::settings(&broker, path)).unwrap();
        let update = || kind(block_on(Administration::update(&broker, path, after)));
        assert_eq!(update(), Some(ErrorKind::EntityNotFound), "{path}");
        block_on(Administration::create(&broker, path, before)).unwrap();
        assert_eq!(
            kind(block_on(Administration::create(&broker, path, before))),
            Some(ErrorKind::AlreadyExists),
            "{path}"
        );
        assert_eq!(settings(), *before);
        assert_eq!((update(), settings()), (None, after.clone()));
        block_on(Administration::declare(&broker, path, after)).unwrap();
        assert!(block_on(Administration::declare(&broker, path, before)).is_err(), "{path}");
        assert_eq!(block_on(Administration::counts(&broker, path)).unwrap().active, 0);
    }
    assert_eq!(block_on(Administration::list(&broker)).unwrap(), broker.entities());

    let [(queue, ..), (topic, ..), (subscription, ..)] = &cases;
    block_on(ManageRules::create_rule(&broker, subscription, &sql("few", "1 = 0"))).unwrap();
    block_on(ManageRules::delete_rule(&broker, subscription, Rule::DEFAULT_NAME)).unwrap();
    assert_eq!(block_on(ManageRules::rules(&broker, subscription)).unwrap(), [sql("few", "1 = 0")]);
    for path in [subscription, topic, queue] {
        block_on(Administration::delete(&broker, path)).unwrap();
        assert_eq!(kind(block_on(Administration::settings(&broker, path))), Some(ErrorKind::EntityNotFound), "{path}");
    }
}

#[test]
fn an_update_that_breaks_a_rule_changes_nothing() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    let error = namespace.broker.update_queue("orders", settings().lock_duration(SECOND)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let source =
        std::error::Error::source(&error).and_then(|source| source.downcast_ref::<consign::message::InvalidArgument>());
    assert_eq!(source.unwrap().field(), &Field::Setting("lock_duration"));
    assert_eq!(queue.settings().unwrap(), settings());
}

/// Rules: S-43.
#[test]
fn a_new_lock_duration_gives_the_locks_back_without_a_count() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().max_delivery_count(1));
    for body in ["a", "b", "dead"] {
        send(&queue, body);
    }
    let mut held = try_take(&queue, 3).unwrap();
    held.pop().unwrap().settle(dead()).ok();
    let dead = receive(&queue.dead_letter());
    let deferred = held.pop().unwrap();
    deferred.defer().ok();
    let deferred = queue.receive_deferred(&[SequenceNumber::new(2)]).unwrap().pop().unwrap();
    assert_eq!(counts(&queue), [0, 2, 0, 0, 1]);

    let changed = settings().max_delivery_count(1).lock_duration(2 * LOCK);
    namespace.broker.update_queue("orders", changed).unwrap();
    assert_eq!((counts(&queue), counts(&queue.dead_letter())), ([1, 0, 1, 0, 1], [1, 0, 0, 0, 0]));
    assert_eq!(held.pop().unwrap().complete().refused(), ErrorKind::MessageLockLost);
    assert_eq!(deferred.lease.renew().refused(), ErrorKind::MessageLockLost);
    drop((deferred, dead));
    let again = receive(&queue);
    assert_eq!((text(&again.message), facts(&again.message).delivery_count), ("a", 1));
    assert_eq!(facts(&again.message).locked_until, Some(START.saturating_add(2 * LOCK)));
    assert_eq!(facts(&receive(&queue.dead_letter()).message).delivery_count, 1);
}

/// Rules: S-43.
#[test]
fn other_changes_leave_the_locks_alone() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    send(&queue, "a");
    let held = receive(&queue);
    let changed = settings().max_delivery_count(5).max_size(4_096).dead_letter_on_expiration(true);
    namespace.broker.update_queue("orders", changed).unwrap();
    assert_eq!(counts(&queue), [0, 1, 0, 0, 0]);
    held.complete().ok();
}

/// Rules: S-11.
#[test]
fn a_status_refuses_sends() {
    let at = START.saturating_add(SECOND);
    for (status, refused) in [
        (Status::Active, false),
        (Status::Disabled, true),
        (Status::SendDisabled, true),
        (Status::ReceiveDisabled, false),
    ] {
        let expected = refused.then_some(ErrorKind::EntityDisabled);
        let namespace = Namespace::new();
        let queue = namespace.queue_with("orders", settings().status(status));
        let sender = queue.sender().unwrap();
        assert_eq!(try_send(&sender, Message::new("a")).err(), expected, "{status:?}");
        assert_eq!(kind(queue.schedule(vec![Message::new("a")], at).wait()), expected, "{status:?}");
        let mut transaction = namespace.broker.transaction();
        transaction.send(&sender, Message::new("a")).unwrap();
        assert_eq!(transaction.commit().wait().map_err(|error| error.kind()).err(), expected, "{status:?}");

        let topic = namespace.broker.create_topic("events", TopicSettings::default().status(status)).unwrap();
        let subscription = subscribe(&topic, "s");
        assert_eq!(try_send(&topic.sender(), Message::new("a")).err(), expected, "{status:?}");
        assert_eq!(kind(topic.schedule(vec![Message::new("a")], at).wait()), expected, "{status:?}");
        let there = usize::from(!refused);
        assert_eq!((counts(&queue), counts(&subscription)), ([2 * there, 0, 0, there, 0], [there, 0, 0, 0, 0]));
    }
}

/// Rules: S-11.
#[test]
fn a_status_refuses_receives() {
    for (status, refused) in [
        (Status::Active, false),
        (Status::Disabled, true),
        (Status::SendDisabled, false),
        (Status::ReceiveDisabled, true),
    ] {
        let expected = refused.then_some(ErrorKind::EntityDisabled);
        let namespace = Namespace::new();
        let queue = namespace.queue("orders");
        for body in ["a", "b"] {
            send(&queue, body);
        }
        receive(&queue).defer().ok();
        namespace.broker.update_queue("orders", settings().status(status)).unwrap();
        assert_eq!(try_take(&queue, 1).err(), expected, "{status:?}");
        assert_eq!(try_take(&queue.dead_letter(), 1).err(), expected, "{status:?}");
        assert_eq!(kind(queue.receive_deferred(&[SequenceNumber::new(1)])), expected, "{status:?}");

        let sessions = namespace.queue_with("sessions", settings().requires_session(true).status(status));
        assert_eq!(kind(sessions.accept_session("s")), expected, "{status:?}");

        let topic = namespace.topic("events");
        let subscription = subscribe_with(&topic, "s", SubscriptionSettings::default().status(status));
        publish(&topic, "a");
        assert_eq!(counts(&subscription), [1, 0, 0, 0, 0]);
        assert_eq!(try_take(&subscription, 1).err(), expected, "{status:?}");
    }
}

/// Rules: S-11.
#[test]
fn a_status_refuses_settlements_and_renewals() {
    for (status, refused) in [
        (Status::Active, false),
        (Status::Disabled, true),
        (Status::SendDisabled, false),
        (Status::ReceiveDisabled, true),
    ] {
        let expected = refused.then_some(ErrorKind::EntityDisabled);
        let namespace = Namespace::new();
        let queue = namespace.queue("orders");
        for body in ["complete", "abandon", "defer", "dead-letter", "renew", "transaction"] {
            send(&queue, body);
        }
        let mut held = try_take(&queue, 6).unwrap();
        namespace.broker.update_queue("orders", settings().status(status)).unwrap();
        let in_transaction = held.pop().unwrap();
        let renewed = held.pop().unwrap();
        namespace.advance(SECOND);
        assert_eq!(kind(renewed.lease.renew().ended()), expected, "{status:?}");
        for disposition in [dead(), Disposition::DEFER, Disposition::ABANDON, Disposition::Complete] {
            assert_eq!(kind(held.pop().unwrap().settle(disposition).ended()), expected, "{status:?}");
        }
        let mut transaction = namespace.broker.transaction();
        transaction.settle(in_transaction.lease, Disposition::Complete).unwrap();
        assert_eq!(transaction.commit().wait().map_err(|error| error.kind()).err(), expected, "{status:?}");
        if !refused {
            assert_eq!(counts(&queue), [1, 1, 1, 0, 1]);
            continue;
        }
        // Nothing was settled: all come again, when their locks have run out and the queue is active.
        assert!(counts(&queue)[1] >= 4, "{:?}", counts(&queue));
        namespace.advance(LOCK);
        assert_eq!(counts(&queue), [6, 0, 0, 0, 0]);
        namespace.broker.update_queue("orders", settings()).unwrap();
        assert_eq!(try_take(&queue, 6).unwrap().len(), 6);
        drop(renewed);
    }
}

/// Rules: S-11.
#[test]
fn a_status_refuses_what_the_holder_of_a_session_does() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().requires_session(true));
    let mut session = queue.accept_session("s").unwrap();
    let disabled = settings().requires_session(true).status(Status::ReceiveDisabled);
    namespace.broker.update_queue("orders", disabled).unwrap();
    let expected = Some(ErrorKind::EntityDisabled);
    assert_eq!(kind(session.renew()), expected);
    assert_eq!(kind(session.state()), expected);
    assert_eq!(kind(session.set_state(Some("state".into())).wait()), expected);
    session.close().unwrap();
    namespace.broker.update_queue("orders", settings().requires_session(true)).unwrap();
    assert_eq!(queue.accept_session("s").unwrap().state().unwrap(), None);
}

/// Rules: S-11.
#[test]
fn time_goes_on_in_a_disabled_entity() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().dead_letter_on_expiration(true));
    try_send(&queue.sender().unwrap(), Message::builder().time_to_live(SECOND).build("expires").unwrap()).unwrap();
    queue.schedule(vec![Message::new("scheduled")], START.saturating_add(SECOND)).wait().unwrap();
    let disabled = settings().dead_letter_on_expiration(true).status(Status::Disabled);
    namespace.broker.update_queue("orders", disabled).unwrap();
    namespace.advance(SECOND);
    assert_eq!(counts(&queue), [1, 0, 0, 0, 1]);
    // It can be looked at, cleared and deleted.
    assert_eq!(bodies(&queue), ["scheduled"]);
    assert_eq!(queue.delete_messages(10, None).wait().unwrap(), 1);
    namespace.broker.delete("orders").unwrap();
}

/// Rules: S-11.
#[test]
fn a_waiting_receiver_hears_that_its_entity_is_disabled() {
    waits(|namespace, queue, waiting| {
        assert!(waiting.poll().is_pending());
        namespace.broker.update_queue("orders", settings().status(Status::ReceiveDisabled)).unwrap();
        assert!(waiting.is_woken());
        let Poll::Ready(received) = waiting.poll() else { panic!("it waits still") };
        assert_eq!(kind(received), Some(ErrorKind::EntityDisabled));
        drop(queue.clone());
    });
}

type Received = Result<consign::transport::Delivery<consign::broker::QueueLease>, consign::transport::ReceiveError>;

/// Runs with a receiver of the queue `orders`.
fn waits(
    test: impl FnOnce(&Namespace, &Queue, &mut task::Spawn<std::pin::Pin<Box<dyn Future<Output = Received> + '_>>>),
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _entered = runtime.enter();
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    let mut receiver = queue.receiver();
    let waiting: std::pin::Pin<Box<dyn Future<Output = Received> + '_>> = Box::pin(receiver.receive());
    test(&namespace, &queue, &mut task::spawn(waiting));
}

#[test]
fn a_waiting_receiver_hears_that_its_entity_was_deleted() {
    waits(|namespace, queue, waiting| {
        assert!(waiting.poll().is_pending());
        namespace.broker.delete("orders").unwrap();
        assert!(waiting.is_woken());
        let Poll::Ready(received) = waiting.poll() else { panic!("it waits still") };
        assert_eq!(kind(received), Some(ErrorKind::EntityNotFound));
        // One that comes later, and one of the dead letters, hear it too.
        assert_eq!(try_take(queue, 1).err(), Some(ErrorKind::EntityNotFound));
        assert_eq!(try_take(&queue.dead_letter(), 1).err(), Some(ErrorKind::EntityNotFound));
    });
}

#[test]
fn a_waiting_receiver_of_a_subscription_hears_that_its_topic_was_deleted() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _entered = runtime.enter();
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let subscription = subscribe(&topic, "s");
    let (mut receiver, mut of_dead) = (subscription.receiver(), subscription.dead_letter().receiver());
    let (mut waiting, mut waiting_dead) = (task::spawn(receiver.receive()), task::spawn(of_dead.receive()));
    assert!(waiting.poll().is_pending() && waiting_dead.poll().is_pending());
    namespace.broker.delete("events").unwrap();
    assert!(namespace.broker.entities().is_empty());
    for waiting in [&mut waiting, &mut waiting_dead] {
        assert!(waiting.is_woken());
        let Poll::Ready(received) = waiting.poll() else { panic!("it waits still") };
        assert_eq!(kind(received), Some(ErrorKind::EntityNotFound));
    }
}

#[test]
fn handles_of_a_deleted_entity_return_errors() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    for body in ["a", "b", "c"] {
        send(&queue, body);
    }
    let mut held = try_take(&queue, 3).unwrap();
    let sender = queue.sender().unwrap();
    namespace.broker.delete("orders").unwrap();
    let gone = Some(ErrorKind::EntityNotFound);
    let lost = [ErrorKind::EntityNotFound, ErrorKind::MessageLockLost];
    assert_eq!(try_send(&sender, Message::new("d")).err(), gone);
    assert_eq!(kind(queue.schedule(vec![Message::new("d")], START.saturating_add(SECOND)).wait()), gone);
    assert_eq!(kind(queue.cancel_scheduled(&[SequenceNumber::new(1)]).wait()), gone);
    assert_eq!(kind(queue.receive_deferred(&[SequenceNumber::new(1)])), gone);
    assert_eq!(kind(queue.delete_messages(1, None).wait()), gone);
    assert!(lost.contains(&held[0].lease.renew().refused()));
    assert!(lost.contains(&held.pop().unwrap().complete().refused()));
    assert!(lost.contains(&held.pop().unwrap().abandon().refused()));
    drop(held);
    assert_eq!((counts(&queue), peek(&queue).len()), ([0; 5], 0));
    let mut transaction = namespace.broker.transaction();
    let sent = transaction.send(&sender, Message::new("d")).map_err(|error| error.kind());
    let refused = sent.err().or_else(|| transaction.commit().wait().map_err(|error| error.kind()).err());
    assert_eq!(refused, gone);
}

#[test]
fn a_new_entity_of_the_same_name_is_another_one() {
    let namespace = Namespace::new();
    let old = namespace.queue("orders");
    send(&old, "old");
    send(&old, "old");
    let mut held = try_take(&old, 2).unwrap();
    let sender = old.sender().unwrap();
    namespace.broker.delete("orders").unwrap();
    let new = namespace.queue("orders");
    assert_eq!(counts(&new), [0; 5]);
    send(&new, "new");
    send(&new, "new");
    let again = try_take(&new, 2).unwrap();
    assert_eq!(facts(&again[0].message).sequence_number.get(), 1);
    // Leases and handles of the old one do not reach it.
    assert!(held.pop().unwrap().complete().ended().is_err());
    drop(held);
    assert_eq!(try_send(&sender, Message::new("late")).err(), Some(ErrorKind::EntityNotFound));
    assert_eq!(try_take(&old, 1).err(), Some(ErrorKind::EntityNotFound));
    assert_eq!(counts(&new), [0, 2, 0, 0, 0]);
    for delivery in again {
        delivery.complete().ok();
    }
}

#[test]
fn a_new_subscription_of_the_same_name_is_another_one() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let old = subscribe(&topic, "s");
    publish(&topic, "a");
    let held = receive(&old);
    namespace.broker.delete("events/subscriptions/S").unwrap();
    assert_eq!(topic.subscriptions(), Vec::<String>::new());
    let new = subscribe(&topic, "s");
    assert_eq!((counts(&new), counts(&old)), ([0; 5], [0; 5]));
    publish(&topic, "b");
    assert!(held.complete().ended().is_err());
    assert_eq!((bodies(&new), numbers(&new)), (vec!["b".to_owned()], vec![1]));
    assert_eq!(kind(old.create_rule(sql("r", "1 = 1"))), Some(ErrorKind::EntityNotFound));
}

#[test]
fn a_deleted_subscription_gives_its_room_back_to_its_topic() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let kept = subscribe(&topic, "kept");
    subscribe(&topic, "gone");
    publish(&topic, "a");
    let size = topic.counts().size;
    namespace.broker.delete("events/Subscriptions/gone").unwrap();
    assert_eq!(topic.counts().size, size / 2);
    assert_eq!(counts(&kept), [1, 0, 0, 0, 0]);
}

/// Rules: S-100, S-101.
#[test]
fn sub_queues_are_found_in_any_case() {
    let namespace = Namespace::new();
    let queue = namespace.queue("Orders");
    subscribe(&namespace.topic("Events"), "S");
    send(&queue, "a");
    receive(&queue).settle(dead()).ok();
    for path in ["orders/$deadletterqueue", "ORDERS/$DeadLetterQueue", "Orders/$DEADLETTERQUEUE"] {
        assert_eq!(bodies(&namespace.broker.queue(path).unwrap()), ["a"]);
    }
    for path in [
        "orders/$Transfer/$DeadLetterQueue",
        "orders/$transfer/$deadletterqueue",
        "events/subscriptions/s/$deadletterqueue",
        "EVENTS/SUBSCRIPTIONS/S/$TRANSFER/$DEADLETTERQUEUE",
    ] {
        assert_eq!(counts(&namespace.broker.queue(path).unwrap()), [0; 5]);
    }
    assert_eq!(queue.dead_letter().path().as_str(), "Orders/$deadletterqueue");
    assert_eq!(queue.transfer_dead_letter().path().as_str().to_lowercase(), "orders/$transfer/$deadletterqueue");
    for sub_queue in [queue.dead_letter(), queue.transfer_dead_letter()] {
        assert_eq!(sub_queue.sender().map(drop).unwrap_err().kind(), ErrorKind::InvalidOperation);
    }
    for path in ["orders/$deadletterqueue", "orders/$Transfer/$DeadLetterQueue"] {
        assert!(namespace.broker.delete(path).is_err());
    }
}

#[test]
fn counts_are_by_state() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    for body in ["active", "locked", "deferred", "dead", "dead and locked", "dead and deferred", "active too"] {
        send(&queue, body);
    }
    queue.schedule(vec![Message::new("scheduled")], START.saturating_add(SECOND)).wait().unwrap();
    let mut held = try_take(&queue, 6).unwrap();
    for _ in 0..3 {
        held.pop().unwrap().settle(dead()).ok();
    }
    held.pop().unwrap().defer().ok();
    held.remove(0).lease.release().ok();
    receive(&queue.dead_letter()).defer().ok();
    let dead = receive(&queue.dead_letter());
    assert_eq!(counts(&queue), [2, 1, 1, 1, 3]);
    assert_eq!(counts(&queue.dead_letter()), [1, 1, 1, 0, 0]);
    assert_eq!(queue.counts().transfer_dead_lettered, 0);
    assert_eq!(queue.counts().size, queue.dead_letter().counts().size);
    drop((held, dead));
}

/// `to_delete` messages that were enqueued at one second each, the first at [`START`].
fn one_a_second(namespace: &Namespace, queue: &Queue, messages: usize) {
    for number in 0..messages {
        send(queue, number.to_string());
        namespace.advance(SECOND);
    }
}

/// Rules: S-106.
#[test]
fn the_oldest_are_deleted_first_and_locked_ones_stay() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    one_a_second(&namespace, &queue, 6);
    queue.schedule(vec![Message::new("scheduled")], START.saturating_add(60 * SECOND)).wait().unwrap();
    let held = receive(&queue);
    assert_eq!(queue.delete_messages(2, None).wait().unwrap(), 2);
    assert_eq!(bodies(&queue), ["0", "3", "4", "5", "scheduled"]);
    assert_eq!(queue.delete_messages(0, None).wait().unwrap_or(0), 0);
    assert_eq!(queue.delete_messages(100, None).wait().unwrap(), 3);
    assert_eq!(counts(&queue), [0, 1, 0, 1, 0]);
    held.complete().ok();
    assert_eq!(queue.delete_messages(100, None).wait().unwrap(), 0);
}

/// Rules: S-106.
#[test]
fn the_instant_before_which_is_not_included() {
    for (cutoff, deleted) in [(0, 0), (1, 1), (1_999, 2), (2_000, 2), (2_001, 3), (60_000, 4)] {
        let namespace = Namespace::new();
        let queue = namespace.queue("orders");
        one_a_second(&namespace, &queue, 4);
        let before = START.saturating_add(cutoff * MS);
        assert_eq!(queue.delete_messages(100, Some(before)).wait().unwrap(), deleted, "{cutoff}");
        assert_eq!(counts(&queue)[0], 4 - deleted);
    }
}

/// Rules: S-106.
#[test]
fn a_call_deletes_4000_at_most() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    for _ in 0..4_001 {
        send(&queue, "x");
    }
    assert_eq!(queue.delete_messages(4_000, None).wait().unwrap(), 4_000);
    assert_eq!((numbers(&queue), counts(&queue)), (vec![4_001], [1, 0, 0, 0, 0]));
}

/// Rules: S-106.
#[test]
fn dead_letters_can_be_deleted_and_partitions_cannot() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    for body in ["dead", "too", "active"] {
        send(&queue, body);
    }
    receive(&queue).settle(dead()).ok();
    receive(&queue).settle(dead()).ok();
    assert_eq!(queue.dead_letter().delete_messages(100, None).wait().unwrap(), 2);
    assert_eq!(counts(&queue), [1, 0, 0, 0, 0]);
    let partitioned = namespace.queue_with("partitioned", settings().partitioned(true));
    send(&partitioned, "a");
    assert_eq!(kind(partitioned.delete_messages(100, None).wait()), Some(ErrorKind::InvalidOperation));
    assert_eq!(counts(&partitioned), [1, 0, 0, 0, 0]);
}

#[test]
fn ages_are_the_times_of_the_oldest() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    let nothing = queue.ages();
    assert_eq!((nothing.active, nothing.deferred), (None, None));
    assert_eq!((nothing.dead_lettered, nothing.next_scheduled), (None, None));
    one_a_second(&namespace, &queue, 6);
    let at = |seconds: u32| Some(START.saturating_add(seconds * SECOND));
    for seconds in [60, 50] {
        queue.schedule(vec![Message::new("later")], at(seconds).unwrap()).wait().unwrap();
    }
    let mut held = try_take(&queue, 5).unwrap();
    held.remove(3).lease.release().ok();
    held.remove(2).settle(dead()).ok();
    held.remove(1).settle(dead()).ok();
    held.remove(0).defer().ok();
    // Of what is there: 3 and 5 can be received, 4 is locked, 0 deferred, 1 and 2 dead.
    let ages = queue.ages();
    assert_eq!((ages.active, ages.deferred, ages.dead_lettered), (at(3), at(0), at(1)));
    assert_eq!(ages.next_scheduled, at(50));
    namespace.advance(44 * SECOND);
    assert_eq!(queue.ages().next_scheduled, at(60));

    receive(&queue.dead_letter()).defer().ok();
    let of_dead = queue.dead_letter().ages();
    assert_eq!((of_dead.active, of_dead.deferred), (at(2), at(1)));
    assert_eq!((of_dead.dead_lettered, of_dead.next_scheduled), (None, None));
    namespace.broker.delete("orders").unwrap();
    assert_eq!(queue.ages(), nothing);
}

/// Rules: S-12.
#[test]
fn the_emulator_profile_differs_where_the_emulator_does() {
    let emulator = QueueSettings::emulator();
    assert_eq!((emulator.max_delivery_count, emulator.default_time_to_live), (3, Some(3_600 * SECOND)));
    assert_eq!((emulator.lock_duration, emulator.max_message_size), (60 * SECOND, 256 << 10));
    Namespace::new().queue_with("orders", emulator);
}

/// Rules: S-08.
/// Nobody has looked since it was due to be deleted.
#[test]
fn an_entity_that_is_due_to_be_deleted_has_no_settings() {
    let idle = Duration::from_secs(300);
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().auto_delete_on_idle(idle));
    let topic = namespace.broker.create_topic("events", TopicSettings::default().auto_delete_on_idle(idle)).unwrap();
    let settings = SubscriptionSettings::default().auto_delete_on_idle(idle);
    let subscription = namespace.topic("other").create_subscription("s", settings).unwrap();
    namespace.advance(idle);
    assert_eq!(queue.delete_messages(1, None).wait().unwrap_err().kind(), ErrorKind::EntityNotFound);
    assert_eq!(topic.settings().unwrap_err().kind(), ErrorKind::EntityNotFound);
    assert_eq!(subscription.subscription_settings().unwrap_err().kind(), ErrorKind::EntityNotFound);
}
