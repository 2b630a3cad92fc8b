//! Queues that are deleted while they are received from.

mod support;

use std::time::Duration;

use consign::{
    Message,
    transport::{ReceiverExt, Sender},
};
use consign_rabbitmq::QueueSettings;

const SOON: Duration = Duration::from_secs(20);

/// RabbitMQ answers `basic.cancel` twice when the queue is deleted in that instant, and lapin ends the connection then. A
/// delivery that is held on it would be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_ends_as_its_queue_is_deleted_leaves_the_connection() {
    const ROUNDS: u32 = 80;
    const LINGER: Duration = Duration::from_millis(20);
    let Some(rabbit) = support::connect(support::options().linger(LINGER)).await else { return };
    let kept = support::unique("kept");
    // The rounds take longer than the default on a busy machine.
    let mut settings = QueueSettings::default();
    settings.lock_duration = Duration::from_secs(300);
    rabbit.create_queue(&kept, settings).await.unwrap();
    rabbit.sender(&kept).unwrap().send(Message::new("kept")).await.unwrap();
    let held = rabbit.receiver(&kept).unwrap().receive_within(SOON).await.unwrap();
    for round in 0..ROUNDS {
        let queue = support::unique("deleted");
        rabbit.create_queue(&queue, QueueSettings::default()).await.unwrap();
        let mut receiver = rabbit.receiver(&queue).unwrap();
        rabbit.sender(&queue).unwrap().send(Message::new("a")).await.unwrap();
        receiver.receive_within(SOON).await.unwrap().complete().await.unwrap();
        // Its subscription ends after `LINGER`, and the dead-letter queue is deleted first.
        tokio::time::sleep(LINGER / 16 * (round % 16)).await;
        rabbit.delete(&queue).await.unwrap();
        drop(receiver);
    }
    held.complete().await.unwrap();
    rabbit.delete(&kept).await.unwrap();
    rabbit.close().await.unwrap();
}
