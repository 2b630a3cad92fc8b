//! The time to live.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign::{
    Message,
    broker::Broker,
    message::SequenceNumber,
    settlement::{DeadLetter, DeadLetterReason},
    time::{Clock, Moment, Timestamp},
    transport::{Lease, Sender},
};

use crate::support::{ALMOST_LOCK, Bench, Ended, LOCK, MS, START, facts, settings, take, text, texts, why};

const TTL: Duration = Duration::from_secs(2);
/// A millisecond before its end.
const ALMOST_TTL: Duration = Duration::from_millis(1_999);

fn bench(dead_letter_on_expiration: bool) -> Bench {
    Bench::new(settings().dead_letter_on_expiration(dead_letter_on_expiration))
}

/// Rules: S-37, T-05.
#[test]
fn an_expired_message_is_removed_or_dead_lettered() {
    for (dead_lettered, counts) in [(false, [0; 4]), (true, [0, 0, 0, 1])] {
        let bench = bench(dead_lettered);
        bench.send_with_ttl("a", TTL);
        bench.advance(TTL);
        assert_eq!(bench.counts(), counts);
    }
}

/// Rules: S-91.
#[test]
fn a_dead_letter_says_that_it_expired() {
    let bench = bench(true);
    bench.send_with_ttl("a", TTL);
    bench.advance(TTL);
    let dead = bench.receive_dead();
    assert_eq!(why(&dead.message), ("TTLExpiredException", "The message expired and was dead lettered."));
    assert_eq!(facts(&dead.message).delivery_count, 1);
}

/// Rules: T-04.
#[test]
fn a_message_cannot_be_had_from_its_expiry_on() {
    for (after, there) in [(ALMOST_TTL, true), (TTL, false), (TTL + MS, false)] {
        let bench = bench(false);
        bench.send_with_ttl("a", TTL);
        bench.advance(after);
        assert_eq!(bench.try_receive().is_some(), there, "{after:?}");
    }
}

/// Rules: T-04.
#[test]
fn a_fraction_of_a_millisecond_does_not_extend_the_time_to_live() {
    let bench = bench(false);
    bench.send_with_ttl("a", Duration::from_micros(1_999));
    let expires_at = facts(&bench.queue.peek(SequenceNumber::new(1), 1)[0]).expires_at;
    assert_eq!(expires_at, START.saturating_add(MS));
    bench.advance(MS);
    assert!(bench.try_receive().is_none());
}

/// Rules: T-01, T-02, M-07, M-18.
#[test]
fn the_shorter_time_to_live_holds_and_is_read() {
    let limit = Duration::from_secs(5);
    for (own, effective) in
        [(None, limit), (Some(2 * limit), limit), (Some(limit), limit), (Some(limit / 5), limit / 5)]
    {
        let bench = Bench::new(settings().default_time_to_live(limit));
        bench.advance(3 * MS);
        let mut message = Message::new("a");
        if let Some(own) = own {
            message.properties_mut().set_time_to_live(own).unwrap();
        }
        bench.try_send(message).unwrap();
        let message = bench.receive().message;
        assert_eq!(message.time_to_live(), Some(effective));
        assert_eq!(facts(&message).expires_at, START.saturating_add(3 * MS + effective));
    }
}

/// Rules: T-02.
#[test]
fn without_any_a_message_does_not_expire() {
    let bench = bench(false);
    bench.send(["a"]);
    bench.advance(Duration::from_secs(3_600 * 24 * 36_500));
    let message = bench.receive().message;
    assert_eq!((message.time_to_live(), facts(&message).expires_at), (None, Timestamp::MAX));
}

/// Rules: M-07.
#[test]
fn an_expiry_beyond_all_time_stops_at_its_end() {
    for ttl in [Duration::from_secs(1 << 40), Duration::MAX] {
        let bench = bench(false);
        bench.send_with_ttl("a", ttl);
        bench.advance(Duration::from_secs(3_600 * 24 * 36_500));
        assert_eq!(facts(&bench.receive().message).expires_at, Timestamp::MAX, "{ttl:?}");
    }
}

/// Rules: S-38, T-06.
#[test]
fn a_lock_outlives_the_message() {
    let bench = bench(true);
    bench.send_with_ttl("a", TTL);
    let held = bench.receive();
    bench.advance(TTL + MS);
    assert_eq!(bench.counts(), [0, 1, 0, 0]);
    held.lease.renew().ok();
    bench.advance(ALMOST_LOCK);
    held.complete().ok();
    assert_eq!(bench.counts(), [0; 4]);
}

/// Rules: S-38.
#[test]
fn an_expiry_applies_when_the_lock_ends() {
    type End = fn(&Bench, consign::transport::Delivery<consign::broker::QueueLease>);
    let ends: [End; 4] = [
        |_, held| held.abandon().ok(),
        |_, held| held.lease.release().ok(),
        |_, held| drop(held),
        |bench, held| {
            bench.advance(LOCK);
            held.complete().refused();
        },
    ];
    for (dead_lettered, counts) in [(false, [0; 4]), (true, [0, 0, 0, 1])] {
        for end in ends {
            let bench = bench(dead_lettered);
            bench.send_with_ttl("a", TTL);
            let held = bench.receive();
            bench.advance(TTL);
            end(&bench, held);
            assert!(bench.try_receive().is_none());
            assert_eq!(bench.counts(), counts);
            assert_eq!(bench.queue.counts().size == 0, !dead_lettered);
        }
    }
}

/// Rules: S-38.
#[test]
fn a_dead_letter_that_was_requested_keeps_its_reason() {
    let bench = bench(true);
    bench.send_with_ttl("a", TTL);
    let held = bench.receive();
    bench.advance(TTL);
    held.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).ok();
    assert_eq!(why(&bench.receive_dead().message).0, "HandlerPermanent");
}

/// Rules: T-07.
#[test]
fn a_peek_shows_no_active_message_that_has_expired() {
    let bench = bench(false);
    bench.send_with_ttl("a", TTL);
    bench.send_with_ttl("b", 2 * TTL);
    bench.advance(TTL);
    assert_eq!(texts(&bench.queue.peek(SequenceNumber::new(1), 9)), ["b"]);
}

/// Rules: T-08.
/// The lock ended at its last delivery, and only then the message would have expired. Nobody looked in between.
#[test]
fn due_events_are_applied_at_their_time() {
    let bench = Bench::new(settings().max_delivery_count(1));
    bench.send_with_ttl("a", LOCK + MS);
    let held = bench.receive();
    bench.advance(2 * LOCK);
    assert_eq!(why(&bench.receive_dead().message).0, "MaxDeliveryCountExceeded");
    drop(held);
}

/// Rules: T-08.
#[test]
fn every_user_of_the_queue_sees_an_expiry() {
    type Look = fn(&Bench) -> bool;
    let looks: [Look; 4] = [
        |bench| bench.try_receive().is_some(),
        |bench| !bench.queue.peek(SequenceNumber::new(1), 1).is_empty(),
        |bench| bench.queue.counts().active > 0,
        |bench| bench.try_receive_dead().is_none(),
    ];
    for look in looks {
        let bench = bench(true);
        bench.send_with_ttl("a", TTL);
        bench.advance(ALMOST_TTL);
        assert!(look(&bench));
        bench.advance(MS);
        assert!(!look(&bench));
    }
}

/// Rules: T-08.
#[test]
fn an_expiry_frees_space_for_a_send() {
    let bench = Bench::new(settings().max_size(1_024));
    bench.send_with_ttl("a", TTL);
    bench.try_send(Message::new("x".repeat(500))).unwrap();
    bench.try_send(Message::new("b")).unwrap_err();
    bench.advance(TTL);
    bench.try_send(Message::new("b")).unwrap();
}

/// Rules: T-04.
#[test]
fn messages_that_expire_in_the_middle_leave_the_order_alone() {
    let bench = bench(false);
    for at in 0..500 {
        let message = Message::builder();
        let message = if at % 5 == 0 { message } else { message.time_to_live(TTL) };
        bench.try_send(message.build(at.to_string()).unwrap()).unwrap();
    }
    bench.advance(TTL);
    for at in (0..500).step_by(5) {
        let delivery = bench.receive();
        assert_eq!(text(&delivery.message), at.to_string());
        delivery.complete().ok();
    }
    assert_eq!(bench.queue.counts().size, 0);
}

/// Rules: T-04.
#[test]
fn utc_that_is_set_does_not_move_an_expiry_or_a_lock() {
    let bench = bench(false);
    bench.send_with_ttl("a", TTL);
    bench.clock.set_utc(START.saturating_add(Duration::from_secs(7_200)));
    let held = bench.receive();
    bench.clock.set_utc(Timestamp::EPOCH);
    bench.advance(ALMOST_LOCK);
    assert_eq!(bench.counts(), [0, 1, 0, 0]);
    bench.advance(MS);
    assert_eq!(bench.counts(), [0; 4]);
    drop(held);
}

/// Rules: T-04.
/// Calls read the time before they have the queue: one that read it earlier may come later.
#[test]
fn a_call_with_an_earlier_time_does_not_keep_a_message_for_ever() {
    struct Shown(Arc<AtomicU64>);

    impl Clock for Shown {
        fn now(&self) -> Moment {
            let millis = self.0.load(Ordering::Relaxed);
            let elapsed = Duration::from_millis(millis);
            Moment { elapsed, utc: START.saturating_add(elapsed) }
        }
    }

    let millis = Arc::new(AtomicU64::new(0));
    let queue = Broker::with_clock(Shown(Arc::clone(&millis))).create_queue("orders", settings()).unwrap();
    let message = Message::builder().time_to_live(Duration::from_millis(11)).build("a").unwrap();
    queue.sender().unwrap().send(message).wait().unwrap();
    let delivery = take(&mut queue.receiver(), 1).pop().unwrap();
    millis.store(12, Ordering::Relaxed);
    assert_eq!(queue.counts().locked, 1);
    millis.store(10, Ordering::Relaxed);
    delivery.abandon().wait().unwrap();
    assert_eq!(queue.counts().active, 1);
    millis.store(13, Ordering::Relaxed);
    assert_eq!(queue.counts().active, 0);
}
