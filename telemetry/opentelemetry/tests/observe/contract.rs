//! Every layer calls only what was made ready on that very instance, and changes no answer.

use consign::{
    Disposition, Message,
    transport::{Batch, SendError},
};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower::{BoxError, Layer, Service, service_fn};
use tower_test::mock;

use crate::{
    bench::Bench,
    exercise::exercise,
    support::{Probe, message},
};

/// Rules: I-36.
#[tokio::test(start_paused = true)]
async fn the_process_layer_calls_only_a_ready_service() {
    let layer = Bench::new().telemetry.process("orders");
    exercise(layer.layer(Probe::new(Disposition::Complete)), || message("m")).await;
    // Without readiness, around a service that needs none: an answer, not a panic.
    let mut stack = layer.layer(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
    stack.call(message("m")).await.unwrap();
}

/// Rules: I-36.
#[tokio::test(start_paused = true)]
async fn the_send_layer_calls_only_a_ready_service() {
    let layer = Bench::new().telemetry.send("orders");
    exercise(layer.layer(Probe::new(())), || message("m")).await;
    exercise(layer.layer(Probe::new(())), || Batch::from([message("a"), message("b")])).await;
    let mut stack = layer.layer(service_fn(|_: Message| async { Ok::<_, SendError>(()) }));
    stack.call(message("m")).await.unwrap();
}

/// Rules: I-36.
#[tokio::test(start_paused = true)]
async fn the_call_layer_calls_only_a_ready_service() {
    let layer = Bench::new().telemetry.call("orders");
    exercise(layer.layer(Probe::new(message("reply"))), || message("m")).await;
    let mut stack = layer.layer(service_fn(|_: Message| async { Ok::<_, BoxError>(message("reply")) }));
    stack.call(message("m")).await.unwrap();
}

#[tokio::test]
async fn answers_pass_as_they_are() {
    let bench = Bench::new();
    let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(bench.telemetry.process("orders"));
    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut call = task::spawn(stack.call(message("m")));
    assert_pending!(call.poll());
    handle.next_request().await.unwrap().1.send_response(Disposition::DEFER);
    assert_eq!(assert_ready_ok!(call.poll()), Disposition::DEFER);

    let (mut stack, mut handle) = mock::spawn_layer::<Message, (), _>(bench.telemetry.send("orders"));
    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut call = task::spawn(stack.call(message("m")));
    assert_pending!(call.poll());
    let (sent, answer) = handle.next_request().await.unwrap();
    assert!(sent.application_properties().get("traceparent").is_some());
    answer.send_response(());
    assert_ready_ok!(call.poll());

    let (mut stack, mut handle) = mock::spawn_layer::<Message, Message, _>(bench.telemetry.call("orders"));
    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut call = task::spawn(stack.call(message("m")));
    assert_pending!(call.poll());
    handle.next_request().await.unwrap().1.send_response(message("reply"));
    assert_eq!(assert_ready_ok!(call.poll()).subject(), Some("reply"));
}
