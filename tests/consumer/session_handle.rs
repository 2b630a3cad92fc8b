//! What a handler has of its session.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    codecs::Codecs,
    consumer::{Consumer, SessionConsumer, SessionHandle},
    routing::{RawBody, Router},
    transport::{ErrorKind, ReceiverExt, Sender, SettleError},
};
use tokio::time::sleep;
use tower::{Layer, buffer::BufferLayer, service_fn};

use crate::{seconds, until, within};

async fn sessions(messages: &[(&'static str, &'static str)]) -> Queue {
    let settings = QueueSettings::default().requires_session(true).lock_duration(seconds(10));
    let queue = Broker::new().create_queue("orders", settings).unwrap();
    for (session, body) in messages {
        let message = Message::builder().session_id(*session).build(*body).unwrap();
        queue.sender().unwrap().send(message).await.unwrap();
    }
    queue
}

/// Adds the body of each message to the state of its session.
async fn append(session: SessionHandle, RawBody(body): RawBody) -> Result<(), consign::settlement::Transient> {
    let mut state = session.state().await.map_err(consign::settlement::Transient::new)?.unwrap_or_default().to_vec();
    state.extend_from_slice(session.session_id().as_bytes());
    state.extend_from_slice(&body);
    session.set_state(Some(state.into())).await.map_err(consign::settlement::Transient::new)
}

/// Rules: N-15.
#[tokio::test(start_paused = true)]
async fn a_handler_continues_with_the_state_of_its_session() {
    let queue = sessions(&[("a", "1"), ("b", "2"), ("a", "3")]).await;
    for last in ["", "4"] {
        let router = Router::new(Codecs::json()).fallback(append).build().unwrap();
        // The layer calls the router in a task of its own.
        let stack = BufferLayer::<Message>::new(4).layer(router);
        let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), stack);
        let (stats, left) = (consumer.stats(), queue.clone());
        if !last.is_empty() {
            queue.sender().unwrap().send(Message::builder().session_id("a").build(last).unwrap()).await.unwrap();
        }
        within(60, consumer.run_until(until(move || stats.completed() > 0 && left.counts().active == 0)))
            .await
            .unwrap();
    }
    assert_eq!(queue.accept_session("a").unwrap().state().unwrap().as_deref(), Some(&b"a1a3a4"[..]));
    assert_eq!(queue.accept_session("b").unwrap().state().unwrap().as_deref(), Some(&b"b2"[..]));
}

/// Rules: N-15.
#[tokio::test(start_paused = true)]
async fn without_a_session_the_message_is_abandoned_with_the_cause() {
    let settings = QueueSettings::default().max_delivery_count(1);
    let queue = Broker::new().create_queue("orders", settings).unwrap();
    queue.sender().unwrap().send(Message::builder().session_id("a").build("1").unwrap()).await.unwrap();
    let router = Router::new(Codecs::json()).fallback(append).build().unwrap();
    let consumer = Consumer::new(queue.receiver(), router);
    let stats = consumer.stats();
    within(60, consumer.run_until(until(move || stats.dead_lettered() == 1))).await.unwrap();
    let dead = queue.dead_letter().receiver().receive().await.unwrap();
    let description = dead.message.dead_letter_description().unwrap();
    assert!(description.contains("no SessionConsumer holds the session"), "{description}");
    dead.complete().await.unwrap();
}

/// Rules: N-15.
#[tokio::test(start_paused = true)]
async fn a_handle_does_not_keep_its_session() {
    let queue = sessions(&[("a", "1")]).await;
    let kept = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&kept);
    let handler = service_fn(move |message: Message| {
        let handle = SessionHandle::of(&message);
        *seen.lock().unwrap() = Some((message, handle.unwrap()));
        async { Ok::<_, Infallible>(Disposition::Complete) }
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler);
    let stats = consumer.stats();
    within(60, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    let (message, handle) = kept.lock().unwrap().take().unwrap();
    let mut next = queue.accept_session("a").unwrap();
    assert!(SessionHandle::of(&message).is_none());
    assert_eq!(handle.session_id(), "a");
    for failed in [handle.state().await.map(drop), handle.set_state(None).await] {
        assert_eq!(failed.map_err(|error| error.kind()), Err(ErrorKind::SessionLockLost));
    }
    next.renew().unwrap();
}

/// Rules: J-230, N-15.
#[tokio::test(start_paused = true)]
async fn a_state_that_is_not_answered_fails_after_the_operation_timeout() {
    let failed: Arc<Mutex<Vec<(SettleError, u64)>>> = Arc::default();
    let seen = Arc::clone(&failed);
    let handler = service_fn(move |message: Message| {
        let (handle, seen) = (SessionHandle::of(&message).unwrap(), Arc::clone(&seen));
        async move {
            let began = tokio::time::Instant::now();
            let error = handle.state().await.unwrap_err();
            seen.lock().unwrap().push((error, began.elapsed().as_secs()));
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let source = crate::unanswered::session_with_one_message();
    let consumer = SessionConsumer::new(source, handler).operation_timeout(seconds(3));
    let stats = consumer.stats();
    within(60, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    sleep(seconds(1)).await;
    let failed = failed.lock().unwrap();
    let (error, after) = &failed[0];
    assert_eq!((error.kind(), *after, failed.len()), (ErrorKind::ServiceTimeout, 3, 1));
}
