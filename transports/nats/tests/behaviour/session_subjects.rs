//! Messages that other clients publish to the subjects of sessions.

use consign::transport::{ReceiverExt, Session};
use consign_nats::{
    Nats, QueueSettings,
    async_nats::{HeaderMap, jetstream},
};

use crate::{LONG, queue};

fn by_session() -> QueueSettings {
    let mut settings = QueueSettings::default();
    settings.requires_session = true;
    settings
}

/// Publishes to the subject of a session.
async fn publish(nats: &Nats, path: &str, token: &str, session: Option<&str>) {
    let mut headers = HeaderMap::new();
    if let Some(session) = session {
        headers.insert("Sb-Session-Id", session);
    }
    let context = jetstream::new(nats.client().clone());
    let sent = context.publish_with_headers(format!("test.{path}.s.{token}"), headers, token.to_owned().into()).await;
    sent.expect("a server").await.expect("a server that takes it");
}

/// Receives dead letters, and returns their bodies with the reasons.
async fn dead_letters(nats: &Nats, path: &str, count: usize) -> Vec<(String, String)> {
    let mut dead = nats.receiver(&format!("{path}/$deadletterqueue")).await.expect("a receiver");
    let mut letters = Vec::new();
    for _ in 0..count {
        let letter = dead.receive_within(LONG).await.expect("a dead letter");
        let body = String::from_utf8_lossy(letter.message.payload().expect("a payload")).into_owned();
        letters.push((body, letter.message.dead_letter_reason().expect("a reason").to_owned()));
        letter.complete().await.expect("a lock");
    }
    letters
}

/// Rules: I-24, K-224.
#[tokio::test]
async fn a_message_at_the_subject_of_no_session_is_a_dead_letter() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    let long = "x".repeat(129);
    let wrong = ["user_7", "user=5f7", "a=4", &long];
    for token in wrong {
        publish(&nats, &path, token, Some("user_7")).await;
    }
    publish(&nats, &path, "b", Some("b")).await;
    let mut acceptor = nats.session_acceptor(&path).await.unwrap();
    let mut session = acceptor.accept_next_within(LONG).await.unwrap();
    assert_eq!(session.session_id(), "b");
    session.receive_within(LONG).await.unwrap().complete().await.unwrap();
    session.close().await.unwrap();
    let expected = wrong.map(|token| (token.to_owned(), "WrongSessionSubject".to_owned()));
    assert_eq!(dead_letters(&nats, &path, 4).await, expected);
    nats.delete(&path).await.unwrap();
}

/// Rules: I-24, K-224.
#[tokio::test]
async fn the_subject_names_the_session_of_a_message_without_one_and_another_one_is_a_dead_letter() {
    let Some((nats, path)) = queue(by_session()).await else { return };
    publish(&nats, &path, "a", Some("b")).await;
    publish(&nats, &path, "a", None).await;
    let mut session = nats.accept_session(&path, "a").await.unwrap();
    let delivery = session.receive_within(LONG).await.unwrap();
    assert_eq!(delivery.message.session_id(), Some("a"));
    assert_eq!(delivery.message.received().unwrap().sequence_number.get(), 2);
    let peeked = session.peek(10).await.unwrap();
    assert_eq!(peeked.iter().map(|message| message.session_id()).collect::<Vec<_>>(), [Some("a")]);
    delivery.complete().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(dead_letters(&nats, &path, 1).await, [("a".to_owned(), "WrongSessionSubject".to_owned())]);
    nats.delete(&path).await.unwrap();
}
