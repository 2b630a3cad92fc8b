//! What RabbitMQ does differently, seen by a program.

use consign::{
    Message,
    message::EntityPath,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, Lease, ReceiverExt, Sender, Transport},
};
use consign_amqp10::{Amqp10, Product};
use lapin::BasicProperties;
use tokio::time::timeout;

use super::{SOON, count, receiver, text};
use crate::support::{
    managed::Queues,
    rabbitmq::{RabbitMq, RabbitMqQueues},
    unique,
};

/// A queue on RabbitMQ, with one for its dead letters.
pub(super) struct Rabbit {
    server: RabbitMq,
    pub(super) amqp: Amqp10,
    pub(super) queue: EntityPath,
    queues: RabbitMqQueues,
}

impl Rabbit {
    pub(super) async fn new() -> Option<Self> {
        let server = RabbitMq::find().await?;
        let amqp = Amqp10::connect(&server.url()).await.unwrap();
        assert_eq!(amqp.product(), Product::RabbitMq3);
        let (queues, queue) = (server.queues().await, EntityPath::new(&unique("queue")).unwrap());
        for name in [queue.clone(), queue.dead_letter()] {
            queues.create(name.as_str()).await.unwrap();
        }
        Some(Self { server, amqp, queue, queues })
    }

    /// Host and port.
    pub(super) fn socket(&self) -> String {
        self.server.url().rsplit(['@', '/']).next().unwrap_or_default().to_owned()
    }

    pub(super) async fn end(self) {
        self.amqp.close().await.unwrap();
        for name in [self.queue.dead_letter(), self.queue] {
            let _ = self.queues.delete(name.as_str()).await;
        }
    }
}

/// The plugin ends the session for `modified`, so that an abandoned message is sent again, with its count.
///
/// Rules: K-285.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_message_counts_and_other_locks_hold() {
    let Some(rabbit) = Rabbit::new().await else { return };
    let sender = rabbit.amqp.sender(&rabbit.queue).await.unwrap();
    for body in ["a", "b"] {
        sender.send(Message::new(body)).await.unwrap();
    }
    let mut receiver = receiver(&rabbit.amqp, &rabbit.queue).await;
    let (a, b) = (receiver.receive().await.unwrap(), receiver.receive().await.unwrap());
    a.abandon().await.unwrap();
    let again = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
    assert_eq!((text(&again.message), count(&again.message)), ("a", 2));
    again.lease.release().await.unwrap();
    let again = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
    assert_eq!(count(&again.message), 2);
    again.complete().await.unwrap();
    b.complete().await.unwrap();
    rabbit.end().await;
}

/// The plugin accepts and discards messages for a queue that does not exist.
///
/// Rules: K-286.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_deleted_under_a_sender_takes_no_message() {
    let Some(rabbit) = Rabbit::new().await else { return };
    let sender = rabbit.amqp.sender(&rabbit.queue).await.unwrap();
    sender.send(Message::new("a")).await.unwrap();
    rabbit.queues.delete(rabbit.queue.as_str()).await.unwrap();
    let refused = async {
        loop {
            match sender.send(Message::new("b")).await {
                Err(error) if error.kind() == ErrorKind::EntityNotFound => break,
                // The server closes the connection.
                Err(error) => assert!(error.is_outcome_unknown(), "{error:?}"),
                Ok(()) => panic!("a message for a queue that does not exist was accepted"),
            }
        }
    };
    timeout(SOON, refused).await.unwrap();
    rabbit.end().await;
}

/// Rules: K-278.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_dead_letter_queue_nothing_is_discarded() {
    let Some(rabbit) = Rabbit::new().await else { return };
    rabbit.queues.delete(rabbit.queue.dead_letter().as_str()).await.unwrap();
    rabbit.amqp.sender(&rabbit.queue).await.unwrap().send(Message::new("a")).await.unwrap();
    let mut receiver = receiver(&rabbit.amqp, &rabbit.queue).await;
    let dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    let error = receiver.receive().await.unwrap().dead_letter(dead_letter).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound);
    let again = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
    assert_eq!(text(&again.message), "a");
    again.complete().await.unwrap();
    rabbit.end().await;
}

/// The plugin drops its headers.
///
/// Rules: K-282.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_client_of_amqp_0_9_1_is_read() {
    let Some(rabbit) = Rabbit::new().await else { return };
    let properties =
        BasicProperties::default().with_content_type("application/json".into()).with_message_id("m-1".into());
    rabbit.queues.publish(rabbit.queue.as_str(), properties, b"{}").await;
    let delivery = timeout(SOON, receiver(&rabbit.amqp, &rabbit.queue).await.receive()).await.unwrap().unwrap();
    let message = &delivery.message;
    assert_eq!(
        (text(message), message.content_type(), message.message_id()),
        ("{}", Some("application/json"), Some("m-1"))
    );
    delivery.complete().await.unwrap();
    rabbit.end().await;
}
