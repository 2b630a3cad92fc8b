//! The commits under shuttle, which chooses the order of threads: `cargo xtask shuttle`.

use shuttle::{future::block_on, thread};

use super::*;

/// The name is that of the test.
fn explore(name: &str, property: fn()) {
    let schedules = std::env::var("CONSIGN_SCHEDULES").map_or(5_000, |number| number.parse().unwrap());
    shuttle::check_random(property, schedules);
    println!("shuttle: {name} random {schedules} schedules 0 violations");
}

/// A broker's lock, under which changes are noted and taken.
#[derive(Default)]
struct Bench {
    commits: Arc<Commits>,
    /// The batch that is being filled, and whether it has a change.
    engine: Mutex<(u64, bool)>,
    /// The last batch with a change that was written.
    written: AtomicU64,
}

impl Bench {
    fn new() -> Arc<Self> {
        Arc::new(Self { engine: Mutex::new((1, false)), ..Self::default() })
    }

    /// A call that changes something. Returns the batch that has the change, and what the call waits for.
    fn call(&self) -> (u64, Option<Commit>) {
        let mut engine = self.engine.lock();
        engine.1 = true;
        let batch = engine.0;
        self.commits.begin(batch);
        drop(engine);
        (batch, self.commits.pending())
    }

    /// The writer, until it is requested to end.
    fn write(&self) {
        loop {
            let goes_on = self.commits.wait_for_work(Duration::ZERO);
            let mut engine = self.engine.lock();
            let (batch, changed) = *engine;
            *engine = (batch + 1, false);
            drop(engine);
            if changed {
                self.written.store(batch, Ordering::SeqCst);
            }
            self.commits.finish(batch);
            if !goes_on {
                let closed = StorageError::new(crate::StorageErrorKind::Closed, "");
                return self.commits.fail(closed);
            }
        }
    }

    fn is_written(&self, batch: u64) {
        assert!(self.written.load(Ordering::SeqCst) >= batch, "it was acknowledged before it was written");
    }
}

fn with_writer(run: impl FnOnce(&Arc<Bench>)) {
    let bench = Bench::new();
    let writer = thread::spawn({
        let bench = Arc::clone(&bench);
        move || bench.write()
    });
    run(&bench);
    drop(bench.commits.close());
    writer.join().unwrap();
}

/// Rules: D-290.
#[test]
fn every_call_that_is_waited_for_is_acknowledged_once_it_is_written() {
    explore("every_call_that_is_waited_for_is_acknowledged_once_it_is_written", || {
        with_writer(|bench| {
            let callers = [(); 2].map(|()| {
                let bench = Arc::clone(bench);
                thread::spawn(move || {
                    for _ in 0..2 {
                        let (batch, commit) = bench.call();
                        if let Some(commit) = commit {
                            block_on(commit).unwrap();
                        }
                        bench.is_written(batch);
                    }
                })
            });
            callers.into_iter().for_each(|caller| caller.join().unwrap());
        });
    });
}

/// Rules: D-290.
#[test]
fn a_call_that_is_dropped_is_written_without_another() {
    explore("a_call_that_is_dropped_is_written_without_another", || {
        with_writer(|bench| {
            let dropped = thread::spawn({
                let bench = Arc::clone(bench);
                move || drop(bench.call())
            });
            let (batch, commit) = bench.call();
            if let Some(commit) = commit {
                block_on(commit).unwrap();
            }
            bench.is_written(batch);
            dropped.join().unwrap();
            // The writer was notified of every change, or has written it.
            let begun = bench.commits.begun();
            assert!(
                bench.commits.requested.load(Ordering::SeqCst) >= begun
                    || bench.commits.done.load(Ordering::SeqCst) >= begun
            );
        });
    });
}

/// Rules: D-08.
#[test]
fn a_close_answers_every_call() {
    explore("a_close_answers_every_call", || {
        with_writer(|bench| {
            let caller = thread::spawn({
                let bench = Arc::clone(bench);
                move || {
                    let (batch, commit) = bench.call();
                    match commit.map(block_on) {
                        None | Some(Ok(())) => bench.is_written(batch),
                        Some(Err(failure)) => assert_eq!(failure.kind(), crate::StorageErrorKind::Closed),
                    }
                }
            });
            drop(bench.commits.close());
            caller.join().unwrap();
        });
    });
}
