//! The tests that go through many random cases run a fiftieth of them here, the same ones each time. `cargo xtask
//! power-loss` runs all of them, from a fresh seed: it sets `SEED` and `CONSIGN_EVERY`.

mod copies;
mod damage;
mod full;
mod journal;
mod model;
mod names;
mod power_loss;
mod space;

use std::env;

use super::{LogJournal, LogOptions};
use crate::durable::{StorageError, disk::SimulatedDisk};

/// One in so many cases is run.
const EVERY: u64 = 50;

fn open(disk: &SimulatedDisk) -> Result<LogJournal, StorageError> {
    LogJournal::at(Box::new(disk.clone()), LogOptions::small(disk.reserve()))
}

fn every() -> u64 {
    number("CONSIGN_EVERY").unwrap_or(EVERY)
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|number| number.parse().unwrap())
}

/// Whether more than all cases are requested.
fn is_long() -> bool {
    number("CONSIGN_LONG").is_some()
}

/// So many seeds, from `SEED` on.
fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let base = number("SEED").unwrap_or_default();
    (0..(count / every()).max(1)).map(move |seed| base.wrapping_add(seed))
}

fn replay(test: &str, seed: u64) -> String {
    format!("SEED={seed} CONSIGN_EVERY={} cargo test -p consign-broker --features durable --lib {test}", u64::MAX)
}

/// What `cargo xtask power-loss` reads.
fn say(what: &str, cases: usize) {
    println!("power-loss: {cases} {what}");
}
