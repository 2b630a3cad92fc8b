use std::{future::Future, pin::Pin, sync::Arc};

use tokio::sync::watch;
use tower::BoxError;

use super::{RestartPolicy, Shutdown, health::Status};
use crate::consumer::Health;

/// One run of a part: its name, and the shutdown that it has to end at.
#[derive(Clone, Debug)]
pub struct Part {
    pub(super) stopped: watch::Receiver<bool>,
    pub(super) status: Arc<Status>,
}

/// The erased future of one run.
pub(super) type RunFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// What starts a run.
pub(super) enum Run {
    Again(Box<dyn FnMut(Part) -> RunFuture + Send>),
    Once(Option<Box<dyn FnOnce(Part) -> RunFuture + Send>>),
}

/// Returns a future that is ready when there is nothing to run a part for any more.
pub(super) type Closed = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A part as it was added.
pub(super) struct Spec {
    pub(super) run: Run,
    pub(super) status: Arc<Status>,
    pub(super) policy: RestartPolicy,
    /// What ends the wait for a restart, besides the shutdown.
    pub(super) closed: Option<Closed>,
    /// Whether it is told to end when all parts without this have ended.
    pub(super) ends_last: bool,
}

pub(super) fn erased<T, E: Into<BoxError>>(run: impl Future<Output = Result<T, E>> + Send + 'static) -> RunFuture {
    Box::pin(async move { run.await.map(drop).map_err(Into::into) })
}

impl Part {
    /// Returns the name of the part.
    #[must_use]
    pub fn name(&self) -> &str {
        self.status.name()
    }

    /// Returns a future that is ready when the part has to end.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown::new(self.stopped.clone())
    }

    /// Returns how often the part was restarted.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.status.restarts()
    }

    /// Shows the health of a consumer with that of the part. It replaces what was reported before.
    pub fn report(&self, health: &Health) {
        self.status.report(health.clone());
    }
}

impl Run {
    /// Starts a run. `None` if the part cannot run again.
    pub(super) fn start(&mut self, part: Part) -> Option<RunFuture> {
        match self {
            Self::Again(run) => Some(run(part)),
            Self::Once(run) => run.take().map(|run| run(part)),
        }
    }

    pub(super) fn can_start(&self) -> bool {
        !matches!(self, Self::Once(None))
    }
}
