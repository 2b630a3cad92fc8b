//! Messages that a client cannot have: AMQP 1.0 has no form for them, or they are too large for the client.

use std::time::Duration;

use consign_amqp::{engine, value::Symbol};
use consign_core::{Message, transport::Sender};

use crate::{log, management::messages, support::*};

/// A program that embeds the broker can send what AMQP 1.0 cannot have.
/// Rules: A-77, G-22.
#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_encoded_does_not_hide_the_others_of_a_peek() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let sender = harness.broker().queue("orders").unwrap().sender().unwrap();
    let content_type = Message::builder().content_type("text/\u{fc}").build("b").unwrap();
    sender.send(content_type).await.unwrap();
    for _ in 0..3 {
        let mut message = Message::new("unreadable");
        message.properties_mut().pass_through_mut().annotations.push(("\u{fc}".into(), true.into()));
        sender.send(message).await.unwrap();
    }
    send(&session, "orders", &["c"]).await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    for (from, count, expected) in [(1_i64, 10_i32, &["a", "b", "c"][..]), (3, 1, &["c"]), (3, 2, &["c"])] {
        let request = fields([("from-sequence-number", from.into()), ("message-count", count.into())]);
        let answer = manage.call("com.microsoft:peek-message", request).await;
        assert_eq!(answer.status(), 200);
        let peeked = messages(answer.field("messages"));
        assert_eq!(peeked.iter().map(|(message, _)| body(message)).collect::<Vec<_>>(), expected);
        if expected.len() == 3 {
            let properties = peeked[1].0.properties.as_ref().unwrap();
            assert_eq!(properties.content_type.as_ref().map(Symbol::as_str), Some("text/?"));
        }
    }
}

/// Rules: S-21.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_the_receiver_never_takes_stays_until_its_lock_runs_out() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &[&"x".repeat(2_000), "small"]).await;
    let mut link = receiver(&session, "orders").await;
    for _ in 0..2 {
        let delivery = receive(&mut link).await;
        settle(&link, &delivery, rejected(None)).await;
    }
    let (lines, _guard) = log::captured();
    let options = engine::Options::default().max_message_size(1_000);
    let small = harness.try_connect(options).await.unwrap().begin().await.unwrap();
    let mut link = receiver(&small, "orders/$deadletterqueue").await;
    assert_eq!(text_of(&receive(&mut link).await), "small");
    let dead_letters = harness.broker().queue("orders").unwrap().dead_letter();
    assert_eq!((dead_letters.counts().locked, dead_letters.counts().active), (2, 0));
    let lines = lines.take();
    assert!(lines.contains("can be neither sent nor dead-lettered"), "{lines}");
    assert!(!lines.contains("and is dead-lettered"), "{lines}");

    drop(link);
    tokio::time::sleep(Duration::from_secs(61)).await;
    let mut link = receiver(&session, "orders/$deadletterqueue").await;
    assert!(receive(&mut link).await.payload.len() > 2_000);
}
