//! Each row through broker, consumer, router and codecs.

use std::fmt::Write;

use consign::Message;

use crate::{
    attacks::CANARY,
    log::captured,
    rows::{Row, rows},
    support::{
        consume, dead_letters, description, good, handled, hash, ids, queue, reason, send, sent_properties, trail,
    },
};

/// What a row has to show, as text that can be compared and copied.
#[derive(PartialEq)]
struct Outcome {
    reason: String,
    trail: Option<String>,
    description: String,
}

impl Outcome {
    fn expected(row: &Row) -> Self {
        let description = row.description.to_owned();
        Self { reason: row.reason.to_owned(), trail: row.trail.map(str::to_owned), description }
    }

    fn of(dead: &Message) -> Self {
        let trail = trail(dead).map(str::to_owned);
        Self { reason: reason(dead).to_owned(), trail, description: description(dead).to_owned() }
    }

    fn lines(&self) -> String {
        format!("    {}\n    {:?}\n    {:?}\n", self.reason, self.trail, self.description)
    }
}

/// Rules: P-44.
/// Attacks: 1, 2, 3, 5, 9, 11, 12, 13, 14, 15, 20, 23, 27, 29, 31, 32, 33, 34, 37, 39, 40, 41, 43, 45, 47, 58, 61.
#[tokio::test(start_paused = true)]
async fn each_poison_is_dead_lettered_as_written_down() {
    let mut wrong = String::new();
    for row in rows() {
        let dead = one_delivery(&row).await;
        let (found, expected) = (Outcome::of(&dead), Outcome::expected(&row));
        if found != expected {
            writeln!(wrong, "{}\n  expected\n{}  found\n{}", row.name, expected.lines(), found.lines()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Sends the poison and a good message, and takes the poison out of the dead-letter queue as it was sent, after one
/// delivery.
async fn one_delivery(row: &Row) -> Message {
    let (queue, handled) = (queue(), handled());
    let poison = row.message();
    send(&queue, [poison.clone(), good(7)]).await;
    let stats = consume(&queue, row.endpoint.stack(&handled)).await;

    let name = row.name;
    assert_eq!(ids(&handled), [7], "{name}: the next message is handled, and no other");
    assert_eq!((stats.handled(), stats.dead_lettered(), stats.completed()), (2, 1, 1), "{name}");
    assert_eq!((stats.abandoned(), stats.failed(), stats.panicked()), (0, 0, 0), "{name}");
    let mut dead = dead_letters(&queue).await;
    assert_eq!(dead.len(), 1, "{name}");
    let dead = dead.remove(0);
    assert_eq!(dead.received().map(|received| received.delivery_count), Some(1), "{name}");

    assert_eq!(hash(dead.body()), hash(poison.body()), "{name}");
    assert_eq!(dead.body(), poison.body(), "{name}");
    assert_eq!(&sent_properties(&dead), poison.properties(), "{name}");
    assert_eq!(dead.content_type(), row.content_type, "{name}");
    assert_eq!(dead.message_id(), Some("m-1"), "{name}");
    assert_eq!(dead.correlation_id(), Some("c-1"), "{name}");
    assert_eq!(dead.session_id(), Some("s-1"), "{name}");
    assert_eq!(dead.reply_to(), poison.reply_to(), "{name}");
    dead
}

/// Rules: I-40.
/// Attacks: 33.
#[test]
fn no_body_stands_in_a_text() {
    for row in rows() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (dead, log) = captured(|| runtime.block_on(one_delivery(&row)));
        let errors = row.endpoint.texts(&dead);
        let texts = [reason(&dead), description(&dead), trail(&dead).unwrap_or_default(), &errors, &log];
        for text in texts.into_iter().chain([&*format!("{dead:?}")]) {
            assert!(!text.contains(CANARY), "{}: {text}", row.name);
            // The bytes as numbers, as a decoder would quote them.
            assert!(!text.contains("67, 65, 78"), "{}: {text}", row.name);
        }
    }
}

#[test]
fn a_log_is_captured() {
    let ((), log) = captured(|| tracing::warn!(number = 7, "a warning"));
    assert_eq!(log, "WARN: message=a warning number=7\n");
}

/// Rules: S-98.
#[test]
fn every_reason_stands_in_the_table() {
    let rows = rows();
    let reasons = [
        "DeserializationFailed",
        "UnsupportedContentType",
        "MalformedContentType",
        "ContentTypeNotAllowed",
        "UnsupportedCharset",
        "UnsupportedEncoding",
        "LimitExceeded",
        "UnknownMessageType",
        "MissingProperty",
        "HandlerPermanent",
    ];
    for reason in reasons {
        assert!(rows.iter().any(|row| row.reason == reason), "{reason}");
    }
    for row in &rows {
        assert_eq!(rows.iter().filter(|other| other.name == row.name).count(), 1, "{}", row.name);
        let is_attempted = row.trail.is_some();
        assert!(
            !is_attempted || row.description.lines().count() == row.trail.unwrap().split(',').count(),
            "{}",
            row.name
        );
    }
}
