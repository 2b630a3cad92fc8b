//! The two ways to dead-letter a message.

use std::time::Duration;

use consign::{
    Message,
    message::{ApplicationProperties, EntityPath},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{Capability, ErrorKind, ReceiverExt, Sender, Transport},
};
use consign_amqp10::{Amqp10, DeadLetters};
use consign_conformance::log::Lines;
use tokio::time::timeout;

use super::{Bench, SOON, count, foreign::read_raw, receiver, text};
use crate::support::managed::Queues;

fn because() -> DeadLetter {
    DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")
}

/// Rules: K-277.
#[tokio::test]
async fn a_broker_can_dead_letter_by_itself() {
    let (lines, _guard) = Lines::capture();
    let options = Amqp10::options().dead_letters(DeadLetters::Reject);
    let Some(bench) = Bench::with(options).await else { return };
    assert!(!bench.amqp.capabilities().supports(Capability::DeadLetterReason));
    let dead = EntityPath::new(&format!("dead/{}", bench.queue)).unwrap();
    bench.proton.queues().create(dead.as_str()).await.unwrap();
    bench.send(["a"]).await;
    bench.receiver().await.receive().await.unwrap().dead_letter(because()).await.unwrap();
    let delivery = timeout(SOON, receiver(&bench.amqp, &dead).await.receive()).await.unwrap().unwrap().message;
    assert_eq!(text(&delivery), "a");
    let warned = lines.of("consign::amqp10");
    assert!(warned.iter().any(|line| line.starts_with("WARN") && line.contains("the broker decides")), "{warned:?}");
}

/// Rules: K-277.
#[tokio::test]
async fn a_dead_letter_that_is_larger_than_a_frame_is_rejected_without_its_properties() {
    for confirms in [true, false] {
        let options = Amqp10::options().dead_letters(DeadLetters::Reject).confirm_settlements(confirms);
        let Some(bench) = Bench::with(options).await else { return };
        let dead = EntityPath::new(&format!("dead/{}", bench.queue)).unwrap();
        bench.proton.queues().create(dead.as_str()).await.unwrap();
        bench.send(["a"]).await;
        let mut properties = ApplicationProperties::new();
        for name in ["x", "y", "z"] {
            properties.insert(name, "v".repeat(30_000));
        }
        let mut large = because();
        large.changes = properties.into();
        bench.receiver().await.receive().await.unwrap().dead_letter(large).await.unwrap();
        let delivery = timeout(SOON, receiver(&bench.amqp, &dead).await.receive()).await.unwrap().unwrap();
        assert_eq!(text(&delivery.message), "a");
    }
}

/// Rules: K-278.
#[tokio::test]
async fn without_a_dead_letter_address_the_message_is_redelivered_with_a_warning() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    bench.proton.queues().delete(bench.queue.dead_letter().as_str()).await.unwrap();
    bench.send(["a"]).await;
    let mut receiver = bench.receiver().await;
    let error = receiver.receive().await.unwrap().dead_letter(because()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound);
    let again = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
    assert_eq!((text(&again.message), count(&again.message)), ("a", 2));
    let warned = lines.of("consign::amqp10");
    assert!(warned.iter().any(|line| line.contains("dead_letter_address")), "{warned:?}");
    // The address is created while the receiver runs.
    bench.proton.queues().create(bench.queue.dead_letter().as_str()).await.unwrap();
    again.dead_letter(because()).await.unwrap();
}

/// Rules: K-279.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_address_can_be_any() {
    let Some(bench) = Bench::with(Amqp10::options().dead_letter_address("DLQ.{path}")).await else { return };
    let dead = EntityPath::new(&format!("DLQ.{}", bench.queue)).unwrap();
    bench.proton.queues().create(dead.as_str()).await.unwrap();
    bench.send(["a"]).await;
    bench.receiver().await.receive().await.unwrap().dead_letter(because()).await.unwrap();
    let mut by_path = receiver(&bench.amqp, &bench.queue.dead_letter()).await;
    let delivery = timeout(SOON, by_path.receive()).await.unwrap().unwrap();
    assert_eq!(delivery.message.dead_letter_description(), Some("why"));
    delivery.complete().await.unwrap();
}

/// Rules: S-31.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_sent_when_the_future_of_its_settlement_is_dropped() {
    let Some(bench) = Bench::new().await else { return };
    bench.send(["a"]).await;
    let mut from = bench.receiver().await;
    drop(from.receive().await.unwrap().dead_letter(because()));
    let mut dead = receiver(&bench.amqp, &bench.queue.dead_letter()).await;
    let delivery = timeout(SOON, dead.receive()).await.unwrap().unwrap();
    assert_eq!(text(&delivery.message), "a");
    delivery.complete().await.unwrap();
}

/// Rules: K-290.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_keeps_its_time_to_live_and_does_not_expire() {
    let Some(bench) = Bench::with(Amqp10::options().time_to_live(true)).await else { return };
    let message = Message::builder().time_to_live(Duration::from_secs(600)).build("a").unwrap();
    bench.amqp.sender(&bench.queue).await.unwrap().send(message).await.unwrap();
    bench.receiver().await.receive().await.unwrap().dead_letter(because()).await.unwrap();
    let mut dead = receiver(&bench.amqp, &bench.queue.dead_letter()).await;
    let delivery = timeout(SOON, dead.receive()).await.unwrap().unwrap();
    assert_eq!(delivery.message.time_to_live(), Some(Duration::from_secs(600)));
    assert_eq!(delivery.message.received().unwrap().expires_at, Timestamp::MAX);
    delivery.abandon().await.unwrap();
    drop(dead);
    let raw = read_raw(&bench, bench.queue.dead_letter().as_str()).await;
    assert_eq!(raw.header.unwrap().ttl, None);
    assert_eq!(raw.properties.and_then(|properties| properties.absolute_expiry_time), None);
}
