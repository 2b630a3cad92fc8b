//! Receives and settlements.

use std::time::Duration;

use consign::{
    Message,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Lease, Receiver, ReceiverExt, Sender},
};

use crate::bench::{Bench, attributes};

#[tokio::test(start_paused = true)]
async fn o_12_a_batch_that_is_received_links_to_its_messages() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    for _ in 0..2 {
        bench.send(&queue, Message::new("")).await;
    }
    queue.sender().unwrap().send(Message::new("without")).await.unwrap();
    let mut receiver = bench.telemetry.receiver("orders", queue.receiver()).counting();
    let received = receiver.receive_batch(10).await.unwrap();
    let spans = bench.spans();
    let receive = "Client receive orders ~ send orders ~ send orders";
    assert_eq!(spans.tree(), ["Producer send orders", "Producer send orders", receive]);
    assert!(spans.attributes("receive orders").contains(&"messaging.batch.message_count=3".into()));
    let consumed = "messaging.client.consumed.messages messaging.destination.name=orders \
                    messaging.operation.name=receive messaging.system=servicebus";
    assert_eq!(bench.series().get(consumed), Some(&3));
    drop(received);
}

#[tokio::test(start_paused = true)]
async fn o_10_each_settlement_is_a_span_of_its_own() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let mut receiver = bench.telemetry.receiver("orders", queue.receiver());
    let mut names = Vec::new();
    for way in 0..4 {
        queue.sender().unwrap().send(Message::new("")).await.unwrap();
        let delivery = receiver.receive().await.unwrap();
        assert!(delivery.lease.lock_duration().is_some() && delivery.lease.lock_token().is_some());
        delivery.lease.renew().await.unwrap();
        match way {
            0 => delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).await.unwrap(),
            1 => delivery.defer().await.unwrap(),
            2 => delivery.complete().await.unwrap(),
            _ => delivery.abandon().await.unwrap(),
        }
        let spans = bench.spans();
        let [_, settle] = &spans.0[..] else { panic!("{:?}", spans.tree()) };
        let status = attributes(settle).into_iter().find(|at| at.contains("disposition_status")).unwrap();
        names.push((settle.name.to_string(), status.rsplit_once('=').unwrap().1.to_owned()));
    }
    let expected = ["dead_letter", "defer", "complete", "abandon"].map(|way| (format!("{way} orders"), way.to_owned()));
    assert_eq!(names, expected);
    // What is given back without a count has none.
    receiver.receive().await.unwrap().lease.release().await.unwrap();
    assert_eq!(bench.spans().tree(), ["Client receive orders"]);
}

#[tokio::test(start_paused = true)]
async fn o_16_a_settlement_that_fails_says_so() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let mut receiver = bench.telemetry.receiver("orders", queue.receiver());
    queue.sender().unwrap().send(Message::new("")).await.unwrap();
    let delivery = receiver.receive().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    delivery.complete().await.unwrap_err();
    assert!(bench.spans().attributes("complete orders").contains(&"error.type=MessageLockLost".into()));
}

#[tokio::test(start_paused = true)]
async fn a_receive_that_is_given_up_has_no_span() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let mut receiver = bench.telemetry.receiver("orders", queue.receiver());
    receiver.receive_within(Duration::from_secs(1)).await.unwrap_err();
    receiver.stop();
    assert_eq!(bench.spans().tree(), [""; 0]);
}
