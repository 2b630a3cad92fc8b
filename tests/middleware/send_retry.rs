use std::time::Duration;

use consign::{
    Message,
    middleware::{
        message_id::MessageIdLayer,
        retry::{Backoff, Jitter},
        send_retry::SendRetryLayer,
    },
    transport::{Batch, ErrorKind, SendError, SendService},
};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_test::mock;

use super::support::{Broker, message};

const SECOND: Duration = Duration::from_secs(1);

fn layer() -> SendRetryLayer {
    SendRetryLayer::new(Backoff::exponential(SECOND).jitter(Jitter::None))
}

fn error(kind: ErrorKind) -> SendError {
    SendError::new(kind)
}

/// Sends through the layer to a broker whose answers are these, in turn, and returns the result and what the broker got.
async fn send(layer: &SendRetryLayer, answers: &[Result<(), ErrorKind>]) -> (Result<(), ErrorKind>, Vec<Message>) {
    let broker = Broker::default();
    let stack =
        ServiceBuilder::new().layer(MessageIdLayer::new()).layer(layer).service(SendService::new(broker.clone()));
    let sending = tokio::spawn(stack.oneshot(message("m")));
    for (transfer, answer) in answers.iter().enumerate() {
        while broker.transfers() <= transfer {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        broker.answer(transfer, answer.map_err(error));
    }
    let result = sending.await.unwrap().map_err(|error| error.kind());
    let messages = (0..broker.transfers()).map(|transfer| broker.messages(transfer)[0].clone()).collect();
    (result, messages)
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn a_send_that_was_refused_for_a_while_is_repeated_with_its_id_and_its_body() {
    let busy = Err(ErrorKind::ServiceBusy);
    let (result, sent) = send(&layer(), &[busy, Err(ErrorKind::Throttled), busy, Ok(())]).await;
    assert_eq!((result, sent.len()), (Ok(()), 4));
    let id = sent[0].message_id().unwrap();
    assert!(sent.iter().all(|message| message.message_id() == Some(id) && message.payload() == Some(b"body")));
}

/// Rules: X-240.
#[tokio::test(start_paused = true)]
async fn after_the_last_attempt_its_error_is_returned() {
    let (busy, throttled) = (Err(ErrorKind::ServiceBusy), Err(ErrorKind::Throttled));
    assert_eq!(SendRetryLayer::ATTEMPTS, 4);
    let (result, sent) = send(&layer(), &[busy, busy, busy, throttled]).await;
    assert_eq!((result, sent.len()), (throttled, 4));
    for attempts in [0, 1] {
        let (result, sent) = send(&layer().attempts(attempts), &[busy]).await;
        assert_eq!((result, sent.len()), (busy, 1), "{attempts}");
    }
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn no_other_error_is_repeated() {
    for kind in [
        ErrorKind::EntityNotFound,
        ErrorKind::MessageSizeExceeded,
        ErrorKind::QuotaExceeded,
        ErrorKind::ServiceTimeout,
        ErrorKind::CommunicationProblem,
        ErrorKind::General,
    ] {
        let (result, sent) = send(&layer(), &[Err(kind)]).await;
        assert_eq!((result, sent.len()), (Err(kind), 1));
    }
}

/// Rules: X-242.
#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_repeated_if_that_is_chosen_and_each_message_has_an_id() {
    let layer = layer().repeat_unknown_outcome();
    let lost = Err(ErrorKind::CommunicationProblem);
    let (result, sent) = send(&layer, &[lost, Err(ErrorKind::ServiceTimeout), Ok(())]).await;
    assert_eq!((result, sent.len()), (Ok(()), 3));
    // A permanent error is still one.
    let (result, sent) = send(&layer, &[lost, Err(ErrorKind::EntityNotFound)]).await;
    assert_eq!((result, sent.len()), (Err(ErrorKind::EntityNotFound), 2));

    let with_id = || Message::builder().message_id("m").build("").unwrap();
    for (batch, attempts) in [([with_id(), with_id()], 2), ([with_id(), message("none")], 1)] {
        let broker = Broker::default();
        let mut sending = task::spawn(layer.layer(SendService::new(broker.clone())).oneshot(Batch::from(batch)));
        assert_pending!(sending.poll());
        broker.answer(0, Err(error(ErrorKind::ServiceTimeout)));
        let ended = sending.poll().is_ready();
        advance(2 * SECOND).await;
        if !ended {
            assert_pending!(sending.poll());
        }
        assert_eq!(broker.transfers(), attempts);
    }
}

/// Rules: X-243.
#[tokio::test(start_paused = true)]
async fn the_delays_are_those_of_the_policy() {
    let start = Instant::now();
    let busy = Err(ErrorKind::ServiceBusy);
    let waited = |layer: SendRetryLayer| async move {
        let broker = Broker::default();
        let sending = tokio::spawn(layer.layer(SendService::new(broker.clone())).oneshot(message("m")));
        let mut at = Vec::new();
        for transfer in 0..4 {
            let before = Instant::now();
            while broker.transfers() <= transfer {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            at.push(before.elapsed().as_millis());
            broker.answer(transfer, busy.map_err(error));
        }
        sending.await.unwrap().unwrap_err();
        at
    };
    let delays = waited(layer()).await;
    // The test looks once a millisecond.
    for (delay, expected) in delays[1..].iter().zip([1_000, 2_000, 4_000]) {
        assert!((expected..expected + 3).contains(delay), "{delays:?}");
    }
    let jitter = || SendRetryLayer::new(Backoff::exponential(SECOND)).seed(7);
    assert_eq!(waited(jitter()).await, waited(jitter()).await);
    assert!(start.elapsed() > 10 * SECOND);
}

/// Rules: X-244.
#[tokio::test(start_paused = true)]
async fn each_attempt_waits_for_the_service_and_a_dropped_call_has_no_further_one() {
    let (mock, mut handle) = mock::pair::<Message, ()>();
    handle.allow(1);
    let mut stack = layer().layer(mock.map_err(|error| *error.downcast::<SendError>().unwrap()));
    let mut sending = {
        stack.ready().await.unwrap();
        task::spawn(stack.call(message("m")))
    };
    assert_pending!(sending.poll());
    let (_, response) = handle.next_request().await.unwrap();
    response.send_error(error(ErrorKind::ServiceBusy));
    assert_pending!(sending.poll());
    advance(SECOND).await;
    // The service is not ready yet.
    assert_pending!(sending.poll());
    let mut next = task::spawn(handle.next_request());
    assert_pending!(next.poll());
    drop(next);
    handle.allow(1);
    assert!(sending.is_woken());
    assert_pending!(sending.poll());
    let (_, response) = handle.next_request().await.unwrap();
    response.send_error(error(ErrorKind::ServiceBusy));
    assert_pending!(sending.poll());
    drop(sending);
    handle.allow(1);
    advance(60 * SECOND).await;
    assert_pending!(task::spawn(handle.next_request()).poll());

    // The layer itself is as ready as its service.
    let mut ready = task::spawn(stack.ready());
    assert_ready!(ready.poll()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_send_that_succeeds_is_not_repeated() {
    let (result, sent) = send(&layer(), &[Ok(())]).await;
    assert_eq!((result, sent.len()), (Ok(()), 1));
    let broker = Broker::default();
    let mut sending = task::spawn(layer().layer(SendService::new(broker.clone())).oneshot(message("m")));
    assert_pending!(sending.poll());
    broker.answer(0, Ok(()));
    assert_ready_ok!(sending.poll());
}
