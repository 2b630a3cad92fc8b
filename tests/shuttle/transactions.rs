//! Commits that come as a lock ends.

use std::task::Poll;

use consign::{
    Disposition, Message,
    broker::{Committed, Transaction, TransactionError},
    message::SequenceNumber,
    transport::{ErrorKind, ReceiverExt},
};

use crate::{
    explore::{random, random_and_pct},
    support::{Bench, LOCK, poll_once, settings, text},
};

/// What a committed transaction has left on the queue, after what it settled is gone.
fn bodies(bench: &Bench) -> Vec<String> {
    let mut bodies: Vec<_> =
        bench.queue.peek(SequenceNumber::new(1), 9).iter().map(|message| text(message).into()).collect();
    bodies.sort_unstable();
    bodies
}

fn kind(committed: Result<Committed, TransactionError>) -> Option<ErrorKind> {
    committed.err().map(|error| error.kind())
}

/// Rules: T-71.
#[test]
fn commit_against_lock_expiry() {
    random_and_pct("commit_against_lock_expiry", || {
        let bench = Bench::new(settings());
        bench.send("a");
        let held = bench.try_receive().unwrap();
        let mut transaction = bench.broker.transaction();
        transaction.complete(held).unwrap();
        transaction.send(&bench.queue.sender().unwrap(), Message::new("b")).unwrap();
        let committed = bench.spawn(|_| kind(transaction.commit().wait()));
        let clock = bench.spawn(|bench| bench.advance(LOCK));
        let second = bench.spawn(|bench| bench.try_receive());
        let (committed, second) = (committed.join().unwrap(), second.join().unwrap());
        clock.join().unwrap();
        let received = second.as_ref().map(|delivery| text(&delivery.message));
        match committed {
            None => {
                assert_ne!(received, Some("a"), "completed, and received by another");
                assert_eq!(bodies(&bench), ["b"]);
            }
            Some(kind) => {
                assert_eq!(kind, ErrorKind::MessageLockLost);
                assert_ne!(received, Some("b"), "undone, and to be seen");
                assert_eq!(bodies(&bench), ["a"]);
            }
        }
    });
}

/// Rules: T-71.
#[test]
fn commit_against_the_end_of_its_session() {
    random_and_pct("commit_against_the_end_of_its_session", || {
        let bench = Bench::new(settings().requires_session(true));
        let in_session = |body: &'static str| Message::builder().session_id("s").build(body).unwrap();
        bench.send_message(in_session("a"));
        let mut session = bench.queue.accept_session("s").unwrap();
        let Poll::Ready(held) = poll_once(session.receive()) else { panic!("it has a message") };
        let mut transaction = bench.broker.transaction();
        transaction.complete(held.unwrap()).unwrap();
        transaction.send(&bench.queue.sender().unwrap(), in_session("b")).unwrap();
        let committed = bench.spawn(|_| kind(transaction.commit().wait()));
        session.close().unwrap();
        match committed.join().unwrap() {
            None => assert_eq!(bodies(&bench), ["b"]),
            Some(kind) => {
                assert_eq!(kind, ErrorKind::SessionLockLost);
                assert_eq!(bodies(&bench), ["a"]);
            }
        }
        // Nothing holds the session, whatever came first.
        bench.queue.accept_session("s").unwrap().close().unwrap();
        assert_eq!(bench.counts(), [1, 0, 0, 0]);
    });
}

/// Rules: T-71.
/// Both settle one message and send one; the lock of the second is on the first's message, if that lost its own.
#[test]
fn two_commits_about_one_message() {
    random("two_commits_about_one_message", || {
        let bench = Bench::new(settings());
        bench.send("a");
        let held = bench.try_receive().unwrap();
        let transaction = |bench: &Bench, lease, body: &'static str| -> Transaction {
            let mut transaction = bench.broker.transaction();
            transaction.settle(lease, Disposition::Complete).unwrap();
            transaction.send(&bench.queue.sender().unwrap(), Message::new(body)).unwrap();
            transaction
        };
        let first = transaction(&bench, held.lease, "first");
        let first = bench.spawn(|_| kind(first.commit().wait()));
        let second = bench.spawn(move |bench| {
            bench.queue.lose_locks();
            let held = bench.try_receive().filter(|held| text(&held.message) == "a")?;
            Some(kind(transaction(bench, held.lease, "second").commit().wait()))
        });
        match (first.join().unwrap(), second.join().unwrap()) {
            (None, None) => assert_eq!(bodies(&bench), ["first"]),
            (Some(ErrorKind::MessageLockLost), Some(None)) => assert_eq!(bodies(&bench), ["second"]),
            other => panic!("{other:?}"),
        }
    });
}
