//! What each version has stored in JetStream, which every later version reads: [`consign_conformance::golden`].
//!
//! For a new format:
//!
//! ```text
//! GOLDEN=tests/golden/format-N cargo nextest run -p consign-nats --run-ignored only -E 'test(write_the_files)'
//! ```
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod contents;
mod raw;
#[path = "../conformance/server.rs"]
mod server;

use consign::transport::Session;
use std::time::Duration;

use consign_conformance::golden;
use consign_nats::{Nats, async_nats};
use serde_json::Value as Json;

use self::{
    contents::{STREAMS, expected, fill, received},
    raw::Raw,
};

/// Longer than anything takes that is not broken.
const LONG: Duration = Duration::from_secs(20);

const FORMAT_1: &str = include_str!("format-1/streams.jsonl");
const FORMAT_2: &str = include_str!("format-2/streams.jsonl");
const FORMAT_3: &str = include_str!("format-3/streams.jsonl");

/// The description of a dead letter by its count, which the first two formats have in other words.
const BY_COUNT: &str = "Message could not be consumed after 1 delivery attempts.";
const BY_COUNT_BEFORE: &str = "1 deliveries have failed";

/// A namespace that no other test has, over the crate and over the client alone.
struct Fixture {
    nats: Nats,
    raw: Raw,
    namespace: String,
}

impl Fixture {
    async fn new() -> Option<Self> {
        let url = server::url()?;
        let namespace = format!("g{:015x}", fastrand::u64(..) >> 4);
        let nats = Nats::options().namespace(namespace.clone()).server_syncs().connect(&url).await.unwrap();
        let client = async_nats::connect(&url).await.unwrap();
        Some(Self { nats, raw: Raw::new(&client, &namespace), namespace })
    }

    async fn end(self) {
        for path in ["all", "settled", "once", "sessions", "topic"] {
            self.nats.delete(path).await.unwrap();
        }
        self.nats.close().await.unwrap();
    }
}

/// Returns what this version stores, and what it receives of it.
async fn written() -> Option<Vec<Json>> {
    let fixture = Fixture::new().await?;
    let held = fill(&fixture.nats).await;
    let entries = fixture.raw.read(&STREAMS).await;
    golden::assert_same("received", &received(&fixture.nats).await, &expected(&fixture.namespace, BY_COUNT));
    drop(held);
    fixture.end().await;
    Some(entries)
}

#[tokio::test]
async fn every_format_is_read() {
    for (format, by_count) in [(FORMAT_1, BY_COUNT_BEFORE), (FORMAT_2, BY_COUNT_BEFORE), (FORMAT_3, BY_COUNT)] {
        let Some(fixture) = Fixture::new().await else { return };
        fixture.raw.write(&golden::entries(format)).await;
        golden::assert_same("received", &received(&fixture.nats).await, &expected(&fixture.namespace, by_count));
        let state = fixture.nats.accept_session("sessions", "held").await.unwrap().state().await.unwrap();
        assert_eq!(state.as_deref(), Some(&b"of a holder"[..]));
        fixture.end().await;
    }
}

#[tokio::test]
async fn the_newest_format_is_written() {
    let Some(entries) = written().await else { return };
    golden::assert_same("stored", &entries, &golden::entries(FORMAT_3));
}

#[tokio::test]
#[ignore = "writes files into the repository"]
async fn write_the_files() {
    golden::write("streams.jsonl", &written().await.expect("a server"));
}
