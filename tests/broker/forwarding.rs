//! Entities that forward their messages, or their dead letters.

use std::{
    task::{Context, Waker},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::{QueueSettings, Status, SubscriptionSettings},
    broker::{Broker, Queue, QueueLease, SessionReceiver},
    settlement::DeadLetterReason,
    transport::{Delivery, ErrorKind, Lease, Receiver, ReceiverExt},
};
use tokio::{task::yield_now, time::Instant};

use crate::{
    log::captured,
    namespace::{
        Namespace, almost, bodies, counts, numbers, peek, publish, receive, send, try_send, try_take, with_id,
    },
    support::{Ended, LOCK, MS, START, facts, settings, text, why},
    topics::{subscribe, subscribe_with},
};

const SECOND: Duration = Duration::from_secs(1);
/// How often the forwarding of a dead letter is tried.
const RETRY: Duration = Duration::from_secs(10);

fn to(target: &str) -> QueueSettings {
    settings().forward_to(target)
}

fn dead_to(target: &str) -> QueueSettings {
    settings().forward_dead_letters_to(target)
}

fn kill(queue: &Queue, description: &'static str) {
    receive(queue).settle(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, description)).ok();
}

/// The reasons of all that is in the dead-letter queue.
fn reasons(queue: &Queue) -> Vec<String> {
    let reason = |dead: &Message| dead.dead_letter_reason().unwrap_or("-").to_owned();
    peek(&queue.dead_letter()).iter().map(reason).collect()
}

/// Rules: T-60.
#[test]
fn a_message_is_in_the_target_alone() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let source = namespace.queue_with("source", to("target"));
    for body in ["a", "b", "c"] {
        send(&source, body);
    }
    assert_eq!((counts(&source), source.counts().size), ([0; 5], 0));
    assert_eq!(bodies(&target), ["a", "b", "c"]);
}

/// Rules: T-60.
#[test]
fn an_entity_that_forwards_has_no_receivers() {
    let namespace = Namespace::new();
    namespace.queue("target");
    let source = namespace.queue_with("source", to("target"));
    assert_eq!(try_take(&source, 1).err(), Some(ErrorKind::InvalidOperation));
    assert!(try_take(&source.dead_letter(), 1).unwrap().is_empty());
}

/// Rules: T-60.
#[test]
fn existing_messages_are_forwarded_when_forwarding_is_set() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let source = namespace.queue("source");
    for body in ["a", "b", "c", "d"] {
        send(&source, body);
    }
    let (locked, deferred) = (receive(&source), receive(&source));
    deferred.defer().ok();
    namespace.broker.update_queue("source", to("target")).unwrap();
    assert_eq!((counts(&source), bodies(&target)), ([0, 1, 1, 0, 0], vec!["c".into(), "d".into()]));
    // What was locked goes when it is given back.
    locked.abandon().ok();
    assert_eq!((counts(&source), bodies(&target)), ([0, 0, 1, 0, 0], vec!["c".into(), "d".into(), "a".into()]));
}

/// Rules: T-60.
#[test]
fn a_lock_that_runs_out_at_a_source_forwards() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let source = namespace.queue("source");
    send(&source, "a");
    let held = receive(&source);
    namespace.broker.update_queue("source", to("target")).unwrap();
    namespace.advance(almost(LOCK));
    assert_eq!(counts(&target), [0; 5]);
    namespace.advance(MS);
    assert_eq!((counts(&source), counts(&target)), ([0; 5], [1, 0, 0, 0, 0]));
    assert_eq!(facts(&peek(&target)[0]).delivery_count, 0);
    assert_eq!(held.complete().refused(), ErrorKind::MessageLockLost);
}

/// Rules: T-60.
#[test]
fn a_scheduled_message_is_forwarded_when_it_is_due() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let source = namespace.queue_with("source", to("target"));
    source.schedule(vec![Message::new("a")], START.saturating_add(SECOND)).wait().unwrap();
    assert_eq!((counts(&source), counts(&target)), ([0, 0, 0, 1, 0], [0; 5]));
    namespace.advance(SECOND + 5 * MS);
    assert_eq!((counts(&source), counts(&target)), ([0; 5], [1, 0, 0, 0, 0]));
    // It is forwarded at its own instant, not when somebody looks.
    assert_eq!(facts(&peek(&target)[0]).enqueued_time, START.saturating_add(SECOND));
}

/// Rules: T-60, S-96.
#[test]
fn a_missing_target_makes_dead_letters_of_the_source() {
    let namespace = Namespace::new();
    namespace.queue("target");
    let source = namespace.queue_with("source", to("target"));
    namespace.broker.delete("target").unwrap();
    send(&source, "a");
    assert_eq!(counts(&source), [0, 0, 0, 0, 1]);
    let dead = receive(&source.dead_letter());
    let (reason, description) = why(&dead.message);
    assert_eq!((text(&dead.message), reason), ("a", "ForwardTargetUnavailable"));
    assert_eq!(description, "The message could not be forwarded to target: send: no such entity");
}

/// Rules: T-60, S-96.
#[test]
fn a_target_that_takes_no_sends_is_unavailable() {
    for (status, forwards) in [
        (Status::Active, true),
        (Status::Disabled, false),
        (Status::SendDisabled, false),
        (Status::ReceiveDisabled, true),
    ] {
        let namespace = Namespace::new();
        let target = namespace.queue_with("target", settings().status(status));
        let source = namespace.queue_with("source", to("target"));
        send(&source, "a");
        let [in_target, dead] = [target.counts().active, source.counts().dead_lettered];
        assert_eq!([in_target, dead], if forwards { [1, 0] } else { [0, 1] }, "{status:?}");
    }
}

/// Rules: T-60, S-96.
#[test]
fn a_full_target_is_unavailable() {
    const MESSAGE: u64 = QueueSettings::OVERHEAD + 44;
    let namespace = Namespace::new();
    // An id of one character, a body of the rest.
    let message = |id: &'static str| Message::builder().message_id(id).build("x".repeat(43)).unwrap();
    for (name, room, taken) in [("exact", 4 * MESSAGE, 4), ("short", 4 * MESSAGE - 1, 3)] {
        let target = namespace.queue_with(name, settings().max_size(room));
        let source = namespace.queue_with(&format!("to-{name}"), to(name));
        for id in ["1", "2", "3", "4"] {
            try_send(&source.sender().unwrap(), message(id)).unwrap();
        }
        assert_eq!((target.counts().active, source.counts().dead_lettered), (taken, 4 - taken));
        assert_eq!(target.counts().size, taken as u64 * MESSAGE);
        assert_eq!(reasons(&source), vec!["ForwardTargetUnavailable"; 4 - taken]);
        for dead in peek(&source.dead_letter()) {
            let description = why(&dead).1;
            assert!(description.contains(&format!("forwarded to {name}: send: the entity is full")), "{description}");
        }
    }
}

/// Rules: T-60, S-96.
#[test]
fn a_target_that_refuses_the_message_is_unavailable() {
    let namespace = Namespace::new();
    let small = namespace.queue_with("small", settings().max_message_size(100));
    let to_small = namespace.queue_with("to-small", to("small"));
    send(&to_small, "x".repeat(101));
    send(&to_small, "fits");
    assert_eq!((bodies(&small), counts(&to_small)), (vec!["fits".to_owned()], [0, 0, 0, 0, 1]));

    let sessions = namespace.queue_with("sessions", settings().requires_session(true));
    let to_sessions = namespace.queue_with("to-sessions", to("sessions"));
    send(&to_sessions, "without");
    try_send(&to_sessions.sender().unwrap(), Message::builder().session_id("s").build("with").unwrap()).unwrap();
    assert_eq!((bodies(&sessions), counts(&to_sessions)), (vec!["with".to_owned()], [0, 0, 0, 0, 1]));
    for (source, expected) in
        [(&to_small, "to small: send: the message is too large"), (&to_sessions, "to sessions: send: ")]
    {
        let dead = peek(&source.dead_letter());
        let (reason, description) = why(&dead[0]);
        assert_eq!(reason, "ForwardTargetUnavailable");
        assert!(description.contains(expected), "{description}");
    }
}

/// Rules: T-60.
#[test]
fn a_topic_can_be_the_target() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let (first, second) = (subscribe(&topic, "first"), subscribe(&topic, "second"));
    let source = namespace.queue_with("source", to("events"));
    publish(&topic, "before");
    send(&source, "a");
    assert_eq!([bodies(&first), bodies(&second)], [["before", "a"], ["before", "a"]]);
    assert_eq!(facts(&peek(&first)[1]).enqueued_sequence_number.get(), 1);
}

/// Rules: T-60.
#[test]
fn a_subscription_forwards_its_copies() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let topic = namespace.topic("events");
    let kept = subscribe(&topic, "kept");
    publish(&topic, "early");
    let settings = SubscriptionSettings::default().forward_to("target");
    let forwards = subscribe_with(&topic, "forwards", settings);
    publish(&topic, "a");
    assert_eq!((bodies(&kept), counts(&forwards)), (vec!["early".into(), "a".into()], [0; 5]));
    // The number at its first entity is the topic's, not the subscription's.
    let forwarded = &peek(&target)[0];
    assert_eq!((text(forwarded), facts(forwarded).enqueued_sequence_number.get()), ("a", 2));
}

/// `q1` forwards to `q2`, and so on; `q{last}` keeps what it gets.
fn chain(namespace: &Namespace, last: usize) -> Vec<Queue> {
    let mut queues = vec![namespace.queue(&format!("q{last}"))];
    for number in (1..last).rev() {
        queues.insert(0, namespace.queue_with(&format!("q{number}"), to(&format!("q{}", number + 1))));
    }
    queues
}

/// Rules: T-61.
#[test]
fn four_forwards_succeed() {
    let namespace = Namespace::new();
    let queues = chain(&namespace, 5);
    send(&queues[0], "a");
    let held: Vec<_> = queues.iter().map(counts).collect();
    assert_eq!(held, [[0; 5], [0; 5], [0; 5], [0; 5], [1, 0, 0, 0, 0]]);
}

/// Rules: T-61, C-09, S-94.
#[test]
fn the_fifth_forward_dead_letters_where_it_were_due() {
    let namespace = Namespace::new();
    let queues = chain(&namespace, 6);
    send(&queues[0], "a");
    let held: Vec<_> = queues.iter().map(counts).collect();
    assert_eq!(held, [[0; 5], [0; 5], [0; 5], [0; 5], [0, 0, 0, 0, 1], [0; 5]]);
    let dead = receive(&queues[4].dead_letter()).message;
    assert_eq!(
        (dead.dead_letter_reason(), dead.dead_letter_description()),
        (
            Some("MaxTransferHopCountExceeded"),
            Some("The message was forwarded 4 times, the maximum, and is not forwarded to q6.")
        )
    );
    assert_eq!(facts(&dead).enqueued_sequence_number.get(), 1);
    // A message that enters further down the chain has its own hops.
    send(&queues[1], "b");
    assert_eq!(bodies(&queues[5]), ["b"]);
}

/// Rules: T-61, C-09.
#[test]
fn a_circle_of_forwards_ends_in_a_dead_letter() {
    let namespace = Namespace::new();
    let first = namespace.queue("first");
    let second = namespace.queue_with("second", to("first"));
    namespace.broker.update_queue("first", to("second")).unwrap();
    let ((), log) = captured(|| send(&first, "a"));
    assert_eq!((counts(&first), counts(&second)), ([0, 0, 0, 0, 1], [0; 5]));
    assert_eq!(reasons(&first), ["MaxTransferHopCountExceeded"]);
    let lines: Vec<_> = log.lines().filter(|line| line.starts_with("WARN")).collect();
    assert!(lines.len() == 1 && lines[0].contains("forwarded too often"), "{log}");
    assert!(lines[0].contains("entity=first") && lines[0].contains("target_entity=second"), "{log}");
    send(&second, "b");
    assert_eq!((counts(&first), counts(&second)), ([0, 0, 0, 0, 1], [0, 0, 0, 0, 1]));
}

/// Rules: T-61.
#[test]
fn topics_count_as_any_entity() {
    // events -> s -> events: each copy is a forward of its own.
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let circle = subscribe_with(&topic, "circle", SubscriptionSettings::default().forward_to("events"));
    let kept = subscribe(&topic, "kept");
    publish(&topic, "a");
    assert_eq!((counts(&circle), counts(&kept)), ([0, 0, 0, 0, 1], [5, 0, 0, 0, 0]));
    assert_eq!(reasons(&circle), ["MaxTransferHopCountExceeded"]);
}

/// Rules: T-61.
#[test]
fn forwards_of_dead_letters_count() {
    // q1 -> q2 -> q3 -> q4, and from its dead letters to q5 -> q6.
    let namespace = Namespace::new();
    let q6 = namespace.queue("q6");
    let q5 = namespace.queue_with("q5", to("q6"));
    let q4 = namespace.queue_with("q4", dead_to("q5"));
    namespace.queue_with("q3", to("q4"));
    namespace.queue_with("q2", to("q3"));
    let q1 = namespace.queue_with("q1", to("q2"));
    send(&q1, "a");
    kill(&q4, "no");
    assert_eq!((counts(&q4), counts(&q5), counts(&q6)), ([0; 5], [0, 0, 0, 0, 1], [0; 5]));
    assert_eq!(reasons(&q5), ["MaxTransferHopCountExceeded"]);
}

/// Rules: T-61, T-63.
#[test]
fn a_dead_letter_after_four_forwards_stays() {
    let namespace = Namespace::new();
    let grave = namespace.queue("grave");
    let queues = chain(&namespace, 5);
    namespace.broker.update_queue("q5", dead_to("grave")).unwrap();
    send(&queues[0], "a");
    kill(&queues[4], "no");
    namespace.advance(2 * RETRY);
    assert_eq!((counts(&queues[4]), counts(&grave)), ([0, 0, 0, 0, 1], [0; 5]));
    // It died of what its receiver said, not of its hops.
    assert_eq!(reasons(&queues[4]), ["HandlerPermanent"]);
}

/// Rules: Z-35, T-63.
#[test]
fn victims_of_the_hop_limit_are_not_forwarded() {
    let namespace = Namespace::new();
    let grave = namespace.queue("grave");
    let queues = chain(&namespace, 6);
    namespace.broker.update_queue("q5", to("q6").forward_dead_letters_to("grave")).unwrap();
    send(&queues[0], "a");
    namespace.advance(2 * RETRY);
    assert_eq!((counts(&queues[4]), counts(&grave)), ([0, 0, 0, 0, 1], [0; 5]));
}

/// Rules: Z-35.
/// Only the broker's own verdict keeps a dead letter where it is.
#[test]
fn an_application_that_names_the_same_reason_forwards() {
    let namespace = Namespace::new();
    let grave = namespace.queue("grave");
    let source = namespace.queue_with("source", dead_to("grave"));
    for reason in [
        DeadLetterReason::MaxTransferHopCountExceeded,
        DeadLetterReason::Application("MaxTransferHopCountExceeded".into()),
    ] {
        send(&source, "a");
        receive(&source).settle(Disposition::dead_letter(reason, "")).ok();
    }
    assert_eq!((counts(&source), counts(&grave)), ([0; 5], [2, 0, 0, 0, 0]));
}

/// Rules: T-62, M-05.
#[test]
fn the_target_numbers_anew_and_the_first_number_stays() {
    let namespace = Namespace::new();
    let last = namespace.queue("last");
    let middle = namespace.queue_with("middle", to("last"));
    let first = namespace.queue("first");
    send(&first, "1");
    send(&first, "2");
    send(&last, "own");
    receive(&first).complete().ok();
    receive(&first).abandon().ok();
    assert_eq!(facts(&peek(&first)[0]).delivery_count, 1);
    namespace.advance(7 * MS);
    namespace.broker.update_queue("first", to("middle")).unwrap();
    let forwarded = &peek(&last)[1];
    assert_eq!((text(forwarded), facts(forwarded).sequence_number.get()), ("2", 2));
    assert_eq!(facts(forwarded).enqueued_sequence_number.get(), 2);
    assert_eq!(facts(forwarded).enqueued_time, START.saturating_add(7 * MS));
    assert_eq!(facts(forwarded).delivery_count, 0);
    assert_eq!(facts(&peek(&last)[0]).enqueued_sequence_number.get(), 0);
    assert_eq!(facts(&receive(&last).message).delivery_count, 1);
    // The one that passed through used up the number 1.
    namespace.broker.update_queue("middle", settings()).unwrap();
    send(&middle, "next");
    assert_eq!(numbers(&middle), [2]);
}

/// Rules: T-62.
#[test]
fn a_message_sent_on_by_its_receiver_was_not_forwarded() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let source = namespace.queue_with("source", to("target"));
    send(&source, "a");
    let message = receive(&target).message;
    assert_eq!(facts(&message).enqueued_sequence_number.get(), 1);
    try_send(&source.sender().unwrap(), message).unwrap();
    assert_eq!(facts(&peek(&target)[1]).enqueued_sequence_number.get(), 2);
}

/// Rules: T-63, M-03, C-06.
#[test]
fn a_forwarded_dead_letter_tells_where_and_why_it_died() {
    let namespace = Namespace::new();
    let grave = namespace.queue("grave");
    let source = namespace.queue("Source");
    send(&source, "a");
    kill(&source, "the reason of it");
    assert_eq!(peek(&source.dead_letter())[0].dead_letter_source(), None);
    namespace.broker.update_queue("source", dead_to("grave")).unwrap();
    assert_eq!((counts(&source), counts(&grave)), ([0; 5], [1, 0, 0, 0, 0]));
    let dead = receive(&grave).message;
    assert_eq!(why(&dead), ("HandlerPermanent", "the reason of it"));
    assert_eq!(dead.dead_letter_source(), Some("Source"));
    assert_eq!(facts(&dead).enqueued_sequence_number.get(), 1);
    assert!(!facts(&dead).dead_lettered);
    assert_eq!(facts(&dead).delivery_count, 1);
}

/// Rules: T-63, C-06.
#[test]
fn the_source_is_kept_by_later_forwards_and_replaced_by_a_later_death() {
    let namespace = Namespace::new();
    let end = namespace.queue("end");
    let last = namespace.queue_with("last", dead_to("end"));
    namespace.queue_with("middle", to("last"));
    let first = namespace.queue_with("first", dead_to("middle"));
    send(&first, "a");
    kill(&first, "one");
    assert_eq!(peek(&last)[0].dead_letter_source(), Some("first"));
    kill(&last, "two");
    let dead = receive(&end).message;
    assert_eq!((dead.dead_letter_source(), why(&dead)), (Some("last"), ("HandlerPermanent", "two")));
}

/// Rules: M-03, C-06.
#[test]
fn a_dead_letter_that_dies_again_has_no_source() {
    let namespace = Namespace::new();
    let grave = namespace.queue("grave");
    let source = namespace.queue_with("source", dead_to("grave"));
    send(&source, "a");
    kill(&source, "one");
    assert_eq!(peek(&grave)[0].dead_letter_source(), Some("source"));
    kill(&grave, "two");
    let dead = receive(&grave.dead_letter()).message;
    assert_eq!((dead.dead_letter_source(), why(&dead)), (None, ("HandlerPermanent", "two")));
}

/// Rules: T-63.
#[test]
fn a_subscription_forwards_its_dead_letters_whatever_they_died_of() {
    let namespace = Namespace::new();
    let grave = namespace.queue("grave");
    let topic = namespace.topic("events");
    let settings = SubscriptionSettings::default()
        .forward_dead_letters_to("grave")
        .dead_letter_on_expiration(true)
        .max_delivery_count(1);
    let subscription = subscribe_with(&topic, "s", settings);
    let sender = topic.sender();
    try_send(&sender, Message::builder().time_to_live(SECOND).build("expired").unwrap()).unwrap();
    namespace.advance(SECOND);
    publish(&topic, "abandoned");
    receive(&subscription).abandon().ok();
    let reasons: Vec<_> = peek(&grave).iter().map(|dead| dead.dead_letter_reason().unwrap().to_owned()).collect();
    assert_eq!(reasons, ["TTLExpiredException", "MaxDeliveryCountExceeded"]);
    assert!(peek(&grave).iter().all(|dead| dead.dead_letter_source() == Some("events/Subscriptions/s")));
    assert_eq!(counts(&subscription), [0; 5]);
}

/// Rules: T-65.
#[test]
fn messages_released_by_an_update_are_forwarded_in_order_of_acceptance() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let source = namespace.queue("source");
    for body in ["a", "b", "c"] {
        send(&source, body);
    }
    let held = try_take(&source, 2).unwrap();
    held[0].lease.renew().ended().unwrap();
    // With another lock duration the locks are given back, that of the second message first.
    namespace.broker.update_queue("source", to("target").lock_duration(2 * LOCK)).unwrap();
    assert_eq!(bodies(&target), ["a", "b", "c"]);
}

/// Rules: T-65, S-75.
#[test]
fn sessions_that_end_at_one_instant_do_so_in_the_order_of_their_accepts() {
    let namespace = Namespace::new();
    let grave = namespace.queue("grave");
    let settings = dead_to("grave").requires_session(true).max_delivery_count(1);
    let source = namespace.queue_with("source", settings);
    let accept = |id: &'static str| {
        let message = Message::builder().session_id(id).build(id).unwrap();
        try_send(&source.sender().unwrap(), message).unwrap();
        let mut session = source.accept_session(id).unwrap();
        let taken = take_of(&mut session);
        (session, taken)
    };
    // The third session takes the place that the first has left.
    let (gone, taken) = accept("gone");
    let _first = accept("a");
    taken.complete().ok();
    gone.close().unwrap();
    let _second = accept("b");
    namespace.advance(LOCK);
    assert_eq!(bodies(&grave), ["a", "b"]);
}

fn take_of(session: &mut SessionReceiver) -> Delivery<QueueLease> {
    let mut taken = Vec::new();
    let _ = session.poll_receive(&mut Context::from_waker(Waker::noop()), 1, &mut taken);
    taken.pop().expect("a message is available")
}

/// Rules: T-65, S-37.
#[test]
fn messages_that_expire_together_are_forwarded_in_order_of_acceptance() {
    let namespace = Namespace::new();
    let grave = namespace.queue("grave");
    let source = namespace.queue_with("source", dead_to("grave").dead_letter_on_expiration(true));
    let mortal = |body| Message::builder().time_to_live(SECOND).build(body).unwrap();
    // The third takes the place that the first has left.
    send(&source, "gone");
    try_send(&source.sender().unwrap(), mortal("a")).unwrap();
    receive(&source).complete().ok();
    try_send(&source.sender().unwrap(), mortal("b")).unwrap();
    namespace.advance(SECOND);
    assert_eq!(bodies(&grave), ["a", "b"]);
}

/// Rules: T-63.
#[test]
fn a_message_that_cannot_be_forwarded_is_forwarded_as_a_dead_letter() {
    let namespace = Namespace::new();
    let grave = namespace.queue("grave");
    namespace.queue_with("target", settings().status(Status::Disabled));
    let source = namespace.queue_with("source", to("target").forward_dead_letters_to("grave"));
    send(&source, "a");
    assert_eq!((counts(&source), counts(&grave)), ([0; 5], [1, 0, 0, 0, 0]));
    assert_eq!(peek(&grave)[0].dead_letter_reason(), Some("ForwardTargetUnavailable"));
}

/// Rules: T-64.
#[test]
fn a_dead_letter_waits_for_a_target_that_takes_sends() {
    for status in [Status::Disabled, Status::SendDisabled] {
        let namespace = Namespace::new();
        let grave = namespace.queue_with("grave", settings().status(status));
        let source = namespace.queue_with("source", dead_to("grave"));
        send(&source, "a");
        kill(&source, "no");
        assert_eq!((counts(&source), counts(&grave)), ([0, 0, 0, 0, 1], [0; 5]));
        assert_eq!(peek(&source.dead_letter())[0].dead_letter_source(), None);
        namespace.advance(RETRY);
        assert_eq!((counts(&source), counts(&grave)), ([0, 0, 0, 0, 1], [0; 5]));
        namespace.broker.update_queue("grave", settings()).unwrap();
        namespace.advance(almost(RETRY));
        assert_eq!((counts(&source), counts(&grave)), ([0, 0, 0, 0, 1], [0; 5]));
        namespace.advance(MS);
        assert_eq!((counts(&source), counts(&grave)), ([0; 5], [1, 0, 0, 0, 0]));
        assert_eq!(facts(&peek(&grave)[0]).enqueued_time, START.saturating_add(2 * RETRY));
    }
}

/// Rules: T-64.
#[test]
fn a_dead_letter_waits_for_a_target_that_is_missing_or_full() {
    let namespace = Namespace::new();
    let full = namespace.queue_with("grave", settings().max_size(1_024).max_message_size(1_024));
    let source = namespace.queue_with("source", dead_to("grave"));
    send(&full, "x".repeat(600));
    send(&source, "a");
    kill(&source, "no");
    assert_eq!((counts(&source), bodies(&full).len()), ([0, 0, 0, 0, 1], 1));
    namespace.broker.delete("grave").unwrap();
    namespace.advance(RETRY);
    assert_eq!(counts(&source), [0, 0, 0, 0, 1]);
    let grave = namespace.queue("grave");
    namespace.advance(RETRY);
    assert_eq!((counts(&source), bodies(&grave)), ([0; 5], vec!["a".to_owned()]));
}

/// Rules: T-64.
/// One that the target has no room for does not keep a smaller one.
#[test]
fn a_dead_letter_that_does_not_fit_keeps_no_smaller_one() {
    let namespace = Namespace::new();
    let closed = settings().max_size(1_024).status(Status::SendDisabled);
    let grave = namespace.queue_with("grave", closed.clone());
    let source = namespace.queue_with("source", dead_to("grave"));
    for (body, size) in [("a", 200), ("b", 900), ("c", 100), ("d", 250), ("e", 0)] {
        send(&source, body.repeat(size));
        kill(&source, "no");
    }
    namespace.broker.update_queue("grave", closed.status(Status::Active)).unwrap();
    namespace.advance(RETRY);
    let initials = |queue: &Queue| bodies(queue).iter().map(|body| body.chars().next()).collect::<Vec<_>>();
    assert_eq!(initials(&grave), [Some('a'), Some('c')]);
    assert_eq!(initials(&source.dead_letter()), [Some('b'), Some('d'), None]);
    receive(&grave).complete().ok();
    namespace.advance(RETRY);
    assert_eq!(initials(&source.dead_letter()), [Some('b'), None]);
}

/// Rules: T-64.
#[test]
fn a_dead_letter_that_waits_can_be_received_there() {
    let namespace = Namespace::new();
    let grave = namespace.queue_with("grave", settings().status(Status::Disabled));
    let source = namespace.queue_with("source", dead_to("grave"));
    send(&source, "a");
    send(&source, "b");
    kill(&source, "no");
    kill(&source, "no");
    let held = receive(&source.dead_letter());
    namespace.broker.update_queue("grave", settings()).unwrap();
    namespace.advance(almost(LOCK));
    held.lease.renew().ok();
    namespace.advance(MS);
    // The one that is locked stays; it goes after its lock.
    assert_eq!((bodies(&grave), counts(&source.dead_letter())), (vec!["b".to_owned()], [0, 1, 0, 0, 0]));
    held.complete().ok();
    assert_eq!(counts(&source), [0; 5]);
}

/// Rules: T-65.
#[test]
fn an_entity_with_sessions_cannot_forward() {
    let namespace = Namespace::new();
    namespace.queue("target");
    let sessions = settings().requires_session(true);
    let refused = |settings| namespace.broker.create_queue("source", settings).unwrap_err().kind();
    assert_eq!(refused(sessions.clone().forward_to("target")), ErrorKind::InvalidOperation);
    namespace.queue_with("source", sessions.clone());
    let updated = namespace.broker.update_queue("source", sessions.clone().forward_to("target"));
    assert_eq!(updated.unwrap_err().kind(), ErrorKind::InvalidOperation);
    assert_eq!(namespace.broker.queue("source").unwrap().settings().unwrap().forward_to, None);
    // Its dead letters have no sessions.
    namespace.broker.update_queue("source", sessions.forward_dead_letters_to("target")).unwrap();
}

/// Rules: T-65.
#[test]
fn a_source_is_never_idle() {
    let idle = Duration::from_secs(300);
    let namespace = Namespace::new();
    namespace.queue("target");
    namespace.queue_with("source", to("target").auto_delete_on_idle(idle));
    namespace.queue_with("idle", settings().auto_delete_on_idle(idle));
    namespace.advance(2 * idle);
    assert_eq!(namespace.broker.queue("idle").unwrap_err().kind(), ErrorKind::EntityNotFound);
    namespace.broker.queue("source").unwrap();
}

/// Rules: T-65.
#[test]
fn order_is_kept() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let source = namespace.queue("source");
    let ids: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for id in &ids {
        send(&source, id.clone());
    }
    namespace.broker.update_queue("source", to("target")).unwrap();
    assert_eq!(bodies(&target), ids);
}

/// Rules: T-66.
#[test]
fn session_and_partition_key_go_along() {
    let namespace = Namespace::new();
    let target = namespace.queue_with("target", settings().partitioned(true));
    let other = namespace.queue_with("other", settings().partitioned(true));
    let source = namespace.queue_with("source", to("target"));
    for key in ["a", "b", "c", "d", "e"] {
        let message = Message::builder().partition_key(key).build(key).unwrap();
        try_send(&source.sender().unwrap(), message.clone()).unwrap();
        try_send(&other.sender().unwrap(), message).unwrap();
    }
    let keys = |queue: &Queue| -> Vec<_> {
        let seen = peek(queue);
        seen.iter().map(|m| (m.partition_key().unwrap().to_owned(), facts(m).partition_id.unwrap())).collect()
    };
    assert_eq!(keys(&target).len(), 5);
    assert_eq!(keys(&target), keys(&other));
    try_send(&source.sender().unwrap(), Message::builder().session_id("s").build("s").unwrap()).unwrap();
    assert!(peek(&target).iter().any(|message| message.session_id() == Some("s")));
}

/// Rules: T-67.
#[test]
fn the_target_detects_duplicates() {
    let namespace = Namespace::new();
    let target = namespace.queue_with("target", settings().duplicate_detection(60 * SECOND));
    let source = namespace.queue_with("source", to("target"));
    for id in ["a", "a", "b"] {
        try_send(&source.sender().unwrap(), with_id(id)).unwrap();
    }
    assert_eq!((bodies(&target), counts(&source)), (vec!["a".into(), "b".into()], [0; 5]));
    try_send(&target.sender().unwrap(), with_id("b")).unwrap();
    assert_eq!(bodies(&target).len(), 2);
}

/// Rules: Z-36.
#[test]
fn the_time_to_live_begins_anew_in_the_target() {
    let namespace = Namespace::new();
    let grave = namespace.queue("grave");
    let source = namespace.queue_with("source", dead_to("grave").dead_letter_on_expiration(true));
    try_send(&source.sender().unwrap(), Message::builder().time_to_live(SECOND).build("a").unwrap()).unwrap();
    namespace.advance(SECOND);
    assert_eq!((counts(&source), counts(&grave)), ([0; 5], [1, 0, 0, 0, 0]));
    assert_eq!(facts(&peek(&grave)[0]).expires_at, START.saturating_add(2 * SECOND));
    namespace.advance(almost(SECOND));
    assert_eq!(counts(&grave), [1, 0, 0, 0, 0]);
    namespace.advance(MS);
    assert_eq!(counts(&grave), [0; 5]);
}

/// Rules: Z-36.
#[test]
fn an_unseen_expiry_counts_from_its_instant() {
    let namespace = Namespace::new();
    let grave = namespace.queue_with("grave", settings().dead_letter_on_expiration(true));
    let source = namespace.queue_with("source", dead_to("grave").dead_letter_on_expiration(true));
    try_send(&source.sender().unwrap(), Message::builder().time_to_live(SECOND).build("a").unwrap()).unwrap();
    namespace.advance(5 * SECOND);
    assert_eq!((counts(&source), counts(&grave)), ([0; 5], [0, 0, 0, 0, 1]));
    assert_eq!(facts(&peek(&grave.dead_letter())[0]).enqueued_time, START.saturating_add(SECOND));
}

/// Rules: V-14.
#[test]
fn an_entity_does_not_forward_to_itself() {
    let namespace = Namespace::new();
    for settings in [to("ORDERS"), dead_to("/orders/")] {
        let refused = namespace.broker.create_queue("orders", settings.clone()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(namespace.broker.queue("orders").is_err());
        namespace.queue("orders");
        assert_eq!(namespace.broker.update_queue("orders", settings).unwrap_err().kind(), ErrorKind::InvalidArgument);
        namespace.broker.delete("orders").unwrap();
    }
}

/// Rules: S-10.
#[test]
fn a_target_is_a_queue_or_a_topic_that_is_there() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    subscribe(&topic, "s");
    namespace.queue("there");
    for (target, refused) in [
        ("missing", Some(ErrorKind::EntityNotFound)),
        ("THERE", None),
        ("events", None),
        ("events/Subscriptions/s", Some(ErrorKind::InvalidOperation)),
        ("there/$deadletterqueue", Some(ErrorKind::EntityNotFound)),
        ("a//b", Some(ErrorKind::InvalidArgument)),
    ] {
        for settings in [to(target), dead_to(target)] {
            let created = namespace.broker.create_queue("source", settings.clone());
            assert_eq!(created.map_err(|error| error.kind()).err(), refused, "{target}");
            let _ = namespace.broker.delete("source");
            let made = topic.create_subscription("forwards", {
                let mut copy = SubscriptionSettings::default();
                copy.forward_to = settings.forward_to.clone();
                copy.forward_dead_letters_to = settings.forward_dead_letters_to.clone();
                copy
            });
            assert_eq!(made.map_err(|error| error.kind()).err(), refused, "{target}");
            let _ = namespace.broker.delete("events/Subscriptions/forwards");
        }
    }
}

/// Rules: T-63.
/// A message expires at the source without a call on the broker: a timer is set for it, as a receiver waits at the target.
#[tokio::test(start_paused = true)]
async fn a_receiver_at_the_target_of_dead_letters_is_woken_by_an_expiry_at_the_source() {
    let broker = Broker::new();
    let grave = broker.create_queue("grave", settings()).unwrap();
    let source = broker.create_queue("source", dead_to("grave").dead_letter_on_expiration(true)).unwrap();
    let mut receiver = grave.receiver();
    let waiting = tokio::spawn(async move { receiver.receive().await.unwrap() });
    yield_now().await;
    let began = Instant::now();
    try_send(&source.sender().unwrap(), Message::builder().time_to_live(3 * SECOND).build("a").unwrap()).unwrap();
    let delivery = waiting.await.unwrap();
    assert_eq!((text(&delivery.message), began.elapsed()), ("a", 3 * SECOND));
}

/// Rules: T-60.
#[tokio::test(start_paused = true)]
async fn a_receiver_at_the_target_is_woken_by_an_activation_at_the_source() {
    let broker = Broker::new();
    let target = broker.create_queue("target", settings()).unwrap();
    let source = broker.create_queue("source", to("target")).unwrap();
    let mut receiver = target.receiver();
    let began = Instant::now();
    let waiting = tokio::spawn(async move { receiver.receive().await.unwrap() });
    yield_now().await;
    // When now is, in UTC, tells a message that was accepted now.
    let probe = broker.create_queue("probe", settings()).unwrap();
    send(&probe, "now");
    let at = facts(&peek(&probe)[0]).enqueued_time.saturating_add(2 * SECOND);
    source.schedule(vec![Message::new("a")], at).wait().unwrap();
    let delivery = waiting.await.unwrap();
    assert_eq!((text(&delivery.message), began.elapsed()), ("a", 2 * SECOND));
}

/// Rules: T-64.
#[tokio::test(start_paused = true)]
async fn a_receiver_at_the_target_is_woken_when_a_dead_letter_is_tried_again() {
    let broker = Broker::new();
    let grave = broker.create_queue("grave", settings().status(Status::SendDisabled)).unwrap();
    let source = broker.create_queue("source", dead_to("grave")).unwrap();
    let mut receiver = grave.receiver();
    let waiting = tokio::spawn(async move { receiver.receive().await.unwrap() });
    yield_now().await;
    send(&source, "a");
    let began = Instant::now();
    kill(&source, "no");
    broker.update_queue("grave", settings()).unwrap();
    let delivery = waiting.await.unwrap();
    assert_eq!((text(&delivery.message), began.elapsed()), ("a", RETRY));
}

/// Rules: T-60.
#[tokio::test(start_paused = true)]
async fn a_send_to_the_source_wakes_a_receiver_at_the_target() {
    let broker = Broker::new();
    let target = broker.create_queue("target", settings()).unwrap();
    let source = broker.create_queue("source", to("target")).unwrap();
    let mut receiver = target.receiver();
    let mut waiting = tokio_test::task::spawn(receiver.receive());
    assert!(waiting.poll().is_pending());
    send(&source, "a");
    assert!(waiting.is_woken() && waiting.poll().is_ready());
}

/// Rules: T-10.
#[test]
fn the_target_shortens_what_the_source_had_shortened() {
    let hour = 3_600 * SECOND;
    for (source, own, target, effective) in [
        (20 * SECOND, hour, hour, 20 * SECOND),
        (20 * SECOND, 10 * SECOND, hour, 10 * SECOND),
        (20 * SECOND, hour, 5 * SECOND, 5 * SECOND),
    ] {
        let namespace = Namespace::new();
        let queue = namespace.queue_with("target", settings().default_time_to_live(target));
        let from = namespace.queue_with("source", settings().default_time_to_live(source));
        // It dies at the source when half of its time is over, and lives anew from there on.
        let settings = settings().default_time_to_live(source).forward_dead_letters_to("target");
        namespace.broker.update_queue("source", settings).unwrap();
        let message = Message::builder().time_to_live(own).build("a").unwrap();
        try_send(&from.sender().unwrap(), message).unwrap();
        let wait = own.min(source) / 2;
        namespace.advance(wait);
        receive(&from).settle(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "no")).ok();
        let copy = &peek(&queue)[0];
        assert_eq!(copy.time_to_live(), Some(effective));
        assert_eq!(facts(copy).expires_at, START.saturating_add(wait + effective));
        namespace.advance(effective - MS);
        assert_eq!(counts(&queue)[0], 1);
        namespace.advance(MS);
        assert_eq!(counts(&queue)[0], 0);
    }
}

/// Rules: T-64.
/// Nobody called for a hundred years, in which it would have been tried 315 million times.
#[test]
fn forwards_due_between_calls_are_tried_once() {
    let namespace = Namespace::new();
    let target = namespace.queue_with("target", settings().status(Status::SendDisabled));
    let source = namespace.queue_with("source", dead_to("target"));
    send(&source, "a");
    kill(&source, "no");
    namespace.advance(Duration::from_secs(100 * 365 * 24 * 3_600));
    assert_eq!(counts(&source), [0, 0, 0, 0, 1]);
    namespace.broker.update_queue("target", settings()).unwrap();
    namespace.advance(almost(RETRY));
    assert_eq!(counts(&target), [0; 5]);
    namespace.advance(MS);
    assert_eq!((counts(&source), counts(&target)), ([0; 5], [1, 0, 0, 0, 0]));
}

/// Rules: T-62, T-64.
#[test]
fn an_entity_that_cannot_forward_says_so_once_a_minute() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let queue = namespace.queue_with("orders", to("target"));
    let dead = namespace.queue_with("failed", dead_to("target"));
    let closed = || settings().status(Status::SendDisabled);
    namespace.broker.update_queue("target", closed()).unwrap();
    let send_both = || {
        send(&queue, "a");
        send(&dead, "b");
        kill(&dead, "no");
        namespace.broker.entities().len()
    };
    let warnings = |log: &str| log.lines().filter(|line| line.starts_with("WARN")).count();
    let (_, log) = captured(|| (send_both(), send_both()));
    assert_eq!(warnings(&log), 2, "{log}");
    assert!(log.contains("messages cannot be forwarded") && log.contains("dead letters cannot be forwarded"), "{log}");
    assert!(log.contains("entity=orders") && log.contains("target_entity=target"), "{log}");
    namespace.advance(60 * SECOND);
    let (_, log) = captured(send_both);
    assert_eq!(warnings(&log), 2, "{log}");
    assert!(peek(&target).is_empty());
}
