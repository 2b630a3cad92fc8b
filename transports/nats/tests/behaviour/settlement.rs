//! What a settlement stores, and when.

use std::time::Duration;

use consign::{
    Message,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ReceiverExt, Sender, Session},
};
use consign_nats::{
    Nats, QueueSettings,
    async_nats::jetstream::{self, stream::Stream},
};

use crate::{LONG, queue};

async fn stream(nats: &Nats, name: &str) -> Stream {
    jetstream::new(nats.client().clone()).get_stream(name).await.expect("the stream of an entity")
}

/// A process may end between the two steps.
#[tokio::test]
async fn a_message_stays_in_its_stream_until_its_dead_letter_is_stored() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    nats.sender(&path).await.unwrap().send(Message::new("a")).await.unwrap();
    let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    // Nothing takes the dead letter.
    let context = jetstream::new(nats.client().clone());
    context.delete_stream(format!("test_{path}_x")).await.unwrap();
    delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).await.unwrap_err();
    let messages = stream(&nats, &format!("test_{path}")).await.info().await.unwrap().state.messages;
    assert_eq!(messages, 1);
    context.delete_stream(format!("test_{path}")).await.unwrap();
}

/// A holder that dies afterwards leaves no state to the next one.
#[tokio::test]
async fn a_session_state_that_is_cleared_is_stored_as_none() {
    let mut settings = QueueSettings::default();
    settings.requires_session = true;
    let Some((nats, path)) = queue(settings).await else { return };
    let session = nats.accept_session(&path, "a").await.unwrap();
    let beside = stream(&nats, &format!("test_{path}_x")).await;
    for state in [Some("state".into()), None] {
        session.set_state(state.clone()).await.unwrap();
        let stored = beside.get_last_raw_message_by_subject(&format!("test.{path}.x.session.a")).await.unwrap();
        assert_eq!(stored.headers.get("Sb-State").is_some(), state.is_some());
        assert_eq!(stored.payload, state.unwrap_or_default());
    }
    session.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// The message is dead-lettered, and nothing is to be redelivered later.
#[tokio::test]
async fn a_delay_after_the_last_delivery_is_not_waited_for() {
    let mut settings = QueueSettings::default();
    settings.max_delivery_count = 1;
    let Some((nats, path)) = queue(settings).await else { return };
    nats.sender(&path).await.unwrap().send(Message::new("a")).await.unwrap();
    let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    delivery.abandon_after(Duration::from_secs(60)).unwrap().await.unwrap();
    let dead_letters = format!("{path}/$deadletterqueue");
    let dead = nats.receiver(&dead_letters).await.unwrap().receive_within(LONG).await.unwrap();
    assert_eq!(dead.message.dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
    dead.complete().await.unwrap();
    nats.delete(&path).await.unwrap();
}
