//! The suite of all transports on NATS JetStream.

mod backend;
mod server;

use consign_conformance::{Suite, table};

use crate::backend::JetStream;

/// Cases at the same time: nearly all of a case is waiting.
const AT_ONCE: usize = 44;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_is_up_to_date() {
    let Some(url) = server::url() else { return };
    let backend = JetStream::connect(&url).await;
    let report = Suite::new().at_once(AT_ONCE).run(&backend).await;
    table::keep(&report, concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md")).unwrap();
}

/// Some cases only: those with `CASES` in their names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for whoever looks into one of them"]
async fn some() {
    let part = std::env::var("CASES").unwrap_or_default();
    let Some(url) = server::url() else { return };
    let backend = JetStream::connect(&url).await;
    let report = Suite::new().named(&part).at_once(AT_ONCE).run(&backend).await;
    println!("{report}");
    assert!(report.is_passed(), "{report}");
}
