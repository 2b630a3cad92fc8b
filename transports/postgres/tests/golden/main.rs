//! What each version has stored in PostgreSQL, which every later version reads: [`consign_conformance::golden`].
//!
//! For a new format:
//!
//! ```text
//! GOLDEN=tests/golden/format-N \
//!     cargo nextest run -p consign-postgres --run-ignored only -E 'test(write_the_files)'
//! ```
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod contents;
mod migration;
mod raw;
#[path = "../support/server.rs"]
mod server;

use std::time::Duration;

use consign_conformance::golden;
use consign_postgres::Postgres;
use serde_json::Value as Json;

use self::{
    contents::{expected, fill, received},
    raw::Raw,
    server::Schema,
};

/// Longer than anything takes that is not broken.
const LONG: Duration = Duration::from_secs(20);

const FORMAT_1: &str = include_str!("format-1/rows.jsonl");
const FORMAT_2: &str = include_str!("format-2/rows.jsonl");
const FORMAT_3: &str = include_str!("format-3/rows.jsonl");
const FORMAT_4: &str = include_str!("format-4/rows.jsonl");

/// A schema that no other test has, over the crate and over SQL alone.
struct Fixture {
    postgres: Postgres,
    raw: Raw,
    schema: Schema,
}

impl Fixture {
    async fn new() -> Option<Self> {
        let url = server::url().await?;
        let schema = Schema::new(&url);
        let postgres = Postgres::options().schema(&*schema).connections(4).connect(&url).await.unwrap();
        postgres.migrate().await.unwrap();
        let raw = Raw::new(&url, &schema).await;
        Some(Self { postgres, raw, schema })
    }

    async fn end(self) {
        self.schema.end().await;
    }
}

/// Returns what this version stores.
async fn written() -> Option<Vec<Json>> {
    let fixture = Fixture::new().await?;
    fill(&fixture.postgres).await;
    let entries = fixture.raw.read().await;
    golden::assert_same("received", &received(&fixture.postgres).await, &expected());
    fixture.end().await;
    Some(entries)
}

#[tokio::test]
async fn every_format_is_read() {
    // Those of version 3 are read after a migration alone.
    for format in [FORMAT_1, FORMAT_2, FORMAT_4] {
        let Some(fixture) = Fixture::new().await else { return };
        fixture.raw.write(&golden::entries(format)).await;
        golden::assert_same("received", &received(&fixture.postgres).await, &expected());
        fixture.end().await;
    }
}

#[tokio::test]
async fn the_newest_format_is_written() {
    let Some(entries) = written().await else { return };
    golden::assert_same("stored", &entries, &golden::entries(FORMAT_4));
}

#[tokio::test]
#[ignore = "writes files into the repository"]
async fn write_the_files() {
    golden::write("rows.jsonl", &written().await.expect("a server"));
}
