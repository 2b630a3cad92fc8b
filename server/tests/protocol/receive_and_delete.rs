//! Links in receive-and-delete mode.

use std::time::Duration;

use consign_amqp::{
    engine,
    message::DeliveryAnnotations,
    types::{Attach, SenderSettleMode},
};
use consign_core::administration::QueueSettings;
use tokio::time::timeout;

use crate::{log, raw::Peer, support::*};

fn delete_attach(address: &str) -> Attach {
    Attach { snd_settle_mode: SenderSettleMode::Settled, ..receiver_attach(address) }
}

/// Rules: A-30, S-24, S-50.
#[tokio::test(start_paused = true)]
async fn receive_and_delete_has_no_lock() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b"]).await;
    let mut link = session.attach_receiver_with(delete_attach("orders")).await.unwrap();
    let delivery = receive(&mut link).await;
    assert!(delivery.settled && delivery.tag.is_empty());
    let counts = harness.broker().queue("orders").unwrap().counts();
    assert_eq!((counts.active, counts.locked), (1, 0));
    let sections = read(delivery);
    assert_eq!((body(&sections), sections.delivery_annotations.clone()), ("a", Some(DeliveryAnnotations::default())));
    assert_eq!(sections.message_annotations.unwrap().0.get("x-opt-locked-until"), None);
}

#[tokio::test(start_paused = true)]
async fn receive_and_delete_of_a_subscription_needs_the_size_of_its_topic() {
    let harness = Harness::new();
    let session = harness.session().await;
    receiver(&session, "prices/Subscriptions/audit").await;
    send(&session, "prices", &["a"]).await;
    for (size, allowed) in [(1 << 20, true), (1_000, false)] {
        let attach = Attach { max_message_size: Some(size), ..delete_attach("prices/Subscriptions/audit") };
        assert_eq!(session.attach_receiver_with(attach).await.is_ok(), allowed, "{size}");
    }
}

/// What was deleted must not be lost for the size of the receiver.
#[tokio::test(start_paused = true)]
async fn receive_and_delete_is_refused_for_a_receiver_of_smaller_messages() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let options = consign_amqp::engine::Options::default().max_message_size(1_000);
    let small = harness.try_connect(options).await.unwrap().begin().await.unwrap();
    let outcome = small.attach_receiver_with(delete_attach("orders")).await;
    assert_eq!(refused(outcome), "amqp:link:message-size-exceeded");
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 1);
}

/// A delivery has the annotations of the broker beside what the entity has checked.
/// Rules: A-75.
#[tokio::test(start_paused = true)]
async fn receive_and_delete_needs_more_than_the_limit_of_the_entity() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &[]).await;
    for (size, allowed) in [(256 << 10, false), ((320 << 10) - 1, false), (320 << 10, true)] {
        let attach = Attach { max_message_size: Some(size), ..delete_attach("orders") };
        assert_eq!(session.attach_receiver_with(attach).await.is_ok(), allowed, "{size}");
    }
}

/// The limit of the entity is raised while the link is attached.
/// Rules: A-75.
#[tokio::test(start_paused = true)]
async fn a_removed_message_that_the_receiver_never_takes_is_lost_and_the_link_goes_on() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &[]).await;
    let attach = Attach { max_message_size: Some(320 << 10), ..delete_attach("orders") };
    let mut link = session.attach_receiver_with(attach).await.unwrap();
    link.set_credit(1).unwrap();
    harness.broker().update_queue("orders", QueueSettings::default().max_message_size(1 << 20)).unwrap();
    let other = harness.try_connect(engine::Options::default().max_message_size(2 << 20)).await.unwrap();
    let other = other.begin().await.unwrap();
    send(&other, "orders", &[&"x".repeat(500 << 10), "small"]).await;
    let delivery = timeout(Duration::from_secs(5), link.recv()).await.unwrap().unwrap();
    assert_eq!(text_of(&delivery), "small");
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 0);
}

/// More output than a connection buffers, and deliveries that no disposition follows.
#[tokio::test(start_paused = true)]
async fn more_messages_than_the_output_takes_arrive() {
    let harness = Harness::new();
    let session = harness.session().await;
    let large = "x".repeat(200_000);
    send(&session, "orders", &[large.as_str(); 20]).await;
    let mut link = session.attach_receiver_with(delete_attach("orders")).await.unwrap();
    link.set_credit(20).unwrap();
    for _ in 0..20 {
        assert!(link.recv().await.unwrap().payload.len() > 200_000);
    }
}

/// The output of a connection has 1 MiB.
/// Rules.
#[tokio::test(start_paused = true)]
async fn messages_that_the_output_does_not_take_are_not_removed() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &[&*"x".repeat(200_000); 20]).await;
    let (lines, _guard) = log::captured();
    let mut peer = Peer::connect(&harness).await;
    peer.receive_and_delete(20).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let orders = harness.broker().queue("orders").unwrap();
    assert!((13..20).contains(&orders.counts().active), "{}", orders.counts().active);
    drop(peer);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(lines.take(), "");
}
