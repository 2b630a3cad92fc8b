//! What each version has stored in RabbitMQ, which every later version reads: [`consign_conformance::golden`].
//!
//! For a new format:
//!
//! ```text
//! GOLDEN=tests/golden/format-N \
//!     cargo nextest run -p consign-rabbitmq --run-ignored only -E 'test(write_the_files)'
//! ```
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod contents;
mod raw;
#[path = "../support/mod.rs"]
mod support;
mod typed;

use std::time::Duration;

use consign::{
    Message,
    time::{Clock, SystemClock},
    transport::ReceiverExt,
};
use consign_conformance::golden;
use consign_rabbitmq::RabbitMq;
use serde_json::Value as Json;

use self::{
    contents::{count, declare, expected, fill, queues, received},
    raw::{FIRST_NUMBER, Raw, made_id},
};

/// Longer than anything takes that is not broken.
const LONG: Duration = Duration::from_secs(20);

const FORMAT_1: &str = include_str!("format-1/messages.jsonl");
const FORMAT_2: &str = include_str!("format-2/messages.jsonl");
const FORMAT_3: &str = include_str!("format-3/messages.jsonl");
const FORMAT_4: &str = include_str!("format-4/messages.jsonl");

/// The description of a dead letter by its count, which the first two formats have in other words.
const BY_COUNT: &str = "Message could not be consumed after 1 delivery attempts.";
const BY_COUNT_BEFORE: &str = "delivered 1 times";

/// Queues that no other test has, over the crate and over the client alone.
struct Fixture {
    rabbit: RabbitMq,
    raw: Raw,
    prefix: String,
}

impl Fixture {
    async fn new() -> Option<Self> {
        let prefix = support::unique("golden");
        // A receiver takes no more than it is asked for.
        let options = RabbitMq::options().delays(format!("{prefix}-delays")).linger(Duration::ZERO);
        let rabbit = support::connect(options).await?;
        declare(&rabbit, &prefix).await;
        Some(Self { rabbit, raw: Raw::new(&prefix).await, prefix })
    }

    async fn end(self) {
        for name in ["all", "settled", "once", "sessions", "delayed", "topic"] {
            self.rabbit.delete(&format!("{}/{name}", self.prefix)).await.unwrap();
        }
        self.rabbit.close().await.expect("an open connection");
        support::delete_delays(&format!("{}-delays", self.prefix)).await;
    }
}

/// Returns what this version stores.
async fn written() -> Option<Vec<Json>> {
    let fixture = Fixture::new().await?;
    fill(&fixture.rabbit, &fixture.prefix).await;
    let entries = fixture.raw.read(&queues()).await;
    fixture.end().await;
    Some(entries)
}

/// Receives the messages of a file, the first of which has this sequence number. A sender has made one id.
async fn is_read(format: &str, first: i64, id: &str, by_count: &'static str) {
    let Some(fixture) = Fixture::new().await else { return };
    // Declares the chain of delays, and the way to this queue.
    let path = format!("{}/delayed", fixture.prefix);
    let soon = SystemClock::new().now().utc.saturating_add(Duration::from_millis(64));
    fixture.rabbit.sender(&path).unwrap().schedule(vec![Message::new("first")], soon).await.unwrap();
    let delivery = fixture.rabbit.receiver(&path).unwrap().receive_within(LONG).await.unwrap();
    delivery.complete().await.unwrap();
    fixture.raw.write(&golden::entries(format)).await;
    golden::assert_same("received", &received(&fixture.rabbit, &fixture.prefix).await, &expected(first, id, by_count));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn format_1_is_read() {
    is_read(FORMAT_1, 1, &"0".repeat(32), BY_COUNT_BEFORE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn format_2_is_read() {
    is_read(FORMAT_2, FIRST_NUMBER, &made_id(FIRST_NUMBER + count() - 1), BY_COUNT_BEFORE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn format_3_is_read() {
    is_read(FORMAT_3, FIRST_NUMBER, &made_id(FIRST_NUMBER + count() - 1), BY_COUNT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn format_4_is_read() {
    is_read(FORMAT_4, FIRST_NUMBER, &made_id(FIRST_NUMBER + count() - 1), BY_COUNT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_format_is_written() {
    let Some(entries) = written().await else { return };
    golden::assert_same("stored", &entries, &golden::entries(FORMAT_4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes files into the repository"]
async fn write_the_files() {
    golden::write("messages.jsonl", &written().await.expect("a server"));
}
