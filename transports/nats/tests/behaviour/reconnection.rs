//! The server goes, and comes back.

use std::{collections::BTreeSet, time::Duration};

use consign::{
    Disposition, Message,
    administration::Administration,
    consumer::Consumer,
    message::EntityPath,
    transport::{ErrorKind, ReceiveError, ReceiverExt, Sender},
};
use consign_nats::{Nats, QueueSettings, async_nats::ConnectOptions};
use futures_util::future::join_all;
use tokio::{sync::mpsc, time::timeout};
use tower::{BoxError, service_fn};

use crate::{LONG, own::OwnServer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_says_once_that_the_connection_broke_and_goes_on() {
    let Some(mut server) = OwnServer::start().await else { return };
    let nats = Nats::options().timeout(Duration::from_secs(5)).connect(&server.url()).await.unwrap();
    nats.create_queue("orders", QueueSettings::default()).await.unwrap();
    let sender = nats.sender("orders").await.unwrap();
    let mut receiver = nats.receiver("orders").await.unwrap();
    for round in 0..2 {
        server.kill();
        let error = timeout(LONG, receiver.receive()).await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::CommunicationProblem, true), "{round}: {error}");
        let waiting = tokio::spawn(async move {
            let received = timeout(LONG, receiver.receive()).await;
            (receiver, received)
        });
        server.run().await;
        // A send of unknown outcome may be repeated, and then stored twice.
        while let Err(error) = sender.send(Message::new(format!("{round}"))).await {
            assert!(error.is_retryable(), "{error}");
        }
        let (again, received) = waiting.await.unwrap();
        receiver = again;
        let mut delivery = received.unwrap();
        // The client may have connected twice: once to a server that had just begun.
        if delivery.as_ref().is_err_and(ReceiveError::is_retryable) {
            delivery = timeout(LONG, receiver.receive()).await.unwrap();
        }
        delivery.unwrap().complete().await.unwrap();
    }
    nats.close().await.unwrap();
    assert!(!receiver.receive().await.unwrap_err().is_retryable());
    assert!(sender.send(Message::new("")).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_and_inboxes_end_at_the_time_limit_while_the_server_is_gone() {
    let Some(mut server) = OwnServer::start().await else { return };
    let nats = Nats::options().timeout(Duration::from_secs(5)).connect(&server.url()).await.unwrap();
    let replies = nats.inbox().await.unwrap();
    let sender = replies.sender("services.quote").unwrap();
    server.kill();
    // The first write may be to a connection that is not known to be broken.
    let failed = loop {
        let message = Message::builder().message_id("m").build("").unwrap();
        if let Err(error) = timeout(LONG, sender.send(message)).await.expect("a send has a time limit") {
            break error;
        }
    };
    assert!(failed.is_outcome_unknown() && failed.is_retryable(), "{failed}");
    let error = timeout(LONG, nats.inbox()).await.expect("an inbox has a time limit").unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::ServiceTimeout, true), "{error}");
}

/// A server reads the ids of a stream from its messages when it starts, and a completed message is not there any more. Plain clients
/// of the server observe the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_forgets_the_ids_of_completed_messages_alone() {
    let Some(mut server) = OwnServer::start().await else { return };
    let nats = Nats::options().timeout(Duration::from_secs(5)).connect(&server.url()).await.unwrap();
    let mut settings = QueueSettings::default();
    settings.duplicate_detection = Some(LONG * 30);
    nats.create_queue("orders", settings).await.unwrap();
    let path = EntityPath::new("orders").unwrap();
    let active = async || nats.counts(&path).await.unwrap().active;
    let sender = nats.sender("orders").await.unwrap();
    let send = async |id: &'static str| {
        let message = || Message::builder().message_id(id).build(id.to_owned()).unwrap();
        while let Err(error) = sender.send(message()).await {
            assert!(error.is_retryable(), "{error}");
        }
    };
    send("completed").await;
    send("waiting").await;
    let mut receiver = nats.receiver("orders").await.unwrap();
    receiver.receive().await.unwrap().complete().await.unwrap();
    send("completed").await;
    assert_eq!(active().await, 1, "it was known");

    server.stop();
    server.run().await;
    send("completed").await;
    send("waiting").await;
    assert_eq!(active().await, 2, "one of them was known");
}

/// The client's queue of commands is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_the_client_does_not_take_end_at_the_time_limit() {
    let Some(mut server) = OwnServer::start().await else { return };
    let client = ConnectOptions::new().client_capacity(1);
    let nats = Nats::options().timeout(Duration::from_secs(5)).client(client).connect(&server.url()).await.unwrap();
    nats.create_queue("orders", QueueSettings::default()).await.unwrap();
    let sender = nats.sender("orders").await.unwrap();
    server.kill();
    let sends = join_all((0..16).map(|number| sender.send(Message::new(format!("{number}")))));
    for sent in timeout(LONG, sends).await.expect("a send has a time limit") {
        let error = sent.unwrap_err();
        assert!(error.is_outcome_unknown() && error.is_retryable(), "{error}");
    }
}

/// What was acknowledged before the server died is there afterwards, and a consumer handles it without a hand laid on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_outlives_the_server() {
    let Some(mut server) = OwnServer::start().await else { return };
    let nats = Nats::options().timeout(Duration::from_secs(5)).connect(&server.url()).await.unwrap();
    let mut settings = QueueSettings::default();
    // A message whose completion did not reach the server is redelivered after it.
    settings.lock_duration = Duration::from_secs(5);
    nats.create_queue("orders", settings).await.unwrap();
    let (handled, mut seen) = mpsc::channel(1_000);
    let handler = service_fn(move |message: Message| {
        let handled = handled.clone();
        async move {
            let body = String::from_utf8(message.payload().unwrap_or_default().to_vec())?;
            handled.send(body).await?;
            Ok::<_, BoxError>(Disposition::Complete)
        }
    });
    let receiver = nats.receiver("orders").await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(Consumer::new(receiver, handler).run_until(stopped));
    let sender = nats.sender("orders").await.unwrap();
    let mut missing = BTreeSet::new();
    for number in 0..60 {
        if number % 20 == 10 {
            server.kill();
            server.run().await;
        }
        let body = format!("{number}");
        while sender.send(Message::new(body.clone())).await.is_err() {}
        missing.insert(body);
    }
    while !missing.is_empty() {
        missing.remove(&timeout(LONG * 4, seen.recv()).await.expect("all that was sent is handled").unwrap());
    }
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn without_a_server_there_is_no_connection() {
    let error = Nats::connect("nats://127.0.0.1:1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");
    let error = Nats::options().namespace("a.b").connect("nats://127.0.0.1:1").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::CommunicationProblem | ErrorKind::InvalidArgument), "{error}");
}
