use std::{
    collections::HashSet,
    future::{Ready, ready},
    sync::{Arc, Mutex},
};

use consign::{
    Message,
    middleware::message_id::MessageIdLayer,
    transport::{Batch, ErrorKind, SendError, SendService},
};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower::{
    Layer, Service, ServiceBuilder, ServiceExt,
    retry::{Policy, RetryLayer},
    service_fn,
};
use tower_test::mock;

use super::support::{Broker, message};

#[derive(Clone)]
struct Retryable;

impl<R: Clone> Policy<R, (), SendError> for Retryable {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut R, result: &mut Result<(), SendError>) -> Option<Ready<()>> {
        result.as_ref().is_err_and(SendError::is_retryable).then(|| ready(()))
    }

    fn clone_request(&mut self, request: &R) -> Option<R> {
        Some(request.clone())
    }
}

#[tokio::test]
async fn a_message_that_has_an_id_is_not_copied() {
    let (mut stack, mut handle) = mock::spawn_layer::<Batch, (), _>(MessageIdLayer::new());
    let mut message = message("m");
    message.properties_mut().set_message_id("mine").unwrap();
    assert_ready_ok!(stack.poll_ready::<Batch>());
    let _send = task::spawn(stack.call(Batch::from([message.clone(), message.clone()])));
    let (seen, _) = handle.next_request().await.unwrap();
    assert!(seen.messages().iter().all(|seen| std::ptr::eq(seen.properties(), message.properties())));
}

#[tokio::test]
async fn an_id_is_stamped_where_there_is_none() {
    let (mut stack, mut handle) = mock::spawn_layer::<Message, (), _>(MessageIdLayer::new());
    for (set, expected) in [(None, None), (Some("mine"), Some("mine"))] {
        assert_ready_ok!(stack.poll_ready::<Message>());
        let mut message = message("m");
        if let Some(set) = set {
            message.properties_mut().set_message_id(set).unwrap();
        }
        let mut send = task::spawn(stack.call(message));
        assert_pending!(send.poll());
        let (seen, answer) = handle.next_request().await.unwrap();
        let id = seen.message_id().unwrap();
        if let Some(expected) = expected {
            assert_eq!(id, expected);
        } else {
            assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'));
            assert!(id.chars().all(|char| matches!(char, '0'..='9' | 'a'..='f' | '-')), "{id}");
        }
        answer.send_response(());
        assert_ready_ok!(send.poll());
    }
}

#[test]
fn every_message_of_a_batch_is_stamped() {
    let broker = Broker::default();
    let mut stack = MessageIdLayer::new().layer(SendService::new(broker.clone()));
    let _send = stack.call(Batch::from([message("a"), message("b"), message("c")]));
    let ids: HashSet<_> = broker.messages(0).iter().map(|message| message.message_id().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn ids_come_from_a_closure_and_a_bad_one_is_refused() {
    let broker = Broker::default();
    let made = MessageIdLayer::with(|| "made").layer(SendService::new(broker.clone()));
    let _send = made.clone().call(message("m"));
    assert_eq!(broker.messages(0)[0].message_id(), Some("made"));

    let bad = MessageIdLayer::with(|| "x".repeat(129)).layer(SendService::new(broker.clone()));
    for error in [
        bad.clone().oneshot(message("m")).await.unwrap_err(),
        bad.oneshot(Batch::from([message("a"), message("b")])).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(broker.transfers(), 1, "nothing was sent");
}

/// The ids of three attempts, of which two fail.
async fn attempts(stack: impl FnOnce(FailsTwice) -> tower::util::BoxService<Message, (), SendError>) -> Vec<String> {
    let inner = FailsTwice::default();
    let ids = Arc::clone(&inner.0);
    stack(inner).oneshot(message("m")).await.unwrap();
    let ids = ids.lock().unwrap().clone();
    assert_eq!(ids.len(), 3);
    ids
}

#[derive(Clone, Default)]
struct FailsTwice(Arc<Mutex<Vec<String>>>);

impl Service<Message> for FailsTwice {
    type Response = ();
    type Error = SendError;
    type Future = Ready<Result<(), SendError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SendError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, message: Message) -> Self::Future {
        let mut ids = self.0.lock().unwrap();
        ids.push(message.message_id().unwrap_or_default().to_owned());
        ready(if ids.len() < 3 { Err(SendError::new(ErrorKind::CommunicationProblem)) } else { Ok(()) })
    }
}

#[tokio::test]
async fn retries_repeat_an_id_that_was_stamped_outside_of_them() {
    let outside = attempts(|inner| {
        ServiceBuilder::new().boxed().layer(MessageIdLayer::new()).layer(RetryLayer::new(Retryable)).service(inner)
    });
    let ids: HashSet<_> = outside.await.into_iter().collect();
    assert_eq!(ids.len(), 1, "a lost acknowledgement must not make two messages");

    let inside = attempts(|inner| {
        ServiceBuilder::new().boxed().layer(RetryLayer::new(Retryable)).layer(MessageIdLayer::new()).service(inner)
    });
    let ids: HashSet<_> = inside.await.into_iter().collect();
    assert_eq!(ids.len(), 3, "inside of the retry every attempt is a message of its own");
}

#[tokio::test(start_paused = true)]
async fn a_stamped_send_ends_when_the_broker_answers() {
    let start = tokio::time::Instant::now();
    let stack = MessageIdLayer::new().layer(service_fn(|_: Message| async {
        tokio::time::sleep(std::time::Duration::from_secs(7)).await;
        Err::<(), _>(SendError::new(ErrorKind::ServiceBusy))
    }));
    assert_eq!(stack.oneshot(message("m")).await.unwrap_err().kind(), ErrorKind::ServiceBusy);
    assert_eq!(start.elapsed().as_secs(), 7);
}
