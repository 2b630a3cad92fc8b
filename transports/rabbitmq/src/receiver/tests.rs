use std::{convert::Infallible, future::pending, time::Duration};

use consign_conformance::left_out;
use consign_core::{
    Message,
    transport::{ErrorKind, ReceiverExt, Sender},
};
use tokio::time::timeout;

use crate::{QueueSettings, RabbitMq};

const VARIABLE: &str = "CONSIGN_RABBITMQ";
const SOON: Duration = Duration::from_secs(20);

async fn connect() -> Option<RabbitMq> {
    let address = std::env::var(VARIABLE).unwrap_or_else(|_| "amqp://guest:guest@127.0.0.1:5672/%2f".into());
    match RabbitMq::options().linger(Duration::ZERO).connect(&address).await {
        Ok(rabbit) => Some(rabbit),
        Err(error) if error.kind() == ErrorKind::CommunicationProblem && std::env::var_os(VARIABLE).is_none() => {
            left_out("tests on RabbitMQ: scripts/brokers starts one");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// A subscription is not cancelled while this client deletes a queue. Messages that arrive by it meanwhile are received.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_received_while_another_queue_is_being_deleted() {
    let Some(rabbit) = connect().await else { return };
    let queue = format!("t{:016x}-kept", fastrand::u64(..));
    rabbit.create_queue(&queue, QueueSettings::default()).await.unwrap();
    let mut receiver = rabbit.receiver(&queue).unwrap();
    // It subscribes, and has no credit for another message.
    let sender = rabbit.sender(&queue).unwrap();
    sender.send(Message::new("first")).await.unwrap();
    receiver.receive_within(SOON).await.unwrap().complete().await.unwrap();

    let client = std::sync::Arc::clone(&rabbit.0);
    let deleting =
        tokio::spawn(async move { client.cancels.deleting("other", pending::<Result<(), Infallible>>()).await });
    let _ = timeout(Duration::from_millis(1), receiver.receive()).await;
    sender.send(Message::new("second")).await.unwrap();
    receiver.receive_within(SOON).await.unwrap().complete().await.unwrap();

    deleting.abort();
    rabbit.delete(&queue).await.unwrap();
    rabbit.close().await.unwrap();
}
