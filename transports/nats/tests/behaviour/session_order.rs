//! The order of the messages of a session when one is lost on its way.

use consign::{
    Message,
    transport::{ErrorKind, ReceiverExt, Sender, Session},
};
use consign_nats::async_nats::{
    HeaderMap,
    jetstream::{self, consumer::PullConsumer},
};
use futures_util::{StreamExt, TryStreamExt};

use crate::{
    LONG, limit_records, queue,
    sessions::{accept_soon, by_session},
};

/// Rules: I-24.
/// The connection of the holder stays: a server that fails elsewhere in a cluster loses what it has sent.
#[tokio::test]
async fn a_message_that_is_lost_behind_the_server_is_not_overtaken() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    let mut session = nats.accept_session(&path, "a").await.unwrap();
    for body in ["1", "2", "3"] {
        sender.send(Message::builder().session_id("a").build(body).unwrap()).await.unwrap();
    }
    session.receive_within(LONG).await.unwrap().complete().await.unwrap();
    let stream = jetstream::new(nats.client().clone()).get_stream(format!("test_{path}")).await.unwrap();
    let name = stream.consumer_names().try_next().await.unwrap().expect("the consumer of the hold");
    let consumer: PullConsumer = stream.get_consumer(&name).await.unwrap();
    let lost = consumer.fetch().max_messages(1).messages().await.unwrap().next().await.unwrap().unwrap();
    assert_eq!(&*lost.payload, b"2");

    let error = session.receive_within(LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLockLost, "{error}");
    let mut next = accept_soon(&nats, &path).await;
    for body in ["2", "3"] {
        let delivery = next.receive_within(LONG).await.unwrap();
        let received = (delivery.message.payload(), delivery.message.received().unwrap().delivery_count);
        assert_eq!(received, (Some(body.as_bytes()), 1));
        delivery.complete().await.unwrap();
    }
    next.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// Rules: I-24.
/// Its dead letter is refused, so it stays the first message of its session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_cannot_be_dead_lettered_is_not_overtaken() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    let mut headers = HeaderMap::new();
    headers.insert("Sb-Sections", "1,99");
    let context = jetstream::new(nats.client().clone());
    let sent = context.publish_with_headers(format!("test.{path}.s.a"), headers, "x".repeat(4_000).into()).await;
    sent.unwrap().await.unwrap();
    let sender = nats.sender(&path).await.unwrap();
    sender.send(Message::builder().session_id("a").build("2").unwrap()).await.unwrap();
    limit_records(&nats, &path, 2_000).await;
    let mut session = nats.accept_session(&path, "a").await.unwrap();
    let mut error = session.receive_within(LONG).await.unwrap_err();
    if error.kind() == ErrorKind::MessageSizeExceeded {
        error = session.receive_within(LONG).await.unwrap_err();
    }
    assert_eq!(error.kind(), ErrorKind::SessionLockLost, "{error}");
    limit_records(&nats, &path, -1).await;
    let mut next = accept_soon(&nats, &path).await;
    let delivery = next.receive_within(LONG).await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"2"[..]));
    delivery.complete().await.unwrap();
    next.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}
