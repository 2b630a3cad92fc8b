//! Random operations on PostgreSQL through the transport, compared with the model of the broker.
//!
//! ```text
//! SEED=1 CONSIGN_OPS=100000 cargo test -p consign-postgres --test against_model
//! ```
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]
#![allow(unexpected_cfgs, reason = "the model has features of another crate")]

mod clock;
mod driver;
#[path = "../../../../tests/model/model/mod.rs"]
#[allow(dead_code, unused_imports, clippy::pedantic, reason = "a part of it is used here")]
mod model;
mod receive;
mod send;
#[path = "../support/server.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod server;
mod sessions;
mod settle;
mod shown;

/// Operations of the short run.
const OPS: u64 = 600;
/// Operations on one schema, before another with other settings is begun.
const EACH: u64 = 2_000;

/// Rules: I-01.
#[tokio::test]
async fn random_operations_on_postgresql_agree_with_the_model() {
    let Some(url) = server::url().await else { return };
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    let ops = number("CONSIGN_OPS").unwrap_or(OPS);
    println!("model: seed {seed}");
    let mut counts = std::collections::BTreeMap::<&str, u64>::new();
    for world in 0..ops.div_ceil(EACH) {
        let mut driver = driver::Driver::new(&url, seed.wrapping_add(world)).await;
        driver.run(EACH.min(ops - world * EACH)).await;
        for (kind, count) in driver.end().await {
            *counts.entry(kind).or_default() += count;
        }
        // `cargo xtask model` prints other lines at once, so a long run shows that it goes on.
        println!("{} of {ops} operations", ops.min((world + 1) * EACH));
    }
    println!("model: {ops} operations of {} kinds, 0 divergences", counts.len());
    for (kind, count) in counts {
        println!("model: {count:>8} {kind}");
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
