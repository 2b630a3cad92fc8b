//! Topics, and what their subscriptions get.

use std::time::Duration;

use consign::{
    Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Subscription, Topic},
    message::{EntityPath, MessageState, SequenceNumber},
    rules::{Rule, SqlAction, SqlFilter},
    transport::{Batch, ErrorKind, Sender},
};

use crate::{
    log::captured,
    namespace::{
        Namespace, almost, bodies, counts, numbers, peek, publish, receive, send, try_send, try_take, with_id,
    },
    support::{Ended, LOCK, MS, START, facts, settings, text, why},
};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn sql(name: &str, filter: &str) -> Rule {
    Rule::new(name, SqlFilter::parse(filter).unwrap()).unwrap()
}

pub(crate) fn sql_with_action(name: &str, filter: &str, action: &str) -> Rule {
    sql(name, filter).with_action(SqlAction::parse(action).unwrap())
}

pub(crate) fn subscribe(topic: &Topic, name: &str) -> Subscription {
    subscribe_with(topic, name, SubscriptionSettings::default().lock_duration(LOCK))
}

pub(crate) fn subscribe_with(topic: &Topic, name: &str, settings: SubscriptionSettings) -> Subscription {
    topic.create_subscription(name, settings).unwrap()
}

/// A subscription with these rules alone.
fn with_rules<const N: usize>(topic: &Topic, name: &str, rules: [Rule; N]) -> Subscription {
    let subscription = subscribe(topic, name);
    subscription.delete_rule("$Default").unwrap();
    for rule in rules {
        subscription.create_rule(rule).unwrap();
    }
    subscription
}

fn names(subscription: &Subscription) -> Vec<String> {
    subscription.rules().iter().map(|rule| rule.name().to_owned()).collect()
}

fn colour(subject: &'static str) -> Message {
    Message::builder().subject(subject).build(subject).unwrap()
}

/// Rules: T-51.
#[test]
fn each_subscription_with_a_matching_rule_gets_a_copy() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let all = subscribe(&topic, "all");
    let red = with_rules(&topic, "red", [sql("colour", "sys.Label = 'red'")]);
    let none = with_rules(&topic, "none", [sql("never", "1 = 0")]);
    for subject in ["red", "blue"] {
        try_send(&topic.sender(), colour(subject)).unwrap();
    }
    assert_eq!([bodies(&all), bodies(&red), bodies(&none)], [vec!["red", "blue"], vec!["red"], vec![]]);
}

/// Rules: T-51.
#[test]
fn a_copy_has_its_own_number_lock_count_and_dead_letters() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let first = subscribe(&topic, "first");
    publish(&topic, "early");
    let second = subscribe(&topic, "second");
    publish(&topic, "late");
    assert_eq!((numbers(&first), numbers(&second)), (vec![1, 2], vec![1]));
    assert!(peek(&second).iter().all(|copy| facts(copy).enqueued_sequence_number.get() == 0));

    // What is done to a copy of one subscription leaves that of the other alone.
    receive(&first).complete().ok();
    receive(&first).abandon().ok();
    let held = receive(&first);
    assert_eq!((text(&held.message), facts(&held.message).delivery_count), ("late", 2));
    assert_eq!(counts(&second), [1, 0, 0, 0, 0]);
    assert_eq!(facts(&receive(&second).message).delivery_count, 1);
    held.settle(consign::Disposition::dead_letter(consign::settlement::DeadLetterReason::HandlerPermanent, "no")).ok();
    assert_eq!((counts(&first), counts(&second)), ([0, 0, 0, 0, 1], [1, 0, 0, 0, 0]));
    assert_eq!((bodies(&first.dead_letter()), bodies(&second.dead_letter())), (vec!["late".to_owned()], vec![]));
}

/// Rules: T-51.
#[test]
fn a_message_that_no_rule_matches_is_accepted_and_gone() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    publish(&topic, "a");
    let none = with_rules(&topic, "none", []);
    publish(&topic, "b");
    assert_eq!((counts(&none), topic.counts().size), ([0; 5], 0));
}

/// Rules: T-51.
#[test]
fn a_batch_is_copied_in_its_order() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let (first, second) = (subscribe(&topic, "first"), subscribe(&topic, "second"));
    let batch = Batch::from(["a", "b", "c"].map(Message::new));
    topic.sender().send_batch(batch).wait().unwrap();
    assert_eq!([bodies(&first), bodies(&second)], [["a", "b", "c"], ["a", "b", "c"]]);
}

/// Rules: T-51.
#[test]
fn the_times_of_acceptance_are_those_of_the_send() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let subscription = subscribe(&topic, "s");
    namespace.advance(7 * MS);
    publish(&topic, "a");
    assert_eq!(facts(&peek(&subscription)[0]).enqueued_time, START.saturating_add(7 * MS));
}

/// Rules: T-52.
#[test]
fn a_new_subscription_has_the_rule_default_and_gets_nothing_without_one() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let subscription = subscribe(&topic, "s");
    assert_eq!(names(&subscription), ["$Default"]);
    publish(&topic, "by default");
    subscription.delete_rule("$default").unwrap();
    assert!(names(&subscription).is_empty());
    publish(&topic, "without a rule");
    subscription.create_rule(sql("again", "1 = 1")).unwrap();
    publish(&topic, "by a rule");
    assert_eq!(bodies(&subscription), ["by default", "by a rule"]);
}

/// Rules: T-52.
#[test]
fn a_first_rule_of_its_own_takes_the_place_of_default() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let rule = sql("colour", "sys.Label = 'red'");
    let subscription = topic.create_subscription_with("s", SubscriptionSettings::default(), rule).unwrap();
    assert_eq!(names(&subscription), ["colour"]);
    for subject in ["red", "blue"] {
        try_send(&topic.sender(), colour(subject)).unwrap();
    }
    assert_eq!(bodies(&subscription), ["red"]);
}

/// The names in the property `RuleName` of what a peek shows, sorted; `-` where there is none.
fn rule_names(subscription: &Subscription) -> Vec<String> {
    let name = |copy: &Message| {
        copy.application_properties().get("RuleName").and_then(|name| name.as_str()).unwrap_or("-").to_owned()
    };
    let mut names: Vec<_> = peek(subscription).iter().map(name).collect();
    names.sort();
    names
}

/// Rules: T-53.
#[test]
fn five_matches_of_which_two_have_actions_are_three_copies() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let subscription = with_rules(
        &topic,
        "s",
        [
            sql("plain-1", "1 = 1"),
            sql_with_action("action-1", "1 = 1", "SET changed = 1"),
            sql("plain-2", "sys.Label = 'red'"),
            sql("no-match", "sys.Label = 'blue'"),
            sql_with_action("no-match-either", "sys.Label = 'blue'", "SET changed = 3"),
            sql_with_action("action-2", "1 = 1", "SET changed = 2"),
            sql("plain-3", "1 = 1"),
        ],
    );
    let message = Message::builder().message_id("m").subject("red").build("red").unwrap();
    try_send(&topic.sender(), message).unwrap();
    assert_eq!(rule_names(&subscription), ["-", "action-1", "action-2"]);
    assert_eq!(numbers(&subscription), [1, 2, 3]);
    assert!(peek(&subscription).iter().all(|copy| copy.message_id() == Some("m")));
}

/// Rules: T-53.
#[test]
fn rules_without_action_make_one_copy() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let rules = [sql("a", "1 = 1"), sql("b", "1 = 1"), sql("c", "1 = 1")];
    let subscription = with_rules(&topic, "s", rules);
    publish(&topic, "x");
    assert_eq!(rule_names(&subscription), ["-"]);
}

/// Rules: T-53.
#[test]
fn rules_with_actions_alone_make_no_plain_copy() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let rules = [sql_with_action("a", "1 = 1", "SET k = 1"), sql_with_action("b", "1 = 1", "SET k = 2")];
    let subscription = with_rules(&topic, "s", rules);
    publish(&topic, "x");
    assert_eq!(rule_names(&subscription), ["a", "b"]);
}

/// Rules: T-53.
#[test]
fn an_action_changes_its_own_copy_only() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let rules =
        [sql("plain", "1 = 1"), sql_with_action("action", "colour = 'red'", "SET colour = 'blue'; REMOVE size")];
    let changed = with_rules(&topic, "changed", rules);
    let other = subscribe(&topic, "other");
    let message = Message::builder().property("colour", "red").property("size", 3).build("x").unwrap();
    try_send(&topic.sender(), message).unwrap();
    let properties = |copy: &Message| {
        let colour =
            copy.application_properties().get("colour").and_then(|value| value.as_str()).unwrap_or("-").to_owned();
        (colour, copy.application_properties().get("size").is_some())
    };
    let mut copies: Vec<_> = peek(&changed).iter().map(properties).collect();
    copies.sort();
    assert_eq!(copies, [("blue".to_owned(), false), ("red".to_owned(), true)]);
    assert_eq!(properties(&peek(&other)[0]), ("red".to_owned(), true));
}

/// Rules: T-03.
#[test]
fn a_copy_lives_for_the_shortest_of_three() {
    let times = [Some(2 * SECOND), Some(3 * SECOND), Some(5 * SECOND), None];
    for own in times {
        for topic_default in times {
            for subscription_default in times {
                let namespace = Namespace::new();
                let mut settings = TopicSettings::default();
                settings.default_time_to_live = topic_default;
                let topic = namespace.broker.create_topic("events", settings).unwrap();
                let mut settings = SubscriptionSettings::default();
                settings.default_time_to_live = subscription_default;
                let subscription = subscribe_with(&topic, "s", settings);
                let mut message = Message::new("a");
                if let Some(own) = own {
                    message.properties_mut().set_time_to_live(own).unwrap();
                }
                try_send(&topic.sender(), message).unwrap();
                let shortest = [own, topic_default, subscription_default].into_iter().flatten().min();
                assert_eq!(peek(&subscription)[0].time_to_live(), shortest);
                if let Some(shortest) = shortest {
                    namespace.advance(almost(shortest));
                    assert_eq!(counts(&subscription), [1, 0, 0, 0, 0]);
                    namespace.advance(MS);
                    assert_eq!(counts(&subscription), [0; 5]);
                }
            }
        }
    }
}

/// Rules: T-46.
#[test]
fn duplicates_are_found_at_the_topic() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().duplicate_detection(60 * SECOND);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let rules = [sql_with_action("same", "1 = 1", "SET sys.MessageId = 'same'")];
    let changed = with_rules(&topic, "changed", rules);
    let plain = subscribe(&topic, "plain");
    for id in ["a", "b", "a"] {
        try_send(&topic.sender(), with_id(id)).unwrap();
    }
    assert_eq!((bodies(&changed), bodies(&plain)), (vec!["a".into(), "b".into()], vec!["a".into(), "b".into()]));
    assert!(peek(&changed).iter().all(|copy| copy.message_id() == Some("same")));
    // Nor does an id that a rule made count at the topic.
    try_send(&topic.sender(), with_id("same")).unwrap();
    assert_eq!(bodies(&plain), ["a", "b", "same"]);
}

/// Rules: T-46.
#[test]
fn an_id_that_an_action_sets_counts_where_the_copy_is_forwarded() {
    let namespace = Namespace::new();
    let target = namespace.queue_with("target", settings().duplicate_detection(60 * SECOND));
    let topic = namespace.topic("events");
    let subscription = with_rules(&topic, "s", [sql_with_action("same", "1 = 1", "SET sys.MessageId = 'same'")]);
    let settings = subscription.subscription_settings().unwrap().forward_to("target");
    topic.update_subscription("s", settings).unwrap();
    for id in ["a", "b"] {
        try_send(&topic.sender(), with_id(id)).unwrap();
    }
    assert_eq!((bodies(&target), counts(&subscription)), (vec!["a".to_owned()], [0; 5]));
}

/// Rules: T-46, T-56.
#[test]
fn a_generated_id_that_an_action_shortens_is_forwarded() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let topic = namespace.topic("events");
    let subscription = with_rules(&topic, "s", [sql_with_action("short", "1 = 1", "SET sys.MessageId = 'a'")]);
    let settings = subscription.subscription_settings().unwrap().forward_to("target");
    topic.update_subscription("s", settings).unwrap();
    publish(&topic, "");
    assert_eq!((bodies(&target), counts(&subscription)), (vec![String::new()], [0; 5]));
    assert_eq!(peek(&target)[0].message_id(), Some("a"));
}

#[test]
fn a_handle_of_a_deleted_topic_finds_no_subscription_of_a_new_one() {
    let namespace = Namespace::new();
    let old = namespace.topic("events");
    namespace.broker.delete("events").unwrap();
    let new = namespace.topic("events");
    subscribe(&new, "s");
    assert_eq!(old.subscription("s").unwrap_err().kind(), ErrorKind::EntityNotFound);
    let updated = old.update_subscription("s", SubscriptionSettings::default());
    assert_eq!(updated.unwrap_err().kind(), ErrorKind::EntityNotFound);
}

/// Rules: Q-24.
#[test]
fn a_scheduled_message_waits_at_the_topic() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let subscription = subscribe(&topic, "s");
    let at = START.saturating_add(SECOND);
    assert_eq!(topic.schedule(vec![Message::new("later")], at).wait().unwrap(), [SequenceNumber::new(1)]);
    publish(&topic, "now");
    let waiting = topic.peek(SequenceNumber::new(0), usize::MAX);
    let seen: Vec<_> = waiting.iter().map(|message| (text(message), facts(message).state)).collect();
    assert_eq!(seen, [("later", MessageState::Scheduled)]);
    assert_eq!(facts(&waiting[0]).sequence_number.get(), 1);
    assert_eq!((topic.counts().scheduled, bodies(&subscription)), (1, vec!["now".to_owned()]));

    namespace.advance(almost(SECOND));
    assert_eq!(bodies(&subscription), ["now"]);
    namespace.advance(MS);
    assert_eq!((bodies(&subscription), numbers(&subscription)), (vec!["now".into(), "later".into()], vec![1, 2]));
    assert_eq!(facts(&peek(&subscription)[1]).enqueued_time, at);
    assert!(topic.peek(SequenceNumber::new(0), usize::MAX).is_empty());
    assert_eq!(topic.counts().scheduled, 0);
}

/// Rules: Q-24.
#[test]
fn the_subscriptions_and_rules_are_those_of_the_activation() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let (gone, changed) = (subscribe(&topic, "gone"), subscribe(&topic, "changed"));
    topic.schedule(vec![Message::new("later")], START.saturating_add(SECOND)).wait().unwrap();
    namespace.broker.delete("events/Subscriptions/gone").unwrap();
    changed.delete_rule("$Default").unwrap();
    let new = subscribe(&topic, "new");
    namespace.advance(SECOND);
    assert_eq!((counts(&changed), bodies(&new)), ([0; 5], vec!["later".to_owned()]));
    drop(gone);
}

/// Rules: Q-24.
#[test]
fn a_scheduled_message_of_a_topic_can_be_cancelled() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let subscription = subscribe(&topic, "s");
    let numbers =
        topic.schedule(vec![Message::new("a"), Message::new("b")], START.saturating_add(SECOND)).wait().unwrap();
    topic.cancel_scheduled(&numbers[..1]).wait().unwrap();
    namespace.advance(SECOND);
    assert_eq!(bodies(&subscription), ["b"]);
    assert_eq!(topic.cancel_scheduled(&numbers[1..]).wait().unwrap_err().kind(), ErrorKind::MessageNotFound);
}

/// Rules: Q-24.
#[test]
fn a_peek_at_a_queue_shows_scheduled_messages_among_the_others() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    queue.schedule(vec![Message::new("later")], START.saturating_add(SECOND)).wait().unwrap();
    crate::namespace::send(&queue, "now");
    let states: Vec<_> = peek(&queue).iter().map(|message| facts(message).state).collect();
    assert_eq!(
        (bodies(&queue), states),
        (vec!["later".into(), "now".into()], vec![MessageState::Scheduled, MessageState::Active])
    );
}

/// Its copy is scheduled by an action for an instant that is one second away.
fn scheduled_by_action(namespace: &Namespace) -> (Topic, Subscription) {
    let topic = namespace.topic("events");
    let action = "SET sys.ScheduledEnqueueTimeUtc = due";
    let subscription = with_rules(&topic, "s", [sql_with_action("later", "1 = 1", action)]);
    (topic, subscription)
}

fn due_in_a_second() -> Message {
    use consign::message::PropertyValue;
    Message::builder().property("due", PropertyValue::DateTime(START.saturating_add(SECOND))).build("a").unwrap()
}

/// Rules: Q-29.
#[test]
fn an_enqueue_time_set_by_an_action_has_no_effect_in_the_subscription() {
    let namespace = Namespace::new();
    let (topic, subscription) = scheduled_by_action(&namespace);
    try_send(&topic.sender(), due_in_a_second()).unwrap();
    assert_eq!(counts(&subscription), [1, 0, 0, 0, 0]);
    assert_eq!(receive(&subscription).message.scheduled_enqueue_time(), Some(START.saturating_add(SECOND)));
}

/// Rules: Q-29, T-67.
#[test]
fn an_enqueue_time_set_by_an_action_holds_in_the_target_of_a_forward() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let (topic, subscription) = scheduled_by_action(&namespace);
    topic.update_subscription("s", subscription.subscription_settings().unwrap().forward_to("target")).unwrap();
    try_send(&topic.sender(), due_in_a_second()).unwrap();
    assert_eq!((counts(&subscription), counts(&target)), ([0; 5], [0, 0, 0, 1, 0]));
    namespace.advance(almost(SECOND));
    assert_eq!(counts(&target), [0, 0, 0, 1, 0]);
    namespace.advance(MS);
    assert_eq!(counts(&target), [1, 0, 0, 0, 0]);
}

/// Rules: V-08, S-93.
#[test]
fn a_copy_without_a_session_dies_where_sessions_are_required() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let sessions = subscribe_with(&topic, "sessions", SubscriptionSettings::default().requires_session(true));
    let plain = subscribe(&topic, "plain");
    publish(&topic, "without");
    try_send(&topic.sender(), Message::builder().session_id("").build("empty").unwrap()).unwrap();
    assert_eq!(bodies(&plain), ["without", "empty"]);
    assert_eq!((bodies(&sessions), bodies(&sessions.dead_letter())), (vec!["empty".into()], vec!["without".into()]));
    let dead = receive(&sessions.dead_letter());
    assert_eq!(dead.message.dead_letter_reason(), Some("Session ID is null."));
    assert_eq!(facts(&dead.message).delivery_count, 1);
}

/// A rule that fails for a message whose property `divisor` is 0.
fn divides() -> Rule {
    sql("divides", "1 / divisor = 1")
}

fn divided_by(divisor: i64) -> Message {
    Message::builder().property("divisor", divisor).build(divisor.to_string()).unwrap()
}

/// Rules: S-95, S-05.
#[test]
fn a_copy_whose_filter_fails_is_dead_lettered() {
    assert!(SubscriptionSettings::default().dead_letter_on_filter_error);
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let failing = with_rules(&topic, "failing", [divides()]);
    let other = subscribe(&topic, "other");
    for divisor in [0, 1] {
        try_send(&topic.sender(), divided_by(divisor)).unwrap();
    }
    assert_eq!((bodies(&failing), bodies(&other)), (vec!["1".to_owned()], vec!["0".into(), "1".into()]));
    let dead = receive(&failing.dead_letter());
    let (reason, description) = why(&dead.message);
    assert_eq!((text(&dead.message), reason), ("0", "FilterException"));
    assert!(!description.is_empty());
}

/// Rules: S-95, S-05.
#[test]
fn a_copy_whose_filter_fails_is_not_made_when_the_flag_is_off() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let mut settings = SubscriptionSettings::default();
    settings.dead_letter_on_filter_error = false;
    let failing = subscribe_with(&topic, "failing", settings);
    failing.delete_rule("$Default").unwrap();
    failing.create_rule(divides()).unwrap();
    try_send(&topic.sender(), divided_by(0)).unwrap();
    assert_eq!(counts(&failing), [0; 5]);
    // Another rule that matches is not concerned.
    failing.create_rule(sql("all", "1 = 1")).unwrap();
    try_send(&topic.sender(), divided_by(0)).unwrap();
    assert_eq!(counts(&failing), [1, 0, 0, 0, 0]);
}

/// Rules: S-95.
#[test]
fn a_rule_that_fails_is_reported_once_a_minute() {
    for (is_kept, expected) in [(true, "messages are dead-lettered"), (false, "the copies that it would make are lost")]
    {
        let namespace = Namespace::new();
        let topic = namespace.topic("events");
        let settings = SubscriptionSettings::default().dead_letter_on_filter_error(is_kept);
        let failing = subscribe_with(&topic, "failing", settings);
        failing.create_rule(divides()).unwrap();
        let send = || (0..3).for_each(|_| try_send(&topic.sender(), divided_by(0)).unwrap());
        for _ in 0..2 {
            let ((), log) = captured(send);
            let lines: Vec<_> = log.lines().filter(|line| line.starts_with("WARN")).collect();
            assert!(lines.len() == 1 && lines[0].contains(expected), "{log}");
            assert!(lines[0].contains("entity=events/Subscriptions/failing") && lines[0].contains("divides"), "{log}");
            namespace.advance(60 * SECOND);
        }
    }
}

#[test]
fn errors_of_rules_name_the_subscription_and_the_rule() {
    let namespace = Namespace::new();
    let subscription = subscribe(&namespace.topic("events"), "s");
    let place = "events/Subscriptions/s: rule";
    let twice = subscription.create_rule(sql("$Default", "1 = 1")).unwrap_err();
    assert!(twice.to_string().contains(&format!("{place} $Default: the rule exists")), "{twice}");
    let missing = subscription.delete_rule("nope").unwrap_err();
    assert!(missing.to_string().contains(&format!("{place} nope: no such rule")), "{missing}");
    namespace.broker.delete("events").unwrap();
    let gone = subscription.delete_rule("nope").unwrap_err();
    assert!(gone.to_string().contains(&format!("{place} nope")), "{gone}");
}

/// Rules: S-95.
#[test]
fn one_rule_that_fails_stands_for_all() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let failing =
        with_rules(&topic, "failing", [sql("all", "1 = 1"), divides(), sql_with_action("more", "1 = 1", "SET k = 1")]);
    try_send(&topic.sender(), divided_by(0)).unwrap();
    assert_eq!(counts(&failing), [0, 0, 0, 0, 1]);
}

/// Rules: S-95.
#[test]
fn a_copy_whose_action_fails_is_dead_lettered_as_it_came() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let rules = [sql_with_action("divides", "1 = 1", "SET first = 1; SET second = 1 / divisor")];
    let failing = with_rules(&topic, "failing", rules);
    try_send(&topic.sender(), divided_by(0)).unwrap();
    assert_eq!(counts(&failing), [0, 0, 0, 0, 1]);
    let dead = receive(&failing.dead_letter()).message;
    assert_eq!(dead.dead_letter_reason(), Some("RuleActionException"));
    assert_eq!(dead.application_properties().get("first"), None);
}

/// Rules: S-104.
#[test]
fn a_topic_is_no_queue_and_has_no_dead_letters() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    subscribe(&topic, "s");
    for path in ["events", "events/$deadletterqueue"] {
        namespace.broker.queue(path).unwrap_err();
    }
    for path in ["s/$deadletterqueue", "S", "s/$Transfer/$DeadLetterQueue"] {
        namespace.broker.queue(&format!("EVENTS/subscriptions/{path}")).unwrap();
    }
    namespace.queue("orders");
    assert_eq!(namespace.broker.topic("orders").unwrap_err().kind(), ErrorKind::EntityNotFound);
    assert_eq!(namespace.broker.topic("events/Subscriptions/s").unwrap_err().kind(), ErrorKind::EntityNotFound);
}

/// Rules: T-51.
#[test]
fn nothing_is_sent_to_a_subscription() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let subscription = subscribe(&topic, "s");
    assert_eq!(subscription.sender().unwrap_err().kind(), ErrorKind::InvalidOperation);
    assert!(try_take(&subscription, 1).unwrap().is_empty());
}

/// Rules: T-51.
#[test]
fn a_copy_of_a_topic_takes_the_settings_of_its_subscription() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let settings = SubscriptionSettings::default().lock_duration(2 * LOCK).max_delivery_count(1);
    let subscription = subscribe_with(&topic, "s", settings);
    publish(&topic, "a");
    let held = receive(&subscription);
    namespace.advance(almost(2 * LOCK));
    assert_eq!(counts(&subscription), [0, 1, 0, 0, 0]);
    namespace.advance(MS);
    assert_eq!(counts(&subscription), [0, 0, 0, 0, 1]);
    assert_eq!(held.complete().refused(), ErrorKind::MessageLockLost);
    assert_eq!(QueueSettings::default().max_delivery_count, 10);
}

/// Rules: T-59f.
#[test]
fn a_rule_sees_when_a_message_ends_and_its_first_number() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let filter = |number: u64| format!("sys.EnqueuedSequenceNumber = {number} AND sys.ExpiresAtUtc = ends");
    let [forwarded, sent] =
        [("forwarded", 2), ("sent", 0)].map(|(name, number)| with_rules(&topic, name, [sql("rule", &filter(number))]));
    let message = |body: &'static str| {
        let builder = Message::builder().time_to_live(SECOND).property("ends", START.saturating_add(SECOND));
        builder.build(body).unwrap()
    };
    let source = namespace.queue("source");
    send(&source, "the first");
    receive(&source).complete().ok();
    namespace.broker.update_queue("source", settings().forward_to("events")).unwrap();
    try_send(&source.sender().unwrap(), message("by the queue")).unwrap();
    try_send(&topic.sender(), message("by the topic")).unwrap();
    assert_eq!((bodies(&forwarded), bodies(&sent)), (vec!["by the queue".to_owned()], vec!["by the topic".to_owned()]));
}

#[test]
fn a_sender_that_is_refused_names_the_path() {
    let namespace = Namespace::new();
    subscribe(&namespace.topic("events"), "s");
    for (path, expected) in [
        ("nope", "nope"),
        ("events/Subscriptions/s", "events/Subscriptions/s: a subscription accepts no sends"),
        ("events/Subscriptions/s/$DeadLetterQueue", "s/$DeadLetterQueue: a sub-queue accepts no sends"),
    ] {
        let error = namespace.broker.sender(&EntityPath::new(path).unwrap()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
