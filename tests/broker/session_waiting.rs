//! Those who wait for a session, or in one: who is woken, when, and what is left of a wait that ends early.

use std::time::Duration;

use consign::{
    Message,
    broker::{Broker, Queue, SessionReceiver},
    time::{Clock, SystemClock},
    transport::{ErrorKind, Lease, ReceiveError, Receiver, ReceiverExt, Sender, SessionSource},
};
use tokio::{
    task::{JoinHandle, yield_now},
    time::{Instant, sleep},
};
use tokio_test::task;

use crate::support::{Ended, LOCK, facts, settings, text};

const SECOND: Duration = Duration::from_secs(1);

/// A queue with sessions on tokio's clock.
fn queue() -> Queue {
    Broker::new().create_queue("orders", settings().requires_session(true)).unwrap()
}

fn send(queue: &Queue, session: &'static str) {
    let message = Message::builder().session_id(session).build(session).unwrap();
    queue.sender().unwrap().send(message).wait().unwrap();
}

/// Accepts the next session in a task that waits already.
async fn accepting(queue: &Queue) -> JoinHandle<Result<SessionReceiver, ReceiveError>> {
    let mut acceptor = queue.session_acceptor().unwrap();
    let waiting = tokio::spawn(async move { acceptor.accept_next().await });
    yield_now().await;
    assert!(!waiting.is_finished());
    waiting
}

/// Rules: N-04.
#[tokio::test(start_paused = true)]
async fn a_waiting_accept_gets_the_session_of_an_arriving_message() {
    let queue = queue();
    let mut acceptor = queue.session_acceptor().unwrap();
    let mut waiting = task::spawn(acceptor.accept_next());
    assert!(waiting.poll().is_pending());
    // That someone holds an empty one is nothing to have.
    let mut held = queue.accept_session("held").unwrap();
    // It is polled to have a timer for the end of that lock.
    assert!(waiting.poll().is_pending());
    send(&queue, "held");
    assert!(!waiting.is_woken());
    assert_eq!(text(&held.receive().await.unwrap().message), "held");
    send(&queue, "a");
    assert!(waiting.is_woken());
    assert_eq!(waiting.await.unwrap().session_id(), "a");
}

/// Rules: N-04.
#[tokio::test(start_paused = true)]
async fn one_session_wakes_one_that_waits() {
    let queue = queue();
    let mut acceptors = [(); 2].map(|()| queue.session_acceptor().unwrap());
    let [mut first, mut second] = acceptors.each_mut().map(|acceptor| task::spawn(acceptor.accept_next()));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    for _ in 0..3 {
        send(&queue, "a");
    }
    assert_eq!((first.is_woken(), second.is_woken()), (true, false));
    // One that goes away hands its turn on.
    drop(first);
    assert!(second.is_woken());
    let held = second.await.unwrap();
    assert_eq!(held.session_id(), "a");
    let mut third = queue.session_acceptor().unwrap();
    let mut waiting = task::spawn(third.accept_next());
    assert!(waiting.poll().is_pending());
    send(&queue, "b");
    assert!(waiting.is_woken());
}

/// Rules: N-04.
#[tokio::test(start_paused = true)]
async fn an_accept_that_is_dropped_leaves_no_lock() {
    let queue = queue();
    let mut acceptor = queue.session_acceptor().unwrap();
    for polls in 0..3 {
        let mut waiting = task::spawn(acceptor.accept_next());
        (0..polls).for_each(|_| assert!(waiting.poll().is_pending()));
        send(&queue, "a");
        drop(waiting);
        queue.accept_session("a").unwrap().receive().await.unwrap().complete().ok();
        assert!(queue.sessions().is_empty());
    }
}

/// Rules: N-04.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_limited_ends_in_a_timeout() {
    let queue = queue();
    let mut acceptor = queue.session_acceptor().unwrap();
    let began = Instant::now();
    let error = acceptor.accept_next_within(3 * SECOND).await.unwrap_err();
    assert_eq!((error.kind(), began.elapsed()), (ErrorKind::ServiceTimeout, 3 * SECOND));
    send(&queue, "a");
    assert_eq!(acceptor.accept_next_within(Duration::ZERO).await.unwrap().session_id(), "a");
}

/// Rules: N-06.
#[tokio::test(start_paused = true)]
async fn a_waiting_accept_gets_a_session_when_its_lock_ends() {
    let queue = queue();
    send(&queue, "a");
    let held = queue.accept_session("a").unwrap();
    let began = Instant::now();
    sleep(SECOND).await;
    assert_eq!(accepting(&queue).await.await.unwrap().unwrap().session_id(), "a");
    assert_eq!(began.elapsed(), LOCK);
    drop(held);
}

/// Rules: N-06.
#[tokio::test(start_paused = true)]
async fn a_renewal_makes_those_who_wait_wait_longer() {
    let queue = queue();
    send(&queue, "a");
    let mut held = queue.accept_session("a").unwrap();
    let waiting = accepting(&queue).await;
    let began = Instant::now();
    sleep(4 * SECOND).await;
    held.renew().unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(began.elapsed(), 4 * SECOND + LOCK);
}

/// Rules: N-09.
#[tokio::test(start_paused = true)]
async fn a_waiting_accept_gets_a_session_when_it_is_closed() {
    let queue = queue();
    for _ in 0..2 {
        send(&queue, "a");
    }
    let mut held = queue.accept_session("a").unwrap();
    let delivery = held.receive().await.unwrap();
    let waiting = accepting(&queue).await;
    let began = Instant::now();
    held.close().unwrap();
    let mut next = waiting.await.unwrap().unwrap();
    assert_eq!(facts(&next.receive().await.unwrap().message).sequence_number.get(), 1);
    assert_eq!(began.elapsed(), Duration::ZERO);
    drop(delivery);

    // With nothing left there is nothing to be woken for.
    let waiting = accepting(&queue).await;
    for delivery in next.receive_batch(9).await.unwrap() {
        delivery.complete().ok();
    }
    next.close().unwrap();
    sleep(LOCK).await;
    assert!(!waiting.is_finished());
    waiting.abort();
}

/// Rules: N-05.
#[tokio::test(start_paused = true)]
async fn the_holder_is_woken_by_what_arrives_and_by_what_comes_back() {
    let queue = queue();
    let mut session = queue.accept_session("a").unwrap();
    let mut other = queue.accept_session("b").unwrap();
    let mut waiting = task::spawn(session.receive());
    assert!(waiting.poll().is_pending());
    send(&queue, "b");
    assert!(!waiting.is_woken());
    send(&queue, "a");
    assert!(waiting.is_woken());
    let delivery = waiting.await.unwrap();
    let mut waiting = task::spawn(session.receive());
    assert!(waiting.poll().is_pending());
    other.receive().await.unwrap().abandon().ok();
    assert!(!waiting.is_woken());
    delivery.lease.release().ok();
    assert!(waiting.is_woken());
    assert_eq!(text(&waiting.await.unwrap().message), "a");
}

/// Rules: N-08.
#[tokio::test(start_paused = true)]
async fn a_holder_that_waits_hears_that_it_lost_its_session() {
    let queue = queue();
    let mut session = queue.accept_session("a").unwrap();
    let began = Instant::now();
    assert_eq!(session.receive().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(began.elapsed(), LOCK);

    let mut session = queue.accept_session("a").unwrap();
    let mut waiting = task::spawn(session.receive());
    assert!(waiting.poll().is_pending());
    queue.lose_locks();
    assert!(waiting.is_woken());
    assert_eq!(waiting.await.unwrap_err().kind(), ErrorKind::SessionLockLost);
}

/// Rules: N-08.
/// The place of a session that is gone may be another's by now.
#[tokio::test(start_paused = true)]
async fn a_holder_that_lost_its_session_gets_nothing_of_another() {
    let queue = queue();
    let mut lost = queue.accept_session("a").unwrap();
    queue.lose_locks();
    assert!(queue.sessions().is_empty());
    let mut session = queue.accept_session("b").unwrap();
    send(&queue, "b");
    assert_eq!(lost.receive().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert!(lost.close().is_err());
    assert_eq!(text(&session.receive().await.unwrap().message), "b");
}

/// Rules: Q-21, N-04.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_due_brings_its_session() {
    let queue = queue();
    let waiting = accepting(&queue).await;
    let began = Instant::now();
    let message = Message::builder().session_id("a").build("a").unwrap();
    queue.schedule(vec![message], SystemClock::new().now().utc.saturating_add(60 * SECOND)).wait().unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().session_id(), "a");
    assert!(began.elapsed().abs_diff(60 * SECOND) < SECOND);
}

/// Rules: N-04.
#[tokio::test(start_paused = true)]
async fn an_acceptor_that_stops_waiting_blocks_no_other() {
    let queue = queue();
    let (mut stops, mut stays) = (queue.session_acceptor().unwrap(), queue.session_acceptor().unwrap());
    let mut first = task::spawn(std::future::poll_fn(|cx| stops.poll_accept(cx)));
    assert!(first.poll().is_pending());
    drop(first);
    let mut waiting = task::spawn(stays.accept_next());
    assert!(waiting.poll().is_pending());
    stops.stop();
    send(&queue, "a");
    assert!(waiting.is_woken());
    let mut session = waiting.await.unwrap();
    session.stop();
}
