//! Batches and sizes.

use consign::{
    Message,
    administration::QueueSettings,
    transport::{Batch, ErrorKind, PresettledSender, Sender, Transport},
};

use super::{InMemory, counts, create};

fn bytes(count: usize) -> Message {
    Message::new(vec![7; count])
}

/// Rules: K-307, T-80.
#[tokio::test(start_paused = true)]
async fn a_batch_is_one_transfer_up_to_the_size_of_a_message() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let service_bus = server.connect().await;
    let sender = service_bus.sender(&orders).await.unwrap();
    let max = sender.max_message_size().await.unwrap();
    assert_eq!(max, QueueSettings::default().max_message_size);
    let third = max / 3;
    let error = sender.send_batch(Batch::from([bytes(third), bytes(third), bytes(third)])).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::MessageSizeExceeded, false), "{error}");
    let error = sender.send(bytes(max)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded, "{error}");
    sender.send_batch(Batch::from([bytes(third), bytes(third)])).await.unwrap();
    sender.send_batch(Batch::new()).await.unwrap();
    assert_eq!(counts(&server, &orders).await, (2, 0));
}

/// Rules: K-307.
#[tokio::test(start_paused = true)]
async fn a_batch_with_one_refused_message_is_refused() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let service_bus = server.connect().await;
    let sender = service_bus.sender(&orders).await.unwrap();
    let in_session = Message::builder().session_id("one").build("a").unwrap();
    let error = sender.send_batch(Batch::from([in_session, Message::new("b")])).await.unwrap_err();
    assert!(error.is_session_required(), "{error}");
    assert_eq!(counts(&server, &orders).await, (0, 0));
}

/// Rules: A-34.
#[tokio::test(start_paused = true)]
async fn a_presettled_message_is_not_answered() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let service_bus = server.connect().await;
    let sender = service_bus.sender(&orders).await.unwrap();
    sender.send_presettled(Message::new("a")).await;
    sender.send(Message::new("b")).await.unwrap();
    assert_eq!(counts(&server, &orders).await, (2, 0));
}
