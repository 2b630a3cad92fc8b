//! The health of the parts of a supervisor.

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;
use tokio::time::Instant;

use crate::{
    consumer::{ConsumerSnapshot, Health},
    settlement::cause_of,
    time::as_millis,
};

/// A live handle to the health of the parts of a supervisor. It has the parts that were added before it was made.
#[derive(Clone, Debug, Default)]
pub struct SupervisorHealth {
    parts: Vec<Arc<Status>>,
}

/// The state of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PartState {
    /// The supervisor does not run yet.
    New,
    /// It runs.
    Running,
    /// It has failed, and waits for its restart. A receive loop of replies is in this state also while its
    /// [source is made](super::Supervisor::replies_from) again.
    Restarting,
    /// The supervisor shuts down, and the part has not ended yet.
    Draining,
    /// It has failed for good.
    Failed,
    /// It has ended without an error, or was waiting for its restart when the shutdown began.
    Ended,
    /// It had not ended at the drain timeout, or at a further signal.
    Aborted,
}

/// The health of a part at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PartSnapshot {
    /// The name of the part.
    pub name: Box<str>,
    /// What it is doing.
    pub state: PartState,
    /// For how long it has been in that state. In serialized form in milliseconds, as `for_ms`.
    #[serde(serialize_with = "as_millis::one", rename = "for_ms")]
    pub lasting: Duration,
    /// How often it was restarted.
    pub restarts: u64,
    /// How long after its last failure it is restarted, while it waits for that. In serialized form in milliseconds, as
    /// `restart_delay_ms`.
    #[serde(serialize_with = "as_millis::some", rename = "restart_delay_ms")]
    pub restart_delay: Option<Duration>,
    /// The text of its last error, with those of its sources, cut to 1,024 bytes.
    pub last_error: Option<Box<str>>,
    /// The consumer that it runs, if it [reports](super::Part::report) one. That of a receive loop of replies does not count replies that
    /// are [passed on directly](crate::transport::Receiver::receive_directly).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<ConsumerSnapshot>,
}

/// The health of all parts at one instant, in the order in which they were added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SupervisorSnapshot {
    /// The parts.
    pub parts: Vec<PartSnapshot>,
}

/// What the supervisor and the handles have of one part.
#[derive(Debug)]
pub(super) struct Status {
    name: Arc<str>,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    state: PartState,
    since: Instant,
    runs: u64,
    restart_delay: Option<Duration>,
    last_error: Option<Arc<str>>,
    consumer: Option<Health>,
}

impl Status {
    pub(super) fn new(name: &str) -> Self {
        let now = Now {
            state: PartState::New,
            since: Instant::now(),
            runs: 0,
            restart_delay: None,
            last_error: None,
            consumer: None,
        };
        Self { name: name.into(), now: Mutex::new(now) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: PartState, change: impl FnOnce(&mut Now)) {
        let mut now = self.now();
        (now.state, now.since, now.restart_delay) = (state, Instant::now(), None);
        change(&mut now);
    }

    pub(super) fn runs(&self) {
        self.set(PartState::Running, |now| now.runs += 1);
    }

    /// The run has begun, and makes what it runs with.
    pub(super) fn makes(&self) {
        self.set(PartState::Restarting, |_| {});
    }

    /// What the run needs is made. A part that drains goes on draining.
    pub(super) fn has_made(&self) {
        if self.now().state == PartState::Restarting {
            self.set(PartState::Running, |_| {});
        }
    }

    pub(super) fn ended(&self) {
        self.set(PartState::Ended, |_| {});
    }

    pub(super) fn aborted(&self) {
        self.set(PartState::Aborted, |_| {});
    }

    pub(super) fn failed(&self, error: &(dyn Error + 'static)) {
        let text = cause_of(error);
        self.set(PartState::Failed, |now| now.last_error = Some(text.into()));
    }

    pub(super) fn restarts_in(&self, delay: Duration, error: &(dyn Error + 'static)) {
        let text = cause_of(error);
        self.set(PartState::Restarting, |now| {
            now.last_error = Some(text.into());
            now.restart_delay = Some(delay);
        });
    }

    /// The supervisor shuts down.
    pub(super) fn drains(&self) {
        if self.is_open() {
            self.set(PartState::Draining, |_| {});
        }
    }

    /// Whether the part may run still, or again.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.now().state, PartState::Failed | PartState::Ended | PartState::Aborted)
    }

    pub(super) fn restarts(&self) -> u64 {
        self.now().runs.saturating_sub(1)
    }

    pub(super) fn report(&self, health: Health) {
        self.now().consumer = Some(health);
    }

    fn snapshot(&self) -> PartSnapshot {
        let now = self.now();
        PartSnapshot {
            name: (*self.name).into(),
            state: now.state,
            lasting: now.since.elapsed(),
            restarts: now.runs.saturating_sub(1),
            restart_delay: now.restart_delay,
            last_error: now.last_error.as_deref().map(Into::into),
            consumer: now.consumer.as_ref().map(Health::snapshot),
        }
    }
}

impl SupervisorHealth {
    pub(super) fn push(&mut self, status: Arc<Status>) {
        self.parts.push(status);
    }

    /// Returns the current health of all parts. They may be read one after the other.
    #[must_use]
    pub fn snapshot(&self) -> SupervisorSnapshot {
        SupervisorSnapshot { parts: self.parts.iter().map(|status| status.snapshot()).collect() }
    }

    /// Returns the current health of the part with this name; the first, if several have it.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<PartSnapshot> {
        self.parts.iter().find(|status| status.name() == name).map(|status| status.snapshot())
    }
}

impl SupervisorSnapshot {
    /// Whether every part runs, drains, or has ended without an error.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        use PartState::{Draining, Ended, Running};
        self.parts.iter().all(|part| matches!(part.state, Running | Draining | Ended))
    }
}

impl fmt::Display for PartState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "new",
            Self::Running => "running",
            Self::Restarting => "restarting",
            Self::Draining => "draining",
            Self::Failed => "failed",
            Self::Ended => "ended",
            Self::Aborted => "aborted",
        })
    }
}

/// One line.
impl fmt::Display for PartSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} for {} s", self.name, self.state, self.lasting.as_secs())?;
        write!(f, ", {} restarts", self.restarts)?;
        if let Some(error) = &self.last_error {
            write!(f, ", last error: {}", error.escape_debug())?;
        }
        match &self.consumer {
            Some(consumer) => write!(f, "; consumer {consumer}"),
            None => Ok(()),
        }
    }
}

/// One line for each part.
impl fmt::Display for SupervisorSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            write!(f, "{}{part}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}
