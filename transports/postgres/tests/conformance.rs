//! The suite on PostgreSQL.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use std::sync::Mutex;

use consign::transport::Capability;
use consign_conformance::{Report, Suite, table};
use futures_util::{StreamExt, stream};

use crate::support::{backend::InPostgres, server};

/// Brokers that share the cases: each has a clock, which one case at a time may change.
const BROKERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_is_up_to_date() {
    let Some(url) = server::url().await else { return };
    let brokers: Vec<InPostgres> = stream::iter(0..BROKERS).then(|_| InPostgres::new(&url, true)).collect().await;
    // Whichever is free takes the next capability.
    let capabilities = Mutex::new(Capability::ALL.iter());
    let workers = brokers.iter().map(|broker| async {
        let mut reports = Vec::new();
        while let Some(capability) = next(&capabilities) {
            reports.push(Suite::new().only(capability).run(broker).await);
        }
        reports
    });
    let reports = futures_util::future::join_all(workers).await.concat();
    let report = reports.into_iter().reduce(Report::and).unwrap();
    for broker in brokers {
        broker.drop_schema().await;
    }
    table::keep(&report, concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md")).unwrap();
}

fn next<'c>(capabilities: &Mutex<impl Iterator<Item = &'c Capability>>) -> Option<Capability> {
    capabilities.lock().unwrap().next().copied()
}

/// Rules: K-211, K-212.
/// By the server's own clock, with as many cases as wait anyway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_and_delays_hold_in_real_time() {
    let Some(url) = server::url().await else { return };
    let broker = InPostgres::new(&url, false).await;
    for capability in [Capability::LockDuration, Capability::Scheduling, Capability::DelayedRetry] {
        let report = Suite::new().only(capability).at_once(16).run(&broker).await;
        assert!(report.is_passed(), "{report}");
    }
    broker.drop_schema().await;
}
