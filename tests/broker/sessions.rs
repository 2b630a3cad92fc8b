//! Sessions: who holds one, what the holder gets, and what is left when it lets go.

use std::{task::Poll, time::Duration};

use bytes::Bytes;
use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Queue, QueueLease, SessionReceiver},
    message::{MessageState, SequenceNumber},
    settlement::DeadLetterReason,
    transport::{Delivery, ErrorKind, Lease, Receiver, ReceiverExt, Sender},
};
use tokio_test::task;

use crate::{
    namespace::{bodies, try_take},
    support::{ALMOST_LOCK, Bench, Ended, LOCK, MS, START, facts, settings, text, texts, why},
};

const SECOND: Duration = Duration::from_secs(1);

fn with_sessions() -> QueueSettings {
    settings().requires_session(true)
}

fn bench() -> Bench {
    Bench::new(with_sessions())
}

fn of(session: &'static str, body: &'static str) -> Message {
    Message::builder().session_id(session).build(body).unwrap()
}

/// Sends one message for each pair of a session and a body.
fn send<const N: usize>(bench: &Bench, messages: [(&'static str, &'static str); N]) {
    for (session, body) in messages {
        bench.try_send(of(session, body)).unwrap();
    }
}

/// What a receive of up to `max` answers that does not wait.
pub(crate) fn try_receive(session: &mut SessionReceiver, max: usize) -> Result<Vec<Delivery<QueueLease>>, ErrorKind> {
    in_runtime(|| {
        let received = match task::spawn(session.receive_batch(max)).poll() {
            Poll::Ready(received) => received.map_err(|error| error.kind()),
            Poll::Pending => Ok(Vec::new()),
        };
        session.stop();
        received
    })
}

/// Waiting needs a runtime for its timer.
fn in_runtime<T>(f: impl FnOnce() -> T) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    }
    RUNTIME.with(|runtime| {
        let _entered = runtime.enter();
        f()
    })
}

/// The next message, which has to be there.
fn receive(session: &mut SessionReceiver) -> Delivery<QueueLease> {
    try_receive(session, 1).unwrap().pop().expect("a message is available")
}

/// Accepts the next session, which has to be there.
fn accept_next(queue: &Queue) -> SessionReceiver {
    try_accept_next(queue).expect("a session is available")
}

pub(crate) fn try_accept_next(queue: &Queue) -> Option<SessionReceiver> {
    in_runtime(|| {
        let mut acceptor = queue.session_acceptor().unwrap();
        match task::spawn(acceptor.accept_next()).poll() {
            Poll::Ready(accepted) => Some(accepted.unwrap()),
            Poll::Pending => None,
        }
    })
}

/// The id of the session that is accepted next, without keeping it.
fn next_session(queue: &Queue) -> Option<String> {
    try_accept_next(queue).map(|session| session.session_id().to_owned())
}

fn refusal<T>(result: Result<T, consign::transport::ReceiveError>) -> ErrorKind {
    result.err().expect("it is refused").kind()
}

fn dead() -> Disposition {
    Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "no")
}

/// Rules: N-01.
#[test]
fn a_session_is_there_while_it_has_a_message_or_a_state() {
    let bench = bench();
    assert!(bench.queue.sessions().is_empty());
    send(&bench, [("b", "1"), ("a", "2")]);
    assert_eq!(bench.queue.sessions(), ["a", "b"]);

    // What is held or deferred is still there, a dead letter is not.
    let mut session = bench.queue.accept_session("a").unwrap();
    let held = receive(&mut session);
    assert_eq!(bench.queue.sessions(), ["a", "b"]);
    let number = facts(&held.message).sequence_number;
    held.settle(Disposition::DEFER).ok();
    assert_eq!(bench.queue.sessions(), ["a", "b"]);
    session.receive_deferred(&[number]).unwrap().remove(0).settle(dead()).ok();
    assert_eq!(bench.queue.sessions(), ["b"]);

    session.set_state(Some(Bytes::from_static(b"s"))).wait().unwrap();
    session.close().unwrap();
    bench.advance(1_000_000 * LOCK);
    assert_eq!(bench.queue.sessions(), ["a", "b"]);
    bench.queue.accept_session("a").unwrap().set_state(None).wait().unwrap();
    assert_eq!(bench.queue.sessions(), ["b"]);

    // Neither a holder nor a message that waits for its time makes one.
    let _held = bench.queue.accept_session("held").unwrap();
    bench.queue.schedule(vec![of("later", "3")], START.saturating_add(2_000_000 * LOCK)).wait().unwrap();
    assert_eq!(bench.queue.sessions(), ["b"]);
}

/// Rules: N-01.
#[test]
fn an_expired_message_ends_its_session() {
    let bench = bench();
    let message = Message::builder().session_id("a").time_to_live(SECOND).build("1").unwrap();
    bench.try_send(message).unwrap();
    for (after, there) in [(SECOND - MS, true), (MS, false)] {
        bench.advance(after);
        assert_eq!(!bench.queue.sessions().is_empty(), there);
        assert_eq!(next_session(&bench.queue).is_some(), there);
    }
}

/// Rules: N-02.
#[test]
fn a_message_needs_a_session_and_a_receive_too() {
    let bench = bench();
    let sender = bench.queue.sender().unwrap();
    assert_eq!(sender.send(Message::new("1")).wait().unwrap_err().kind(), ErrorKind::InvalidOperation);
    let scheduled = sender.schedule(vec![Message::new("1")], START.saturating_add(SECOND)).wait();
    assert_eq!(scheduled.unwrap_err().kind(), ErrorKind::InvalidOperation);
    assert_eq!(bench.counts(), [0; 4]);
    send(&bench, [("a", "1"), ("", "2")]);
    assert_eq!(try_take(&bench.queue, 1).unwrap_err(), ErrorKind::InvalidOperation);
    assert_eq!(facts(&receive(&mut bench.queue.accept_session("a").unwrap()).message).sequence_number.get(), 1);
    // The empty text is an id as any other.
    assert_eq!(text(&receive(&mut bench.queue.accept_session("").unwrap()).message), "2");
}

/// Rules: N-03.
/// Attacks: 74.
#[test]
fn a_session_is_locked_by_its_id_empty_or_not() {
    let bench = bench();
    let mut empty = bench.queue.accept_session("a").unwrap();
    assert_eq!((empty.session_id(), empty.locked_until()), ("a", START.saturating_add(LOCK)));
    assert_eq!(refusal(bench.queue.accept_session("a")), ErrorKind::SessionCannotBeLocked);
    let _other = bench.queue.accept_session("A").unwrap();
    send(&bench, [("a", "1")]);
    assert_eq!(text(&receive(&mut empty).message), "1");

    // A millisecond before its end the lock holds.
    bench.advance(ALMOST_LOCK);
    assert_eq!(refusal(bench.queue.accept_session("a")), ErrorKind::SessionCannotBeLocked);
    bench.advance(MS);
    let _next = bench.queue.accept_session("a").unwrap();
    // The receiver that lost it takes nothing from the one that has it.
    assert!(empty.close().is_err());
    assert_eq!(refusal(bench.queue.accept_session("a")), ErrorKind::SessionCannotBeLocked);
}

/// Rules: N-03.
#[test]
fn an_id_is_no_longer_than_the_property() {
    let bench = bench();
    bench.queue.accept_session(&"x".repeat(128)).unwrap();
    assert_eq!(refusal(bench.queue.accept_session(&"x".repeat(129))), ErrorKind::InvalidArgument);
}

/// Rules: N-04.
#[test]
fn the_next_session_is_the_one_whose_message_is_first() {
    let bench = bench();
    send(&bench, [("b", "1"), ("a", "2"), ("b", "3"), ("c", "4")]);
    let sessions = [(); 3].map(|()| accept_next(&bench.queue));
    assert_eq!(sessions.each_ref().map(|session| session.session_id().to_owned()), ["b", "a", "c"]);
    assert!(next_session(&bench.queue).is_none());
    drop(sessions);

    // With its first message gone, the place is that of its next.
    receive(&mut bench.queue.accept_session("b").unwrap()).complete().ok();
    assert_eq!(next_session(&bench.queue).unwrap(), "a");
    // What came back is first again.
    let mut session = bench.queue.accept_session("a").unwrap();
    let held = receive(&mut session);
    send(&bench, [("a", "5")]);
    session.close().unwrap();
    assert_eq!(next_session(&bench.queue).unwrap(), "a");
    assert_eq!(held.complete().refused(), ErrorKind::SessionLockLost);
}

/// Rules: N-04.
#[test]
fn a_session_with_nothing_to_receive_is_not_the_next() {
    let bench = bench();
    send(&bench, [("deferred", "1")]);
    let mut session = accept_next(&bench.queue);
    receive(&mut session).settle(Disposition::DEFER).ok();
    session.close().unwrap();
    bench.queue.accept_session("state").unwrap().set_state(Some(Bytes::from_static(b"s"))).wait().unwrap();
    bench.queue.schedule(vec![of("scheduled", "2")], START.saturating_add(SECOND)).wait().unwrap();
    assert!(next_session(&bench.queue).is_none());
    bench.advance(SECOND - MS);
    assert!(next_session(&bench.queue).is_none());
    bench.advance(MS);
    assert_eq!(next_session(&bench.queue).unwrap(), "scheduled");
}

/// Rules: N-05.
#[test]
fn the_holder_has_what_comes_later_too() {
    let bench = bench();
    send(&bench, [("a", "1"), ("b", "2")]);
    let mut first = accept_next(&bench.queue);
    let mut second = accept_next(&bench.queue);
    send(&bench, [("a", "3"), ("b", "4"), ("a", "5")]);
    assert!(next_session(&bench.queue).is_none());
    let (firsts, seconds) = (try_receive(&mut first, 9).unwrap(), try_receive(&mut second, 9).unwrap());
    assert_eq!(texts(firsts.iter().map(|it| &it.message)), ["1", "3", "5"]);
    assert_eq!(texts(seconds.iter().map(|it| &it.message)), ["2", "4"]);
    assert!(firsts.iter().all(|it| it.message.session_id() == Some("a")));
}

/// Rules: N-06.
#[test]
fn the_lock_of_a_session_is_that_of_its_messages() {
    let bench = bench();
    send(&bench, [("a", "1"), ("a", "2")]);
    let mut session = accept_next(&bench.queue);
    bench.advance(3 * SECOND);
    let first = receive(&mut session);
    assert_eq!(facts(&first.message).locked_until, Some(START.saturating_add(LOCK)));
    bench.advance(SECOND);
    let until = START.saturating_add(4 * SECOND + LOCK);
    assert_eq!((session.renew().unwrap(), session.locked_until()), (until, until));
    let second = receive(&mut session);
    assert_eq!(facts(&second.message).locked_until, Some(until));

    // The renewal is theirs as well, to the last millisecond.
    bench.advance(ALMOST_LOCK);
    first.complete().ok();
    bench.advance(MS);
    assert_eq!(second.complete().refused(), ErrorKind::SessionLockLost);
    assert_eq!(session.renew().unwrap_err().kind(), ErrorKind::SessionLockLost);
}

/// Rules: N-06.
#[test]
fn neither_a_receive_nor_a_settlement_extends_the_lock() {
    let bench = bench();
    send(&bench, [("a", "1"), ("a", "2"), ("a", "3")]);
    let mut session = accept_next(&bench.queue);
    for _ in 0..2 {
        bench.advance(LOCK / 2 - MS);
        receive(&mut session).complete().ok();
    }
    bench.advance(2 * MS);
    assert_eq!(try_receive(&mut session, 1).unwrap_err(), ErrorKind::SessionLockLost);
}

/// Rules: N-06.
#[test]
fn a_renewal_at_the_last_millisecond_holds_and_one_later_does_not() {
    for (after, renewed) in [(ALMOST_LOCK, true), (LOCK, false), (LOCK + MS, false)] {
        let bench = bench();
        let mut session = bench.queue.accept_session("a").unwrap();
        bench.advance(after);
        assert_eq!(session.renew().is_ok(), renewed, "{after:?}");
        assert_eq!(bench.queue.accept_session("a").is_err(), renewed);
    }
}

/// Rules: N-07.
#[test]
fn messages_come_in_order_and_an_abandoned_one_comes_next() {
    let bench = bench();
    send(&bench, [("a", "1"), ("a", "2"), ("a", "3"), ("a", "4")]);
    let mut session = accept_next(&bench.queue);
    let mut held = try_receive(&mut session, 3).unwrap();
    assert_eq!(texts(held.iter().map(|it| &it.message)), ["1", "2", "3"]);
    held.remove(1).abandon().ok();
    let second = receive(&mut session);
    assert_eq!((text(&second.message), facts(&second.message).delivery_count), ("2", 2));
    // Two that come back do so in the order of their numbers.
    held.remove(1).abandon().ok();
    held.remove(0).lease.release().ok();
    let again = try_receive(&mut session, 9).unwrap();
    assert_eq!(texts(again.iter().map(|it| &it.message)), ["1", "3", "4"]);
    assert_eq!(again.iter().map(|it| facts(&it.message).delivery_count).collect::<Vec<_>>(), [1, 2, 1]);
}

/// Rules: N-08.
#[test]
fn with_the_lock_of_the_session_everything_is_lost() {
    type Loss = fn(&Bench);
    let losses: [Loss; 2] = [|bench| bench.advance(LOCK), |bench| bench.queue.lose_locks()];
    for lose in losses {
        let bench = bench();
        send(&bench, [("a", "1"), ("a", "2"), ("a", "3"), ("a", "4"), ("a", "5")]);
        let mut session = accept_next(&bench.queue);
        let mut held = try_receive(&mut session, 4).unwrap();
        lose(&bench);
        let lost = ErrorKind::SessionLockLost;
        assert_eq!(held.remove(0).complete().refused(), lost);
        assert_eq!(held.remove(0).abandon().refused(), lost);
        assert_eq!(held.remove(0).lease.release().refused(), lost);
        assert_eq!(held.remove(0).settle(dead()).refused(), lost);
        assert_eq!(try_receive(&mut session, 1).unwrap_err(), lost);
        assert_eq!(session.renew().unwrap_err().kind(), lost);
        assert_eq!(session.state().unwrap_err().kind(), lost);
        assert_eq!(session.set_state(None).wait().unwrap_err().kind(), lost);
        assert_eq!(refusal(session.receive_deferred(&[])), lost);
        assert!(session.peek(9).is_empty());
        assert_eq!(session.delete_messages(9, None).wait().unwrap(), 0);
        assert_eq!(bench.counts(), [5, 0, 0, 0]);
        assert_eq!(session.close().unwrap_err().kind(), lost);
    }
}

/// Rules: N-05, N-08.
#[test]
fn a_lost_session_deletes_nothing_of_another_one() {
    let bench = bench();
    let lost = bench.queue.accept_session("a").unwrap();
    bench.advance(LOCK);
    // It takes the place of the session without messages.
    send(&bench, [("b", "1")]);
    let mut other = bench.queue.accept_session("b").unwrap();
    assert_eq!(lost.delete_messages(9, None).wait().unwrap(), 0);
    assert_eq!(text(&receive(&mut other).message), "1");
}

/// Rules: N-08.
/// The next holder has other locks, although the messages are the same.
#[test]
fn a_lease_of_an_earlier_holder_settles_nothing() {
    let bench = bench();
    send(&bench, [("a", "1")]);
    let mut first = accept_next(&bench.queue);
    let held = receive(&mut first);
    first.close().unwrap();
    let mut second = accept_next(&bench.queue);
    let current = receive(&mut second);
    assert_eq!(held.complete().refused(), ErrorKind::SessionLockLost);
    current.complete().ok();
    assert_eq!(bench.counts(), [0; 4]);
}

/// Rules: N-09, S-76.
#[test]
fn a_session_that_is_closed_counts_nothing() {
    let closings: [fn(SessionReceiver); 2] = [|session| session.close().unwrap(), drop];
    for close in closings {
        let bench = Bench::new(with_sessions().max_delivery_count(1));
        send(&bench, [("a", "1"), ("a", "2")]);
        let mut session = accept_next(&bench.queue);
        let held = receive(&mut session);
        close(session);
        assert_eq!(bench.counts(), [2, 0, 0, 0]);
        let mut session = accept_next(&bench.queue);
        let again = try_receive(&mut session, 9).unwrap();
        assert_eq!(again.iter().map(|it| facts(&it.message).delivery_count).collect::<Vec<_>>(), [1, 1]);
        drop(held);
    }
}

/// Rules: N-09, S-75.
#[test]
fn a_session_that_runs_out_counts_what_was_delivered() {
    let bench = bench();
    send(&bench, [("a", "1"), ("a", "2"), ("a", "3"), ("a", "4")]);
    let mut session = accept_next(&bench.queue);
    let mut held = try_receive(&mut session, 3).unwrap();
    held.pop().unwrap().lease.release().ok();
    bench.advance(ALMOST_LOCK);
    assert_eq!(bench.counts(), [2, 2, 0, 0]);
    bench.advance(MS);
    assert_eq!(bench.counts(), [4, 0, 0, 0]);
    let again = try_receive(&mut accept_next(&bench.queue), 9).unwrap();
    assert_eq!(again.iter().map(|it| facts(&it.message).delivery_count).collect::<Vec<_>>(), [2, 2, 1, 1]);
}

/// Rules: S-75.
#[test]
fn at_the_last_delivery_it_dead_letters() {
    let bench = Bench::new(with_sessions().max_delivery_count(2));
    send(&bench, [("a", "1"), ("a", "2")]);
    for deliveries in 1..=2 {
        let mut session = accept_next(&bench.queue);
        let held = receive(&mut session);
        assert_eq!((text(&held.message), facts(&held.message).delivery_count), ("1", deliveries));
        bench.advance(LOCK);
        assert_eq!(bench.counts()[1], 0);
    }
    assert_eq!(bench.counts(), [1, 0, 0, 1]);
    let dead = bench.receive_dead();
    assert_eq!((text(&dead.message), why(&dead.message).0), ("1", "MaxDeliveryCountExceeded"));
}

/// Rules: S-75, S-35.
#[test]
fn a_deferred_message_of_a_lost_session_is_deferred_again() {
    let bench = bench();
    send(&bench, [("a", "1")]);
    let mut session = accept_next(&bench.queue);
    let held = receive(&mut session);
    let number = facts(&held.message).sequence_number;
    held.settle(Disposition::DEFER).ok();
    let held = session.receive_deferred(&[number]).unwrap();
    bench.advance(LOCK);
    assert_eq!(bench.counts(), [0, 0, 1, 0]);
    let session = bench.queue.accept_session("a").unwrap();
    let again = session.receive_deferred(&[number]).unwrap().remove(0);
    assert_eq!(facts(&again.message).delivery_count, 2);
    drop(held);
}

/// Rules: S-38, T-06.
#[test]
fn an_expiry_in_a_session_applies_when_its_lock_ends() {
    let bench = Bench::new(with_sessions().dead_letter_on_expiration(true));
    for body in ["1", "2"] {
        bench.try_send(Message::builder().session_id("a").time_to_live(SECOND).build(body).unwrap()).unwrap();
    }
    let mut session = accept_next(&bench.queue);
    let held = receive(&mut session);
    bench.advance(SECOND);
    assert_eq!(bench.counts(), [0, 1, 0, 1]);
    bench.advance(LOCK - SECOND - MS);
    assert_eq!(bench.counts(), [0, 1, 0, 1]);
    bench.advance(MS);
    assert_eq!(bench.counts(), [0, 0, 0, 2]);
    drop(held);
}

/// Rules: S-43.
#[test]
fn a_new_lock_duration_gives_sessions_back_without_a_count() {
    let bench = bench();
    send(&bench, [("a", "1")]);
    let mut session = accept_next(&bench.queue);
    let held = receive(&mut session);
    bench.broker.update_queue("orders", with_sessions().lock_duration(LOCK / 2)).unwrap();
    assert_eq!(held.complete().refused(), ErrorKind::SessionLockLost);
    let mut session = accept_next(&bench.queue);
    assert_eq!(session.locked_until(), START.saturating_add(LOCK / 2));
    assert_eq!(facts(&receive(&mut session).message).delivery_count, 1);
}

/// Rules: S-59.
#[test]
fn a_message_of_a_session_is_not_renewed_by_itself() {
    let bench = bench();
    send(&bench, [("a", "1")]);
    let mut session = accept_next(&bench.queue);
    let held = receive(&mut session);
    assert_eq!(held.lease.renew().refused(), ErrorKind::InvalidOperation);
    // The refusal leaves the lock as it was.
    bench.advance(ALMOST_LOCK);
    held.complete().ok();
}

/// Rules: S-50.
#[test]
fn a_session_can_be_received_from_in_receive_and_delete() {
    let bench = bench();
    send(&bench, [("a", "1"), ("a", "2")]);
    let acceptor = bench.queue.session_acceptor().unwrap().receive_and_delete();
    let mut session = acceptor.accept("a").unwrap();
    let first = receive(&mut session);
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
    bench.advance(LOCK);
    assert_eq!(try_receive(&mut session, 1).unwrap_err(), ErrorKind::SessionLockLost);
    assert_eq!(first.complete().refused(), ErrorKind::InvalidOperation);
}

/// Rules: N-10.
#[test]
fn a_state_is_bytes_that_outlive_holders_and_messages() {
    let bench = bench();
    send(&bench, [("a", "1")]);
    let mut session = accept_next(&bench.queue);
    assert_eq!(session.state().unwrap(), None);
    let state = |bytes: &'static [u8]| Some(Bytes::from_static(bytes));
    session.set_state(state(b"first")).wait().unwrap();
    assert_eq!(session.state().unwrap(), state(b"first"));
    receive(&mut session).complete().ok();
    session.set_state(state(b"second")).wait().unwrap();
    bench.advance(LOCK);
    let session = bench.queue.accept_session("a").unwrap();
    assert_eq!(session.state().unwrap(), state(b"second"));
    assert_eq!(bench.queue.accept_session("b").unwrap().state().unwrap(), None);
    // No bytes are a state too.
    session.set_state(state(b"")).wait().unwrap();
    session.close().unwrap();
    let session = bench.queue.accept_session("a").unwrap();
    assert_eq!(session.state().unwrap(), state(b""));
    session.set_state(None).wait().unwrap();
    assert_eq!(session.state().unwrap(), None);
    assert_eq!(bench.queue.counts().size, 0);
}

/// Rules: N-10.
#[test]
fn a_state_is_as_large_as_a_message_at_most() {
    let bench = Bench::new(with_sessions().max_message_size(100));
    let session = bench.queue.accept_session("a").unwrap();
    let state = |bytes: usize| Some(Bytes::from(vec![7; bytes]));
    session.set_state(state(100)).wait().unwrap();
    assert_eq!(session.set_state(state(101)).wait().unwrap_err().kind(), ErrorKind::MessageSizeExceeded);
    assert_eq!(session.state().unwrap(), state(100));
}

/// Rules: N-10, T-86.
#[test]
fn a_state_takes_and_frees_space() {
    let bench = Bench::new(with_sessions().max_size(1_024));
    let (first, second) = (bench.queue.accept_session("a").unwrap(), bench.queue.accept_session("b").unwrap());
    let state = |bytes: usize| Some(Bytes::from(vec![7; bytes]));
    first.set_state(state(488)).wait().unwrap();
    second.set_state(state(24)).wait().unwrap();
    assert_eq!(second.set_state(state(25)).wait().unwrap_err().kind(), ErrorKind::QuotaExceeded);
    assert_eq!((second.state().unwrap(), bench.queue.counts().size), (state(24), 1_024));
    // What is replaced makes room.
    first.set_state(state(487)).wait().unwrap();
    second.set_state(state(25)).wait().unwrap();
    assert_eq!(bench.queue.counts().size, 1_024);
}

/// Rules: N-01, T-86.
/// A state of no bytes keeps its session, so it counts too.
#[test]
fn an_empty_state_takes_space() {
    let bench = Bench::new(with_sessions().max_size(1_024));
    let set = |id: usize| bench.queue.accept_session(&id.to_string()).unwrap().set_state(Some(Bytes::new())).wait();
    for id in 0..4 {
        set(id).unwrap();
    }
    assert_eq!(set(4).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    assert_eq!((bench.queue.sessions().len(), bench.queue.counts().size), (4, 1_024));
}

/// Rules: N-11.
/// Attacks: 74.
#[test]
fn a_deferred_message_and_the_state_need_the_lock() {
    let bench = bench();
    send(&bench, [("a", "1"), ("b", "2")]);
    let mut session = accept_next(&bench.queue);
    let held = receive(&mut session);
    let number = facts(&held.message).sequence_number;
    held.settle(Disposition::DEFER).ok();
    assert_eq!(refusal(bench.queue.receive_deferred(&[number])), ErrorKind::InvalidOperation);
    let other = bench.queue.accept_session("b").unwrap();
    assert_eq!(refusal(other.receive_deferred(&[number])), ErrorKind::MessageNotFound);
    let found = session.receive_deferred(&[number]).unwrap();
    assert_eq!(texts(found.iter().map(|it| &it.message)), ["1"]);
    assert_eq!(found[0].message.received().unwrap().locked_until, Some(session.locked_until()));
    session.close().unwrap();
    assert_eq!(bench.counts(), [1, 0, 1, 0]);
    let found = bench.queue.accept_session("a").unwrap();
    found.receive_deferred(&[number]).unwrap().remove(0).complete().ok();
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
}

/// Rules: N-12.
#[test]
fn without_sessions_an_id_is_only_kept() {
    let bench = Bench::new(settings());
    send(&bench, [("a", "1"), ("a", "2")]);
    let (first, second) = (bench.receive(), bench.receive());
    assert_eq!(second.message.session_id(), Some("a"));
    drop(second);
    assert_eq!(text(&bench.receive().message), "2");
    assert_eq!(refusal(bench.queue.accept_session("a")), ErrorKind::InvalidOperation);
    assert!(bench.queue.sessions().is_empty());
    drop(first);
}

/// Rules: N-13.
#[test]
fn a_peek_sees_all_sessions_and_a_holder_its_own() {
    let bench = bench();
    send(&bench, [("a", "1"), ("b", "2"), ("a", "3"), ("b", "4"), ("a", "5")]);
    for session in ["a", "b"] {
        bench.queue.schedule(vec![of(session, "later")], START.saturating_add(SECOND)).wait().unwrap();
    }
    let mut session = accept_next(&bench.queue);
    let mut held = try_receive(&mut session, 2).unwrap();
    held.pop().unwrap().settle(Disposition::DEFER).ok();
    assert_eq!(texts(&bench.queue.peek(SequenceNumber::new(0), 9)), ["1", "2", "3", "4", "5", "later", "later"]);
    assert_eq!(texts(&bench.queue.receiver().peek(3)), ["1", "2", "3"]);
    let own = session.peek(2);
    assert_eq!(
        own.iter().map(|it| facts(it).state).collect::<Vec<_>>(),
        [MessageState::Active, MessageState::Deferred]
    );
    assert!(own.iter().all(|it| facts(it).locked_until.is_none()));
    // It goes on where it was.
    assert_eq!(texts(&session.peek(9)), ["5", "later"]);
    assert!(session.peek(9).is_empty());
    assert_eq!(bench.counts(), [3, 1, 1, 0]);
}

/// Rules: N-13, N-04, N-07.
/// There the order of numbers is not that of acceptance, so the messages are looked through otherwise.
#[test]
fn a_partitioned_entity_has_sessions_too() {
    let bench = Bench::new(with_sessions().partitioned(true));
    for (session, body) in [("b", "1"), ("a", "2"), ("c", "3"), ("b", "4"), ("a", "5"), ("b", "6")] {
        bench.try_send(of(session, body)).unwrap();
    }
    for session in ["a", "b"] {
        bench.queue.schedule(vec![of(session, "later")], START.saturating_add(SECOND)).wait().unwrap();
    }
    let mut session = accept_next(&bench.queue);
    assert_eq!(session.session_id(), "b");
    let mut held = try_receive(&mut session, 2).unwrap();
    held.remove(0).abandon().ok();
    assert_eq!(texts(&session.peek(9)), ["1", "4", "6", "later"]);
    let again = try_receive(&mut session, 9).unwrap();
    assert_eq!(texts(again.iter().map(|it| &it.message)), ["1", "6"]);
    assert_eq!(next_session(&bench.queue).unwrap(), "a");
}

/// Rules: N-14.
#[test]
fn dead_letters_have_no_sessions() {
    let bench = bench();
    send(&bench, [("a", "1"), ("b", "2")]);
    for _ in 0..2 {
        receive(&mut accept_next(&bench.queue)).settle(dead()).ok();
    }
    let queue = bench.queue.dead_letter();
    assert_eq!(bodies(&queue), ["1", "2"]);
    assert_eq!(refusal(queue.accept_session("a")), ErrorKind::InvalidOperation);
    let (first, second) = (bench.receive_dead(), bench.receive_dead());
    assert_eq!(first.message.session_id(), Some("a"));
    first.lease.renew().ok();
    let number = facts(&second.message).sequence_number;
    second.settle(Disposition::DEFER).ok();
    queue.receive_deferred(&[number]).unwrap().remove(0).complete().ok();
    bench.advance(LOCK);
    assert_eq!(first.complete().refused(), ErrorKind::MessageLockLost);
    assert_eq!(bench.counts(), [0, 0, 0, 1]);
}

/// Rules: S-64.
#[test]
fn a_lease_settles_and_renews_without_its_receiver() {
    let bench = Bench::new(settings());
    bench.send(["1", "2"]);
    let mut receiver = bench.queue.receiver();
    let held = crate::support::take(&mut receiver, 2);
    drop(receiver);
    bench.advance(ALMOST_LOCK);
    for delivery in &held {
        delivery.lease.renew().ok();
    }
    bench.advance(ALMOST_LOCK);
    for delivery in held {
        delivery.complete().ok();
    }
    assert_eq!(bench.counts(), [0; 4]);
}

/// Rules: Q-12.
/// Five messages, two workers that take turns and are not equally fast.
#[test]
fn two_receivers_finish_in_another_order_and_a_session_does_not() {
    let bench = Bench::new(settings());
    bench.send(["1", "2", "3"]);
    let mut finished = Vec::new();
    let slow = bench.receive();
    for quick in [bench.receive(), bench.receive()] {
        finished.push(text(&quick.message).to_owned());
        quick.complete().ok();
    }
    finished.push(text(&slow.message).to_owned());
    slow.complete().ok();
    assert_eq!(finished, ["2", "3", "1"]);

    let bench = self::bench();
    send(&bench, [("a", "1"), ("a", "2"), ("a", "3")]);
    let mut worker = accept_next(&bench.queue);
    let mut finished = Vec::new();
    for _ in 0..3 {
        // The other worker has nothing to do meanwhile.
        assert!(next_session(&bench.queue).is_none());
        let delivery = receive(&mut worker);
        finished.push(text(&delivery.message).to_owned());
        delivery.complete().ok();
    }
    assert_eq!(finished, ["1", "2", "3"]);
}
