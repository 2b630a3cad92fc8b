//! Messages and settlements that the server would not take.

mod support;

use std::time::Duration;

use consign::{
    Message,
    settlement::DeadLetterReason,
    transport::{ErrorKind, ReceiverExt, Sender},
};
use consign_rabbitmq::{QueueSettings, RabbitMq};

const SOON: Duration = Duration::from_secs(20);

async fn queue(settings: QueueSettings) -> Option<(RabbitMq, String)> {
    let rabbit = support::connect(support::options()).await?;
    let queue = support::unique("refused");
    rabbit.create_queue(&queue, settings).await.expect("a new queue");
    Some((rabbit, queue))
}

fn deliveries(most: u32) -> QueueSettings {
    let mut settings = QueueSettings::default();
    settings.max_delivery_count = most;
    settings
}

/// Rules: V-09, K-124.
/// Within the limits of a message, and more than a frame of the server.
#[tokio::test]
async fn headers_that_exceed_a_frame_are_refused_and_the_connection_stays() {
    let Some((rabbit, queue)) = queue(deliveries(10)).await else { return };
    let sender = rabbit.sender(&queue).expect("a name");
    sender.send(Message::new("before")).await.expect("a queue");
    let mut receiver = rabbit.receiver(&queue).expect("a name");
    let held = receiver.receive_within(SOON).await.expect("a message");
    let large = (0..1_000).fold(Message::builder(), |message, n| message.property(format!("{n:056}"), u64::MAX));
    let refused = sender.send(large.build("").expect("within the limits")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MessageSizeExceeded, "{refused:?}");
    sender.send(Message::new("after")).await.expect("a connection");
    held.complete().await.expect("a lock that is not lost");
    rabbit.delete(&queue).await.expect("a queue");
    rabbit.close().await.unwrap();
}

/// Rules: S-92.
#[tokio::test]
async fn a_dead_letter_whose_reason_does_not_fit_is_not_redelivered_without_end() {
    let Some((rabbit, queue)) = queue(deliveries(1)).await else { return };
    // 54 bytes less than the limit: a MessageId fits, and a reason does not.
    let value = "x".repeat(16_290);
    let full = (0..4).fold(Message::builder(), |message, n| message.property(format!("{n:080}"), value.clone()));
    let message = full.build("a body").expect("within the limits");
    rabbit.sender(&queue).expect("a name").send(message).await.expect("a queue");
    let mut receiver = rabbit.receiver(&queue).expect("a name");
    receiver.receive_within(SOON).await.expect("a message").abandon().await.expect("a dead letter");
    let mut dead = rabbit.receiver(&format!("{queue}/$deadletterqueue")).expect("a name");
    let dead = dead.receive_within(SOON).await.expect("a dead letter");
    assert_eq!(dead.message.dead_letter_reason(), Some(DeadLetterReason::HeaderSizeExceeded.as_str()));
    assert_eq!(dead.message.payload(), Some(&b"a body"[..]));
    // A message has what its limits permit beside the reason.
    let kept = (0..4).filter(|n| dead.message.application_properties().get(&format!("{n:080}")).is_some());
    assert_eq!(kept.count(), 3);
    dead.complete().await.expect("a lock");
    rabbit.delete(&queue).await.expect("a queue");
    rabbit.close().await.unwrap();
}

/// Rules: K-124.
#[tokio::test]
async fn a_message_that_cannot_be_deferred_is_abandoned() {
    let Some((rabbit, queue)) = queue(deliveries(2)).await else { return };
    rabbit.sender(&queue).expect("a name").send(Message::new("a")).await.expect("a queue");
    let mut receiver = rabbit.receiver(&queue).expect("a name");
    for _ in 0..2 {
        let refused = receiver.receive_within(SOON).await.expect("a message").defer().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotSupported);
    }
    let mut dead = rabbit.receiver(&format!("{queue}/$deadletterqueue")).expect("a name");
    let dead = dead.receive_within(SOON).await.expect("a dead letter");
    assert_eq!(dead.message.dead_letter_reason(), Some(DeadLetterReason::MaxDeliveryCountExceeded.as_str()));
    dead.complete().await.expect("a lock");
    rabbit.delete(&queue).await.expect("a queue");
    rabbit.close().await.unwrap();
}
