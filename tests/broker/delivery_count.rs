//! What the next delivery reads.

use consign::{
    message::SequenceNumber,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, Lease},
};

use crate::support::{ALMOST_LOCK, Bench, Ended, LOCK, MS, facts, settings, take, text, why};

/// Rules: S-70, M-04.
#[test]
fn a_new_message_reads_1() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    assert_eq!(facts(&bench.receive().message).delivery_count, 1);
}

/// Rules: S-71, S-72.
#[test]
fn failures_count() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    bench.receive().abandon().ok();
    let delivery = bench.receive();
    assert_eq!(facts(&delivery.message).delivery_count, 2);
    bench.advance(LOCK);
    assert_eq!(facts(&bench.receive().message).delivery_count, 3);
    drop(delivery);
}

/// Rules: S-30, S-90.
#[test]
fn a_message_is_delivered_as_often_as_the_queue_allows() {
    for limit in [1, 2, 10] {
        let bench = Bench::new(settings().max_delivery_count(limit));
        bench.send(["a"]);
        let mut held = Vec::new();
        for count in 1..=limit {
            let delivery = bench.receive();
            assert_eq!(facts(&delivery.message).delivery_count, count);
            // By turns: an abandon, a drop, a lock that runs out.
            match count % 3 {
                0 => delivery.abandon().ok(),
                1 => drop(delivery),
                _ => {
                    held.push(delivery);
                    bench.advance(LOCK);
                }
            }
        }
        assert!(bench.try_receive().is_none());
        let dead = bench.receive_dead();
        let description = format!("Message could not be consumed after {limit} delivery attempts.");
        assert_eq!(why(&dead.message), ("MaxDeliveryCountExceeded", &*description));
    }
}

/// Rules: S-78, S-80.
/// Whether the broker counts, or a consumer says so as it dead-letters the last failed delivery itself.
#[test]
fn a_peek_shows_every_delivery_of_a_message_that_died_of_its_last_one() {
    for limit in [1, 2, 10] {
        let bench = Bench::new(settings().max_delivery_count(limit));
        let counts = |expected| {
            let dead = bench.queue.dead_letter().peek(SequenceNumber::new(0), 10);
            let counts: Vec<_> = dead.iter().map(|dead| facts(dead).delivery_count).collect();
            assert_eq!(counts, expected);
        };
        bench.send(["a", "b", "c"]);
        (0..limit).for_each(|_| bench.receive().abandon().ok());
        counts(vec![limit]);
        (1..limit).for_each(|_| bench.receive().abandon().ok());
        bench.receive().dead_letter(DeadLetter::max_delivery_count_exceeded(limit, Some("why"))).ok();
        counts(vec![limit; 2]);
        // A delivery that dead-letters for another reason has not failed.
        (1..limit).for_each(|_| bench.receive().abandon().ok());
        bench.receive().dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).ok();
        counts(vec![limit, limit, limit - 1]);
        assert_eq!(facts(&bench.receive_dead().message).delivery_count, limit);
    }
}

/// Rules: S-30.
#[test]
fn a_lock_that_runs_out_at_the_limit_dead_letters() {
    let bench = Bench::new(settings().max_delivery_count(1));
    bench.send(["a"]);
    let held = bench.receive();
    bench.advance(ALMOST_LOCK);
    assert_eq!(bench.counts(), [0, 1, 0, 0]);
    bench.advance(MS);
    assert_eq!(bench.counts(), [0, 0, 0, 1]);
    drop(held);
    assert_eq!(bench.counts(), [0, 0, 0, 1]);
}

/// Rules: S-30.
#[test]
fn releases_and_deferrals_do_not_approach_the_limit() {
    let bench = Bench::new(settings().max_delivery_count(1));
    bench.send(["a"]);
    let number = SequenceNumber::new(1);
    for _ in 0..3 {
        bench.receive().lease.release().ok();
    }
    bench.receive().defer().ok();
    for _ in 0..3 {
        bench.queue.receive_deferred(&[number]).unwrap().remove(0).abandon().ok();
        assert_eq!(bench.counts(), [0, 0, 1, 0]);
    }
}

/// Rules: S-78, T-30.
#[test]
fn a_peek_changes_nothing_and_shows_the_failures() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    for failures in 0..3 {
        for _ in 0..3 {
            let peeked = bench.queue.peek(SequenceNumber::new(1), 1);
            assert_eq!(facts(&peeked[0]).delivery_count, failures);
        }
        let delivery = bench.receive();
        assert_eq!(facts(&delivery.message).delivery_count, failures + 1);
        delivery.abandon().ok();
    }
}

/// Rules: S-79, S-32.
#[test]
fn a_deferral_counts_nothing() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    bench.receive().defer().ok();
    let delivery = bench.queue.receive_deferred(&[SequenceNumber::new(1)]).unwrap().remove(0);
    assert_eq!(facts(&delivery.message).delivery_count, 1);
}

/// Rules: T-91.
#[test]
fn a_prefetched_message_may_be_dead_lettered_unseen() {
    let bench = Bench::new(settings().max_delivery_count(2));
    bench.send(["a", "b", "c"]);
    for deliveries in 1..=2 {
        // The first is worked on, and the others wait behind it until their locks are gone.
        let mut ahead = take(&mut bench.queue.receiver(), 3);
        let first = ahead.remove(0);
        assert!(ahead.iter().all(|waiting| facts(&waiting.message).delivery_count == deliveries));
        bench.advance(LOCK - MS);
        first.lease.release().ok();
        bench.advance(MS);
        assert!(ahead.into_iter().all(|late| late.complete().refused() == ErrorKind::MessageLockLost));
    }
    assert_eq!(bench.counts(), [1, 0, 0, 2]);
}

/// Rules: T-91.
#[test]
fn redelivered_messages_come_after_prefetched_ones() {
    let bench = Bench::new(settings());
    bench.send(["a", "b", "c", "d"]);
    let mut receiver = bench.queue.receiver();
    let mut handled = Vec::new();
    let mut ahead = take(&mut receiver, 3);
    ahead.remove(0).abandon().ok();
    ahead.extend(take(&mut receiver, 9));
    for delivery in ahead {
        handled.push(text(&delivery.message).to_owned());
        delivery.complete().ok();
    }
    assert_eq!(handled, ["b", "c", "a", "d"]);
}

/// Rules: S-80, S-40.
#[test]
fn a_dead_letter_reads_its_deliveries_and_stays() {
    let bench = Bench::new(settings().max_delivery_count(3));
    bench.send(["a"]);
    (0..3).for_each(|_| bench.receive().abandon().ok());
    let count = facts(&bench.receive_dead().message).delivery_count;
    assert!(count >= 3, "{count}");
    for _ in 0..5 {
        let delivery = bench.receive_dead();
        assert_eq!(facts(&delivery.message).delivery_count, count);
        delivery.abandon().ok();
        let held = bench.receive_dead();
        bench.advance(LOCK);
        assert_eq!(bench.counts(), [0, 0, 0, 1]);
        drop(held);
    }
}

/// Rules: S-80.
#[test]
fn a_dead_letter_that_was_requested_reads_its_deliveries() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    bench.receive().abandon().ok();
    bench.receive().dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).ok();
    assert_eq!(facts(&bench.receive_dead().message).delivery_count, 2);
}
