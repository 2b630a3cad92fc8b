//! The suite of all transports.

#[path = "../support/mod.rs"]
mod support;

use consign_conformance::{Suite, table};

use crate::support::backend::OnServer;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md");

#[tokio::test(start_paused = true)]
async fn the_table_is_up_to_date() {
    let part = std::env::var("CASE");
    let suite = part.as_ref().map_or_else(|_| Suite::new(), |part| Suite::new().named(part));
    let report = suite.run(&OnServer::new().await).await;
    println!("{report}");
    if part.is_ok() {
        assert!(report.is_passed(), "{report}");
        return;
    }
    table::keep(&report, TABLE).expect("the column is up to date");
}

/// By sockets, so in real time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_opens_the_transport() {
    let report = Suite::new().named("url").run(&OnServer::by_url().await).await;
    println!("{report}");
    assert!(report.is_passed(), "{report}");
}
