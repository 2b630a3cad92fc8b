//! I24: a session has one holder, and its messages come in order; one that went leaves it to the next.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::atomic::Ordering,
    task::Poll,
    time::Duration,
};

use consign::{
    Message,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, ReceiverExt, Sender, Session},
};
use consign_conformance::killed;
use consign_nats::{
    Nats, NatsSession, QueueSettings,
    async_nats::{
        HeaderMap,
        jetstream::{self, consumer::PullConsumer},
    },
};
use futures_util::{StreamExt, TryStreamExt, future::join_all};

use crate::{LONG, limit_records, queue};

pub(crate) fn by_session() -> QueueSettings {
    let mut settings = QueueSettings::default();
    settings.requires_session = true;
    settings
}

/// Sessions whose lock is so short that its holder does not write it again and again. A holder that is forgotten would take back
/// a lock that the test has ended.
pub(crate) fn by_short_session() -> QueueSettings {
    let mut settings = by_session();
    settings.lock_duration = Duration::from_secs(10);
    settings
}

/// Rules: I-24.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_want_a_session_one_gets_it() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    for round in 0..20 {
        let id = format!("session {round}");
        let accepted = join_all((0..8).map(|_| nats.accept_session(&path, &id))).await;
        let (held, refused): (Vec<_>, Vec<_>) = accepted.into_iter().partition(Result::is_ok);
        assert_eq!(held.len(), 1);
        for error in refused.into_iter().filter_map(Result::err) {
            assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked, "{error}");
        }
    }
    nats.delete(&path).await.unwrap();
}

/// Rules: I-24.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_goes_to_the_holder_of_its_session_in_order() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    for number in 0..10 {
        for session in ["a", "b", "c", "d"] {
            sender.send(Message::builder().session_id(session).build(format!("{number}")).unwrap()).await.unwrap();
        }
    }
    let workers = (0..4).map(|_| async {
        let mut acceptor = nats.session_acceptor(&path).await.unwrap();
        let mut session = acceptor.accept_next_within(LONG).await.unwrap();
        for number in 0..10 {
            // Every other message is given back once.
            let delivery = session.receive_within(LONG).await.unwrap();
            assert_eq!(delivery.message.payload(), Some(format!("{number}").as_bytes()));
            if number % 2 == 0 {
                delivery.abandon().await.unwrap();
                let again = session.receive_within(LONG).await.unwrap();
                assert_eq!(again.message.payload(), Some(format!("{number}").as_bytes()));
                again.complete().await.unwrap();
            } else {
                delivery.complete().await.unwrap();
            }
        }
        session
    });
    for session in join_all(workers).await {
        session.close().await.unwrap();
    }
    nats.delete(&path).await.unwrap();
}

/// Rules: I-24.
/// The next holder took the lock over, and died before it had removed the consumer of the one before.
#[tokio::test]
async fn the_rest_of_an_interrupted_takeover_is_cleaned_up() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    sender.send(Message::builder().session_id("a").build("1").unwrap()).await.unwrap();
    let mut first = nats.accept_session(&path, "a").await.unwrap();
    std::mem::forget(first.receive_within(LONG).await.unwrap());
    std::mem::forget(first);
    let mut headers = HeaderMap::new();
    headers.insert("Sb-Owner", "sdied");
    headers.insert("Sb-Locked-Until", "0");
    let context = jetstream::new(nats.client().clone());
    let written = context.publish_with_headers(format!("test.{path}.x.session.a"), headers, "".into()).await.unwrap();
    written.await.unwrap();

    let mut next = nats.accept_session(&path, "a").await.unwrap();
    let delivery = next.receive_within(LONG).await.unwrap();
    assert_eq!(delivery.message.received().unwrap().delivery_count, 2);
    delivery.complete().await.unwrap();
    next.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// The holder in the record of a session.
async fn owner(nats: &Nats, path: &str, id: &str) -> String {
    let beside = jetstream::new(nats.client().clone()).get_stream(format!("test_{path}_x")).await;
    let subject = format!("test.{path}.x.session.{id}");
    let record = beside.expect("the stream").get_last_raw_message_by_subject(&subject).await.expect("a record");
    record.headers.get("Sb-Owner").expect("a holder").to_string()
}

/// Ends the lock of a session at once: its holder stays in the record.
pub(crate) async fn end_lock(nats: &Nats, path: &str, id: &str) {
    let context = jetstream::new(nats.client().clone());
    let subject = format!("test.{path}.x.session.{id}");
    let mut headers = HeaderMap::new();
    headers.insert("Sb-Owner", owner(nats, path, id).await);
    headers.insert("Sb-Locked-Until", "0");
    let written = context.publish_with_headers(subject, headers, "".into()).await.expect("a connection");
    written.await.expect("a record");
}

/// The server refuses the dead letter of its message, which the previous holder has lost in its last delivery.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_the_server_refuses_does_not_stop_the_next_one() {
    let mut settings = by_short_session();
    settings.max_delivery_count = 1;
    let Some((nats, path)) = queue(settings).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    for (session, body) in [("a", "x".repeat(4_000)), ("b", String::from("b"))] {
        sender.send(Message::builder().session_id(session).build(body).unwrap()).await.unwrap();
    }
    let mut first = nats.accept_session(&path, "a").await.unwrap();
    std::mem::forget(first.receive_within(LONG).await.unwrap());
    std::mem::forget(first);
    end_lock(&nats, &path, "a").await;
    let holder = owner(&nats, &path, "a").await;
    limit_records(&nats, &path, 2_000).await;

    let refused = nats.accept_session(&path, "a").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MessageSizeExceeded, "{refused}");
    let mut acceptor = nats.session_acceptor(&path).await.unwrap();
    let session = acceptor.accept_next_within(LONG).await.unwrap();
    assert_eq!(session.session_id(), "b");
    let refused = acceptor.accept_next_within(LONG).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MessageSizeExceeded, "{refused}");
    // The consumer that could not be removed is not forgotten.
    assert_eq!(owner(&nats, &path, "a").await, holder);
    session.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// The leader of the stream answers in another form than a direct read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_state_is_kept_for_the_next_holder() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    let state = bytes::Bytes::from(vec![0xa5; nats.client().max_payload() - 1_024]);
    let session = nats.accept_session(&path, "a").await.unwrap();
    session.set_state(Some(state.clone())).await.unwrap();
    session.close().await.unwrap();
    let session = nats.accept_session(&path, "a").await.unwrap();
    assert!(session.state().await.unwrap() == Some(state));
    session.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// The session, when it was given up, well before its lock of a minute ends.
pub(crate) async fn accept_soon(nats: &Nats, path: &str) -> NatsSession {
    let accepted = async {
        loop {
            match nats.accept_session(path, "a").await {
                Err(error) if error.kind() == ErrorKind::SessionCannotBeLocked => tokio::task::yield_now().await,
                accepted => break accepted.expect("a session"),
            }
        }
    };
    tokio::time::timeout(LONG, accepted).await.expect("no lock is left")
}

/// Rules: I-35.
#[tokio::test]
async fn an_accept_that_is_dropped_at_any_poll_leaves_no_lock() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    for polls in 0.. {
        let was_accepted = {
            let mut accepting = pin!(nats.accept_session(&path, "a"));
            let mut left = polls;
            poll_fn(|cx| {
                if left == 0 {
                    return Poll::Ready(false);
                }
                left -= 1;
                accepting.as_mut().poll(cx).map(|accepted| accepted.is_ok())
            })
            .await
        };
        accept_soon(&nats, &path).await.close().await.unwrap();
        if was_accepted {
            assert!(polls >= 2, "{polls}");
            break;
        }
    }
    nats.delete(&path).await.unwrap();
}

/// Rules: I-24.
/// A message that the server has delivered, and that never came, comes before those behind it: to the next holder.
#[tokio::test]
async fn messages_lost_with_a_connection_are_not_overtaken() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    let mut session = nats.accept_session(&path, "a").await.unwrap();
    for body in ["1", "2", "3"] {
        sender.send(Message::builder().session_id("a").build(body).unwrap()).await.unwrap();
    }
    session.receive_within(LONG).await.unwrap().complete().await.unwrap();
    for is_lost in [false, true] {
        if is_lost {
            let stream = jetstream::new(nats.client().clone()).get_stream(format!("test_{path}")).await.unwrap();
            let name = stream.consumer_names().try_next().await.unwrap().expect("the consumer of the hold");
            let consumer: PullConsumer = stream.get_consumer(&name).await.unwrap();
            let lost = consumer.fetch().max_messages(1).messages().await.unwrap().next().await.unwrap().unwrap();
            assert_eq!(&*lost.payload, b"3");
            sender.send(Message::builder().session_id("a").build("4").unwrap()).await.unwrap();
        }
        let connects = nats.client().statistics().connects.load(Ordering::Relaxed);
        nats.client().force_reconnect().await.unwrap();
        // What is asked for before may be lost indeed.
        while nats.client().statistics().connects.load(Ordering::Relaxed) == connects {
            tokio::task::yield_now().await;
        }
        let again = loop {
            match session.receive_within(LONG).await {
                Err(error) if error.kind() == ErrorKind::CommunicationProblem => {}
                again => break again,
            }
        };
        if is_lost {
            assert_eq!(again.unwrap_err().kind(), ErrorKind::SessionLockLost);
        } else {
            let again = again.unwrap();
            assert_eq!(again.message.payload(), Some(&b"2"[..]));
            again.complete().await.unwrap();
        }
    }
    let mut next = accept_soon(&nats, &path).await;
    for body in ["3", "4"] {
        let delivery = next.receive_within(LONG).await.unwrap();
        let received = (delivery.message.payload(), delivery.message.received().unwrap().delivery_count);
        assert_eq!(received, (Some(body.as_bytes()), 1));
        delivery.complete().await.unwrap();
    }
    next.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// Rules: I-24.
/// Whatever the settlement: those behind the message do not pass it.
#[tokio::test]
async fn a_message_whose_settlement_failed_is_the_next_one() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    for body in ["1", "2"] {
        sender.send(Message::builder().session_id("a").build(body).unwrap()).await.unwrap();
    }
    let mut session = nats.accept_session(&path, "a").await.unwrap();
    let delivery = session.receive_within(LONG).await.unwrap();
    let too_long = DeadLetter::new(DeadLetterReason::HandlerPermanent, "x".repeat(5_000));
    assert_eq!(delivery.dead_letter(too_long).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    for (body, count) in [("1", 2), ("2", 1)] {
        let delivery = session.receive_within(LONG).await.unwrap();
        let received = (delivery.message.payload(), delivery.message.received().unwrap().delivery_count);
        assert_eq!(received, (Some(body.as_bytes()), count));
        delivery.complete().await.unwrap();
    }
    session.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// Rules: I-24.
/// A receive that is given up leaves its request at the server, and the next one is for fewer messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_stays_in_its_order_when_receives_are_given_up() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    let mut session = nats.accept_session(&path, "a").await.unwrap();
    let sender = nats.sender(&path).await.unwrap();
    let sending = tokio::spawn(async move {
        for number in 0..300 {
            let message = Message::builder().session_id("a").build(format!("{number}")).unwrap();
            sender.send(message).await.unwrap();
            tokio::time::sleep(Duration::from_micros(fastrand::u64(..3_000))).await;
        }
    });
    let mut received = Vec::new();
    while received.len() < 300 {
        let wait = Duration::from_micros(fastrand::u64(..4_000));
        let several = tokio::time::timeout(wait, session.receive_batch(5)).await.map(Result::unwrap);
        let mut deliveries = several.unwrap_or_default();
        if deliveries.is_empty() {
            deliveries.extend(session.receive_within(Duration::from_millis(500)).await);
        }
        for delivery in deliveries {
            received.push(String::from_utf8_lossy(delivery.message.payload().unwrap()).parse::<u32>().unwrap());
            delivery.complete().await.unwrap();
        }
    }
    assert_eq!(received, (0..300).collect::<Vec<_>>());
    sending.await.unwrap();
    drop(session);
    nats.delete(&path).await.unwrap();
}

/// It was abandoned, and then the lock ran out before it came again: one delivery has failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_counted_by_the_holder_are_not_counted_again() {
    let Some((nats, path)) = queue(by_short_session()).await else { return };
    let message = Message::builder().session_id("a").build("x").unwrap();
    nats.sender(&path).await.unwrap().send(message).await.unwrap();
    let mut session = nats.accept_session(&path, "a").await.unwrap();
    session.receive_within(LONG).await.unwrap().abandon().await.unwrap();
    for expected in [2, 3] {
        end_lock(&nats, &path, "a").await;
        let mut next = nats.session_acceptor(&path).await.unwrap().accept_next_within(LONG).await.unwrap();
        let delivery = next.receive_within(LONG).await.unwrap();
        assert_eq!(delivery.message.received().unwrap().delivery_count, expected);
        // Neither is settled nor given up before the lock ends.
        std::mem::forget((delivery, next));
    }
    drop(session);
    nats.delete(&path).await.unwrap();
}

/// The process that holds the session below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_that_is_killed() {
    let Some(path) = killed::argument() else { return };
    let url = crate::server::url().unwrap();
    let nats = Nats::options().namespace("test").server_syncs().connect(&url).await.unwrap();
    let mut session = nats.accept_session(&path, "a").await.unwrap();
    let _held = session.receive_within(LONG).await.unwrap();
    killed::ready().await;
}

/// Rules: K-222.
/// Its lock would hold for a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_a_killed_process_goes_on_elsewhere() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    sender.send(Message::builder().session_id("a").build("1").unwrap()).await.unwrap();
    let process = killed::Killed::run("sessions::the_holder_that_is_killed", &path).await.unwrap();
    assert!(nats.accept_session(&path, "a").await.is_err());
    process.kill().await.unwrap();
    let since = tokio::time::Instant::now();
    let mut acceptor = nats.session_acceptor(&path).await.unwrap();
    let mut session = acceptor.accept_next_within(LONG).await.unwrap();
    let delivery = session.receive_within(LONG).await.unwrap();
    println!("after {:?}", since.elapsed());
    assert_eq!(delivery.message.received().unwrap().delivery_count, 2);
    delivery.complete().await.unwrap();
    session.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// Rules: K-222.
/// The record is written again before it ends, and the lock ends when it is not renewed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_held_for_its_lock_duration_without_a_renewal() {
    let mut settings = by_session();
    settings.lock_duration = Duration::from_secs(25);
    let Some((nats, path)) = queue(settings).await else { return };
    let mut session = nats.accept_session(&path, "a").await.unwrap();
    // What a record alone locks is over by then.
    assert!(session.receive_within(Duration::from_secs(11)).await.is_err());
    let refused = nats.accept_session(&path, "a").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SessionCannotBeLocked);
    let lost = session.receive_within(LONG).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::SessionLockLost);
    accept_soon(&nats, &path).await.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}
