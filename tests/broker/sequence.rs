//! Sequence numbers and times of acceptance.

use std::time::Duration;

use consign::{
    Message,
    message::SequenceNumber,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Batch, Sender},
};

use crate::support::{Bench, Ended, LOCK, MS, START, facts, settings};

fn peeked(bench: &Bench) -> Vec<Message> {
    bench.queue.peek(SequenceNumber::new(0), usize::MAX)
}

/// Rules: S-20, M-06, M-16, Q-01.
#[test]
fn acceptance_stamps_number_and_time() {
    let bench = Bench::new(settings());
    bench.advance(5 * MS);
    bench.send(["a"]);
    bench.advance(5 * MS);
    let message = bench.receive().message;
    let facts = facts(&message);
    assert_eq!((facts.sequence_number.get(), facts.enqueued_sequence_number.get()), (1, 0));
    assert_eq!(facts.enqueued_time, START.saturating_add(5 * MS));
}

/// Rules: Q-01.
#[test]
fn a_received_message_that_is_sent_again_gets_a_number_of_its_own() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    let message = bench.receive().message;
    bench.try_send(message).unwrap();
    let numbers: Vec<_> = peeked(&bench).iter().map(|message| facts(message).sequence_number.get()).collect();
    assert_eq!(numbers, [1, 2]);
}

/// Rules: Q-02.
#[test]
fn numbers_ascend_by_one_from_one_and_are_not_used_again() {
    let bench = Bench::new(settings());
    for number in 1..=5 {
        bench.send(["a"]);
        let delivery = bench.receive();
        assert_eq!(facts(&delivery.message).sequence_number.get(), number);
        delivery.complete().ok();
    }
    let batch = Batch::from(vec![Message::new("b"); 3]);
    bench.queue.sender().unwrap().send_batch(batch).wait().unwrap();
    let numbers: Vec<_> = peeked(&bench).iter().map(|message| facts(message).sequence_number.get()).collect();
    assert_eq!(numbers, [6, 7, 8]);
}

/// Rules: Q-03.
#[test]
fn a_refused_send_uses_up_no_number() {
    let bench = Bench::new(settings().max_message_size(1_000));
    bench.try_send(Message::new("x".repeat(2_000))).unwrap_err();
    let batch = Batch::from([Message::new("a"), Message::new("x".repeat(2_000))]);
    bench.queue.sender().unwrap().send_batch(batch).wait().unwrap_err();
    bench.send(["a"]);
    assert_eq!(facts(&bench.receive().message).sequence_number.get(), 1);
}

/// Rules: Q-08.
#[test]
fn a_settlement_leaves_the_number() {
    let bench = Bench::new(settings());
    bench.send(["a", "b"]);
    let number = SequenceNumber::new(1);
    let one = || {
        let delivery = bench.receive();
        assert_eq!(facts(&delivery.message).sequence_number, number);
        delivery
    };
    one().abandon().ok();
    let held = one();
    bench.advance(LOCK);
    drop(held);
    one().defer().ok();
    let deferred = bench.queue.receive_deferred(&[number]).unwrap().remove(0);
    assert_eq!(facts(&deferred.message).sequence_number, number);
    deferred.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).ok();
    assert_eq!(facts(&bench.receive_dead().message).sequence_number, number);
}

/// Rules: Q-09.
#[test]
fn order_of_numbers_is_order_of_acceptance() {
    let bench = Bench::new(settings());
    bench.send(["a", "b"]);
    bench.advance(MS);
    bench.send(["c"]);
    let messages = peeked(&bench);
    let times: Vec<_> = messages.iter().map(|message| facts(message).enqueued_time).collect();
    assert_eq!(times, [START, START, START.saturating_add(MS)]);
}

/// Rules: Q-10.
#[test]
fn the_time_is_the_broker_s() {
    let bench = Bench::new(settings());
    let mut message = Message::new("a");
    message.properties_mut().pass_through_mut().creation_time = Some(START.saturating_add(Duration::from_secs(99)));
    bench.try_send(message).unwrap();
    assert_eq!(facts(&bench.receive().message).enqueued_time, START);
}

/// Rules: Q-11.
#[test]
fn the_time_does_not_fall_when_utc_steps_back() {
    let bench = Bench::new(settings());
    bench.advance(10 * MS);
    bench.send(["a"]);
    bench.clock.set_utc(START);
    bench.send(["b"]);
    bench.advance(11 * MS);
    bench.send(["c"]);
    let times: Vec<_> = peeked(&bench).iter().map(|message| facts(message).enqueued_time).collect();
    assert_eq!(times, [10, 10, 11].map(|after| START.saturating_add(after * MS)));
}
