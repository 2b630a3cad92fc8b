//! A broker that is short of disk space: it reads nothing of a connection that has published.

use std::time::Duration;

use consign::{
    Message,
    transport::{ErrorKind, ReceiverExt, Sender as _},
};
use consign_conformance::log::Lines;
use consign_rabbitmq::{
    QueueSettings,
    lapin::{Connection, ConnectionProperties, options::QueueDeclareOptions, types::FieldTable},
};

use crate::{
    SOON,
    support::{self, node::Node},
};

#[tokio::test]
async fn a_blocked_connection_is_the_reason_of_what_has_no_answer() {
    let Some(node) = Node::start_with(|_, _| "disk_free_limit.absolute = 900GB\n".into()).await else { return };
    let (lines, _guard) = Lines::capture();
    // A node that has just begun is slow.
    let options = || support::options().timeout(Duration::from_secs(5));
    let rabbit = support::repeated(async || options().connect(&node.address()).await).await;
    let theirs = Connection::connect(&node.address(), ConnectionProperties::default()).await.expect("a node");
    let channel = theirs.create_channel().await.expect("a channel");
    channel
        .queue_declare("al".into(), QueueDeclareOptions::durable(), FieldTable::default())
        .await
        .expect("a declaration, which is not blocked");

    let is_named = |text: &str| text.contains("RabbitMQ has blocked the connection: low on disk");
    let error = rabbit.receiver("al").unwrap().receive_within(SOON).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::ServiceBusy, true), "{error}");
    assert!(is_named(&error.to_string()), "{error}");
    let logged = lines.of("consign::rabbitmq");
    assert!(logged.iter().any(|line| line.contains("WARN") && line.contains("low on disk")), "{logged:?}");

    // It may be stored when the alarm ends.
    rabbit.register_queue("al", QueueSettings::default()).unwrap();
    let error = rabbit.sender("al").unwrap().send(Message::new("body")).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    assert!(is_named(&error.to_string()), "{error}");

    // A connection that does not publish is not blocked.
    let reading = rabbit.connect_again().await.unwrap();
    let waiting = reading.receiver("al").unwrap().receive_within(Duration::from_secs(15)).await.unwrap_err();
    assert!(waiting.to_string().contains("no message"), "{waiting}");
}
