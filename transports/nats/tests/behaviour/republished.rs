//! Messages of other clients with the headers of a copy.

use consign::{
    Message,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ReceiverExt, Sender, Session},
};
use consign_nats::{
    Nats, QueueSettings,
    async_nats::jetstream::{self, message::StreamMessage},
};

use crate::{
    LONG, queue,
    sessions::{by_short_session, end_lock},
};

/// The dead letters in the stream beside a queue.
async fn dead_letters(nats: &Nats, path: &str) -> Vec<StreamMessage> {
    let stream = jetstream::new(nats.client().clone()).get_stream(format!("test_{path}_x")).await.expect("a stream");
    let mut found = Vec::new();
    for number in 1..=stream.cached_info().state.last_sequence {
        let letter = stream.direct_get(number).await;
        found.extend(letter.ok().filter(|letter| letter.subject.contains(".x.dead.")));
    }
    found
}

/// Publishes a dead letter to the subject of a queue again, with all its headers.
async fn publish_again(nats: &Nats, subject: String, letter: &StreamMessage) {
    let context = jetstream::new(nats.client().clone());
    let mut headers = letter.headers.clone();
    // The window of the stream of the queue is not of interest.
    headers.insert("Nats-Msg-Id", fastrand::u64(..).to_string());
    let sent = context.publish_with_headers(subject, headers, letter.payload.clone()).await;
    sent.expect("a server").await.expect("a server that takes it");
}

/// Rules: K-106.
#[tokio::test]
async fn a_dead_letter_that_another_client_publishes_again_becomes_another_dead_letter() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    nats.sender(&path).await.unwrap().send(Message::new("a")).await.unwrap();
    let mut receiver = nats.receiver(&path).await.unwrap();
    let first = receiver.receive_within(LONG).await.unwrap();
    let number = first.message.received().unwrap().sequence_number.get();
    first.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "one")).await.unwrap();
    let letters = dead_letters(&nats, &path).await;
    let [letter] = &letters[..] else { panic!("{letters:?}") };
    // Both before and after the first letter is removed.
    for (already_removed, description) in [(false, "two"), (true, "three")] {
        if already_removed {
            let dead = nats.receiver(&format!("{path}/$deadletterqueue")).await;
            let mut dead = dead.unwrap();
            for _ in 0..2 {
                dead.receive_within(LONG).await.unwrap().complete().await.unwrap();
            }
        }
        publish_again(&nats, format!("test.{path}.m"), letter).await;
        let again = receiver.receive_within(LONG).await.unwrap();
        let received = again.message.received().unwrap();
        assert_eq!(received.delivery_count, 1);
        assert!(received.sequence_number.get() > number, "{received:?}");
        again.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, description)).await.unwrap();
        assert_eq!(dead_letters(&nats, &path).await.len(), 2 - usize::from(already_removed));
    }
    let mut dead = nats.receiver(&format!("{path}/$deadletterqueue")).await.unwrap();
    let last = dead.receive_within(LONG).await.unwrap();
    assert_eq!(last.message.dead_letter_description(), Some("three"));
    nats.delete(&path).await.unwrap();
}

/// Rules: I-24, K-106.
#[tokio::test]
async fn a_lost_session_removes_its_own_message_and_not_the_one_that_a_header_names() {
    let mut settings = by_short_session();
    settings.max_delivery_count = 1;
    let Some((nats, path)) = queue(settings).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    let message = |session: &'static str, body| Message::builder().session_id(session).build(body).expect("a message");
    sender.send(message("other", "stays")).await.unwrap();
    sender.send(message("a", "dies")).await.unwrap();
    let stream = jetstream::new(nats.client().clone()).get_stream(format!("test_{path}")).await.unwrap();
    let mut second = stream.direct_get(2).await.unwrap();
    second.headers.insert("Sb-Sequence-Number", "1");
    stream.delete_message(2).await.unwrap();
    publish_again(&nats, format!("test.{path}.s.a"), &second).await;
    let mut lost = nats.accept_session(&path, "a").await.unwrap();
    std::mem::forget(lost.receive_within(LONG).await.unwrap());
    std::mem::forget(lost);
    end_lock(&nats, &path, "a").await;
    let accepted = async {
        loop {
            if let Ok(session) = nats.accept_session(&path, "a").await {
                break session;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let next = tokio::time::timeout(LONG, accepted).await.unwrap();
    let letters = dead_letters(&nats, &path).await;
    assert_eq!(letters.iter().map(|letter| &letter.payload[..]).collect::<Vec<_>>(), [b"dies"]);
    let mut other = nats.accept_session(&path, "other").await.unwrap();
    let delivery = other.receive_within(LONG).await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"stays"[..]));
    delivery.complete().await.unwrap();
    other.close().await.unwrap();
    next.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}
