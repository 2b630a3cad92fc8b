//! Attempts within one delivery.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use consign::{
    Disposition, Message, MessageExt,
    codecs::{Codecs, Text},
    message::PropertyValue,
    middleware::{catch_panic::CatchPanicLayer, expiry::ExpiryLayer, lock_renewal::LockLost, retry::RetryLayer},
    settlement::{DeadLetterReason, IntoDisposition, Permanent, Transient},
    time::{SystemClock, Timestamp},
    transport::{ErrorKind, SettleError},
};
use tokio_test::{assert_pending, assert_ready_eq, assert_ready_err, assert_ready_ok, task};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_test::mock;

use super::support::{message, received};

type Answer = Result<Disposition, BoxError>;

/// What comes of two further attempts at a handler that answers so, and how often it was called.
async fn attempts(answer: impl Fn(u64) -> Answer) -> (Answer, u64) {
    let (layer, calls) = (RetryLayer::new().immediate(2), AtomicU64::new(0));
    let stack = layer.layer(service_fn(|message: Message| {
        assert_eq!(message.subject(), Some("m"));
        let answer = answer(calls.fetch_add(1, Ordering::Relaxed) + 1);
        async { answer }
    }));
    let answer = stack.oneshot(message("m")).await;
    let calls = calls.into_inner();
    assert_eq!(layer.counts().immediate(), calls - 1);
    (answer, calls)
}

fn undecodable() -> BoxError {
    let codecs = Codecs::builder().with(Text).build().unwrap();
    let message = Message::builder().content_type("application/x-unknown").build("body").unwrap();
    message.decode::<&str, _>(&codecs).unwrap_err().into()
}

/// Rules: Y-01.
#[tokio::test]
async fn transient_failures_are_retried_up_to_the_number() {
    let (answer, calls) = attempts(|_| Err("away".into())).await;
    assert_eq!((answer.unwrap_err().to_string().as_str(), calls), ("away", 3));
    let (answer, calls) = attempts(|call| if call == 2 { Ok(Disposition::Complete) } else { Err("away".into()) }).await;
    assert_eq!((answer.unwrap(), calls), (Disposition::Complete, 2));
    // What a handler's `Transient` becomes.
    let (answer, calls) = attempts(|_| Ok(Transient::new("away").into_disposition())).await;
    assert_eq!((answer.unwrap(), calls), (Disposition::ABANDON, 3));
}

/// Rules: Y-02.
#[tokio::test]
async fn permanent_failures_are_never_retried() {
    let (answer, calls) = attempts(|_| Err(undecodable())).await;
    assert!(answer.unwrap_err().is::<consign::settlement::Undecodable>());
    assert_eq!(calls, 1);
    let (answer, calls) = attempts(|_| Ok(Transient::new(undecodable()).into_disposition())).await;
    let Ok(Disposition::DeadLetter(letter)) = answer else { panic!("dead letter") };
    assert_eq!((letter.reason, calls), (DeadLetterReason::UnsupportedContentType, 1));
    let (answer, calls) = attempts(|_| Ok(Permanent::new("no such order").into_disposition())).await;
    assert!(matches!(answer, Ok(Disposition::DeadLetter(_))));
    assert_eq!(calls, 1);
    let lost = || LockLost::from(SettleError::new(ErrorKind::MessageLockLost));
    assert_eq!(attempts(|_| Err(lost().into())).await.1, 1);
    for answered in [Disposition::Complete, Disposition::DEFER] {
        let (answer, calls) = attempts(|_| Ok(answered.clone())).await;
        assert_eq!((answer.unwrap(), calls), (answered, 1));
    }
}

/// Rules: Y-02.
#[tokio::test]
async fn a_lock_that_has_run_out_is_not_tried_again() {
    let (layer, expiry) = (RetryLayer::new().immediate(2), ExpiryLayer::new(SystemClock::new()));
    let handler = service_fn(|_: Message| async { Err::<Disposition, BoxError>("never called".into()) });
    let stack = ServiceBuilder::new().layer(&layer).layer(&expiry).service(handler);
    stack.oneshot(received(Some(Timestamp::EPOCH), Timestamp::EPOCH)).await.unwrap_err();
    assert_eq!((expiry.counts().locks(), layer.counts().immediate()), (1, 0));
}

/// Rules: Y-02.
#[tokio::test]
async fn the_user_may_know_better() {
    let layer = RetryLayer::new().immediate(5).retry_if(|error| !error.is::<std::num::ParseIntError>());
    let calls = AtomicU64::new(0);
    let stack = layer.layer(service_fn(|_: Message| async {
        if calls.fetch_add(1, Ordering::Relaxed) < 2 {
            return Err(BoxError::from("away"));
        }
        "x".parse::<u32>()?;
        Ok(Disposition::Complete)
    }));
    assert!(stack.oneshot(message("m")).await.unwrap_err().is::<std::num::ParseIntError>());
    assert_eq!(calls.into_inner(), 3);
}

/// Rules: Y-03.
#[tokio::test]
async fn each_attempt_is_made_on_an_instance_that_is_ready() {
    let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(RetryLayer::new().immediate(1));
    handle.allow(1);
    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut call = task::spawn(stack.call(message("m")));
    assert_pending!(call.poll());
    handle.next_request().await.unwrap().1.send_error("away");
    // The mock panics if what is called was not made ready.
    assert_pending!(call.poll());
    assert_pending!(handle.poll_request());
    handle.allow(1);
    assert!(call.is_woken());
    assert_pending!(call.poll());
    let (request, answer) = handle.next_request().await.unwrap();
    assert_eq!(request.subject(), Some("m"));
    answer.send_response(Disposition::Complete);
    assert_ready_eq!(call.poll().map(Result::unwrap), Disposition::Complete);
}

/// Rules: Y-03.
#[tokio::test]
async fn a_service_that_is_gone_is_an_error() {
    let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(RetryLayer::new().immediate(1));
    handle.allow(1);
    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut call = task::spawn(stack.call(message("m")));
    handle.next_request().await.unwrap().1.send_error("away");
    handle.send_error("gone");
    assert_eq!(assert_ready_err!(call.poll()).to_string(), "gone");
}

/// Rules: Y-04.
#[tokio::test]
async fn a_call_that_is_dropped_is_not_tried_again() {
    // Before the answer, after it, and while the further attempt runs.
    for stage in 0..3 {
        let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(RetryLayer::new().immediate(5));
        handle.allow(1);
        assert_ready_ok!(stack.poll_ready::<Message>());
        let mut call = task::spawn(stack.call(message("m")));
        assert_pending!(call.poll());
        let (_, answer) = handle.next_request().await.unwrap();
        if stage > 0 {
            answer.send_error("away");
            assert_pending!(call.poll());
        }
        handle.allow(5);
        if stage > 1 {
            assert_pending!(call.poll());
            handle.next_request().await.unwrap();
        }
        drop(call);
        assert_pending!(handle.poll_request(), "{stage}");
    }
}

/// Rules: Y-01.
#[tokio::test]
async fn a_panic_may_pass_and_all_attempts_see_the_same_message() {
    let seen = Arc::new(AtomicU64::new(0));
    let stack = ServiceBuilder::new().layer(RetryLayer::new().immediate(1)).layer(CatchPanicLayer::new()).service(
        service_fn(|mut message: Message| {
            // What one attempt does to its copy the next one does not see.
            assert!(message.application_properties().is_empty());
            message.properties_mut().application_properties_mut().insert("seen", PropertyValue::Bool(true));
            let first = seen.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                assert!(!first, "the first attempt panics");
                Ok::<_, BoxError>(Disposition::Complete)
            }
        }),
    );
    assert_eq!(stack.oneshot(message("m")).await.unwrap(), Disposition::Complete);
    assert_eq!(seen.load(Ordering::Relaxed), 2);
}

#[test]
fn the_number_of_attempts_is_bounded() {
    let shown = format!("{:?}", RetryLayer::new().immediate(u32::MAX));
    assert!(shown.contains("immediate: 100"), "{shown}");
}
