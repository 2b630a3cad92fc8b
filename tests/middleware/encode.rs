use std::{collections::HashMap, future::ready, time::Duration};

use consign::{
    Message,
    codecs::Codecs,
    middleware::{
        encode::{EncodeLayer, OutboundBatch, OutboundMessage},
        message_id::MessageIdLayer,
        size_limit::SizeLimitLayer,
    },
    transport::{Batch, ErrorKind, SendError, SendService},
};
use serde::{Serialize, Serializer, ser::Error};
use tokio_test::{assert_pending, assert_ready_err, assert_ready_ok, task};
use tower::{
    Layer, Service, ServiceBuilder, ServiceExt,
    retry::{Policy, RetryLayer},
    service_fn,
};
use tower_test::mock;

use super::support::Broker;

#[derive(Clone, Serialize)]
struct Order {
    id: u32,
}

/// A value that no codec can write.
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("refused"))
    }
}

#[tokio::test]
async fn a_value_becomes_a_message_that_says_its_format() {
    let (mut stack, mut handle) = mock::spawn_layer::<Message, (), _>(EncodeLayer::new(Codecs::json()));
    assert_ready_ok!(stack.poll_ready::<OutboundMessage<Order>>());
    let mut send = task::spawn(stack.call(OutboundMessage::new(Order { id: 7 }).subject("order").property("k", 1)));
    assert_pending!(send.poll());
    let (seen, answer) = handle.next_request().await.unwrap();
    assert_eq!((seen.payload(), seen.content_type()), (Some(&br#"{"id":7}"#[..]), Some("application/json")));
    assert_eq!((seen.subject(), seen.application_properties().len()), (Some("order"), 1));
    answer.send_response(());
    assert_ready_ok!(send.poll());
}

#[tokio::test]
async fn a_value_that_cannot_be_encoded_is_an_error_and_not_an_empty_body() {
    let (mut stack, mut handle) = mock::spawn_layer::<Message, (), _>(EncodeLayer::new(Codecs::json()));
    assert_ready_ok!(stack.poll_ready::<OutboundMessage<Unwritable>>());
    let error = assert_ready_err!(task::spawn(stack.call(OutboundMessage::new(Unwritable))).poll());
    assert_eq!(error.kind(), ErrorKind::Serialization);
    assert!(std::error::Error::source(&error).is_some());
    let bad_key = HashMap::from([((1, 2), 3)]);
    let error = assert_ready_err!(task::spawn(stack.call(OutboundMessage::new(bad_key))).poll());
    assert_eq!(error.kind(), ErrorKind::Serialization);
    assert_pending!(handle.poll_request());
}

#[test]
fn the_first_property_that_is_not_allowed_is_the_answer() {
    let broker = Broker::default();
    let mut stack = EncodeLayer::new(Codecs::json()).layer(SendService::new(broker.clone()));
    let outgoing = OutboundMessage::new(1).message_id("").session_id("x".repeat(129)).time_to_live(Duration::ZERO);
    let error = assert_ready_err!(task::spawn(stack.call(outgoing)).poll());
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("MessageId must not be empty"), "{error}");
    let error =
        assert_ready_err!(task::spawn(stack.call(OutboundMessage::new(1).property("k", "x".repeat(40_000)))).poll());
    assert_eq!((error.kind(), broker.transfers()), (ErrorKind::InvalidArgument, 0));
}

#[test]
fn a_batch_goes_through_every_layer_and_is_one_transfer() {
    let broker = Broker::default();
    let mut stack = ServiceBuilder::new()
        .layer(MessageIdLayer::new())
        .layer(EncodeLayer::new(Codecs::json()))
        .layer(SizeLimitLayer::new(1_000))
        .service(SendService::new(broker.clone()));
    let orders = |count: u32| (0..count).map(|id| OutboundMessage::new(Order { id })).collect::<OutboundBatch<_>>();
    assert_pending!(task::spawn(stack.call(orders(3))).poll());
    let sent = broker.messages(0);
    assert_eq!((broker.transfers(), sent.len()), (1, 3));
    for (id, message) in sent.iter().enumerate() {
        assert_eq!(message.payload(), Some(format!(r#"{{"id":{id}}}"#).as_bytes()));
        assert_eq!(message.content_type(), Some("application/json"));
        assert_eq!(message.message_id().map(str::len), Some(36));
    }
    let error = assert_ready_err!(task::spawn(stack.call(orders(100))).poll());
    assert_eq!((error.kind(), broker.transfers()), (ErrorKind::MessageSizeExceeded, 1));
}

#[test]
fn one_value_that_cannot_be_encoded_stops_its_whole_batch() {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Either {
        Good(u32),
        Bad(Unwritable),
    }
    let broker = Broker::default();
    let mut stack = EncodeLayer::new(Codecs::json()).layer(SendService::new(broker.clone()));
    let batch =
        OutboundBatch::from(vec![OutboundMessage::new(Either::Good(1)), OutboundMessage::new(Either::Bad(Unwritable))]);
    let error = assert_ready_err!(task::spawn(stack.call(batch)).poll());
    assert_eq!((error.kind(), broker.transfers()), (ErrorKind::Serialization, 0));
}

#[derive(Clone)]
struct Retryable;

impl<R: Clone> Policy<R, (), SendError> for Retryable {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut R, result: &mut Result<(), SendError>) -> Option<Self::Future> {
        result.as_ref().is_err_and(SendError::is_retryable).then(|| ready(()))
    }

    fn clone_request(&mut self, request: &R) -> Option<R> {
        Some(request.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn retries_of_a_value_repeat_id_and_bytes_and_a_failed_encode_is_not_retried() {
    let broker = Broker::default();
    let stack = ServiceBuilder::new()
        .layer(MessageIdLayer::new())
        .layer(RetryLayer::new(Retryable))
        .layer(EncodeLayer::new(Codecs::json()))
        .service(SendService::new(broker.clone()));
    let send = tokio::spawn(stack.oneshot(OutboundMessage::new(Order { id: 1 })));
    for transfer in 0..3 {
        while broker.transfers() == transfer {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let answer = if transfer < 2 { Err(SendError::new(ErrorKind::CommunicationProblem)) } else { Ok(()) };
        broker.answer(transfer, answer);
    }
    send.await.unwrap().unwrap();
    assert_eq!(broker.transfers(), 3);
    let first = &broker.messages(0)[0];
    for transfer in 1..3 {
        let again = &broker.messages(transfer)[0];
        assert_eq!((again.message_id(), again.payload()), (first.message_id(), first.payload()));
    }

    let refusing = ServiceBuilder::new()
        .layer(RetryLayer::new(Retryable))
        .layer(EncodeLayer::new(Codecs::json()))
        .service(service_fn(|_: Message| async { Ok::<_, SendError>(()) }));
    let bad_key = HashMap::from([((1, 2), 3)]);
    assert_eq!(refusing.oneshot(OutboundMessage::new(bad_key)).await.unwrap_err().kind(), ErrorKind::Serialization);
}

/// Rules: I-40.
#[test]
fn debug_shows_no_value() {
    let shown = format!("{:?}", OutboundBatch::from(vec![OutboundMessage::new("canary").subject("s")]));
    assert!(!shown.contains("canary"), "{shown}");
}

/// Rules: I-36.
#[tokio::test(start_paused = true)]
async fn the_encode_layer_calls_only_a_ready_service() {
    use super::{contract::exercise, support::Probe};
    let layer = EncodeLayer::new(Codecs::json());
    exercise(layer.layer(Probe::new(())), || OutboundMessage::new(1)).await;
    exercise(layer.layer(Probe::new(())), || {
        OutboundBatch::from(vec![OutboundMessage::new(1), OutboundMessage::new(2)])
    })
    .await;
    let mut stack = layer.layer(service_fn(|_: Batch| async { Ok::<_, SendError>(()) }));
    stack.call(OutboundBatch::from(vec![OutboundMessage::new(1)])).await.unwrap();
}
