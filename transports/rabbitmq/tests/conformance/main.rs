//! The suite of all transports on a RabbitMQ.

#[path = "../support/mod.rs"]
mod support;

use consign_conformance::{Suite, table};

use crate::support::backend::Rabbit;

/// What waits in real time does so beside the others.
const AT_ONCE: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_is_up_to_date() {
    let Some(rabbit) = Rabbit::connect().await else { return };
    let part = std::env::var("CASE");
    let suite = part.as_ref().map_or_else(|_| Suite::new(), |part| Suite::new().named(part));
    let report = suite.at_once(AT_ONCE).run(&rabbit).await;
    rabbit.clean_up().await;
    println!("{report}");
    if part.is_ok() {
        assert!(report.is_passed(), "{report}");
        return;
    }
    table::keep(&report, concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md")).unwrap();
}
