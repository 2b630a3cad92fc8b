//! Runs the parts of a service, such as consumers and requesters: restarts those that fail, reports their health, and
//! drains all at a shutdown.
//!
//! ```
//! use std::time::Duration;
//!
//! use consign::{
//!     Disposition, Message,
//!     administration::QueueSettings,
//!     broker::Broker,
//!     consumer::Consumer,
//!     supervisor::{RestartPolicy, Supervisor},
//!     transport::Sender,
//! };
//!
//! async fn handle(_: Message) -> Disposition {
//!     Disposition::Complete
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower::BoxError> {
//! let broker = Broker::new();
//! let orders = broker.create_queue("orders", QueueSettings::default())?;
//! let returns = broker.create_queue("returns", QueueSettings::default())?;
//! orders.sender()?.send(Message::new("one order")).await?;
//!
//! let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! let supervisor = Supervisor::new()
//!     .restart(RestartPolicy::new().limit(5, Duration::from_secs(600)))
//!     .drain_timeout(Duration::from_secs(25))
//!     .consumer("orders", move || Consumer::new(orders.receiver(), handle).drain_timeout(Duration::from_secs(20)))
//!     // A part that connects first. It runs again from here when it fails.
//!     .part("returns", move |part| {
//!         let returns = returns.clone();
//!         async move {
//!             let consumer = Consumer::new(returns.receiver(), handle).drain_timeout(Duration::from_secs(20));
//!             part.report(&consumer.health());
//!             consumer.run_until(part.shutdown()).await
//!         }
//!     });
//! let health = supervisor.health();
//! let running = tokio::spawn(supervisor.run_until(stopped));
//!
//! while health.part("orders").and_then(|part| part.consumer).is_none_or(|orders| orders.completed < 1) {
//!     tokio::task::yield_now().await;
//! }
//! assert!(health.snapshot().is_healthy());
//! drop(stop);
//! running.await??;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - Each part runs in a task of its own, so the parts use several cores.
//! - A part that returns an error or panics is restarted after a [backoff](RestartPolicy), while the others run. One that
//!   fails too often has failed for good: then the supervisor shuts the others down and returns the error, or
//!   [keeps them running](Supervisor::keep_running).
//! - A part that ends without an error, before the shutdown, has ended. It is not restarted. When all have ended, the
//!   supervisor returns.
//! - At the shutdown, [`Part::shutdown`] is ready in all parts except the
//!   [receive loops of requesters](Supervisor::replies), and none is restarted. The receive loops are told to end when all
//!   other parts have ended. The supervisor returns when all have ended. After the
//!   [drain timeout](Supervisor::drain_timeout) it aborts those that still run, whose messages are abandoned or released,
//!   and waits for the end of their tasks for at most a [second](Supervisor::ABORT_TIMEOUT).
//! - Dropping the future of a supervisor aborts all parts.
//!
//! The shutdown is any future: that of a `CancellationToken`, `token.cancelled_owned()`, or a `oneshot`. With the feature
//! `signal`, `Supervisor::run_until_signal` waits for SIGTERM or Ctrl-C.
//!
//! # Requesters
//!
//! [`Supervisor::replies_from`] runs the receive loop of a [`Requester`](crate::rpc::Requester), its [`Replies`](crate::rpc::Replies). If it fails,
//! for example because the queue for replies was deleted, it is restarted with another source. The requester stays:
//!
//! | a call | result |
//! |---|---|
//! | that waits when the loop fails | fails at once as [`Disconnected`](crate::rpc::CallErrorKind::Disconnected) |
//! | until the new source receives | is refused as `Disconnected`, and its request is not sent |
//! | after that | is replied to at the address of the new source |
//! | when the loop has failed for good | is refused as [`Closed`](crate::rpc::CallErrorKind::Closed) |
//!
//! ```
//! # #[cfg(feature = "embedded")] {
//! use consign::{
//!     administration::QueueSettings,
//!     broker::Broker,
//!     rpc::{ReplyQueue, Requester},
//!     supervisor::Supervisor,
//!     transport::{ManageError, SendService},
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower::BoxError> {
//! let broker = Broker::new();
//! let requests = broker.create_queue("requests", QueueSettings::default())?;
//! let mut number = 0;
//! let mut make = move || {
//!     number += 1;
//!     let (broker, name) = (broker.clone(), format!("replies.{number}"));
//!     async move {
//!         let queue = broker.create_queue(&name, QueueSettings::default())?;
//!         Ok::<_, ManageError>(ReplyQueue::new(name, queue.receiver()))
//!     }
//! };
//! let (requester, replies) = Requester::builder(SendService::new(requests.sender()?)).build(make().await?)?;
//! let supervisor = Supervisor::new().replies_from("replies", replies, make);
//! # drop((requester, supervisor));
//! # Ok(())
//! # }
//! # main().unwrap();
//! # }
//! ```
//!
//! At the shutdown a receive loop receives until the other parts have ended, so that handlers that wait for a call get its
//! reply. A loop whose source cannot be made again is run by [`Supervisor::replies`]: if it fails, it has failed for good.

mod error;
mod health;
mod part;
mod policy;
mod replies;
mod shutdown;
#[cfg(feature = "signal")]
mod signal;
mod task;

use std::{
    fmt,
    future::{Future, pending, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tower::BoxError;
use tower_service::Service;

pub use self::{
    error::{SupervisorError, SupervisorErrorKind},
    health::{PartSnapshot, PartState, SupervisorHealth, SupervisorSnapshot},
    part::Part,
    policy::RestartPolicy,
    shutdown::Shutdown,
};
use self::{health::Status, part::Spec, task::Outcome};
use crate::{
    Disposition, Message,
    consumer::{Consumer, ConsumerRun},
    transport::Receiver,
};

/// Runs the parts of a service; see the [module](self). It does nothing until it is run.
#[must_use = "a supervisor does nothing until it is run"]
pub struct Supervisor {
    parts: Vec<Spec>,
    policy: RestartPolicy,
    drain: Duration,
    keep_running: bool,
    health: SupervisorHealth,
}

/// A year: an instant that is so far away can be computed still.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

impl Supervisor {
    /// How long a shutdown waits by default: 35 seconds. That is more than a consumer with default settings takes.
    pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(35);
    /// How long it waits for the tasks of parts that it has aborted: a second. A task that does not yield by then runs on.
    pub const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

    /// Creates a supervisor without parts.
    pub fn new() -> Self {
        Self {
            parts: Vec::new(),
            policy: RestartPolicy::new(),
            drain: Self::DRAIN_TIMEOUT,
            keep_running: false,
            health: SupervisorHealth::default(),
        }
    }

    /// Sets how the parts are restarted that are added after this.
    pub fn restart(mut self, policy: RestartPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets how long a shutdown waits for all parts together, by default [`DRAIN_TIMEOUT`](Self::DRAIN_TIMEOUT). It should
    /// be longer than the [drain timeout](Consumer::drain_timeout) of each consumer plus 2 seconds, and shorter than the
    /// time after which the process is killed.
    ///
    /// The [receive loops of requesters](Self::replies) have at least [`ABORT_TIMEOUT`](Self::ABORT_TIMEOUT) after the other
    /// parts have ended, so with them a shutdown can take that much longer.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain = timeout.min(LONGEST);
        self
    }

    /// Keeps the other parts running when one has failed for good. The health shows it, and the supervisor returns its
    /// error at the end.
    pub fn keep_running(mut self) -> Self {
        self.keep_running = true;
        self
    }

    /// Adds a part. `run` is called at the start, and again for each restart.
    pub fn part<F, Fut, T, E>(mut self, name: &str, mut run: F) -> Self
    where
        F: FnMut(Part) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let run = Box::new(move |part: Part| part::erased(run(part)));
        self.push(name, part::Run::Again(run));
        self
    }

    /// Adds a part that cannot run twice. If it fails, it has failed for good. For the receive loop of a requester, use
    /// [`replies`](Self::replies): it has to end after the parts whose handlers wait for calls.
    pub fn once<F, Fut, T, E>(mut self, name: &str, run: F) -> Self
    where
        F: FnOnce(Part) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let run = Box::new(move |part: Part| part::erased(run(part)));
        self.push(name, part::Run::Once(Some(run)));
        self
    }

    /// Adds a consumer, whose health is shown with that of its part. `make` is called at the start, and again for each
    /// restart. If making it can fail, or waits, use [`part`](Self::part). To pause it while it runs, by a handle that outlives
    /// the restarts, use [`Consumer::controlled_by`].
    pub fn consumer<R, S>(self, name: &str, mut make: impl FnMut() -> Consumer<R, S> + Send + 'static) -> Self
    where
        R: Receiver + 'static,
        S: Service<Message, Response = Disposition> + 'static,
        S::Error: Into<BoxError>,
        ConsumerRun<R, S, Shutdown>: Send,
    {
        self.part(name, move |part| {
            let consumer = make();
            part.report(&consumer.health());
            consumer.run_until(part.shutdown())
        })
    }

    fn push(&mut self, name: &str, run: part::Run) {
        let status = Arc::new(Status::new(name));
        self.health.push(Arc::clone(&status));
        self.parts.push(Spec { run, status, policy: self.policy, closed: None, ends_last: false });
    }

    /// Returns a live health handle of the parts that were added, valid while they run and after they have ended.
    #[must_use]
    pub fn health(&self) -> SupervisorHealth {
        self.health.clone()
    }

    /// Runs until all parts have ended, or until one fails for good.
    pub async fn run(self) -> Result<(), SupervisorError> {
        self.drive(pending::<()>(), pending::<()>()).await
    }

    /// Runs until `shutdown` is ready, and drains. It returns earlier if all parts have ended, or if one has failed for
    /// good.
    ///
    /// # Errors
    ///
    /// [`PartFailed`](SupervisorErrorKind::PartFailed) if a part has failed for good, also if it failed during the drain or if other
    /// parts were aborted then. [`DrainTimeout`](SupervisorErrorKind::DrainTimeout) if no part has failed, and parts had not ended
    /// by then and were aborted.
    pub async fn run_until<F: Future>(self, shutdown: F) -> Result<(), SupervisorError> {
        self.drive(shutdown, pending::<()>()).await
    }

    /// Drains when `shutdown` is ready, and aborts the drain when `force` is.
    async fn drive(self, shutdown: impl Future, force: impl Future) -> Result<(), SupervisorError> {
        let (stop, stopped) = watch::channel(false);
        let (stop_last, last_stopped) = watch::channel(false);
        let (abort, aborted) = watch::channel(false);
        let statuses: Vec<_> = self.parts.iter().map(|spec| (Arc::clone(&spec.status), spec.ends_last)).collect();
        // Parts that have not ended, without those that end last.
        let mut others = statuses.iter().filter(|(_, ends_last)| !ends_last).count();
        let mut parts: FuturesUnordered<_> = self
            .parts
            .into_iter()
            .map(|spec| {
                let stopped = if spec.ends_last { &last_stopped } else { &stopped };
                task::supervise(spec, stopped.clone(), aborted.clone())
            })
            .collect();
        let (mut shutdown, mut force) = (pin!(shutdown), pin!(force));
        let mut end = pin!(None);
        let mut failure = None;
        loop {
            let next = poll_fn(|cx| {
                let stops = *stop.borrow();
                if !stops && shutdown.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Next::Shutdown);
                }
                if let Poll::Ready(ended) = parts.poll_next_unpin(cx) {
                    return Poll::Ready(ended.map_or(Next::AllEnded, Next::Ended));
                }
                let is_over = end.as_mut().as_pin_mut().is_some_and(|end| Future::poll(end, cx).is_ready());
                if is_over || stops && force.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Next::Overdue);
                }
                Poll::Pending
            });
            let drains = match next.await {
                Next::AllEnded => return failure.map_or(Ok(()), Err),
                Next::Ended(Outcome { name, error, ends_last }) => {
                    others -= usize::from(!ends_last);
                    let has_failed = error.is_some();
                    failure = failure.or(error.map(|error| SupervisorError::part_failed(name, error)));
                    has_failed && !self.keep_running
                }
                Next::Overdue => {
                    let open = || statuses.iter().filter(|(status, _)| status.is_open());
                    // Those that were told to end.
                    let names: Vec<_> = open()
                        .filter(|(_, ends_last)| !ends_last || others == 0)
                        .map(|(status, _)| status.name())
                        .collect();
                    tracing::warn!(
                        parts = names.join(", "),
                        "parts are aborted: they had not ended at the drain timeout, or at a further signal"
                    );
                    open().for_each(|(status, _)| status.aborted());
                    abort.send_replace(true);
                    // What they hold is given back before the process ends.
                    let _ = timeout(Self::ABORT_TIMEOUT, async { while parts.next().await.is_some() {} }).await;
                    let overdue = SupervisorError::drain_timeout(names.into_iter().map(Into::into).collect());
                    return Err(failure.unwrap_or(overdue));
                }
                Next::Shutdown => true,
            };
            if drains && !stop.send_replace(true) {
                for (status, _) in &statuses {
                    status.drains();
                }
                end.set(Some(sleep(self.drain)));
            }
            if others == 0
                && *stop.borrow()
                && !stop_last.send_replace(true)
                && let Some(end) = end.as_mut().as_pin_mut()
            {
                let least = Instant::now() + Self::ABORT_TIMEOUT;
                let deadline = end.deadline().max(least);
                end.reset(deadline);
            }
        }
    }
}

enum Next {
    Shutdown,
    Ended(Outcome),
    AllEnded,
    /// The drain takes too long.
    Overdue,
}

impl Default for Supervisor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.parts.iter().map(|spec| spec.status.name()).collect();
        f.debug_struct("Supervisor").field("parts", &names).field("drain_timeout", &self.drain).finish_non_exhaustive()
    }
}
