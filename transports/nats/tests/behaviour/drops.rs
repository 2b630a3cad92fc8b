//! I34 and I35: dropping loses nothing, and leaves no lock.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign::{
    Message,
    message::EntityPath,
    transport::{Delivery, ErrorKind, ReceiveDeferred, Receiver, ReceiverExt, Sender},
};
use consign_conformance::log::Lines;
use consign_nats::{NatsLease, NatsReceiver, QueueSettings};

use crate::{LONG, queue};

/// Polls a receive up to `polls` times, and drops it. What it received by then.
async fn receive_for(receiver: &mut NatsReceiver, polls: usize) -> Option<Delivery<NatsLease>> {
    let mut receive = pin!(receiver.receive());
    let mut left = polls;
    poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        receive.as_mut().poll(cx).map(|received| Some(received.expect("a message")))
    })
    .await
}

/// Rules: I-34.
#[tokio::test]
async fn a_receive_may_be_dropped_at_any_poll() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    nats.sender(&path).await.unwrap().send(Message::new("a")).await.unwrap();
    let mut polls = 0;
    loop {
        let mut receiver = nats.receiver(&path).await.unwrap();
        let received = receive_for(&mut receiver, polls).await;
        drop(receiver);
        let was_received = received.is_some();
        drop(received.map(|delivery| consign::transport::Lease::release(delivery.lease)));
        // With a lock of a minute: what was orphaned does not come.
        let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
        assert_eq!(delivery.message.received().unwrap().delivery_count, 1, "after {polls} polls");
        consign::transport::Lease::release(delivery.lease).await.unwrap();
        if was_received {
            break;
        }
        polls += 1;
    }
    assert!(polls >= 2, "{polls}");
    nats.delete(&path).await.unwrap();
}

/// Rules: I-34.
/// The message comes after the receive was given up, and before the server has ended the request.
#[tokio::test]
async fn messages_for_a_dropped_receive_are_released() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    for is_kept in [true, false] {
        let mut first = nats.receiver(&path).await.unwrap();
        assert!(receive_for(&mut first, 2).await.is_none());
        let first = is_kept.then_some(first);
        sender.send(Message::new("a")).await.unwrap();
        let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
        assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
        delivery.complete().await.unwrap();
        drop(first);
    }
    nats.delete(&path).await.unwrap();
}

/// Rules: I-34.
/// The receiver was not polled for so long that its request counts as lost.
#[tokio::test]
async fn a_message_for_a_receiver_that_is_dropped_late_is_released() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let mut first = nats.receiver(&path).await.unwrap();
    assert!(first.poll_receive(&mut Context::from_waker(Waker::noop()), 1, &mut Vec::new()).is_pending());
    nats.sender(&path).await.unwrap().send(Message::new("a")).await.unwrap();
    // A request lasts 4.65 s, and its end is awaited as long again.
    tokio::time::sleep(Duration::from_secs(10)).await;
    drop(first);
    let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
    delivery.complete().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// Rules: I-35.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_may_be_dropped_where_there_is_no_runtime() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    nats.sender(&path).await.unwrap().send(Message::new("a")).await.unwrap();
    let mut receiver = nats.receiver(&path).await.unwrap();
    for count in 1..=3 {
        let delivery = receiver.receive_within(LONG).await.unwrap();
        assert_eq!(delivery.message.received().unwrap().delivery_count, count);
        std::thread::spawn(move || drop(delivery)).join().unwrap();
    }
    nats.delete(&path).await.unwrap();
}

/// Rules: I-35.
#[tokio::test]
async fn many_may_be_dropped_at_once() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    for _ in 0..200 {
        sender.send(Message::new("a")).await.unwrap();
    }
    let mut receiver = nats.receiver(&path).await.unwrap();
    for count in 1..=2 {
        let mut held = Vec::new();
        while held.len() < 200 {
            let more = tokio::time::timeout(LONG, receiver.receive_batch(200 - held.len())).await.unwrap().unwrap();
            assert!(more.iter().all(|delivery| delivery.message.received().unwrap().delivery_count == count));
            held.extend(more);
        }
    }
    nats.delete(&path).await.unwrap();
}

/// Rules: I-35.
#[tokio::test]
async fn a_fetch_of_what_was_deferred_may_be_dropped_at_any_poll() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    nats.sender(&path).await.unwrap().send(Message::new("a")).await.unwrap();
    let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    let number = delivery.message.received().unwrap().sequence_number;
    delivery.defer().await.unwrap();
    let entity = EntityPath::new(&path).unwrap();
    for polls in 0.. {
        let was_fetched = {
            let numbers = [number];
            let mut fetching = pin!(nats.receive_deferred(&entity, &numbers));
            let mut left = polls;
            poll_fn(|cx| {
                if left == 0 {
                    return Poll::Ready(None);
                }
                left -= 1;
                fetching.as_mut().poll(cx).map(|fetched| Some(fetched.unwrap()))
            })
            .await
        };
        if let Some(mut fetched) = was_fetched {
            fetched.pop().unwrap().complete().await.unwrap();
            assert!(polls >= 2, "{polls}");
            break;
        }
        // With a lock of a minute: what was orphaned does not come.
        let again = async {
            loop {
                match nats.receive_deferred(&entity, &[number]).await {
                    Err(error) if error.kind() == ErrorKind::MessageNotFound => tokio::task::yield_now().await,
                    fetched => break fetched.unwrap().pop().unwrap(),
                }
            }
        };
        let delivery = tokio::time::timeout(LONG, again).await.expect("no lock is left");
        assert_eq!(delivery.message.received().unwrap().delivery_count, 1, "after {polls} polls");
        consign::transport::Lease::release(delivery.lease).await.unwrap();
    }
    nats.delete(&path).await.unwrap();
}

/// Rules: T-90.
#[tokio::test]
async fn an_acknowledged_message_of_a_dropped_receiver_is_logged() {
    let mut logged = 0;
    for polls in 0.. {
        let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
        nats.sender(&path).await.unwrap().send(Message::new("a")).await.unwrap();
        let mut receiver = nats.receive_and_delete(&path).await.unwrap();
        let (lines, guard) = Lines::capture();
        let received = receive_for(&mut receiver, polls).await;
        drop(receiver);
        drop(guard);
        let lines = lines.of("consign::nats");
        if received.is_some() {
            assert!(lines.is_empty(), "{lines:?}");
        } else if lines.is_empty() {
            // With a lock of a minute: what was orphaned does not come.
            nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap().complete().await.unwrap();
        } else {
            let is_said = lines[0].contains("acknowledged may be lost") && lines[0].contains("messages=1");
            assert!(is_said && lines[0].contains(&format!("entity={path}")), "{lines:?}");
            logged += 1;
        }
        nats.delete(&path).await.unwrap();
        if received.is_some() {
            break;
        }
    }
    assert!(logged > 0);
}

/// Rules: S-66.
/// The second stop follows a receive, so the first one does not answer for it.
#[tokio::test]
async fn a_second_stop_releases_what_a_receive_after_the_first_one_got() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    let mut receiver = nats.receiver(&path).await.unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut taken = Vec::new();
    assert!(receiver.poll_receive(&mut cx, 3, &mut taken).is_pending());
    receiver.stop();
    assert!(receiver.poll_stopped(&mut cx).is_pending());
    assert!(poll_receive_for(&mut receiver, 3, &mut taken).await.is_none());
    for body in ["a", "b", "c"] {
        sender.send(Message::new(body)).await.unwrap();
    }
    // One of them is taken, and the others have arrived.
    while taken.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let _ = receiver.poll_receive(&mut cx, 1, &mut taken);
    }
    receiver.stop();
    tokio::time::timeout(LONG, poll_fn(|cx| receiver.poll_stopped(cx))).await.expect("a stop ends");
    let mut other = nats.receiver(&path).await.unwrap();
    for _ in 0..2 {
        let rest = other.receive_within(LONG).await.expect("the other messages are released");
        assert_eq!(rest.message.received().unwrap().delivery_count, 1);
        rest.complete().await.unwrap();
    }
    for delivery in taken {
        delivery.complete().await.unwrap();
    }
    drop(receiver);
    nats.delete(&path).await.unwrap();
}

/// Receives until the request is at the server.
async fn poll_receive_for(
    receiver: &mut NatsReceiver,
    max: usize,
    taken: &mut Vec<Delivery<NatsLease>>,
) -> Option<usize> {
    let receiving = poll_fn(|cx| receiver.poll_receive(cx, max, taken));
    let received = tokio::time::timeout(std::time::Duration::from_millis(300), receiving).await.ok()?;
    Some(received.expect("a connection"))
}
