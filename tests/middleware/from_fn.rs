use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    middleware::from_fn::{Next, from_fn, from_send_fn},
    transport::{Batch, ErrorKind, SendError, SendService},
};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, service_fn};
use tower_test::mock;

use super::support::{Broker, message};

#[tokio::test]
async fn an_async_closure_may_answer_change_and_pass_on() {
    let layer = from_fn(async |mut message, next| {
        if message.subject() == Some("skip") {
            return Ok(Disposition::DEFER);
        }
        message.properties_mut().set_subject("changed");
        match next.run(message).await? {
            Disposition::Complete => Ok(Disposition::ABANDON),
            other => Ok(other),
        }
    });
    let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(layer);
    assert_ready_ok!(stack.poll_ready::<Message>());
    assert_eq!(assert_ready_ok!(task::spawn(stack.call(message("skip"))).poll()), Disposition::DEFER);
    assert_pending!(handle.poll_request());

    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut call = task::spawn(stack.call(message("m")));
    assert_pending!(call.poll());
    let (seen, answer) = handle.next_request().await.unwrap();
    assert_eq!(seen.subject(), Some("changed"));
    answer.send_response(Disposition::Complete);
    assert_eq!(assert_ready_ok!(call.poll()), Disposition::ABANDON);
}

async fn retried<S>(message: Message, next: Next<S>) -> Result<Disposition, BoxError>
where
    S: Service<Message, Response = Disposition, Error: Into<BoxError>>,
{
    next.run(message).await.map_err(|error| format!("seen: {error}").into())
}

#[tokio::test]
async fn a_function_is_a_layer_too() {
    let stack = from_fn(retried).layer(service_fn(|_: Message| async { Err::<Disposition, BoxError>("inner".into()) }));
    assert_eq!(stack.oneshot(message("m")).await.unwrap_err().to_string(), "seen: inner");
}

#[tokio::test]
async fn a_closure_may_hold_values_and_the_stack_is_send() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let stack = ServiceBuilder::new()
        .layer(from_fn(move |message, next: Next<_>| {
            let count = Arc::clone(&counted);
            async move {
                tokio::task::yield_now().await;
                count.fetch_add(1, Ordering::Relaxed);
                next.run(message).await
            }
        }))
        .layer(from_fn(async |message, next| next.run(message).await))
        .service(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
    for _ in 0..3 {
        tokio::spawn(stack.clone().oneshot(message("m"))).await.unwrap().unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_sending_stack_takes_functions_of_messages_and_batches() {
    let broker = Broker::default();
    let mut one = from_send_fn(async |mut message: Message, next| {
        message.properties_mut().set_to("there");
        next.run(message).await
    })
    .layer(SendService::new(broker.clone()));
    let mut send = task::spawn(one.call(message("m")));
    assert_pending!(send.poll());
    assert_eq!(broker.messages(0)[0].to(), Some("there"));
    broker.answer(0, Ok(()));
    assert_ready_ok!(send.poll());

    let many = from_send_fn(async |batch: Batch, next| {
        if batch.len() > 1 {
            return Err(SendError::new(ErrorKind::InvalidArgument));
        }
        next.run(batch).await
    })
    .layer(SendService::new(broker.clone()));
    let error = many.oneshot(Batch::from([message("a"), message("b")])).await.unwrap_err();
    assert_eq!((error.kind(), broker.transfers()), (ErrorKind::InvalidArgument, 1));
}

#[tokio::test(start_paused = true)]
async fn dropping_next_gives_back_what_readiness_reserved() {
    let stack = ServiceBuilder::new()
        .layer(from_fn(async |message, next: Next<_>| {
            if message.subject() == Some("skip") {
                drop(next);
                tokio::time::sleep(Duration::from_secs(1_000)).await;
                return Ok(Disposition::DEFER);
            }
            next.run(message).await
        }))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
    let _skips = tokio::spawn(stack.clone().oneshot(message("skip")));
    tokio::task::yield_now().await;
    let call = tokio::time::timeout(Duration::from_secs(1), stack.oneshot(message("m")));
    assert_eq!(call.await.expect("not held up").unwrap(), Disposition::Complete);
}
