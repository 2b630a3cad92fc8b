//! A channel of the program that senders share.

mod support;

use consign::{
    Message,
    transport::{ErrorKind, Sender, Transport},
};
use consign_rabbitmq::{
    RabbitMq,
    lapin::{Connection, ConnectionProperties},
};
use futures_util::future::join_all;

/// Rules: X-21.
/// The broker acknowledges several messages at once, and lapin reports a returned one with any of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_returned_message_is_not_that_of_another_sender() {
    const SENDS: usize = 200;
    let Some(direct) = support::connect(support::options()).await else { return };
    direct.close().await.expect("an open connection");
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.expect("a broker");
    let rabbit = RabbitMq::wrap(connection.create_channel().await.expect("a channel"));
    let senders = [0, 1].map(|_| rabbit.sender(&support::unique("missing")).expect("a name"));
    // Both have the settings of their queues from here on.
    for sender in &senders {
        sender.send(Message::new("first")).await.expect_err("no queue");
    }
    let sends = (0..SENDS).map(|index| senders[index % 2].send(Message::new("next")));
    for sent in join_all(sends).await {
        assert_eq!(sent.expect_err("no queue").kind(), ErrorKind::EntityNotFound);
    }
    connection.close(200, "OK".into()).await.expect("an open connection");
}

/// Rules: K-48.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrapped_channel_answers_pings_until_it_is_closed() {
    let Some(direct) = support::connect(support::options()).await else { return };
    direct.close().await.expect("an open connection");
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.expect("a broker");
    let channel = connection.create_channel().await.expect("a channel");
    let rabbit = RabbitMq::wrap(channel.clone());
    for pinged in join_all((0..10).map(|_| rabbit.ping())).await {
        pinged.expect("an open channel");
    }
    assert!(channel.status().connected());
    channel.close(200, "OK".into()).await.expect("an open channel");
    let error = rabbit.ping().await.expect_err("a closed channel");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::CommunicationProblem, false), "{error:?}");
    connection.close(200, "OK".into()).await.expect("an open connection");
}
