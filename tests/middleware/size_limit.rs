use std::time::Duration;

use consign::{
    Message,
    middleware::size_limit::SizeLimitLayer,
    transport::{Batch, ErrorKind, SendError, SendService},
};
use tokio_test::{assert_pending, assert_ready_err, assert_ready_ok, task};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_test::mock;

use super::support::Broker;

fn bytes(count: usize) -> Message {
    Message::new(vec![0; count])
}

#[tokio::test]
async fn a_message_over_the_limit_never_reaches_the_inner_service() {
    let (mut stack, mut handle) = mock::spawn_layer::<Message, (), _>(SizeLimitLayer::new(100));
    assert_ready_ok!(stack.poll_ready::<Message>());
    let error = assert_ready_err!(task::spawn(stack.call(bytes(101))).poll());
    assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded);
    assert!(error.to_string().contains("101 bytes, the limit is 100"), "{error}");
    assert!(!error.is_retryable() && !error.is_outcome_unknown());
    assert_pending!(handle.poll_request());

    let mut send = task::spawn(stack.call(bytes(100)));
    handle.next_request().await.unwrap().1.send_response(());
    assert_ready_ok!(send.poll());
}

#[test]
fn properties_count() {
    let broker = Broker::default();
    let mut stack = SizeLimitLayer::new(100).layer(SendService::new(broker.clone()));
    let mut message = bytes(98);
    message.properties_mut().application_properties_mut().insert("key", "value");
    let error = assert_ready_err!(task::spawn(stack.call(message)).poll());
    assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded);
    assert_eq!(broker.transfers(), 0);
}

#[test]
fn a_batch_counts_as_a_whole() {
    let broker = Broker::default();
    let mut stack = SizeLimitLayer::new(100).layer(SendService::new(broker.clone()));
    let error = assert_ready_err!(task::spawn(stack.call(Batch::from([bytes(50), bytes(51)]))).poll());
    assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded);
    assert_eq!(broker.transfers(), 0);
    assert_pending!(task::spawn(stack.call(Batch::from([bytes(50), bytes(50)]))).poll());
    assert_eq!(broker.transfers(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_takes_no_time_and_a_send_its_own() {
    let start = tokio::time::Instant::now();
    let stack = SizeLimitLayer::default().layer(service_fn(|_: Message| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok::<_, SendError>(())
    }));
    stack.oneshot(bytes((256 << 10) + 1)).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO);
    stack.oneshot(bytes(256 << 10)).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}
