//! Looking without locking.

use consign::{
    message::{MessageState, SequenceNumber},
    settlement::{DeadLetter, DeadLetterReason},
};

use crate::support::{Bench, Ended, facts, settings, texts};

/// Five messages: dead-lettered, active, locked, deferred, active. The test holds the lock.
fn bench() -> (Bench, impl Sized) {
    let bench = Bench::new(settings());
    bench.send(["dead", "returned", "locked", "deferred", "active"]);
    bench.receive().dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).ok();
    let returned = bench.receive();
    let locked = bench.receive();
    bench.receive().defer().ok();
    returned.abandon().ok();
    (bench, locked)
}

fn peek(bench: &Bench, from: u64, max: usize) -> Vec<String> {
    let peeked = bench.queue.peek(SequenceNumber::new(from), max);
    texts(&peeked).into_iter().map(String::from).collect()
}

/// Rules: T-30, T-33.
#[test]
fn a_peek_locks_nothing_and_changes_nothing() {
    let (bench, _locked) = bench();
    let before = bench.counts();
    for _ in 0..3 {
        assert_eq!(peek(&bench, 1, 9), ["returned", "locked", "deferred", "active"]);
    }
    assert_eq!(bench.counts(), before);
    let peeked = bench.queue.peek(SequenceNumber::new(1), 9);
    assert!(peeked.iter().all(|message| facts(message).locked_until.is_none()));
}

/// Rules: T-30.
#[test]
fn dead_letters_are_peeked_in_their_own_queue_only() {
    let (bench, _locked) = bench();
    assert!(!peek(&bench, 1, 9).contains(&"dead".to_owned()));
    let dead = bench.queue.dead_letter().peek(SequenceNumber::new(1), 9);
    assert_eq!(texts(&dead), ["dead"]);
    assert!(facts(&dead[0]).dead_lettered);
}

/// Rules: T-31.
#[test]
fn a_peek_ascends_from_its_start() {
    let (bench, _locked) = bench();
    assert_eq!(peek(&bench, 3, 9), ["locked", "deferred", "active"]);
    assert_eq!(peek(&bench, 5, 9), ["active"]);
    // A receiver goes on behind the last one that it saw, and meets every message once.
    let (mut receiver, mut seen) = (bench.queue.receiver(), Vec::new());
    while let Some(message) = receiver.peek(1).pop() {
        seen.push(facts(&message).sequence_number.get());
    }
    assert_eq!(seen, [2, 3, 4, 5]);
}

/// Rules: T-32.
#[test]
fn a_peek_returns_at_most_as_many_as_requested_and_perhaps_none() {
    let (bench, _locked) = bench();
    assert_eq!(peek(&bench, 1, 2), ["returned", "locked"]);
    for (from, max) in [(1, 0), (6, 9), (u64::MAX, usize::MAX)] {
        assert!(peek(&bench, from, max).is_empty(), "{from} {max}");
    }
}

/// Rules: M-21.
#[test]
fn a_peek_shows_the_state() {
    let (bench, _locked) = bench();
    let peeked = bench.queue.peek(SequenceNumber::new(1), 9);
    let states: Vec<_> = peeked.iter().map(|message| facts(message).state).collect();
    let shown = ["returned", "locked", "deferred", "active"].map(|body| match body {
        "deferred" => MessageState::Deferred,
        _ => MessageState::Active,
    });
    assert_eq!(states, shown);
}

/// Rules: T-30.
#[test]
fn a_peek_ends_with_the_message_that_reaches_its_bytes() {
    let bench = Bench::new(settings());
    bench.send(["aaaa", "bbbb", "cccc", "dddd"]);
    let peek = |max, bytes| texts(&bench.queue.peek_within(SequenceNumber::new(1), max, bytes)).len();
    let one = bench.queue.peek(SequenceNumber::new(1), 1)[0].size();
    assert_eq!([0, 1, one, one + 1, 2 * one + 1].map(|bytes| peek(10, bytes)), [1, 1, 1, 2, 3]);
    assert_eq!((peek(2, usize::MAX), peek(10, usize::MAX)), (2, 4));
}
