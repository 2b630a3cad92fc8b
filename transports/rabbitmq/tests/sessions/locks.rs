//! Who has a session, and who does not any more.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use consign::{
    Message,
    transport::{ErrorKind, ReceiverExt, Sender as _, Session},
};
use consign_conformance::faults::Proxy;
use consign_rabbitmq::{
    QueueSettings, RabbitMq,
    lapin::{Connection, ConnectionProperties},
};
use futures_util::future::{FutureExt, join_all};
use tokio::time::{sleep, timeout};

use crate::{Bench, MOMENT, SOON, accept_soon, by_long_session, by_session, expect, foreign::bucket, next, support};

pub(crate) async fn proxy() -> (Proxy, String) {
    let address = support::address();
    let (login, rest) = address.rsplit_once('@').expect("a broker that answers");
    let (server, rest) = rest.split_once('/').expect("a broker that answers");
    let server = tokio::net::lookup_host(server)
        .await
        .expect("a broker that answers")
        .find(std::net::SocketAddr::is_ipv4)
        .expect("a broker that answers");
    let proxy = Proxy::to(server).await.expect("a broker that answers");
    let address = format!("{login}@{}/{rest}", proxy.address());
    (proxy, address)
}

/// Rules: I-24.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_want_a_session_one_gets_it() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    let other = bench.other(support::options(), &support::address()).await;
    for round in 0..10 {
        let id = format!("session {round}");
        let accepts = (0..8).map(|one| {
            let rabbit = if one % 2 == 0 { &bench.rabbit } else { &other };
            rabbit.accept_session(&bench.queue, &id)
        });
        let (held, refused): (Vec<_>, Vec<_>) = join_all(accepts).await.into_iter().partition(Result::is_ok);
        assert_eq!(held.len(), 1);
        for error in refused.into_iter().filter_map(Result::err) {
            assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked, "{error}");
        }
        for session in held {
            session.unwrap().close().await.unwrap();
        }
    }
    other.close().await.unwrap();
    bench.end().await;
}

/// Rules: N-03.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_had_by_another_client_when_its_slot_is_given_up() {
    let Some(bench) = Bench::new(by_session(1)).await else { return };
    let other = bench.other(support::options(), &support::address()).await;
    for (id, body) in [("a", "1"), ("b", "x"), ("a", "2")] {
        bench.send(id, body).await;
    }
    let (mut a, mut b) = (bench.accept("a").await, bench.accept("b").await);
    let (_, _, first) = next(&mut a).await;
    for id in ["a", "b", "c"] {
        let refused = other.accept_session(&bench.queue, id).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::SessionCannotBeLocked);
    }
    a.close().await.unwrap();
    assert_eq!(first.complete().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    // Here it can be had at once, from where it was; the slot stays as it is.
    let mut a = bench.accept("a").await;
    for body in ["1", "2"] {
        let (text, count, delivery) = next(&mut a).await;
        assert_eq!((text.as_str(), count), (body, 1));
        std::mem::forget(delivery);
    }
    a.close().await.unwrap();
    // The slot has another session that is held.
    assert!(other.accept_session(&bench.queue, "a").await.is_err());
    expect(&mut b, &[("x", 1)]).await;
    b.close().await.unwrap();
    let mut a = other.accept_session(&bench.queue, "a").await.unwrap();
    expect(&mut a, &[("1", 1), ("2", 1)]).await;
    drop(a);
    accept_soon(&bench.rabbit, &bench.queue, "b").await.close().await.unwrap();
    other.close().await.unwrap();
    bench.end().await;
}

/// Rules: N-04.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_session_may_be_in_a_slot_that_is_held() {
    let Some(bench) = Bench::new(by_long_session(2)).await else { return };
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    let ids: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    let mut held = Vec::new();
    let mut marks = Vec::new();
    for slot in 0..2 {
        let mark = (0..1_000).map(|number| format!("mark{number}")).find(|id| bucket(id) % 2 == slot).unwrap();
        marks.push(bench.accept(&mark).await);
    }
    for id in &ids {
        bench.send(id, "1").await;
        bench.send(id, "2").await;
    }
    // What is before it in the slot has arrived too.
    for mark in &mut marks {
        bench.send(mark.session_id(), "last").await;
        expect(mark, &[("last", 1)]).await;
    }
    for id in &ids {
        let session = acceptor.accept_next_within(SOON).await.unwrap();
        assert_eq!(session.session_id(), id);
        held.push(session);
    }
    // One waits while there is none, and gets what is given up.
    let waiting = tokio::spawn(async move { acceptor.accept_next_within(SOON).await.unwrap() });
    tokio::time::sleep(MOMENT).await;
    held.remove(3).close().await.unwrap();
    let mut again = waiting.await.unwrap();
    assert_eq!(again.session_id(), ids[3]);
    expect(&mut again, &[("1", 1), ("2", 1)]).await;
    drop((held, again, marks));
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_accepted_from_slots_that_no_client_holds() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    let ids =
        [0, 1].map(|slot| (0..1_000).map(|number| format!("s{number}")).find(|id| bucket(id) % 2 == slot).unwrap());
    for id in &ids {
        bench.send(id, id).await;
    }
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    let mut held = Vec::new();
    for _ in &ids {
        held.push(acceptor.accept_next_within(SOON).await.unwrap());
    }
    for id in &ids {
        let session = held.iter_mut().find(|session| session.session_id() == id).expect("both are accepted");
        expect(session, &[(id, 1)]).await;
    }
    drop(held);
    bench.end().await;
}

/// Rules: N-08.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_loses_its_sessions_and_counts_nothing() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    for body in ["1", "2", "3"] {
        bench.send("a", body).await;
    }
    let (proxy, address) = proxy().await;
    let quick = support::options().backoff(Duration::from_millis(20), Duration::from_millis(200));
    let broken = bench.other(quick, &address).await;
    let mut session = broken.accept_session(&bench.queue, "a").await.unwrap();
    session.set_state(Some("kept".into())).await.unwrap();
    let (_, _, first) = next(&mut session).await;
    let (_, _, second) = next(&mut session).await;
    first.complete().await.unwrap();
    // An acknowledgement has no answer, and this one comes behind it.
    session.set_state(Some("kept again".into())).await.unwrap();
    proxy.cut();
    // Who waits is told.
    let lost = loop {
        match timeout(SOON, session.receive()).await.expect("the holder is told") {
            Ok(delivery) => std::mem::forget(delivery),
            Err(error) => break error,
        }
    };
    assert_eq!(lost.kind(), ErrorKind::SessionLockLost);
    assert_eq!(second.complete().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(session.set_state(None).await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(session.state().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(session.renew().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(session.close().await.unwrap_err().kind(), ErrorKind::SessionLockLost);

    let mut session = accept_soon(&bench.rabbit, &bench.queue, "a").await;
    assert_eq!(session.state().await.unwrap().as_deref(), Some(&b"kept again"[..]));
    expect(&mut session, &[("2", 1), ("3", 1)]).await;
    session.close().await.unwrap();
    // The one that was cut comes back.
    accept_soon(&broken, &bench.queue, "a").await.close().await.unwrap();
    broken.close().await.unwrap();
    bench.end().await;
}

/// Whether it ended within so many polls. It is dropped.
pub(crate) async fn ends_within<T, E>(polls: usize, future: impl Future<Output = Result<T, E>>) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(cx).map(|outcome| outcome.is_ok())
    })
    .await
}

/// Rules: I-35.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accept_that_is_dropped_at_any_poll_leaves_no_lock() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    let other = bench.other(support::options(), &support::address()).await;
    bench.send("a", "1").await;
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    for polls in 0.. {
        let one = ends_within(polls, bench.rabbit.accept_session(&bench.queue, "a")).await;
        accept_soon(&other, &bench.queue, "a").await.close().await.unwrap();
        let next = ends_within(polls, acceptor.accept_next()).await;
        accept_soon(&other, &bench.queue, "a").await.close().await.unwrap();
        if one && next {
            assert!(polls >= 2, "{polls}");
            break;
        }
    }
    expect(&mut accept_soon(&bench.rabbit, &bench.queue, "a").await, &[("1", 1)]).await;
    other.close().await.unwrap();
    bench.end().await;
}

/// Each slot that is opened takes two channels, and each that another has is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_outlive_the_numbers_of_a_connection() {
    let Some(bench) = Bench::new(by_long_session(2)).await else { return };
    let few = bench.other(support::options(), &format!("{}?channel_max=12", support::address())).await;
    let ids: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let mut kept = few.accept_session(&bench.queue, &ids[0]).await.unwrap();
    let mut refused = 0;
    for id in &ids[1..] {
        // In the slot that is kept, and in the other.
        few.accept_session(&bench.queue, id).await.unwrap().close().await.unwrap();
        match bench.rabbit.accept_session(&bench.queue, id).await {
            Ok(session) => session.close().await.unwrap(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked);
                refused += 1;
            }
        }
    }
    assert!((1..19).contains(&refused), "{refused}");
    bench.send(&ids[0], "1").await;
    expect(&mut kept, &[("1", 1)]).await;
    few.close().await.unwrap();
    assert_eq!(kept.receive_within(SOON).await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    for id in &ids {
        accept_soon(&bench.rabbit, &bench.queue, id).await.close().await.unwrap();
    }
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_ways_to_accept_sessions_are_refused() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    let queue = &bench.queue;
    // One that goes by another number of slots, or knows of none, finds nothing, and sends nothing to the wrong place.
    let other = support::options().connect(&support::address()).await.unwrap();
    other.register_queue(queue, by_session(4)).unwrap();
    let message = || Message::builder().session_id("a").build("1").unwrap();
    assert_eq!(other.sender(queue).unwrap().send(message()).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    assert_eq!(other.accept_session(queue, "a").await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    let mut acceptor = other.session_acceptor(queue).unwrap();
    assert_eq!(acceptor.accept_next_within(SOON).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    other.register_queue(queue, QueueSettings::default()).unwrap();
    assert_eq!(other.sender(queue).unwrap().send(message()).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    assert_eq!(other.accept_session(queue, "a").await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    other.close().await.unwrap();

    assert_eq!(bench.rabbit.receiver(queue).unwrap_err().kind(), ErrorKind::InvalidOperation);
    let dead = format!("{queue}/$deadletterqueue");
    assert_eq!(bench.rabbit.accept_session(&dead, "a").await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    let long = "x".repeat(129);
    assert_eq!(bench.rabbit.accept_session(queue, &long).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let again = bench.rabbit.create_queue(queue, by_session(2)).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
    for slots in [0, 65] {
        let refused = bench.rabbit.create_queue(&support::unique("refused"), by_session(slots)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let wrapped = RabbitMq::wrap(connection.create_channel().await.unwrap());
    wrapped.register_queue(queue, by_session(2)).unwrap();
    assert_eq!(wrapped.accept_session(queue, "a").await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    connection.close(200, "OK".into()).await.unwrap();
    bench.end().await;
}

/// Rules: N-08.
/// A queue that goes takes its sessions with it, and nothing stays behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_deleted_loses_its_sessions() {
    let Some(bench) = Bench::new(by_session(2)).await else { return };
    let mut session = bench.accept("a").await;
    bench.rabbit.delete(&bench.queue).await.unwrap();
    let lost = timeout(SOON, session.receive()).await.expect("the holder is told");
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(session.close().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    bench.rabbit.create_queue(&bench.queue, by_session(2)).await.unwrap();
    accept_soon(&bench.rabbit, &bench.queue, "a").await.close().await.unwrap();
    bench.end().await;
}

/// Rules: K-221.
/// A timeout may be shorter than any search: each of these accepts is polled once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accept_continues_what_an_earlier_one_has_begun() {
    let Some(bench) = Bench::new(by_session(4)).await else { return };
    bench.send("a", "1").await;
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    let accepting = async {
        loop {
            match acceptor.accept_next().now_or_never() {
                Some(accepted) => break accepted.unwrap(),
                None => sleep(Duration::from_millis(1)).await,
            }
        }
    };
    let mut session = timeout(SOON, accepting).await.expect("an accept finds the session");
    expect(&mut session, &[("1", 1)]).await;
    session.close().await.unwrap();
    bench.end().await;
}

/// Rules: K-221.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_was_opened_for_an_accept_that_ended_is_released() {
    let Some(bench) = Bench::new(by_session(1)).await else { return };
    let other = bench.other(support::options(), &support::address()).await;
    // The slot is opened in the background.
    assert!(bench.rabbit.accept_session(&bench.queue, "a").now_or_never().is_none());
    accept_soon(&other, &bench.queue, "a").await.close().await.unwrap();
    bench.send("a", "1").await;
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    assert!(acceptor.accept_next_within(Duration::from_millis(1)).await.is_err());
    accept_soon(&other, &bench.queue, "a").await.close().await.unwrap();
    other.close().await.unwrap();
    bench.end().await;
}

/// Rules: K-221.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accept_that_follows_within_a_second_continues() {
    let Some(bench) = Bench::new(by_session(4)).await else { return };
    bench.send("a", "1").await;
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    let accepting = async {
        loop {
            match acceptor.accept_next().now_or_never() {
                Some(accepted) => break accepted.unwrap(),
                // A slot that one accept has opened is looked at by the second one after it. The broker has the real clock.
                None => sleep(Duration::from_millis(700)).await,
            }
        }
    };
    let session = timeout(SOON, accepting).await.expect("an accept finds the session");
    session.close().await.unwrap();
    bench.end().await;
}
