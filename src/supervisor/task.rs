//! Runs one part, again and again.

use std::{
    any::Any,
    error, fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures_util::future::OptionFuture;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tower::BoxError;

use super::{
    Part, Shutdown,
    part::{RunFuture, Spec},
    policy::Failures,
};
use crate::{
    middleware::{catch_panic::Panicked, retry::Random},
    settlement::cause_of,
    transport::EscapedWhole,
};

/// How a part has ended.
pub(super) struct Outcome {
    pub(super) name: Arc<str>,
    /// Why it has failed for good.
    pub(super) error: Option<BoxError>,
    pub(super) ends_last: bool,
}

/// Runs a part until it ends, fails for good, or the supervisor shuts down.
pub(super) async fn supervise(
    mut spec: Spec,
    stopped: watch::Receiver<bool>,
    mut aborted: watch::Receiver<bool>,
) -> Outcome {
    let (status, random) = (Arc::clone(&spec.status), Random::new());
    let (name, ends_last) = (status.shared_name(), spec.ends_last);
    let outcome = |error| Outcome { name, error, ends_last };
    let mut failures = Failures::default();
    let shutdown = Shutdown::new(stopped.clone());
    loop {
        if shutdown.has_begun() {
            status.ended();
            return outcome(None);
        }
        status.runs();
        let part = Part { stopped: stopped.clone(), status: Arc::clone(&status) };
        let ended = run_once(&mut spec, part, &mut aborted).await;
        if *aborted.borrow() {
            // The supervisor has written down that it was aborted.
            return outcome(None);
        }
        let Err(error) = ended else {
            status.ended();
            return outcome(None);
        };
        let stops = shutdown.has_begun();
        let next = if stops || !spec.run.can_start() {
            None
        } else {
            spec.policy.next(&mut failures, Instant::now(), random.next())
        };
        let Some(delay) = next else {
            tracing::error!(part = status.name(), error = %EscapedWhole(&cause_of(&*error)), "a part failed for good");
            status.failed(&*error);
            return outcome(Some(error));
        };
        tracing::warn!(
            part = status.name(),
            error = %EscapedWhole(&cause_of(&*error)),
            restart_in_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            "a part failed and is restarted"
        );
        status.restarts_in(delay, &*error);
        let closed = spec.closed.as_ref().map(|closed| closed());
        tokio::select! {
            biased;
            () = shutdown.clone() => {
                status.ended();
                return outcome(None);
            }
            Some(()) = OptionFuture::from(closed) => {
                status.ended();
                return outcome(None);
            }
            () = sleep(delay) => {}
        }
    }
}

/// Starting it and running it is the user's code. A run that is aborted has ended when this is ready, with what it held.
async fn run_once(spec: &mut Spec, part: Part, aborted: &mut watch::Receiver<bool>) -> Result<(), BoxError> {
    let started = catch_unwind(AssertUnwindSafe(|| spec.run.start(part)));
    let Some(run) = started.map_err(PartPanicked::new)? else { return Ok(()) };
    let mut running = Running::spawn(run);
    let ended = tokio::select! {
        biased;
        ended = running.ended() => ended,
        () = async { drop(aborted.wait_for(|aborted| *aborted).await) } => {
            running.abort();
            running.ended().await
        }
    };
    match ended {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(payload) => Err(PartPanicked::new(payload).into()),
            // Only the supervisor aborts it, and then nothing waits here.
            Err(cancelled) => Err(cancelled.into()),
        },
    }
}

/// A part panicked, in its closure or in its task. The source is the text of the panic.
#[derive(Debug)]
struct PartPanicked(Panicked);

impl PartPanicked {
    fn new(payload: Box<dyn Any + Send>) -> Self {
        Self(Panicked::new(payload))
    }
}

impl fmt::Display for PartPanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the part panicked")
    }
}

impl error::Error for PartPanicked {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source()
    }
}

/// A task that is aborted when nothing waits for it.
struct Running(JoinHandle<Result<(), BoxError>>);

impl Running {
    fn spawn(run: RunFuture) -> Self {
        Self(tokio::spawn(run))
    }

    fn abort(&self) {
        self.0.abort();
    }

    fn ended(&mut self) -> impl Future<Output = Result<Result<(), BoxError>, tokio::task::JoinError>> {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.abort();
    }
}
