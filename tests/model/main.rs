//! Random operations on a broker, compared with a second one that is written to be obviously right.
#![cfg(feature = "embedded")]
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod driver;
mod model;
mod seeds;

use std::sync::atomic::{AtomicUsize, Ordering};

use driver::{KINDS_COUNT, Place, Tally};

/// Operations of the short run, over all its seeds.
const OPS: u64 = 20_000;
const SEEDS: [u64; 4] = [1, 0x00C0_FFEE, 0x5EED_5EED, 0xDEAD_1E77];

/// Rules: I-01.
#[test]
fn random_operations_agree_with_the_model() {
    run_seeds(Place::Memory, OPS);
}

/// Rules: I-01.
/// The same operations, and in between the broker is closed and opened again.
#[cfg(feature = "durable")]
#[test]
fn random_operations_on_a_disk_agree_with_the_model() {
    run_seeds(Place::Disk, OPS / 4);
}

fn run_seeds(place: Place, ops_here: u64) {
    let (ops, seeds) = (number("CONSIGN_OPS"), number("CONSIGN_SEEDS"));
    let seeds = match (number("SEED"), seeds) {
        (Some(base), Some(count)) => (0..count).map(|nth| nth_seed(base, nth)).collect(),
        (Some(seed), None) => vec![seed],
        (None, _) => SEEDS.to_vec(),
    };
    let each = ops.unwrap_or(ops_here).div_ceil(seeds.len() as u64);
    report(&run_all(place, &seeds, each), seeds.len());
}

/// Rules: I-01.
/// Seeds that found something once.
#[test]
fn seeds_that_failed_once_agree_with_the_model() {
    for &(seed, ops, why) in seeds::FOUND {
        eprintln!("seed {seed}: {why}");
        driver::run(Place::Memory, seed, ops);
        #[cfg(feature = "durable")]
        driver::run(Place::Disk, seed, ops);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Far enough apart that no two runs see the same world.
fn nth_seed(base: u64, nth: u64) -> u64 {
    base.wrapping_add(nth.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Runs all seeds, as many at a time as there are cores.
fn run_all(place: Place, seeds: &[u64], ops: u64) -> Tally {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(seeds.len()));
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let work = || {
            let mut tally = Tally::default();
            while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                tally.add(driver::run(place, seed, ops));
            }
            tally
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            tally.add(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    tally
}

fn report(tally: &Tally, seeds: usize) {
    let Tally { operations, kinds, session_operations, inversions, reopens } = tally;
    println!("model: {operations} operations, {seeds} seeds, {} of {KINDS_COUNT} kinds, 0 divergences", kinds.len());
    println!("model: {session_operations} session operations, {inversions} inversions");
    println!("model: {reopens} times closed and opened again");
    for (kind, count) in kinds {
        println!("model: {count:>8} {kind}");
    }
    assert_eq!(*inversions, 0);
}
