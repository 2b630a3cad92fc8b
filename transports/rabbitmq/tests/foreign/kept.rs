//! The example around a plain lapin client: what becomes of messages that cannot be settled at once.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::time::Duration;

use consign_rabbitmq::lapin::{
    BasicProperties, Channel,
    options::{
        BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions, QueueBindOptions,
        QueueDeleteOptions, QueuePurgeOptions,
    },
    types::{AMQPValue, FieldTable},
};
use futures_util::StreamExt;

use crate::{
    SOON, support,
    wrapped::{Theirs, text, wrap_lapin},
};

/// A queue that refuses publications while it is full, and has one message. It gets the dead letters of `theirs` by `amq.direct`.
async fn full(theirs: &Theirs) -> String {
    let full = support::unique("full");
    let arguments = [
        ("x-queue-type", text("classic")),
        ("x-max-length", AMQPValue::LongInt(1)),
        ("x-overflow", text("reject-publish")),
    ];
    theirs.queue(&full, &arguments).await;
    let (options, key) = (QueueBindOptions::default(), theirs.queue.as_str().into());
    theirs
        .channel
        .queue_bind(full.as_str().into(), "amq.direct".into(), key, options, FieldTable::default())
        .await
        .unwrap();
    let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
    theirs
        .channel
        .basic_publish("".into(), full.as_str().into(), options, b"", properties)
        .await
        .unwrap()
        .await
        .unwrap();
    full
}

/// A channel for the example. RabbitMQ 3.10 may close the connection that deletes a quorum queue of a consumer, so it is closed before.
async fn channel(theirs: &Theirs) -> Channel {
    let channel = theirs.connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    channel
}

/// A quorum queue drops a message without a dead-letter exchange when it was returned too often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_keeps_a_message_whose_dead_letter_is_refused() {
    let Some(theirs) = Theirs::declare(&[("x-delivery-limit", AMQPValue::LongInt(2))]).await else { return };
    let (full, consumer) = (full(&theirs).await, channel(&theirs).await);
    theirs.publish(BasicProperties::default().with_content_type("application/json".into()), b"{not json").await;
    let refusing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        theirs.channel.queue_purge(full.as_str().into(), QueuePurgeOptions::default()).await.unwrap();
        while theirs.ready(&full).await == Some(0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = wrap_lapin::consume(&consumer, &theirs.queue, "amq.direct") => panic!("{ended:?}"),
        dead = tokio::time::timeout(SOON, refusing) => dead.expect("a dead letter"),
    }
    consumer.close(200, "OK".into()).await.unwrap();
    theirs.channel.queue_delete(full.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    theirs.end().await;
}

/// A consumer that ends returns the messages that it has fetched, and a quorum queue counts that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_handles_messages_that_other_consumers_have_returned() {
    const ORDERS: u32 = 10;
    let Some(theirs) = Theirs::declare(&[]).await else { return };
    for _ in 0..ORDERS {
        wrap_lapin::place(&theirs.channel, &theirs.queue, ("pen", 120)).await.unwrap();
    }
    for _ in 0..3 {
        let channel = theirs.connection.create_channel().await.unwrap();
        channel.basic_qos(32, BasicQosOptions::default()).await.unwrap();
        let options = BasicConsumeOptions::default();
        let taken = channel.basic_consume(theirs.queue.as_str().into(), "".into(), options, FieldTable::default());
        let taken: Vec<_> = taken.await.unwrap().take(ORDERS as usize).collect().await;
        assert!(taken.iter().all(Result::is_ok));
        channel.close(200, "OK".into()).await.unwrap();
        while theirs.ready(&theirs.queue).await != Some(ORDERS) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    // The last one: this marks the end.
    theirs.publish(BasicProperties::default().with_content_type("application/json".into()), b"{not json").await;
    let consumer = channel(&theirs).await;
    let dead = tokio::select! {
        ended = wrap_lapin::consume(&consumer, &theirs.queue, &theirs.exchange) => panic!("{ended:?}"),
        dead = theirs.next_dead() => dead,
    };
    assert_eq!(dead.data, b"{not json");
    consumer.close(200, "OK".into()).await.unwrap();
    theirs.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_ends_with_an_error_if_its_queue_is_deleted() {
    let Some(theirs) = Theirs::declare(&[("x-queue-type", text("classic"))]).await else { return };
    let delete = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let channel = theirs.connection.create_channel().await.unwrap();
        channel.queue_delete(theirs.queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    };
    let consuming = wrap_lapin::consume(&theirs.channel, &theirs.queue, &theirs.exchange);
    let (ended, ()) = tokio::time::timeout(SOON, async { tokio::join!(consuming, delete) }).await.expect("an end");
    assert!(ended.unwrap_err().to_string().contains("the subscription has ended"));
    theirs.end().await;
}
