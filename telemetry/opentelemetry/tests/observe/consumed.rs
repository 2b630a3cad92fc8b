//! A delivery counts as consumed once, whatever observes it.

use std::time::Duration;

use consign::{
    Disposition, Message,
    consumer::SessionConsumer,
    message::{Received, SequenceNumber},
    time::Timestamp,
    transport::{ReceiverExt, Sender},
};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use crate::bench::{Bench, consume};

/// The number of consumed messages by the operation that counted them.
fn consumed(bench: &Bench) -> Vec<(String, u64)> {
    let series = bench.series().into_iter();
    let consumed = series.filter(|(series, _)| series.starts_with("messaging.client.consumed.messages"));
    let operation = |series: &str| {
        let part = series.split(' ').find_map(|part| part.strip_prefix("messaging.operation.name="));
        part.unwrap().to_owned()
    };
    consumed.map(|(series, count)| (operation(&series), count)).collect()
}

/// Rules: O-15.
#[tokio::test(start_paused = true)]
async fn a_delivery_is_counted_when_it_is_received_or_else_when_it_is_handled() {
    for (is_received, is_handled, operation) in
        [(true, true, "receive"), (true, false, "receive"), (false, true, "process")]
    {
        let bench = Bench::new();
        let queue = bench.queue("orders");
        for _ in 0..3 {
            queue.sender().unwrap().send(Message::new("")).await.unwrap();
        }
        let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
        let process = bench.telemetry.process("orders");
        let receiver = bench.telemetry.receiver("orders", queue.receiver());
        match (is_received, is_handled) {
            (true, true) => consume(receiver, process.layer(handler)).await,
            (true, false) => consume(receiver, handler).await,
            _ => consume(queue.receiver(), process.layer(handler)).await,
        }
        assert_eq!(consumed(&bench), [(operation.to_owned(), 3)], "{is_received} {is_handled}");
    }
}

/// Rules: O-15.
#[tokio::test(start_paused = true)]
async fn each_delivery_of_a_message_counts() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    queue.sender().unwrap().send(Message::new("")).await.unwrap();
    let receiver = bench.telemetry.receiver("orders", queue.receiver());
    let handler = service_fn(async |message: Message| {
        let is_first = message.received().is_some_and(|received| received.delivery_count == 1);
        Ok::<_, BoxError>(if is_first { Disposition::ABANDON } else { Disposition::Complete })
    });
    consume(receiver, bench.telemetry.process("orders").layer(handler)).await;
    assert_eq!(consumed(&bench), [("receive".into(), 2)]);
}

/// Rules: O-15.
#[tokio::test(start_paused = true)]
async fn a_delivery_counts_once_with_two_observed_receivers_around_it() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    queue.sender().unwrap().send(Message::new("")).await.unwrap();
    let inner = bench.telemetry.receiver("orders", queue.receiver());
    let mut outer = bench.telemetry.receiver("orders", inner);
    outer.receive().await.unwrap().complete().await.unwrap();
    assert_eq!(consumed(&bench), [("receive".into(), 1)]);
}

/// Rules: O-15.
#[tokio::test(start_paused = true)]
async fn a_message_of_a_session_counts_once() {
    let bench = Bench::new();
    let settings = consign::administration::QueueSettings::default().requires_session(true);
    let queue = bench.broker.create_queue("orders", settings).unwrap();
    bench.send(&queue, Message::builder().session_id("customer-7").build("").unwrap()).await;
    let sessions = bench.telemetry.sessions("orders", queue.session_acceptor().unwrap());
    let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    let consumer = SessionConsumer::new(sessions, bench.telemetry.process("orders").layer(handler));
    consumer.run_until(tokio::time::sleep(Duration::from_secs(60))).await.unwrap();
    assert_eq!(consumed(&bench), [("receive".into(), 1)]);
}

/// Rules: O-15.
#[tokio::test(start_paused = true)]
async fn a_message_that_was_not_received_counts_when_it_is_handled() {
    let bench = Bench::new();
    let handler = || service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    let received = Received::new(SequenceNumber::new(1), Timestamp::EPOCH, 1);
    for message in [Message::new(""), Message::new("").with_received(received)] {
        bench.telemetry.process("orders").layer(handler()).oneshot(message).await.unwrap();
    }
    assert_eq!(consumed(&bench), [("process".into(), 2)]);
}
