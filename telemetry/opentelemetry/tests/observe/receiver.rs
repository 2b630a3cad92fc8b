//! Receives and settlements.

use std::time::Duration;

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    consumer::SessionConsumer,
    middleware::retry::{Backoff, DelayPolicy, RetryLayer},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{AcceptSession, Batch, Lease, Receiver, ReceiverExt, Sender, Session},
};
use tower::{BoxError, Layer, service_fn};

use crate::bench::{Bench, attributes};

/// Rules: O-12.
#[tokio::test(start_paused = true)]
async fn a_batch_that_is_received_links_to_its_messages() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    for _ in 0..2 {
        bench.send(&queue, Message::new("")).await;
    }
    queue.sender().unwrap().send(Message::new("without")).await.unwrap();
    let mut receiver = bench.telemetry.receiver("orders", queue.receiver());
    let received = receiver.receive_batch(10).await.unwrap();
    let spans = bench.spans();
    let receive = "Client receive orders ~ send orders ~ send orders";
    assert_eq!(spans.tree(), ["Producer send orders", "Producer send orders", receive]);
    assert!(spans.attributes("receive orders").contains(&"messaging.batch.message_count=3".into()));
    assert!(!spans.attributes("receive orders").iter().any(|at| at.starts_with("messaging.message.")));
    let consumed = "messaging.client.consumed.messages messaging.destination.name=orders \
                    messaging.operation.name=receive messaging.system=servicebus";
    assert_eq!(bench.series().get(consumed), Some(&3));
    drop(received);
}

/// Rules: O-10.
#[tokio::test(start_paused = true)]
async fn each_settlement_is_a_span_of_its_own() {
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

/// Rules: O-10.
#[tokio::test(start_paused = true)]
async fn a_session_has_the_same_spans() {
    let bench = Bench::new();
    let queue = bench.broker.create_queue("orders", QueueSettings::default().requires_session(true)).unwrap();
    let sent = Message::builder().session_id("customer-7").build("").unwrap();
    bench.send(&queue, sent.clone()).await;
    let sessions = || bench.telemetry.sessions("orders", queue.session_acceptor().unwrap());
    let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    let consumer = SessionConsumer::new(sessions(), bench.telemetry.process("orders").layer(handler));
    consumer.run_until(tokio::time::sleep(Duration::from_secs(60))).await.unwrap();
    let spans = bench.spans().tree();
    let tree = [
        "Producer send orders",
        "Client receive orders ~ send orders",
        "Consumer process orders < send orders",
        "Client complete orders < send orders",
    ];
    assert_eq!(spans, tree);

    // By its id too. Its lock is that of the session.
    bench.send(&queue, sent).await;
    let mut session = AcceptSession::accept(&mut sessions(), "customer-7").await.unwrap();
    assert_eq!((session.session_id(), Session::lock_duration(&session)), ("customer-7", Duration::from_secs(60)));
    Session::renew(&session).await.unwrap();
    session.receive().await.unwrap().complete().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(bench.spans().tree().len(), 3);
    AcceptSession::accept(&mut sessions(), "customer-7").await.unwrap();
}

/// Rules: O-10.
#[tokio::test(start_paused = true)]
async fn a_copy_for_later_has_a_send_span() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    bench.send(&queue, Message::new("")).await;
    let copies = bench.telemetry.sender("orders", queue.sender().unwrap());
    let later = DelayPolicy::new(copies, Backoff::exponential(Duration::from_secs(1))).unwrap().deliveries(2);
    let fails = service_fn(async |_: Message| Err::<Disposition, BoxError>("not today".into()));
    bench.handle(&queue, RetryLayer::new().delayed(later).layer(fails)).await;
    let tree = [
        "Producer send orders",
        "Producer send orders < process orders",
        "Consumer process orders < send orders",
        "Consumer process orders < send orders",
    ];
    let spans = bench.spans();
    assert_eq!((spans.tree(), spans.traces()), (tree.map(String::from).to_vec(), 1));
    // A batch has one span, as through the layer.
    let sender = bench.telemetry.sender("orders", queue.sender().unwrap());
    sender.send_batch(Batch::from(vec![Message::new(""); 2])).await.unwrap();
    let tree = bench.spans().tree();
    assert_eq!(
        tree,
        ["Producer create orders", "Producer create orders", "Client send orders ~ create orders ~ create orders"]
    );
}

/// Rules: O-16.
#[tokio::test(start_paused = true)]
async fn a_settlement_that_fails_says_so() {
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
