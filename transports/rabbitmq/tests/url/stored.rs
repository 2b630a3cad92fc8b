//! Settings that are stored on the server, for clients that did not create the entity.

use std::time::Duration;

use consign::{
    Message,
    administration::{Administration, QueueSettings},
    message::EntityPath,
    transport::{ErrorKind, Lease, ReceiveMode, ReceiverExt, Sender, Transport},
};
use consign_conformance::log::Lines;
use consign_rabbitmq::lapin::{
    Connection, ConnectionProperties,
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use futures_util::future::join_all;

use crate::{SOON, connect, declared, end, path, settings, support, support::node::Node};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_only_receives_uses_the_settings_of_the_server() {
    let Some(transport) = connect().await else { return };
    let orders = declared(&transport, "orders", settings()).await;
    transport.sender(&orders).await.unwrap().send(Message::new("fails")).await.unwrap();

    // The method of the client itself does no I/O before the first receive.
    let rabbit = support::options().connect(&support::address()).await.unwrap();
    let mut receiver = rabbit.receiver(orders.as_str()).unwrap();
    for _ in 0..2 {
        let delivery = receiver.receive_within(SOON).await.unwrap();
        assert_eq!(delivery.lease.lock_duration(), Some(Duration::from_secs(5)));
        delivery.abandon().await.unwrap();
    }
    let mut dead = rabbit.receiver(orders.dead_letter().as_str()).unwrap();
    let delivery = dead.receive_within(SOON).await.unwrap();
    assert_eq!(delivery.message.dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
    delivery.complete().await.unwrap();
    rabbit.close().await.unwrap();
    end(transport, &[&orders]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_only_sends_keeps_the_order_of_its_calls() {
    const MESSAGES: usize = 200;
    let Some(transport) = connect().await else { return };
    let settings = settings().max_message_size(600);
    let bills = declared(&transport, "bills", settings.clone().requires_session(true)).await;
    let orders = declared(&transport, "orders", settings).await;

    // Fewer may be in flight than are sent before the settings are found.
    let rabbit = support::options().sends_in_flight(MESSAGES).connect(&support::address()).await.unwrap();
    let sender = rabbit.sender(orders.as_str()).unwrap();
    let sends: Vec<_> = (0..MESSAGES).map(|index| sender.send(Message::new(index.to_string()))).collect();
    // The futures are polled in another order than that of the calls.
    for sent in join_all(sends.into_iter().rev()).await {
        sent.unwrap();
    }
    let mut receiver = rabbit.receive_and_delete(orders.as_str()).unwrap();
    for index in 0..MESSAGES {
        let delivery = receiver.receive_within(SOON).await.unwrap();
        assert_eq!(delivery.message.payload(), Some(index.to_string().as_bytes()));
    }
    let large = sender.send(Message::new("x".repeat(700))).await.unwrap_err();
    assert_eq!(large.kind(), ErrorKind::MessageSizeExceeded);
    // The number of slots is that of the entity.
    let bill = Message::builder().session_id("customer-7").build("a bill").unwrap();
    rabbit.sender(bills.as_str()).unwrap().send(bill).await.unwrap();
    let mut session = rabbit.accept_session(bills.as_str(), "customer-7").await.unwrap();
    session.receive_within(SOON).await.unwrap().complete().await.unwrap();
    drop(session);
    rabbit.close().await.unwrap();
    end(transport, &[&orders, &bills]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_number_of_clients_read_settings_at_the_same_time() {
    let Some(transport) = connect().await else { return };
    let orders = declared(&transport, "orders", settings()).await;
    let reading = (0..40).map(|_| transport.settings(&orders));
    for read in join_all(reading).await {
        assert_eq!(read.unwrap(), settings().into());
    }
    end(transport, &[&orders]).await;
}

/// A queue of another program, with its arguments.
async fn foreign(name: &EntityPath, arguments: FieldTable) {
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.expect("a server");
    let channel = connection.create_channel().await.expect("a server");
    channel.queue_declare(name.as_str().into(), QueueDeclareOptions::durable(), arguments).await.expect("a server");
    connection.close(200, "OK".into()).await.expect("a server");
}

fn quorum() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(i64::from(i32::MAX)));
    arguments
}

#[tokio::test]
async fn a_queue_without_settings_has_the_defaults_and_one_warning() {
    let Some(transport) = connect().await else { return };
    let orders = path("foreign");
    foreign(&orders, FieldTable::default()).await;
    let (lines, _guard) = Lines::capture();
    transport.sender(&orders).await.unwrap().send(Message::new("an order")).await.unwrap();
    for _ in 0..2 {
        let mut receiver = transport.receiver(&orders, ReceiveMode::PeekLock).await.unwrap();
        let delivery = receiver.receive_within(SOON).await.unwrap();
        assert_eq!(delivery.lease.lock_duration(), Some(Duration::from_secs(30)));
        delivery.lease.release().await.unwrap();
    }
    let logged = lines.of("consign::rabbitmq");
    let expected = "WARN consign::rabbitmq: the entity has no settings on the server: the defaults apply. Declare it, or set them by RabbitMq::register_queue";
    assert!(logged.len() == 1 && logged[0].starts_with(expected) && logged[0].contains(orders.as_str()), "{logged:?}");
    assert_eq!(transport.settings(&orders).await.unwrap_err().kind(), ErrorKind::NotSupported);
    // It is a classic queue: what is declared here is not.
    let refused = transport.declare(&orders, &settings().into()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{refused}");
    transport.delete(&orders).await.unwrap();
    end(transport, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_the_same_arguments_gets_settings_when_it_is_declared() {
    let Some(transport) = connect().await else { return };
    let orders = path("earlier");
    foreign(&orders, quorum()).await;
    transport.declare(&orders, &settings().into()).await.unwrap();
    let other = connect().await.unwrap();
    assert_eq!(other.settings(&orders).await.unwrap(), settings().into());
    other.close().await.unwrap();
    end(transport, &[&orders]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_creation_is_completed_or_deleted() {
    let Some(transport) = connect().await else { return };
    let orders = declared(&transport, "orders", settings()).await;
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let other = connect().await.unwrap();
    for is_completed in [true, false] {
        channel.queue_delete(orders.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
        assert_eq!(other.settings(&orders).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
        if is_completed {
            let refused = other.declare(&orders, &QueueSettings::default().into()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
            other.declare(&orders, &settings().into()).await.unwrap();
            assert_eq!(transport.counts(&orders).await.unwrap().active, 0);
        }
    }
    connection.close(200, "OK".into()).await.unwrap();
    other.close().await.unwrap();
    end(transport, &[&orders]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_outlive_a_restart_of_the_server() {
    let Some(node) = Node::start().await else { return };
    let connecting = crate::registry().connect(&node.address()).await.unwrap();
    let orders = declared(&connecting, "orders", settings()).await;
    connecting.close().await.unwrap();
    node.restart().await.unwrap();
    let after = crate::registry().connect(&node.address()).await.unwrap();
    assert_eq!(after.settings(&orders).await.unwrap(), settings().into());
    after.close().await.unwrap();
}
