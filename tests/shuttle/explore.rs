//! Runs a property under many schedules, and prints the one under which it fails.

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use shuttle::{
    Config, FailurePersistence, Runner,
    scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Schedule, Scheduler, Task, TaskId},
};

use crate::support::in_virtual_time;

const SCHEDULES: usize = 20_000;
const SEED: u64 = 0x5EED;
/// Bugs that need this many orders between two steps are found with a probability that has a bound.
const DEPTH: usize = 3;
const STACK: usize = 256 * 1024;

/// Runs `property` under random schedules. `name` is that of the test.
pub(crate) fn random(name: &str, property: fn()) {
    explore(name, "random", property, RandomScheduler::new_from_seed);
}

/// As [`random`], and then under schedules that keep to an order of the threads but for a few changes.
pub(crate) fn random_and_pct(name: &str, property: fn()) {
    random(name, property);
    explore(name, "pct", property, |seed, schedules| PctScheduler::new_from_seed(seed, DEPTH, schedules));
}

fn explore<S: Scheduler + 'static>(name: &str, how: &str, property: fn(), scheduler: fn(u64, usize) -> S) {
    if let Ok(schedule) = env::var("CONSIGN_REPLAY") {
        let mut replay = ReplayScheduler::new_from_schedule(parse(&schedule));
        replay.set_allow_incomplete();
        run(replay, property);
        return;
    }
    let record = Arc::new(Mutex::new(Record::default()));
    let seed = number("SEED").unwrap_or(SEED);
    let schedules = number("CONSIGN_SCHEDULES").and_then(|schedules| schedules.try_into().ok()).unwrap_or(SCHEDULES);
    let recorder = Recorder { record: Arc::clone(&record), inner: scheduler(seed, schedules) };
    let failure = catch_unwind(AssertUnwindSafe(|| run(recorder, property))).err();
    let Record { schedules, last } = &*record.lock().unwrap_or_else(PoisonError::into_inner);
    println!("shuttle: {name} {how} {schedules} schedules {} violations", usize::from(failure.is_some()));
    if let Some(failure) = failure {
        eprintln!(
            "seed {seed}; replay: CONSIGN_REPLAY={last} RUSTFLAGS='--cfg shuttle' cargo test \
             --target-dir target/shuttle --profile checked --features full --test shuttle {name}"
        );
        resume_unwind(failure);
    }
}

fn run(scheduler: impl Scheduler + 'static, property: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.silence_warnings = true;
    config.failure_persistence = FailurePersistence::None;
    in_virtual_time(|| Runner::new(scheduler, config).run(property));
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

/// How many schedules there were, and the last one as [`parse`] reads it: the seed, a colon, and a character for each step,
/// which is the number of the thread in base 36, or `+` for a random number that the property asked for.
#[derive(Default)]
struct Record {
    schedules: usize,
    last: String,
}

fn parse(schedule: &str) -> Schedule {
    let (seed, steps) = schedule.split_once(':').expect("a seed and steps");
    let mut schedule = Schedule::new(seed.parse().expect("a seed"));
    for step in steps.chars() {
        match step {
            '+' => schedule.push_random(),
            step => schedule.push_task(TaskId::from(step.to_digit(36).expect("a thread") as usize)),
        }
    }
    schedule
}

struct Recorder<S> {
    record: Arc<Mutex<Record>>,
    inner: S,
}

impl<S> Recorder<S> {
    fn note(&self, step: char) {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).last.push(step);
    }
}

impl<S: Scheduler> Scheduler for Recorder<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        let schedule = self.inner.new_execution()?;
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.schedules += 1;
        record.last = format!("{}:", schedule.seed);
        Some(schedule)
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        let task = self.inner.next_task(runnable, current, is_yielding)?;
        let digit = u32::try_from(usize::from(task)).ok().and_then(|task| char::from_digit(task, 36));
        self.note(digit.expect("at most 36 threads"));
        Some(task)
    }

    fn next_u64(&mut self) -> u64 {
        self.note('+');
        self.inner.next_u64()
    }
}
