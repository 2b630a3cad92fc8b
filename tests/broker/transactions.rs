//! Transactions: everything at the commit, or nothing at all.

use std::{
    task::{Context, Waker},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::{QueueSettings, Status, TopicSettings},
    broker::{Queue, QueueLease, SessionReceiver, Topic, Transaction},
    message::SequenceNumber,
    settlement::DeadLetterReason,
    transport::{Delivery, ErrorKind, Lease, Receiver, SendError},
};

use crate::{
    log::captured,
    namespace::{
        Namespace, almost, bodies, counts, numbers, peek, publish, receive, send, try_send, try_take, with_id,
    },
    support::{Ended, LOCK, MS, START, facts, settings, text, why},
    topics::subscribe,
};

const SECOND: Duration = Duration::from_secs(1);
/// How long a transaction may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Locks that outlast a transaction.
fn patient() -> QueueSettings {
    settings().lock_duration(Duration::from_secs(300))
}

fn dead() -> Disposition {
    Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "no")
}

/// Adds a send that is not refused yet.
fn add(transaction: &mut Transaction, queue: &Queue, body: &'static str) {
    transaction.send(&queue.sender().unwrap(), Message::new(body)).unwrap();
}

/// Rules: T-70, T-71.
#[test]
fn a_commit_does_all_of_it() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", patient());
    for body in ["complete", "abandon", "dead-letter", "defer", "renew"] {
        send(&queue, body);
    }
    let mut held = try_take(&queue, 5).unwrap();
    let renewed = held.pop().unwrap();
    namespace.advance(SECOND);

    let mut transaction = namespace.broker.transaction();
    for disposition in [Disposition::DEFER, dead(), Disposition::ABANDON, Disposition::Complete] {
        transaction.settle(held.pop().unwrap().lease, disposition).unwrap();
    }
    transaction.renew(&renewed.lease).unwrap();
    add(&mut transaction, &queue, "sent");
    transaction.schedule(&queue.sender().unwrap(), Message::new("scheduled"), START.saturating_add(LIMIT)).unwrap();
    assert_eq!(counts(&queue), [0, 5, 0, 0, 0]);

    let committed = transaction.commit().wait().unwrap();
    assert_eq!(committed.scheduled, [SequenceNumber::new(7)]);
    assert_eq!(counts(&queue), [2, 1, 1, 1, 1]);
    assert_eq!(bodies(&queue), ["abandon", "defer", "renew", "sent", "scheduled"]);
    let again = receive(&queue);
    assert_eq!((text(&again.message), facts(&again.message).delivery_count), ("abandon", 2));
    // The renewal counts from the commit.
    namespace.advance(almost(Duration::from_secs(300)));
    assert_eq!(counts(&queue)[1], 2);
    renewed.complete().ok();
    again.complete().ok();
}

/// Rules: T-70.
#[test]
fn cancellations_and_receives_stand_outside() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    let scheduled = queue.schedule(vec![Message::new("a")], START.saturating_add(LIMIT)).wait().unwrap();
    let mut transaction = namespace.broker.transaction();
    add(&mut transaction, &queue, "b");
    queue.cancel_scheduled(&scheduled).wait().unwrap();
    assert_eq!(counts(&queue), [0; 5]);
    assert!(try_take(&queue, 1).unwrap().is_empty());
    drop(transaction.rollback());
    assert_eq!(counts(&queue), [0; 5]);
}

/// Rules: T-71.
#[test]
fn nothing_is_seen_before_the_commit() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().duplicate_detection(60 * SECOND));
    let mut transaction = namespace.broker.transaction();
    let sender = queue.sender().unwrap();
    transaction.send(&sender, with_id("a")).unwrap();
    transaction.send(&sender, with_id("b")).unwrap();
    assert_eq!((counts(&queue), queue.counts().size), ([0; 5], 0));
    // An id that is not committed blocks nobody, and a send meanwhile has the next number.
    try_send(&sender, with_id("c")).unwrap();
    assert_eq!(numbers(&queue), [1]);
    namespace.advance(7 * MS);
    transaction.commit().wait().unwrap();
    assert_eq!((numbers(&queue), bodies(&queue)), (vec![1, 2, 3], vec!["c".into(), "a".into(), "b".into()]));
    assert_eq!(facts(&peek(&queue)[1]).enqueued_time, START.saturating_add(7 * MS));
    // From the commit on its ids count.
    try_send(&sender, with_id("a")).unwrap();
    assert_eq!(numbers(&queue), [1, 2, 3]);
}

/// Rules: T-71.
#[test]
fn an_id_sent_meanwhile_wins_over_one_of_the_transaction() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().duplicate_detection(60 * SECOND));
    let sender = queue.sender().unwrap();
    let mut transaction = namespace.broker.transaction();
    for (id, body) in [("a", "by the transaction"), ("b", "first"), ("b", "second")] {
        transaction.send(&sender, Message::builder().message_id(id).build(body).unwrap()).unwrap();
    }
    try_send(&sender, with_id("a")).unwrap();
    transaction.commit().wait().unwrap();
    assert_eq!(bodies(&queue), ["a", "first"]);
}

/// Rules: T-71.
#[test]
fn settlements_come_before_sends() {
    // The queue is full, and what the transaction completes makes the room for what it sends.
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().max_size(1_024));
    send(&queue, "x".repeat(600));
    let held = receive(&queue);
    let mut transaction = namespace.broker.transaction();
    transaction.send(&queue.sender().unwrap(), Message::new("y".repeat(600))).unwrap();
    transaction.settle(held.lease, Disposition::Complete).unwrap();
    transaction.commit().wait().unwrap();
    assert_eq!(numbers(&queue), [2]);
}

/// Rules: T-71.
#[test]
fn all_settlements_of_a_transaction_free_space_for_its_sends() {
    let namespace = Namespace::new();
    let body = || "x".repeat(600);
    let measured = namespace.queue("measured");
    send(&measured, body());
    send(&measured, body());
    let queue = namespace.queue_with("orders", settings().max_size(measured.counts().size));
    send(&queue, body());
    send(&queue, body());
    let mut transaction = namespace.broker.transaction();
    for delivery in try_take(&queue, 2).unwrap() {
        transaction.settle(delivery.lease, Disposition::Complete).unwrap();
        transaction.send(&queue.sender().unwrap(), Message::new(body())).unwrap();
    }
    transaction.commit().wait().unwrap();
    assert_eq!(numbers(&queue), [3, 4]);
}

/// Rules: T-71.
/// What a transaction that is refused leaves behind: nothing, in no respect.
#[test]
fn a_send_that_is_refused_at_the_end_undoes_everything() {
    let namespace = Namespace::new();
    let settings = patient().max_size(4_096).max_delivery_count(1).duplicate_detection(60 * SECOND);
    let queue = namespace.queue_with("orders", settings);
    let sender = queue.sender().unwrap();
    for id in ["complete", "abandon", "dead-letter", "defer", "renew", "not held"] {
        try_send(&sender, with_id(id)).unwrap();
    }
    let mut held = try_take(&queue, 5).unwrap();
    let renewed = held.pop().unwrap();
    namespace.advance(SECOND);
    let before = namespace.snapshot();

    let mut transaction = namespace.broker.transaction();
    for disposition in [Disposition::DEFER, dead(), Disposition::ABANDON, Disposition::Complete] {
        transaction.settle(held.pop().unwrap().lease, disposition).unwrap();
    }
    transaction.renew(&renewed.lease).unwrap();
    transaction.send(&sender, with_id("first")).unwrap();
    transaction.schedule(&sender, with_id("scheduled"), START.saturating_add(LIMIT)).unwrap();
    transaction.send(&sender, Message::new("x".repeat(4_000))).unwrap();
    let error = transaction.commit().wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
    assert_eq!(namespace.snapshot(), before);

    // Its locks are the locks that were, its ids are free, and its numbers too.
    let leases = error.into_leases();
    assert_eq!(leases.len(), 4);
    assert_eq!(namespace.snapshot(), before);
    for id in ["first", "scheduled"] {
        try_send(&sender, with_id(id)).unwrap();
    }
    assert_eq!(numbers(&queue), [1, 2, 3, 4, 5, 6, 7, 8]);
    // The renewal is undone as well.
    namespace.advance(almost(Duration::from_secs(299)));
    assert_eq!(counts(&queue), [3, 5, 0, 0, 0]);
    for lease in leases {
        lease.settle(Disposition::Complete).ok();
    }
    namespace.advance(MS);
    assert_eq!(counts(&queue), [3, 0, 0, 0, 1]);
    assert_eq!(renewed.complete().refused(), ErrorKind::MessageLockLost);
}

/// Rules: T-71.
#[test]
fn a_lock_that_is_lost_at_the_end_undoes_everything() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    send(&queue, "early");
    let early = receive(&queue);
    namespace.advance(SECOND);
    send(&queue, "late");
    let late = receive(&queue);
    let mut transaction = namespace.broker.transaction();
    add(&mut transaction, &queue, "sent");
    transaction.settle(late.lease, Disposition::Complete).unwrap();
    transaction.settle(early.lease, Disposition::Complete).unwrap();
    namespace.advance(LOCK.saturating_sub(SECOND));
    let before = namespace.snapshot();
    assert_eq!(counts(&queue), [1, 1, 0, 0, 0]);
    let error = transaction.commit().wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageLockLost);
    assert_eq!(namespace.snapshot(), before);
    // The other lock holds still.
    let held = error.into_leases().into_iter().map(|lease| lease.settle(Disposition::Complete).ended().is_ok());
    assert_eq!(held.filter(|settled| *settled).count(), 1);
    assert_eq!(bodies(&queue), ["early"]);
}

/// Rules: T-71.
#[test]
fn a_session_that_is_lost_at_the_end_undoes_everything() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().requires_session(true));
    let message = |body: &'static str| Message::builder().session_id("s").build(body).unwrap();
    try_send(&queue.sender().unwrap(), message("held")).unwrap();
    let mut session = queue.accept_session("s").unwrap();
    let held = take_one(&mut session);
    let mut transaction = namespace.broker.transaction();
    transaction.send(&queue.sender().unwrap(), message("sent")).unwrap();
    transaction.settle(held.lease, Disposition::Complete).unwrap();
    namespace.advance(LOCK);
    let before = namespace.snapshot();
    let error = transaction.commit().wait().unwrap_err();
    assert_eq!((error.kind(), namespace.snapshot()), (ErrorKind::SessionLockLost, before));
    assert_eq!(bodies(&queue), ["held"]);
}

/// Rules: T-70.
#[test]
fn a_message_of_a_session_is_settled_and_not_renewed_in_a_transaction() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().requires_session(true));
    for body in ["a", "b"] {
        try_send(&queue.sender().unwrap(), Message::builder().session_id("s").build(body).unwrap()).unwrap();
    }
    let mut session = queue.accept_session("s").unwrap();
    let (first, second) = (take_one(&mut session), take_one(&mut session));
    let mut transaction = namespace.broker.transaction();
    transaction.renew(&first.lease).unwrap();
    assert_eq!(transaction.commit().wait().unwrap_err().kind(), ErrorKind::InvalidOperation);
    let mut transaction = namespace.broker.transaction();
    transaction.settle(second.lease, Disposition::Complete).unwrap();
    transaction.settle(first.lease, dead()).unwrap();
    transaction.commit().wait().unwrap();
    assert_eq!(counts(&queue), [0, 0, 0, 0, 1]);
}

fn take_one(session: &mut SessionReceiver) -> Delivery<QueueLease> {
    let mut received = Vec::new();
    let polled = session.poll_receive(&mut Context::from_waker(Waker::noop()), 1, &mut received);
    assert!(polled.is_ready());
    received.pop().unwrap()
}

/// Rules: T-71.
#[test]
fn a_renewal_of_a_lost_lock_undoes_everything() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    send(&queue, "a");
    let held = receive(&queue);
    let mut transaction = namespace.broker.transaction();
    add(&mut transaction, &queue, "sent");
    transaction.renew(&held.lease).unwrap();
    namespace.advance(LOCK);
    assert_eq!(transaction.commit().wait().unwrap_err().kind(), ErrorKind::MessageLockLost);
    assert_eq!((bodies(&queue), numbers(&queue)), (vec!["a".to_owned()], vec![1]));
}

/// Rules: T-71.
#[test]
fn an_argument_that_breaks_a_rule_undoes_everything() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    send(&queue, "a");
    send(&queue, "b");
    let (first, second) = (receive(&queue), receive(&queue));
    let before = namespace.snapshot();
    let mut transaction = namespace.broker.transaction();
    transaction.settle(first.lease, Disposition::Complete).unwrap();
    let too_long = Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "x".repeat(4_097));
    transaction.settle(second.lease, too_long).unwrap();
    let error = transaction.commit().wait().unwrap_err();
    assert_eq!((error.kind(), namespace.snapshot()), (ErrorKind::InvalidArgument, before));
    for lease in error.into_leases() {
        lease.settle(Disposition::Complete).ok();
    }
    assert_eq!(counts(&queue), [0; 5]);
}

/// Rules: T-71.
#[test]
fn a_rollback_hands_the_locks_back() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().duplicate_detection(60 * SECOND));
    send(&queue, "held");
    let held = receive(&queue);
    let before = namespace.snapshot();
    let mut transaction = namespace.broker.transaction();
    transaction.settle(held.lease, Disposition::Complete).unwrap();
    transaction.send(&queue.sender().unwrap(), with_id("a")).unwrap();
    let mut leases = transaction.rollback();
    assert_eq!((leases.len(), namespace.snapshot()), (1, before));
    try_send(&queue.sender().unwrap(), with_id("a")).unwrap();
    assert_eq!(numbers(&queue), [1, 2]);
    leases.remove(0).settle(Disposition::Complete).ok();
    assert_eq!(counts(&queue), [1, 0, 0, 0, 0]);
}

/// Rules: T-71.
#[test]
fn a_transaction_that_is_dropped_abandons() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    send(&queue, "held");
    let held = receive(&queue);
    let mut transaction = namespace.broker.transaction();
    transaction.settle(held.lease, Disposition::Complete).unwrap();
    add(&mut transaction, &queue, "sent");
    drop(transaction);
    assert_eq!(counts(&queue), [1, 0, 0, 0, 0]);
    assert_eq!(facts(&receive(&queue).message).delivery_count, 2);
}

/// Rules: T-71.
#[test]
fn an_empty_transaction_does_nothing() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    send(&queue, "a");
    let before = namespace.snapshot();
    assert!(namespace.broker.transaction().commit().wait().unwrap().scheduled.is_empty());
    assert!(namespace.broker.transaction().rollback().is_empty());
    assert_eq!(namespace.snapshot(), before);
}

/// Rules: T-71.
#[test]
fn a_commit_wakes_who_waits() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _entered = runtime.enter();
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    let mut receiver = queue.receiver();
    let mut waiting = tokio_test::task::spawn(consign::transport::ReceiverExt::receive(&mut receiver));
    assert!(waiting.poll().is_pending());
    let mut transaction = namespace.broker.transaction();
    add(&mut transaction, &queue, "a");
    assert!(!waiting.is_woken());
    transaction.commit().wait().unwrap();
    assert!(waiting.is_woken() && waiting.poll().is_ready());
}

/// Rules: T-71.
#[test]
fn forwards_follow_a_commit_and_are_undone_with_it() {
    let namespace = Namespace::new();
    let target = namespace.queue("target");
    let grave = namespace.queue("grave");
    let queue = namespace.queue_with("orders", settings().max_size(1_024).forward_dead_letters_to("grave"));
    send(&queue, "x".repeat(600));
    let held = receive(&queue);
    let before = namespace.snapshot();
    let mut transaction = namespace.broker.transaction();
    transaction.settle(held.lease, dead()).unwrap();
    // Too much, even when what was dead-lettered has gone.
    transaction.send(&queue.sender().unwrap(), Message::new("y".repeat(800))).unwrap();
    let error = transaction.commit().wait().unwrap_err();
    assert_eq!((error.kind(), namespace.snapshot()), (ErrorKind::QuotaExceeded, before));

    let mut transaction = namespace.broker.transaction();
    transaction.settle(error.into_leases().remove(0), dead()).unwrap();
    transaction.commit().wait().unwrap();
    assert_eq!((counts(&queue), counts(&grave)), ([0; 5], [1, 0, 0, 0, 0]));
    namespace.broker.update_queue("orders", settings().forward_to("target")).unwrap();
    let mut transaction = namespace.broker.transaction();
    add(&mut transaction, &queue, "a");
    transaction.commit().wait().unwrap();
    assert_eq!(bodies(&target), ["a"]);
}

/// Rules: S-39, T-70.
#[test]
fn a_dead_letter_is_settled_in_a_transaction() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    send(&queue, "a");
    receive(&queue).settle(dead()).ok();
    let held = receive(&queue.dead_letter());
    // A resubmission that loses nothing and doubles nothing.
    let mut transaction = namespace.broker.transaction();
    transaction.send(&queue.sender().unwrap(), held.message.clone()).unwrap();
    transaction.settle(held.lease, Disposition::Complete).unwrap();
    assert_eq!(counts(&queue), [0, 0, 0, 0, 1]);
    transaction.commit().wait().unwrap();
    assert_eq!(counts(&queue), [1, 0, 0, 0, 0]);
}

/// Rules: S-39.
#[test]
fn a_dead_letter_is_not_dead_lettered_again_in_a_transaction() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    send(&queue, "a");
    receive(&queue).settle(dead()).ok();
    let held = receive(&queue.dead_letter());
    let mut transaction = namespace.broker.transaction();
    add(&mut transaction, &queue, "sent");
    let refused = match transaction.settle(held.lease, dead()) {
        Err(error) => error.kind(),
        Ok(()) => transaction.commit().wait().unwrap_err().kind(),
    };
    assert_eq!(refused, ErrorKind::InvalidOperation);
    assert_eq!(bodies(&queue), Vec::<String>::new());
}

/// Rules: T-76.
#[test]
fn an_operation_that_is_refused_does_not_choose_the_entity_nor_start_the_time() {
    let namespace = Namespace::new();
    let partitioned = namespace.queue_with("partitioned", settings().partitioned(true));
    let orders = namespace.queue("orders");
    let mut transaction = namespace.broker.transaction();
    let refused = transaction.send(&partitioned.sender().unwrap(), Message::new("without a key"));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidOperation);
    namespace.advance(LIMIT);
    add(&mut transaction, &orders, "a");
    transaction.commit().wait().unwrap();
    assert_eq!(bodies(&orders), ["a"]);
}

/// Rules: T-72.
#[test]
fn a_transaction_times_out_two_minutes_after_its_first_operation() {
    for (after, in_time) in [(almost(LIMIT), true), (LIMIT, false), (LIMIT + MS, false)] {
        let namespace = Namespace::new();
        let queue = namespace.queue_with("orders", patient());
        send(&queue, "held");
        let held = receive(&queue);
        let mut transaction = namespace.broker.transaction();
        // Before its first operation no time runs.
        namespace.advance(SECOND);
        transaction.settle(held.lease, Disposition::Complete).unwrap();
        namespace.advance(after);
        let committed = transaction.commit().wait();
        match (committed, in_time) {
            (Ok(_), true) => assert_eq!(counts(&queue), [0; 5]),
            (Err(error), false) => {
                assert_eq!(error.kind(), ErrorKind::Transaction);
                // It is rolled back: the lock is what it was.
                assert_eq!(counts(&queue), [0, 1, 0, 0, 0]);
                error.into_leases().remove(0).settle(Disposition::Complete).ok();
            }
            (committed, _) => panic!("{after:?}: {committed:?}"),
        }
    }
}

/// Rules: T-72.
#[test]
fn a_transaction_that_timed_out_takes_no_operation() {
    for (after, in_time) in [(almost(LIMIT), true), (LIMIT, false), (LIMIT + MS, false)] {
        let namespace = Namespace::new();
        let queue = namespace.queue_with("orders", patient());
        send(&queue, "held");
        let held = receive(&queue);
        let sender = queue.sender().unwrap();
        let mut transaction = namespace.broker.transaction();
        transaction.send(&sender, Message::new("first")).unwrap();
        namespace.advance(after);
        let expected = (!in_time).then_some(ErrorKind::Transaction);
        assert_eq!(transaction.send(&sender, Message::new("a")).map_err(|e| e.kind()).err(), expected, "{after:?}");
        let at = START.saturating_add(2 * LIMIT);
        let scheduled = transaction.schedule(&sender, Message::new("b"), at);
        assert_eq!(scheduled.map_err(|e| e.kind()).err(), expected, "{after:?}");
        assert_eq!(transaction.renew(&held.lease).map_err(|e| e.kind()).err(), expected, "{after:?}");
        let settled = transaction.settle(held.lease, Disposition::Complete);
        assert_eq!(settled.map_err(|e| e.kind()).err(), expected, "{after:?}");
    }
}

/// Rules: T-73.
#[test]
fn a_transaction_takes_100_messages() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    let sender = queue.sender().unwrap();
    let mut transaction = namespace.broker.transaction();
    for number in 0..100 {
        transaction.send(&sender, Message::new(number.to_string())).unwrap();
    }
    let refused = transaction.send(&sender, Message::new("100")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
    transaction.commit().wait().unwrap();
    assert_eq!((counts(&queue), bodies(&queue)[99].clone()), ([100, 0, 0, 0, 0], "99".to_owned()));
}

/// Rules: T-73.
#[test]
fn settlements_schedules_and_renewals_count_too() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    let sender = queue.sender().unwrap();
    for number in 0..52 {
        send(&queue, number.to_string());
    }
    let mut held = try_take(&queue, 52).unwrap();
    let (last, too_many) = (held.pop().unwrap(), held.pop().unwrap());
    let mut transaction = namespace.broker.transaction();
    for delivery in held {
        transaction.settle(delivery.lease, Disposition::Complete).unwrap();
    }
    let at = START.saturating_add(LIMIT);
    for _ in 0..49 {
        transaction.schedule(&sender, Message::new("later"), at).unwrap();
    }
    transaction.renew(&last.lease).unwrap();
    assert_eq!(transaction.renew(&last.lease).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    let scheduled = transaction.schedule(&sender, Message::new("later"), at);
    assert_eq!(scheduled.unwrap_err().kind(), ErrorKind::QuotaExceeded);
    let refused = transaction.settle(too_many.lease, Disposition::Complete).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
    assert_eq!(transaction.commit().wait().unwrap().scheduled.len(), 49);
    // What was refused is held as before.
    assert_eq!(counts(&queue), [0, 2, 0, 49, 0]);
    refused.into_leases().remove(0).settle(Disposition::Complete).ok();
    last.complete().ok();
}

/// Rules: T-76.
#[test]
fn one_transaction_stays_in_one_entity() {
    let namespace = Namespace::new();
    let (orders, other) = (namespace.queue("orders"), namespace.queue("other"));
    send(&orders, "held");
    send(&other, "foreign");
    let (held, foreign) = (receive(&orders), receive(&other));
    let mut transaction = namespace.broker.transaction();
    transaction.settle(held.lease, Disposition::Complete).unwrap();
    let sent = transaction.send(&other.sender().unwrap(), Message::new("a"));
    assert_eq!(sent.unwrap_err().kind(), ErrorKind::InvalidOperation);
    let at = START.saturating_add(SECOND);
    let scheduled = transaction.schedule(&other.sender().unwrap(), Message::new("a"), at);
    assert_eq!(scheduled.unwrap_err().kind(), ErrorKind::InvalidOperation);
    assert_eq!(transaction.renew(&foreign.lease).unwrap_err().kind(), ErrorKind::InvalidOperation);
    let settled = transaction.settle(foreign.lease, Disposition::Complete);
    assert_eq!(settled.unwrap_err().kind(), ErrorKind::InvalidOperation);
    // What was refused is not part of it.
    transaction.commit().wait().unwrap();
    assert_eq!((counts(&orders), other.counts().scheduled), ([0; 5], 0));
}

/// Rules: T-76.
#[test]
fn a_topic_and_its_subscriptions_are_one_entity() {
    let namespace = Namespace::new();
    let topic = namespace.topic("events");
    let (first, second) = (subscribe(&topic, "first"), subscribe(&topic, "second"));
    publish(&topic, "a");
    let (one, two) = (receive(&first), receive(&second));
    let mut transaction = namespace.broker.transaction();
    transaction.settle(one.lease, Disposition::Complete).unwrap();
    transaction.settle(two.lease, dead()).unwrap();
    transaction.send(&topic.sender(), Message::new("b")).unwrap();
    assert_eq!([counts(&first), counts(&second)], [[0, 1, 0, 0, 0]; 2]);
    transaction.commit().wait().unwrap();
    assert_eq!([counts(&first), counts(&second)], [[1, 0, 0, 0, 0], [1, 0, 0, 0, 1]]);
}

/// Rules: T-76.
#[test]
fn a_broker_takes_no_part_in_a_transaction_of_another() {
    let (namespace, other) = (Namespace::new(), Namespace::new());
    let (here, there) = (namespace.queue("orders"), other.queue("orders"));
    send(&there, "a");
    let held = receive(&there);
    let mut transaction = namespace.broker.transaction();
    add(&mut transaction, &here, "here");
    let sent = transaction.send(&there.sender().unwrap(), Message::new("there"));
    assert_eq!(sent.unwrap_err().kind(), ErrorKind::InvalidOperation);
    assert_eq!(transaction.renew(&held.lease).unwrap_err().kind(), ErrorKind::InvalidOperation);
    let sent = transaction.send(&here.sender().unwrap().via(&there), Message::new("via there"));
    assert_eq!(sent.unwrap_err().kind(), ErrorKind::InvalidOperation);
    transaction.commit().wait().unwrap();
    assert_eq!((bodies(&here), bodies(&there)), (vec!["here".to_owned()], vec!["a".to_owned()]));
}

/// A queue, a message of it that is held, and a target to send to via the queue.
fn via() -> (Namespace, Queue, Queue) {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().max_size(4_096));
    let target = namespace.queue_with("target", settings().max_size(1_024));
    send(&queue, "held");
    (namespace, queue, target)
}

/// Rules: T-76.
#[test]
fn a_send_via_the_entity_goes_elsewhere() {
    let (namespace, queue, target) = via();
    let topic = namespace.topic("events");
    let subscription = subscribe(&topic, "s");
    let held = receive(&queue);
    let mut transaction = namespace.broker.transaction();
    transaction.settle(held.lease, Disposition::Complete).unwrap();
    transaction.send(&target.sender().unwrap().via(&queue), Message::new("a")).unwrap();
    transaction.send(&topic.sender().via(&queue), Message::new("b")).unwrap();
    transaction.send(&queue.sender().unwrap(), Message::new("own")).unwrap();
    assert_eq!((counts(&queue), counts(&target)), ([0, 1, 0, 0, 0], [0; 5]));
    transaction.commit().wait().unwrap();
    assert_eq!((bodies(&target), bodies(&subscription)), (vec!["a".to_owned()], vec!["b".to_owned()]));
    // Neither is to be seen in the queue, nor takes a number of it.
    assert_eq!((bodies(&queue), numbers(&queue)), (vec!["own".to_owned()], vec![2]));
    assert_eq!(facts(&peek(&target)[0]).sequence_number.get(), 1);
    assert_eq!(counts(&queue.transfer_dead_letter()), [0; 5]);
}

/// Rules: T-76.
#[test]
fn a_send_via_another_entity_than_that_of_the_transaction_is_refused() {
    let (namespace, queue, target) = via();
    let third = namespace.queue("third");
    let mut transaction = namespace.broker.transaction();
    add(&mut transaction, &queue, "own");
    let sent = transaction.send(&target.sender().unwrap().via(&third), Message::new("a"));
    assert_eq!(sent.unwrap_err().kind(), ErrorKind::InvalidOperation);
    transaction.commit().wait().unwrap();
    assert_eq!(counts(&target), [0; 5]);
}

/// Rules: T-76.
#[test]
fn a_subscription_stands_for_its_topic_as_the_entity_to_send_via() {
    let (namespace, _, target) = via();
    let topic: Topic = namespace.topic("events");
    let subscription = subscribe(&topic, "s");
    publish(&topic, "a");
    let held = receive(&subscription);
    let mut transaction = namespace.broker.transaction();
    transaction.settle(held.lease, Disposition::Complete).unwrap();
    transaction.send(&target.sender().unwrap().via_topic(&topic), Message::new("answer")).unwrap();
    transaction.commit().wait().unwrap();
    assert_eq!((counts(&subscription), bodies(&target)), ([0; 5], vec!["answer".to_owned()]));
}

/// Rules: T-250.
/// An operation brings the broker up to date, as every other call does.
#[test]
fn an_idle_entity_is_gone_when_an_operation_is_added() {
    let namespace = Namespace::new();
    let idle = Duration::from_secs(300);
    let settings = patient().partitioned(true).auto_delete_on_idle(idle);
    let queue = namespace.queue_with("orders", settings);
    let sender = queue.sender().unwrap();
    let mut transaction = namespace.broker.transaction();
    let refused = transaction.send(&sender, Message::new("without a key")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOperation);
    namespace.advance(idle);
    transaction.send(&sender, Message::new("without a key")).unwrap();
    assert_eq!(transaction.commit().wait().unwrap_err().kind(), ErrorKind::EntityNotFound);
}

/// Rules: T-250.
#[test]
fn a_settlement_in_a_deleted_entity_is_refused_at_the_commit() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", patient());
    send(&queue, "a");
    let held = receive(&queue);
    namespace.broker.delete("orders").unwrap();
    let mut transaction = namespace.broker.transaction();
    transaction.settle(held.lease, Disposition::Complete).unwrap();
    assert_eq!(transaction.commit().wait().unwrap_err().kind(), ErrorKind::MessageLockLost);
}

/// Rules: T-77, S-101.
#[test]
fn a_target_that_is_disabled_makes_a_transfer_dead_letter() {
    for status in [Status::Disabled, Status::SendDisabled] {
        let (namespace, queue, target) = via();
        let held = receive(&queue);
        let mut transaction = namespace.broker.transaction();
        transaction.settle(held.lease, Disposition::Complete).unwrap();
        transaction.send(&target.sender().unwrap().via(&queue), Message::new("a")).unwrap();
        namespace.broker.update_queue("target", target.settings().unwrap().status(status)).unwrap();
        let (_, log) = captured(|| transaction.commit().wait().unwrap());
        let lines: Vec<_> = log.lines().filter(|line| line.starts_with("WARN")).collect();
        assert!(lines.len() == 1 && lines[0].contains("cannot be transferred"), "{log}");
        assert!(lines[0].contains("entity=orders") && lines[0].contains("target_entity=target"), "{log}");
        let counted = queue.counts();
        assert_eq!((counts(&queue), counted.transfer_dead_lettered), ([0; 5], 1), "{status:?}");
        let dead = namespace.broker.queue("orders/$Transfer/$DeadLetterQueue").unwrap();
        let delivery = receive(&dead);
        assert_eq!(text(&delivery.message), "a");
        let (reason, description) = why(&delivery.message);
        assert_eq!(reason, "ForwardTargetUnavailable");
        assert_eq!(description, "The message could not be forwarded to target: send: the entity is disabled");
        delivery.complete().ok();
        assert_eq!(queue.counts().transfer_dead_lettered, 0);
        assert_eq!(queue.counts().size, 0);
    }
}

/// Rules: T-77, S-101.
#[test]
fn a_topic_has_a_transfer_dead_letter_queue() {
    let namespace = Namespace::new();
    let (topic, target) = (namespace.topic("events"), namespace.queue("target"));
    let mut transaction = namespace.broker.transaction();
    transaction.send(&target.sender().unwrap().via_topic(&topic), Message::new("a")).unwrap();
    namespace.broker.update_queue("target", settings().status(Status::SendDisabled)).unwrap();
    transaction.commit().wait().unwrap();
    let dead = namespace.broker.queue("Events/$Transfer/$DeadLetterQueue").unwrap();
    assert_eq!((bodies(&dead), bodies(&topic.transfer_dead_letter())), (vec!["a".to_owned()], vec!["a".to_owned()]));
    receive(&dead).complete().ok();
    assert_eq!((topic.counts().transfer_dead_lettered, topic.counts().size), (0, 0));
}

/// Rules: T-76, T-77.
/// Its limits are those of the topic.
#[test]
fn a_send_via_a_subscription_is_transferred_by_its_topic() {
    let namespace = Namespace::new();
    let settings_of_topic = TopicSettings::default().max_size(1_024);
    let topic = namespace.broker.create_topic("events", settings_of_topic).unwrap();
    let subscription = subscribe(&topic, "s");
    let target = namespace.queue_with("target", settings().status(Status::SendDisabled));
    let sender = target.sender().unwrap().via(&subscription);
    for (body, kind) in [("x".repeat(800), Err(ErrorKind::QuotaExceeded)), ("a".into(), Ok(()))] {
        let mut transaction = namespace.broker.transaction();
        transaction.send(&sender, Message::new(body)).unwrap();
        assert_eq!(transaction.commit().wait().map(drop).map_err(|error| error.kind()), kind);
    }
    let counted = (topic.counts().transfer_dead_lettered, subscription.counts().transfer_dead_lettered);
    assert_eq!(counted, (1, 0));
}

/// Rules: T-77, T-86.
/// A transfer dead letter is held to the limits of the entity that it is kept by.
#[test]
fn a_transfer_dead_letter_without_space_undoes_everything() {
    for (settings, body, kind) in [
        (settings().max_size(4_096), 5_000, ErrorKind::QuotaExceeded),
        (settings().max_message_size(100), 200, ErrorKind::MessageSizeExceeded),
    ] {
        let namespace = Namespace::new();
        let queue = namespace.queue_with("orders", settings);
        let target = namespace.queue_with("target", crate::support::settings().status(Status::Disabled));
        send(&queue, "held");
        let held = receive(&queue);
        let before = namespace.snapshot();
        let mut transaction = namespace.broker.transaction();
        transaction.settle(held.lease, Disposition::DEFER).unwrap();
        let message = Message::new("x".repeat(body));
        transaction.send(&target.sender().unwrap().via(&queue), message).unwrap();
        let error = transaction.commit().wait().unwrap_err();
        assert_eq!((error.kind(), namespace.snapshot()), (kind, before));
    }
}

/// Rules: T-77.
#[test]
fn an_entity_to_send_via_that_was_deleted_undoes_everything() {
    for status in [Status::Active, Status::Disabled] {
        let (namespace, queue, target) = via();
        namespace.broker.update_queue("target", settings().status(status)).unwrap();
        let mut transaction = namespace.broker.transaction();
        transaction.send(&target.sender().unwrap().via(&queue), Message::new("a")).unwrap();
        namespace.broker.delete("orders").unwrap();
        assert_eq!(transaction.commit().wait().unwrap_err().kind(), ErrorKind::EntityNotFound, "{status:?}");
        assert_eq!(counts(&target), [0; 5]);
    }
}

/// Rules: T-77.
#[test]
fn a_target_that_was_deleted_undoes_everything() {
    let (namespace, queue, target) = via();
    let held = receive(&queue);
    let mut transaction = namespace.broker.transaction();
    transaction.settle(held.lease, Disposition::Complete).unwrap();
    transaction.send(&target.sender().unwrap().via(&queue), Message::new("a")).unwrap();
    namespace.broker.delete("target").unwrap();
    let before = namespace.snapshot();
    let error = transaction.commit().wait().unwrap_err();
    assert_eq!((error.kind(), namespace.snapshot()), (ErrorKind::EntityNotFound, before));
}

/// Rules: T-77.
#[test]
fn a_target_that_is_full_undoes_everything() {
    let (namespace, queue, target) = via();
    let held = receive(&queue);
    let mut transaction = namespace.broker.transaction();
    transaction.settle(held.lease, Disposition::Complete).unwrap();
    add(&mut transaction, &queue, "own");
    transaction.send(&target.sender().unwrap().via(&queue), Message::new("a")).unwrap();
    send(&target, "x".repeat(600));
    let before = namespace.snapshot();
    let error = transaction.commit().wait().unwrap_err();
    assert_eq!((error.kind(), namespace.snapshot()), (ErrorKind::QuotaExceeded, before));
    error.into_leases().remove(0).settle(Disposition::Complete).ok();
}

/// Rules: T-71.
#[test]
fn a_topic_that_is_full_undoes_everything_in_every_subscription() {
    let namespace = Namespace::new();
    let settings = TopicSettings::default().max_size(4_096);
    let topic = namespace.broker.create_topic("events", settings).unwrap();
    let subscriptions = ["a", "b", "c"].map(|name| subscribe(&topic, name));
    publish(&topic, "x".repeat(300));
    let before = namespace.snapshot();
    let mut transaction = namespace.broker.transaction();
    transaction.send(&topic.sender(), Message::new("fits")).unwrap();
    transaction.send(&topic.sender(), Message::new("x".repeat(3_500))).unwrap();
    assert_eq!(transaction.commit().wait().unwrap_err().kind(), ErrorKind::QuotaExceeded);
    assert_eq!(namespace.snapshot(), before);
    publish(&topic, "next");
    assert!(subscriptions.iter().all(|subscription| numbers(subscription) == [1, 2]));
}

/// Rules: T-78.
#[test]
fn a_transaction_of_a_partitioned_entity_has_one_key() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().partitioned(true));
    let sender = queue.sender().unwrap();
    let keyed = |key: &'static str| Message::builder().partition_key(key).build(key).unwrap();
    let mut transaction = namespace.broker.transaction();
    transaction.send(&sender, keyed("a")).unwrap();
    transaction.send(&sender, Message::builder().session_id("a").build("session").unwrap()).unwrap();
    for message in [keyed("b"), Message::new("without")] {
        assert_eq!(transaction.send(&sender, message).unwrap_err().kind(), ErrorKind::InvalidOperation);
    }
    transaction.commit().wait().unwrap();
    assert_eq!(bodies(&queue), ["a", "session"]);
    let partitions: Vec<_> = peek(&queue).iter().map(|message| facts(message).partition_id).collect();
    assert_eq!(partitions[0], partitions[1]);

    let mut transaction = namespace.broker.transaction();
    assert_eq!(transaction.send(&sender, Message::new("without")).unwrap_err().kind(), ErrorKind::InvalidOperation);
}

/// Rules: T-78, M-20.
#[test]
fn the_via_key_is_the_common_one_of_what_is_handed_over() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().partitioned(true));
    let target = namespace.queue("target");
    let sender = target.sender().unwrap().via(&queue);
    let message = |key: &'static str, via: Option<&'static str>| {
        let mut builder = Message::builder().partition_key(key);
        if let Some(via) = via {
            builder = builder.transaction_partition_key(via);
        }
        builder.build(key).unwrap()
    };
    let mut transaction = namespace.broker.transaction();
    transaction.send(&queue.sender().unwrap(), message("v", None)).unwrap();
    transaction.send(&sender, message("a", Some("v"))).unwrap();
    transaction.send(&sender, message("b", Some("v"))).unwrap();
    for refused in [message("v", None), message("v", Some("w"))] {
        assert_eq!(transaction.send(&sender, refused).unwrap_err().kind(), ErrorKind::InvalidOperation);
    }
    transaction.commit().wait().unwrap();
    assert_eq!((bodies(&queue), bodies(&target)), (vec!["v".to_owned()], vec!["a".into(), "b".into()]));
}

/// Rules: T-76, T-78.
/// They are no batch.
#[test]
fn a_transferred_message_has_its_own_keys_in_a_partitioned_target() {
    let (namespace, queue, _) = via();
    let target = namespace.queue_with("partitioned", settings().partitioned(true));
    let sender = target.sender().unwrap().via(&queue);
    let mut transaction = namespace.broker.transaction();
    for key in ["a", "b"] {
        transaction.send(&sender, Message::builder().partition_key(key).build(key).unwrap()).unwrap();
    }
    transaction.commit().wait().unwrap();
    assert_eq!(counts(&target), [2, 0, 0, 0, 0]);
}

/// Rules: T-79.
#[test]
fn an_undone_transaction_is_not_retried() {
    let (namespace, queue, target) = via();
    let mut transaction = namespace.broker.transaction();
    transaction.send(&target.sender().unwrap().via(&queue), Message::new("x".repeat(900))).unwrap();
    assert_eq!(transaction.commit().wait().unwrap_err().kind(), ErrorKind::QuotaExceeded);
    namespace.broker.update_queue("target", settings()).unwrap();
    namespace.advance(LIMIT);
    assert_eq!((counts(&target), counts(&queue)), ([0; 5], [1, 0, 0, 0, 0]));
}

/// Rules: X-04.
/// Those that are refused when they are added, and those at the commit.
#[test]
fn a_send_that_a_transaction_refuses_says_so_in_full() {
    let namespace = Namespace::new();
    let orders = namespace.queue_with("orders", settings().max_message_size(1));
    let other = namespace.queue("other");
    let in_full = |error: &SendError, kind, entity: &str| {
        assert_eq!(error.kind(), kind);
        assert!(error.description().unwrap().ends_with(&format!("queue `{entity}`")), "{error}");
        assert_eq!((error.condition().is_some(), error.timestamp()), (true, Some(START)));
    };
    let mut transaction = namespace.broker.transaction();
    transaction.send(&orders.sender().unwrap(), Message::new("too large")).unwrap();
    let refused = transaction.send(&other.sender().unwrap(), Message::new("a")).unwrap_err();
    in_full(&refused, ErrorKind::InvalidOperation, "other");
    let error = transaction.commit().wait().unwrap_err();
    let refused = std::error::Error::source(&error).unwrap().downcast_ref().unwrap();
    in_full(refused, ErrorKind::MessageSizeExceeded, "orders");
}

/// Rules: T-73.
#[test]
fn a_number_of_a_deleted_entity_is_refused_and_the_rest_can_be_committed() {
    let namespace = Namespace::new();
    let (orders, bills) = (namespace.queue("orders"), namespace.queue("bills"));
    let gone = bills.sender().unwrap().via(&orders);
    namespace.broker.delete("bills").unwrap();
    let mut transaction = namespace.broker.transaction();
    add(&mut transaction, &orders, "a");
    let at = START.saturating_add(SECOND);
    let refused = transaction.schedule_numbered(&gone, Message::new("b"), at).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::EntityNotFound);
    assert!(refused.to_string().contains("deleted"), "{refused}");
    transaction.commit().wait().unwrap();
    assert_eq!(bodies(&orders), ["a"]);
}
