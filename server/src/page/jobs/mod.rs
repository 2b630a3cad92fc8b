//! Work on many messages, in the background.

mod edit;
mod file;
mod run;
mod spec;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Notify, watch};

pub(super) use self::{
    edit::Edit,
    run::resubmit_one,
    spec::{Action, EntityPathText, Spec},
};
use super::Shared;

/// Most jobs that have not ended.
const MAX_JOBS: usize = 100;
/// Ended jobs that are still shown.
const ENDED: usize = 50;
/// Failures that are shown of a job.
const FAILURES: usize = 20;

/// All jobs of a page.
#[derive(Default)]
pub(super) struct Jobs {
    file: Option<PathBuf>,
    /// By when they were created.
    by_age: Mutex<BTreeMap<(i64, String), Arc<Job>>>,
    added: Notify,
}

/// One job.
pub(super) struct Job {
    pub(super) spec: Spec,
    state: watch::Sender<State>,
    pub(super) progress: Progress,
    stop: watch::Sender<bool>,
}

/// How far a job is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    done: AtomicU64,
    failed: AtomicU64,
    failures: Mutex<Vec<String>>,
}

/// Where a job is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It begins later, and can be undone.
    Waiting,
    Running,
    Done,
    Stopped,
    Failed(String),
}

impl State {
    fn is_ended(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// A job as it is shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) created: String,
    pub(super) state: String,
    pub(super) is_waiting: bool,
    pub(super) is_ended: bool,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) matching: u64,
    pub(super) failures: Vec<String>,
}

impl Progress {
    pub(super) fn add(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }

    pub(super) fn set(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    pub(super) fn fail(&self, failure: String) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut failures = self.failures.lock();
        if failures.len() < FAILURES {
            failures.push(failure);
        }
    }

    /// So many are removed, or have failed and stay.
    pub(super) fn handled(&self) -> u64 {
        self.done.load(Ordering::Relaxed) + self.failed.load(Ordering::Relaxed)
    }
}

impl Job {
    fn new(spec: Spec) -> Self {
        let (state, progress) = (watch::Sender::new(State::Waiting), Progress::default());
        Self { spec, state, progress, stop: watch::Sender::new(false) }
    }

    fn is_ended(&self) -> bool {
        self.state.borrow().is_ended()
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&self) {
        // The job itself is the sender.
        let _ = self.state.subscribe().wait_for(State::is_ended).await;
    }

    /// Sets it to running. `false` if it was stopped before.
    fn begin(&self) -> bool {
        self.change(State::Running, |state| *state == State::Waiting)
    }

    fn change(&self, to: State, is_from: impl FnOnce(&State) -> bool) -> bool {
        self.state.send_if_modified(|state| {
            let is_from = is_from(state);
            if is_from {
                *state = to;
            }
            is_from
        })
    }

    pub(super) fn shown(&self) -> Shown {
        let state = self.state.borrow().clone();
        let title = self.spec.title();
        let is_waiting = state == State::Waiting;
        Shown {
            id: self.spec.id.clone(),
            title,
            created: self.spec.created_at().to_string(),
            is_waiting,
            is_ended: state.is_ended(),
            state: match state {
                State::Waiting => "waiting: it can be undone".to_owned(),
                State::Running => "running".to_owned(),
                State::Done => "done".to_owned(),
                State::Stopped => "stopped".to_owned(),
                State::Failed(error) => format!("failed: {error}"),
            },
            done: self.progress.done.load(Ordering::Relaxed),
            failed: self.progress.failed.load(Ordering::Relaxed),
            matching: self.spec.matching,
            failures: self.progress.failures.lock().clone(),
        }
    }
}

impl Jobs {
    /// Reads the jobs of a file, which continue.
    pub(super) fn open(file: PathBuf) -> io::Result<Self> {
        let jobs = file::read(&file)?.into_iter();
        let jobs = jobs.map(|spec| ((spec.created_at, spec.id.clone()), Arc::new(Job::new(spec)))).collect();
        Ok(Self { file: Some(file), by_age: Mutex::new(jobs), added: Notify::new() })
    }

    /// Adds a job, in the file too. `None` if there are too many.
    pub(super) fn add(&self, spec: Spec) -> io::Result<Option<Arc<Job>>> {
        let job = Arc::new(Job::new(spec));
        let mut jobs = self.by_age.lock();
        if jobs.values().filter(|job| !job.is_ended()).count() >= MAX_JOBS {
            return Ok(None);
        }
        let ended: Vec<_> = jobs.iter().filter(|(_, job)| job.is_ended()).map(|(key, _)| key.clone()).collect();
        for key in ended.iter().take(ended.len().saturating_sub(ENDED)) {
            jobs.remove(key);
        }
        let key = (job.spec.created_at, job.spec.id.clone());
        jobs.insert(key.clone(), Arc::clone(&job));
        if let Err(error) = self.write(&jobs) {
            jobs.remove(&key);
            return Err(error);
        }
        drop(jobs);
        self.added.notify_one();
        Ok(Some(job))
    }

    /// Stops a job, unless it has ended. What was done stays done. One that waits has stopped, in the file too, at once: the
    /// jobs before it may take long.
    pub(super) fn stop(&self, job: &Job) -> io::Result<()> {
        let jobs = self.by_age.lock();
        let has_stopped = job.change(State::Stopped, |state| *state == State::Waiting);
        job.stop.send_replace(true);
        if has_stopped { self.write(&jobs) } else { Ok(()) }
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Job>> {
        self.by_age.lock().values().find(|job| job.spec.id == id).cloned()
    }

    /// All jobs, the newest first.
    pub(super) fn shown(&self) -> Vec<Shown> {
        self.by_age.lock().values().rev().map(|job| job.shown()).collect()
    }

    fn write(&self, jobs: &BTreeMap<(i64, String), Arc<Job>>) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let unended: Vec<_> = jobs.values().filter(|job| !job.is_ended()).map(|job| job.spec.clone()).collect();
        file::write(file, &unended)
    }

    /// The next job to do: the first that has not ended.
    fn next(&self) -> Option<Arc<Job>> {
        self.by_age.lock().values().find(|job| !job.is_ended()).cloned()
    }

    fn end(&self, job: &Job, state: State) {
        let jobs = self.by_age.lock();
        if !job.change(state, |state| !state.is_ended()) {
            return;
        }
        if let Err(error) = self.write(&jobs) {
            tracing::warn!(%error, "the file of the jobs of the page was not written: an ended job may begin again");
        }
    }
}

/// Runs the jobs one after the other, so that none holds the locks that another one needs.
pub(super) async fn run(shared: &Shared) -> Infallible {
    loop {
        let Some(job) = shared.jobs.next() else {
            shared.jobs.added.notified().await;
            continue;
        };
        let mut stop = job.stop.subscribe();
        let state = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => State::Stopped,
            ended = run::run(shared, &job) => match ended {
                Ok(()) => State::Done,
                Err(error) => State::Failed(error.to_string()),
            },
        };
        shared.jobs.end(&job, state);
    }
}
