//! Messages that only their sequence number brings back.

use std::time::Duration;

use consign::{
    Disposition,
    broker::QueueLease,
    message::{MessageState, SequenceNumber},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Delivery, ErrorKind, Lease, ReceiveError},
};

use crate::support::{ALMOST_LOCK, Bench, Ended, LOCK, MS, facts, settings, text, texts};

fn by_number(bench: &Bench, numbers: &[u64]) -> Result<Vec<Delivery<QueueLease>>, ReceiveError> {
    let numbers: Vec<_> = numbers.iter().copied().map(SequenceNumber::new).collect();
    bench.queue.receive_deferred(&numbers)
}

fn one(bench: &Bench) -> Delivery<QueueLease> {
    by_number(bench, &[1]).unwrap().remove(0)
}

/// Rules: S-32, S-33, T-21.
#[test]
fn a_deferred_message_is_had_by_its_number_only() {
    let bench = Bench::new(settings());
    bench.send(["a", "b"]);
    bench.receive().defer().ok();
    assert_eq!(bench.counts(), [1, 0, 1, 0]);
    let ordinary = bench.receive();
    assert_eq!(text(&ordinary.message), "b");
    assert!(bench.try_receive().is_none());
    // Any handle that knows the number may ask.
    let other = bench.broker.queue("ORDERS").unwrap();
    let delivery = other.receive_deferred(&[SequenceNumber::new(1)]).unwrap().remove(0);
    let facts = facts(&delivery.message);
    assert_eq!((facts.sequence_number.get(), facts.state), (1, MessageState::Deferred));
    assert!(facts.locked_until.is_some());
}

/// Rules: S-33.
#[test]
fn each_receive_by_number_has_a_lock_of_its_own() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    bench.receive().defer().ok();
    let stale = one(&bench);
    bench.advance(LOCK);
    let fresh = one(&bench);
    assert_eq!(stale.complete().refused(), ErrorKind::MessageLockLost);
    fresh.complete().ok();
}

/// Rules: S-34.
#[test]
fn a_deferred_message_is_completed_or_dead_lettered() {
    let bench = Bench::new(settings());
    bench.send(["a", "b"]);
    bench.receive().defer().ok();
    bench.receive().defer().ok();
    let mut both = by_number(&bench, &[2, 1]).unwrap();
    assert_eq!(texts(both.iter().map(|delivery| &delivery.message)), ["b", "a"]);
    both.remove(0).complete().ok();
    both.remove(0).dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).ok();
    assert_eq!(bench.counts(), [0, 0, 0, 1]);
}

/// Rules: S-35, T-23.
#[test]
fn abandoned_or_lost_it_is_deferred_again() {
    let bench = Bench::new(settings().max_delivery_count(2));
    bench.send(["a"]);
    bench.receive().defer().ok();
    one(&bench).abandon().ok();
    assert_eq!(bench.counts(), [0, 0, 1, 0]);
    let held = one(&bench);
    assert_eq!(facts(&held.message).delivery_count, 2);
    bench.advance(LOCK);
    assert_eq!(bench.counts(), [0, 0, 1, 0]);
    assert_eq!(facts(&one(&bench).message).delivery_count, 3);
    bench.advance(Duration::from_secs(1_000_000));
    assert_eq!(bench.counts(), [0, 0, 1, 0]);
}

/// Rules: T-20.
#[test]
fn a_deferred_message_is_seen_by_a_peek_even_after_its_time_to_live() {
    let bench = Bench::new(settings().dead_letter_on_expiration(true));
    bench.send_with_ttl("a", 50 * MS);
    bench.receive().defer().ok();
    for _ in 0..2 {
        let peeked = bench.queue.peek(SequenceNumber::new(1), 9);
        assert_eq!((texts(&peeked), facts(&peeked[0]).state), (vec!["a"], MessageState::Deferred));
        assert!(bench.try_receive().is_none());
        bench.advance(100 * MS);
    }
    // Expiry dead-letters none.
    assert_eq!(bench.counts(), [0, 0, 1, 0]);
}

/// Rules: T-22.
/// Attacks: 73.
#[test]
fn one_number_that_cannot_be_had_fails_the_call() {
    let bench = Bench::new(settings());
    bench.send(["deferred", "active", "locked"]);
    bench.send_with_ttl("expired", 50 * MS);
    bench.receive().defer().ok();
    let held = [bench.receive(), bench.receive()];
    bench.receive().defer().ok();
    let [active, locked] = held;
    active.abandon().ok();
    for (after, number, there) in
        [(0, 2, false), (0, 3, false), (0, 9, false), (0, 0, false), (49, 4, true), (1, 4, false)]
    {
        bench.advance(after * MS);
        let received = by_number(&bench, &[1, number]);
        assert_eq!(received.is_ok(), there, "{number}");
        match received {
            Ok(received) => received.into_iter().for_each(|delivery| delivery.abandon().ok()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::MessageNotFound, "{number}"),
        }
        assert_eq!(bench.counts(), [1, 1, 2, 0], "{number}");
    }
    by_number(&bench, &[1, 1]).unwrap_err();
    assert!(by_number(&bench, &[]).unwrap().is_empty());
    assert_eq!(bench.counts(), [1, 1, 2, 0]);
    drop(locked);
}

/// Rules: T-22.
#[test]
fn a_deferred_message_that_is_locked_cannot_be_had() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    bench.receive().defer().ok();
    let held = one(&bench);
    assert_eq!(by_number(&bench, &[1]).unwrap_err().kind(), ErrorKind::MessageNotFound);
    held.complete().ok();
}

/// Rules: C-13, T-09.
#[test]
fn a_deferred_message_that_has_expired_is_there_and_cannot_be_had() {
    for dead_lettered in [false, true] {
        let bench = Bench::new(settings().dead_letter_on_expiration(dead_lettered));
        bench.send_with_ttl("a", LOCK);
        let held = bench.receive();
        let number = facts(&held.message).sequence_number;
        held.settle(Disposition::DEFER).ok();
        bench.advance(ALMOST_LOCK);
        bench.queue.receive_deferred(&[number]).unwrap().remove(0).lease.release().ok();
        bench.advance(MS);
        assert_eq!(bench.queue.receive_deferred(&[number]).unwrap_err().kind(), ErrorKind::MessageNotFound);
        bench.advance(1_000 * LOCK);
        assert_eq!(bench.counts(), [0, 0, 1, 0]);
        assert_eq!(texts(&bench.queue.peek(number, 1)), ["a"]);
        assert_eq!(bench.queue.delete_messages(1, None).wait().unwrap(), 1);
        assert_eq!((bench.counts(), bench.queue.counts().size), ([0; 4], 0));
    }
}

/// Rules: T-21.
#[test]
fn several_deferred_messages_have_a_size_together() {
    let bench = Bench::new(settings());
    bench.send(["a", "b", "c"]);
    for _ in 0..2 {
        bench.receive().defer().ok();
    }
    let numbers = [1, 2].map(SequenceNumber::new);
    let refused = bench.queue.receive_deferred_within(&numbers, 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MessageSizeExceeded);
    assert_eq!(bench.counts(), [1, 0, 2, 0]);
    // One may have any size.
    assert_eq!(bench.queue.receive_deferred_within(&numbers[..1], 1).unwrap().len(), 1);
    assert_eq!(bench.queue.receive_deferred_within(&numbers[1..], 10_000).unwrap().len(), 1);
}
