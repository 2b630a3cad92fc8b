//! Dead letters that do not fit beside the properties of their messages.

use consign::{
    Disposition, Message,
    message::ApplicationProperties,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Delivery, ReceiverExt, Sender},
};
use consign_nats::{
    Nats, NatsLease, QueueSettings,
    async_nats::{HeaderMap, jetstream},
};

use crate::{LONG, queue};

/// Publishes a message with almost as many bytes of properties as a message may have, and receives it. The headers are those of
/// another client, which take least of what a stream permits.
async fn receive_full(nats: &Nats, path: &str) -> Delivery<NatsLease> {
    let mut headers = HeaderMap::new();
    for name in ["k", "l"] {
        headers.insert(name, "x".repeat(32_739));
    }
    let context = jetstream::new(nats.client().clone());
    let sent = context.publish_with_headers(format!("test.{path}.m"), headers, "a".into()).await.expect("a server");
    sent.await.expect("an acknowledgement");
    let delivery = nats.receiver(path).await.expect("a queue").receive_within(LONG).await.expect("a message");
    assert_eq!(delivery.message.application_properties().iter().count(), 2);
    delivery
}

/// Receives the dead letter, and returns its reason and its description.
async fn receive_dead(nats: &Nats, path: &str) -> (String, Option<String>, Message) {
    let dead_letters = format!("{path}/$deadletterqueue");
    let mut receiver = nats.receiver(&dead_letters).await.expect("a queue");
    let Delivery { message, lease } = receiver.receive_within(LONG).await.expect("a dead letter");
    consign::transport::Lease::settle(lease, Disposition::Complete).await.expect("the lock");
    let description = message.dead_letter_description().map(str::to_owned);
    (message.dead_letter_reason().expect("a reason").to_owned(), description, message)
}

fn with_changes(changes: impl IntoIterator<Item = (&'static str, String)>) -> DeadLetter {
    let changes: ApplicationProperties = changes.into_iter().collect();
    let mut dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "");
    dead_letter.changes = changes.into();
    dead_letter
}

/// Rules: S-92.
#[tokio::test]
async fn a_dead_letter_that_does_not_fit_is_replaced() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let described = DeadLetter::new(DeadLetterReason::HandlerPermanent, "d".repeat(200));
    for dead_letter in [described, with_changes([("more", "m".repeat(200))])] {
        receive_full(&nats, &path).await.dead_letter(dead_letter).await.unwrap();
        let (reason, description, dead) = receive_dead(&nats, &path).await;
        assert_eq!(reason, "HeaderSizeExceeded");
        assert!(description.unwrap().contains("65534"));
        assert!(dead.application_properties().get("more").is_none());
    }
    nats.delete(&path).await.unwrap();
}

/// Rules: S-92.
/// Escaped they take three times their size, so a stream does not take them beside the smallest message.
#[tokio::test]
async fn changes_that_no_stream_takes_are_removed() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    nats.sender(&path).await.unwrap().send(Message::new("a")).await.unwrap();
    let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    delivery.dead_letter(with_changes([("more", "%".repeat(30_000))])).await.unwrap();
    let (reason, _, dead) = receive_dead(&nats, &path).await;
    assert_eq!((reason.as_str(), dead.payload()), ("HeaderSizeExceeded", Some(&b"a"[..])));
    nats.delete(&path).await.unwrap();
}

/// Rules: K-104.
#[tokio::test]
async fn the_last_delivery_of_a_full_message_is_dead_lettered() {
    let mut settings = QueueSettings::default();
    settings.max_delivery_count = 1;
    let Some((nats, path)) = queue(settings).await else { return };
    receive_full(&nats, &path).await.abandon().await.unwrap();
    let (reason, _, dead) = receive_dead(&nats, &path).await;
    assert_eq!((reason.as_str(), dead.payload()), ("MaxDeliveryCountExceeded", Some(&b"a"[..])));
    nats.delete(&path).await.unwrap();
}
