//! Locks that end in two ways at once.

use consign::{
    Disposition,
    broker::QueueLease,
    settlement::DeadLetterReason,
    transport::{Delivery, ErrorKind, Lease, SettleError},
};
use shuttle::rand::{Rng, thread_rng};

use crate::{
    explore::random_and_pct,
    support::{Bench, LOCK, MS, count, settings},
};

fn settle(delivery: Delivery<QueueLease>, disposition: Disposition) -> Result<(), SettleError> {
    delivery.lease.settle(disposition).wait()
}

fn is_lost(error: &SettleError) -> bool {
    error.kind() == ErrorKind::MessageLockLost
}

/// Rules: I-14.
#[test]
fn settle_against_expiry() {
    random_and_pct("settle_against_expiry", || {
        let bench = Bench::new(settings());
        bench.send("a");
        let held = bench.try_receive().unwrap();
        bench.advance(LOCK - MS);
        let settled = bench.spawn(|_| settle(held, Disposition::Complete));
        let clock = bench.spawn(|bench| bench.advance(MS));
        let second = bench.spawn(|bench| bench.try_receive());
        let (settled, second) = (settled.join().unwrap(), second.join().unwrap());
        clock.join().unwrap();
        match settled {
            Ok(()) => {
                assert!(second.is_none(), "received again after it was completed");
                assert_eq!(bench.counts(), [0; 4]);
            }
            Err(error) => {
                assert!(is_lost(&error));
                // The old lock did nothing to the new one.
                let again = second.or_else(|| bench.try_receive()).expect("it is back, or received");
                assert_eq!((count(&again.message), bench.counts()), (2, [0, 1, 0, 0]));
                settle(again, Disposition::Complete).unwrap();
                assert_eq!(bench.counts(), [0; 4]);
            }
        }
    });
}

/// Rules: I-16.
#[test]
fn renew_against_expiry() {
    random_and_pct("renew_against_expiry", || {
        let bench = Bench::new(settings());
        bench.send("a");
        let held = bench.try_receive().unwrap();
        bench.advance(LOCK - MS);
        let renewed = bench.spawn(|_| {
            let renewed = held.lease.renew().into_inner();
            (renewed, settle(held, Disposition::Complete))
        });
        let clock = bench.spawn(|bench| bench.advance(MS));
        let second = bench.spawn(|bench| bench.try_receive());
        let ((renewed, settled), second) = (renewed.join().unwrap(), second.join().unwrap());
        clock.join().unwrap();
        match renewed {
            Ok(_) => {
                assert!(second.is_none(), "renewed, and received by another");
                settled.unwrap();
                assert_eq!(bench.counts(), [0; 4]);
            }
            Err(error) => {
                assert!(is_lost(&error) && settled.is_err_and(|error| is_lost(&error)));
                let again = second.or_else(|| bench.try_receive()).expect("it is back, or received");
                assert_eq!((count(&again.message), bench.counts()), (2, [0, 1, 0, 0]));
            }
        }
    });
}

/// The four outcomes, and the counts that each leaves: active, locked, deferred, dead-lettered.
fn outcome() -> (Disposition, [usize; 4]) {
    match thread_rng().gen_range(0..4) {
        0 => (Disposition::Complete, [0, 0, 0, 0]),
        1 => (Disposition::ABANDON, [1, 0, 0, 0]),
        2 => (Disposition::DEFER, [0, 0, 1, 0]),
        _ => (Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "no"), [0, 0, 0, 1]),
    }
}

/// Rules: I-18.
/// A settlement takes the right to settle with it, so the other settler has a lock of its own on the message: the one that
/// follows when the first lock is lost.
#[test]
fn two_settlers_of_one_message() {
    random_and_pct("two_settlers_of_one_message", || {
        let bench = Bench::new(settings());
        bench.send("a");
        let held = bench.try_receive().unwrap();
        let ((by_first, left_by_first), (by_second, left_by_second)) = (outcome(), outcome());
        let is_back = by_first == Disposition::ABANDON;
        let first = bench.spawn(|_| settle(held, by_first));
        let second = bench.spawn(|bench| {
            bench.queue.lose_locks();
            bench.try_receive().map(|delivery| settle(delivery, by_second))
        });
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        let left = match (first, second) {
            (Ok(()), None) => left_by_first,
            // It was received anew after an abandon, so both locks ended by a settlement.
            (Ok(()), Some(second)) => {
                assert!(is_back && second.is_ok());
                left_by_second
            }
            (Err(error), Some(second)) => {
                assert!(is_lost(&error) && second.is_ok());
                left_by_second
            }
            (Err(_), None) => panic!("lost, and not to be received"),
        };
        assert_eq!(bench.counts(), left);
    });
}

/// Rules: I-18.
/// Settlements against the other ways in which a lock ends: a change of the lock duration, and the deletion of the queue.
#[test]
fn settle_against_update_and_deletion() {
    random_and_pct("settle_against_update_and_deletion", || {
        let bench = Bench::new(settings());
        bench.send("a");
        let held = bench.try_receive().unwrap();
        let (disposition, left) = outcome();
        let deleted = thread_rng().gen_range(0..2) == 0;
        let settled = bench.spawn(|_| settle(held, disposition));
        let ended = bench.spawn(move |bench| {
            if deleted {
                bench.broker.delete("orders").unwrap();
            } else {
                bench.broker.update_queue("orders", settings().lock_duration(2 * LOCK)).unwrap();
            }
        });
        let settled = settled.join().unwrap();
        ended.join().unwrap();
        let expected = match (&settled, deleted) {
            (_, true) => [0; 4],
            (Ok(()), false) => left,
            (Err(_), false) => [1, 0, 0, 0],
        };
        assert!(settled.is_ok() || settled.is_err_and(|error| is_lost(&error)));
        assert_eq!(bench.counts(), expected);
    });
}
