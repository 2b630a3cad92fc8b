//! Calls whose futures are dropped at any of their polls.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use consign_amqp::client::Connection;

use super::{Node, accepted, connect, message, receiver, sender};

/// Polls a future so often, letting other tasks run in between, and drops it. Returns whether it was ready before.
async fn poll_times(times: usize, future: impl Future) -> bool {
    let mut future = pin!(future);
    for _ in 0..times {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

/// Every message that was stored is received once, and the connection works.
async fn check(node: &Node, connection: &Connection, sent: std::ops::RangeInclusive<usize>) {
    let session = connection.begin().await.unwrap();
    sender(&session, "orders").await.send(message("last")).await.unwrap();
    let mut receiver = receiver(&session, "orders").await;
    receiver.set_automatic_credit(4).unwrap();
    let mut found = 0;
    loop {
        let delivery = receiver.recv().await.unwrap();
        assert_eq!(receiver.settle([delivery.id], &accepted()).unwrap(), 1);
        if delivery.payload.into_bytes() == message("last") {
            break;
        }
        found += 1;
    }
    assert!(sent.contains(&found), "{found} messages of {sent:?}");
    receiver.drain().await.unwrap();
    assert_eq!(node.len("orders"), 0);
}

/// Rules: A-63.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_leaves_nothing_behind() {
    for times in 0..40 {
        let node = Node::new();
        let connection = connect(&node).await;
        let mut ready = poll_times(times, connection.begin()).await;
        let session = connection.begin().await.unwrap();
        ready &= poll_times(times, session.attach_sender("s", "orders")).await;
        ready &= poll_times(times, session.attach_receiver("r", "orders")).await;
        let sender = sender(&session, "orders").await;
        ready &= poll_times(times, sender.send(message("1"))).await;
        sender.send(message("2")).await.unwrap();
        drop(sender);
        check(&node, &connection, 1..=2).await;
        if ready {
            return;
        }
    }
    panic!("a call is not ready after 40 polls");
}

/// Rules: A-63.
#[tokio::test(start_paused = true)]
async fn a_receive_that_is_dropped_loses_no_delivery() {
    for times in 0..20 {
        let node = Node::new();
        let connection = connect(&node).await;
        let session = connection.begin().await.unwrap();
        let sender = sender(&session, "orders").await;
        let mut receiver = receiver(&session, "orders").await;
        receiver.set_automatic_credit(3).unwrap();
        let mut received = 0;
        for n in 0..5_u8 {
            sender.send(message(vec![n])).await.unwrap();
            let mut receive = pin!(receiver.recv());
            for _ in 0..times {
                if let Poll::Ready(delivery) = receive.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    assert_eq!(delivery.unwrap().payload.into_bytes(), message(vec![received]));
                    received += 1;
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        while received < 5 {
            assert_eq!(receiver.recv().await.unwrap().payload.into_bytes(), message(vec![received]));
            received += 1;
        }
    }
}
