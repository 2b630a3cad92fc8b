//! What a settlement does, and when it is refused.

use consign::{
    Disposition, Message,
    message::{ApplicationProperties, Field, InvalidArgument, Problem, PropertyValue, SequenceNumber},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    transport::{Delivery, ErrorKind, Lease},
};

use crate::support::{ALMOST_LOCK, Bench, Ended, LOCK, MS, START, facts, settings, take, text, texts, why};

/// Rules: S-24.
#[test]
fn receive_and_delete_removes_before_the_receiver_has_it() {
    let bench = Bench::new(settings());
    bench.send(["a", "b"]);
    let received = take(&mut bench.queue.receive_and_delete(), 1);
    assert_eq!(texts(received.iter().map(|delivery| &delivery.message)), ["a"]);
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
    drop(received);
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
}

/// Rules: S-25, M-09.
#[test]
fn a_lock_runs_from_the_receive() {
    let bench = Bench::new(settings());
    bench.send(["a", "b"]);
    bench.advance(7 * MS);
    let received = take(&mut bench.queue.receiver(), 2);
    let until = START.saturating_add(7 * MS + LOCK);
    assert!(received.iter().all(|delivery| facts(&delivery.message).locked_until == Some(until)));
    assert_eq!(bench.counts(), [0, 2, 0, 0]);
    // Both locks run while the first message alone is worked on.
    bench.advance(LOCK);
    assert_eq!(bench.counts(), [2, 0, 0, 0]);
}

/// Rules: S-26.
#[test]
fn complete_removes() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    bench.receive().complete().ok();
    assert_eq!(bench.counts(), [0; 4]);
    assert_eq!(bench.queue.counts().size, 0);
}

/// Rules: S-65, S-54.
#[tokio::test]
async fn of_several_completed_at_once_a_lost_lock_fails_alone() {
    let [first, second] = [Bench::new(settings()), Bench::new(settings())];
    first.send(["a", "b", "c"]);
    second.send(["d"]);
    let lost = first.receive();
    first.advance(LOCK);
    // Of two brokers, in turns, with the delivery that came after the lost one.
    let mut batch = take(&mut first.queue.receiver(), 3);
    batch.insert(1, lost);
    batch.insert(2, second.receive());
    let error = Delivery::complete_all(batch).await.unwrap_err();
    let failures: Vec<_> = error.failures().map(|(index, error)| (index, error.kind())).collect();
    assert_eq!(failures, [(1, ErrorKind::MessageLockLost)]);
    assert_eq!((first.counts(), second.counts()), ([0; 4], [0; 4]));
}

/// Rules: S-27, S-71.
#[test]
fn abandon_releases_and_counts() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    bench.receive().abandon().ok();
    assert_eq!(facts(&bench.receive().message).delivery_count, 2);
}

/// Rules: S-28.
#[test]
fn a_lock_ends_at_its_instant() {
    for (after, locked) in [(ALMOST_LOCK, true), (LOCK, false), (LOCK + MS, false)] {
        let bench = Bench::new(settings());
        bench.send(["a"]);
        let held = bench.receive();
        bench.advance(after);
        assert_eq!(bench.counts()[1] == 1, locked, "{after:?}");
        assert_eq!(bench.try_receive().is_none(), locked, "{after:?}");
        assert_eq!(held.complete().ended().is_ok(), locked, "{after:?}");
    }
}

/// Rules: S-31, S-97.
#[test]
fn dead_letter_writes_the_reason_the_description_and_the_changes() {
    let bench = Bench::new(settings());
    let message = Message::builder().property("kept", 1_u32).property("changed", 1_u32).build("a").unwrap();
    bench.try_send(message).unwrap();
    let mut dead_letter = DeadLetter::new(DeadLetterReason::Application("BadOrder".into()), "no such article");
    dead_letter.changes = changes([("changed", 2), ("added", 3)]);
    bench.receive().dead_letter(dead_letter).ok();
    assert_eq!(bench.counts(), [0, 0, 0, 1]);
    let dead = bench.receive_dead();
    assert_eq!(why(&dead.message), ("BadOrder", "no such article"));
    assert_eq!(numbers(&dead.message, ["kept", "changed", "added"]), [Some(1), Some(2), Some(3)]);
}

/// Rules: S-36, S-74.
#[test]
fn a_release_counts_nothing() {
    let bench = Bench::new(settings().max_delivery_count(1));
    bench.send(["a"]);
    for _ in 0..3 {
        let delivery = bench.receive();
        assert_eq!(facts(&delivery.message).delivery_count, 1);
        delivery.lease.release().ok();
        assert_eq!(bench.counts(), [1, 0, 0, 0]);
    }
}

/// Rules: S-50.
#[test]
fn receive_and_delete_cannot_be_settled() {
    let bench = Bench::new(settings());
    bench.send(["a"; 5]);
    let mut received = take(&mut bench.queue.receive_and_delete(), 5).into_iter();
    let mut next = || received.next().unwrap();
    assert_eq!(next().complete().refused(), ErrorKind::InvalidOperation);
    assert_eq!(next().abandon().refused(), ErrorKind::InvalidOperation);
    assert_eq!(next().defer().refused(), ErrorKind::InvalidOperation);
    assert_eq!(next().lease.renew().refused(), ErrorKind::InvalidOperation);
    let lease = next().lease;
    assert_eq!(lease.lock_duration(), None);
    assert_eq!(lease.release().refused(), ErrorKind::InvalidOperation);
}

/// Rules: S-50.
#[test]
fn peek_lock_is_the_default() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    let delivery = bench.receive();
    assert_eq!(delivery.lease.lock_duration(), Some(LOCK));
    assert_eq!(bench.counts(), [0, 1, 0, 0]);
}

/// Rules: S-51.
#[test]
fn others_get_the_next_available_message() {
    let bench = Bench::new(settings());
    bench.send(["a", "b"]);
    let first = bench.receive();
    let second = bench.receive();
    assert_eq!(texts([&first.message, &second.message]), ["a", "b"]);
    assert!(bench.try_receive().is_none());
}

/// Rules: S-52.
#[test]
fn an_unlocked_message_returns_to_its_place() {
    let bench = Bench::new(settings());
    bench.send(["a", "b", "c", "d", "e"]);
    let mut held = take(&mut bench.queue.receiver(), 4);
    // Back in another order than they left, and by each of the ways back.
    held.remove(3).abandon().ok();
    held.remove(1).lease.release().ok();
    drop(held.remove(1));
    bench.advance(LOCK);
    let received = take(&mut bench.queue.receiver(), 5);
    assert_eq!(texts(received.iter().map(|delivery| &delivery.message)), ["a", "b", "c", "d", "e"]);
}

/// Rules: S-53, S-54.
/// Attacks: 71.
#[test]
fn a_lost_lock_refuses_every_settlement() {
    let bench = Bench::new(settings());
    bench.send(["a"; 6]);
    let mut held = take(&mut bench.queue.receiver(), 6).into_iter();
    let mut next = || held.next().unwrap();
    bench.advance(LOCK);
    assert_eq!(next().complete().refused(), ErrorKind::MessageLockLost);
    assert_eq!(next().abandon().refused(), ErrorKind::MessageLockLost);
    assert_eq!(next().defer().refused(), ErrorKind::MessageLockLost);
    let dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "");
    assert_eq!(next().dead_letter(dead_letter).refused(), ErrorKind::MessageLockLost);
    assert_eq!(next().lease.release().refused(), ErrorKind::MessageLockLost);
    let error = next().lease.renew().ended().unwrap_err();
    assert!(error.is_lock_lost() && !error.is_retryable() && !error.is_outcome_unknown());
    assert_eq!(bench.counts(), [6, 0, 0, 0]);
}

/// Rules: S-54, M-10.
#[test]
fn each_delivery_has_a_lock_of_its_own() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    let first = bench.receive();
    bench.advance(LOCK);
    let second = bench.receive();
    // The lease of the earlier delivery has no power over the lock of the later one, nor has its drop.
    assert_eq!(first.lease.renew().refused(), ErrorKind::MessageLockLost);
    drop(first);
    assert_eq!(bench.counts(), [0, 1, 0, 0]);
    second.complete().ok();
}

/// Rules: S-54.
/// Attacks: 71.
#[test]
fn a_lease_does_not_settle_the_message_that_took_its_place_in_memory() {
    let bench = Bench::new(settings());
    bench.send_with_ttl("a", LOCK / 2);
    let stale = bench.receive();
    bench.advance(LOCK);
    assert_eq!(bench.counts(), [0; 4]);
    bench.send(["b"]);
    let fresh = bench.receive();
    assert_eq!(stale.complete().refused(), ErrorKind::MessageLockLost);
    fresh.complete().ok();
}

/// Rules: S-55.
/// A lease is consumed, so it takes an expired lock for a second settlement to be tried.
#[test]
fn a_message_is_settled_once() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    let first = bench.receive();
    bench.advance(LOCK);
    bench.receive().complete().ok();
    assert_eq!(first.complete().refused(), ErrorKind::MessageLockLost);
    assert_eq!(bench.counts(), [0; 4]);
}

/// Rules: S-56.
#[test]
fn after_a_complete_that_failed_the_message_is_redelivered() {
    let bench = Bench::new(settings());
    bench.try_send(Message::builder().message_id("m-1").build("a").unwrap()).unwrap();
    let late = bench.receive();
    bench.advance(LOCK);
    assert_eq!(late.complete().refused(), ErrorKind::MessageLockLost);
    assert_eq!(bench.receive().message.message_id(), Some("m-1"));
}

/// Rules: S-57.
#[test]
fn a_renewal_counts_from_now() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    let held = bench.receive();
    bench.advance(ALMOST_LOCK);
    held.lease.renew().ok();
    held.lease.renew().ok();
    bench.advance(ALMOST_LOCK);
    assert_eq!(bench.counts(), [0, 1, 0, 0]);
    bench.advance(MS);
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
    assert_eq!(held.lease.renew().refused(), ErrorKind::MessageLockLost);
}

/// Rules: S-57.
/// Attacks: 72.
#[test]
fn a_renewal_at_the_end_of_the_lock_is_refused() {
    for (after, renewed) in [(ALMOST_LOCK, true), (LOCK, false), (LOCK + MS, false)] {
        let bench = Bench::new(settings());
        bench.send(["a"]);
        let held = bench.receive();
        bench.advance(after);
        assert_eq!(held.lease.renew().ended().is_ok(), renewed, "{after:?}");
        // Renewed and still exclusive, or lost and available, never both.
        assert_eq!(bench.try_receive().is_none(), renewed, "{after:?}");
    }
}

/// Rules: S-57.
#[test]
fn a_renewed_lock_ends_after_locks_that_are_younger() {
    let bench = Bench::new(settings());
    bench.send(["a", "b"]);
    let first = bench.receive();
    bench.advance(MS);
    let second = bench.receive();
    bench.advance(MS);
    first.lease.renew().ok();
    bench.advance(ALMOST_LOCK);
    assert_eq!(second.lease.renew().refused(), ErrorKind::MessageLockLost);
    assert_eq!(text(&bench.receive().message), "b");
    first.complete().ok();
}

/// Rules: S-61.
#[test]
fn changes_replace_and_add_and_remove_nothing() {
    let bench = Bench::new(settings());
    let message = Message::builder().property("kept", 1_u32).property("changed", 1_u32).build("a").unwrap();
    bench.try_send(message).unwrap();
    bench.receive().settle(Disposition::Abandon(changes([("changed", 2)]))).ok();
    let delivery = bench.receive();
    assert_eq!(numbers(&delivery.message, ["kept", "changed", "added"]), [Some(1), Some(2), None]);
    delivery.settle(Disposition::Defer(changes([("added", 3)]))).ok();
    let delivery = bench.queue.receive_deferred(&[SequenceNumber::new(1)]).unwrap().remove(0);
    assert_eq!(numbers(&delivery.message, ["kept", "changed", "added"]), [Some(1), Some(2), Some(3)]);
}

/// Rules: S-61.
/// Attacks: 53.
#[test]
fn the_broker_s_own_properties_cannot_be_changed() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    let forged: ApplicationProperties =
        [(DeadLetter::REASON, "x"), (DeadLetter::DESCRIPTION, "y")].into_iter().collect();
    bench.receive().settle(Disposition::Abandon(forged.clone().into())).ok();
    let delivery = bench.receive();
    assert_eq!(why(&delivery.message), ("", ""));
    let mut dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "");
    dead_letter.changes = forged.into();
    delivery.dead_letter(dead_letter).ok();
    assert_eq!(why(&bench.receive_dead().message), ("HandlerPermanent", ""));
}

/// Rules: V-12, M-22.
#[test]
fn a_reason_or_description_that_is_too_long_is_refused_and_the_lock_holds() {
    let reason = |units: usize| DeadLetter::new(DeadLetterReason::Application("語".repeat(units).into()), "");
    let description = |units: usize| DeadLetter::new(DeadLetterReason::HandlerPermanent, "語".repeat(units));
    let fields = [Field::DeadLetterReason, Field::DeadLetterErrorDescription];
    for (field, dead_letter) in fields.into_iter().zip([reason, description].map(|of| [of(4_096), of(4_097)])) {
        let bench = Bench::new(settings());
        bench.send(["a", "b"]);
        let [fits, too_long] = dead_letter;
        let error = bench.receive().dead_letter(too_long).ended().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<InvalidArgument>());
        let source = source.map(|error| (error.field(), error.problem()));
        assert_eq!(source, Some((&field, &Problem::TooLong { limit: 4_096 })));
        assert_eq!(bench.counts(), [1, 1, 0, 0]);
        bench.receive().dead_letter(fits).ok();
        assert_eq!(bench.counts(), [0, 1, 0, 1]);
    }
}

/// Rules: S-62.
#[test]
fn a_lock_can_be_lost_before_its_time() {
    let bench = Bench::new(settings());
    bench.send(["a", "b"]);
    let mut held = take(&mut bench.queue.receiver(), 2);
    bench.queue.dead_letter().lose_locks();
    assert_eq!(bench.counts(), [0, 2, 0, 0]);
    bench.queue.lose_locks();
    assert_eq!(held.remove(0).complete().refused(), ErrorKind::MessageLockLost);
    assert_eq!(held[0].lease.renew().refused(), ErrorKind::MessageLockLost);
    let again = bench.receive();
    assert_eq!((text(&again.message), facts(&again.message).delivery_count), ("a", 2));
}

fn changes<const N: usize>(entries: [(&'static str, u32); N]) -> Changes {
    entries.into_iter().collect::<ApplicationProperties>().into()
}

fn numbers<const N: usize>(message: &Message, keys: [&str; N]) -> [Option<u32>; N] {
    keys.map(|key| match message.application_properties().get(key) {
        Some(PropertyValue::U32(number)) => Some(*number),
        _ => None,
    })
}
