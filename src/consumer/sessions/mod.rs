//! Many sessions at once, each by a consumer of its own that handles one message after the other.

mod accepted;
mod accepting;
mod handle;
mod lease;
mod receiver;
mod registry;
mod sink;

use std::{
    fmt,
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::watch,
    time::{Sleep, sleep},
};
use tower::BoxError;
use tower_service::Service;

pub use self::handle::{NoSession, SessionHandle};
use self::{
    accepted::{close_surplus, spare, working},
    accepting::Accepting,
    receiver::SessionReceiver,
    sink::Sink,
};
use super::{
    ConsumeError, ConsumerControl, ConsumerState, Health, IntoStack, Stats, Undeliverable,
    control::Control,
    health::ConsumerFailure,
    log::{Log, Receiving},
    options::Options,
    run::ConsumerRun,
    timers::SETTLE_GRACE,
    woken::WokenSet,
};
use crate::{
    Disposition, Message,
    transport::{
        ErrorKind, ReceiveError, Receiver, Session, SessionSource,
        deadline::{self, OPERATION_TIMEOUT, Timed},
    },
};

/// How long a shutdown waits for sessions to close after the last settlement.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// An instant that is so far away can be computed still.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Processes sessions: several concurrently, and the messages of each in order, one at a time.
///
/// It accepts the next session that has a message, handles its messages until there is none for a while, closes it, and
/// accepts another. If all slots are taken, a session without messages is closed as soon as another one can be
/// accepted. The locks of sessions are renewed, between messages and while a handler runs. An abandoned message is
/// redelivered before those after it. A session whose lock is lost is released, and the next consumer that accepts it
/// continues.
///
/// A handler gets the id and the state of its session by a [`SessionHandle`].
///
/// ```
/// use consign::{
///     Disposition, Message,
///     administration::QueueSettings,
///     broker::Broker,
///     consumer::SessionConsumer,
///     transport::Sender,
/// };
/// use tower::{BoxError, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let queue = Broker::new().create_queue("orders", QueueSettings::default().with_sessions(true))?;
/// for body in ["first", "second"] {
///     queue.sender()?.send(Message::builder().session_id("customer-7").build(body)?).await?;
/// }
/// let handler = service_fn(|message: Message| async move {
///     assert_eq!(message.session_id(), Some("customer-7"));
///     Ok::<_, BoxError>(Disposition::Complete)
/// });
/// let consumer = SessionConsumer::new(queue.session_acceptor()?, handler).concurrency(4);
/// let stats = consumer.stats();
/// let empty = async move {
///     while stats.completed() < 2 {
///         tokio::task::yield_now().await;
///     }
/// };
/// let stats = consumer.run_until(empty).await?;
/// assert_eq!((stats.sessions(), stats.completed()), (1, 2));
/// # Ok(())
/// # }
/// ```
#[must_use = "a consumer does nothing until it is run"]
pub struct SessionConsumer<A, S> {
    source: A,
    service: S,
    concurrency: usize,
    idle: Duration,
    renewal: Duration,
    drain: Duration,
    operation: Duration,
    stats: Stats,
    health: Health,
    control: Control,
    undeliverable: Option<Arc<Sink>>,
    log: Log,
}

impl<A, S> SessionConsumer<A, S>
where
    A: SessionSource,
    S: Service<Message, Response = Disposition> + Clone,
    S::Error: Into<BoxError>,
{
    /// Sessions at once, by default.
    pub const CONCURRENCY: usize = 8;
    /// Most sessions at once.
    pub const MAX_CONCURRENCY: usize = 4_096;

    /// A consumer of the sessions that `source` accepts. Each session is handled by a clone of `stack`: a router, another
    /// service of messages, or an `async fn(Message) -> Disposition`.
    pub fn new<T, K>(source: A, stack: T) -> Self
    where
        T: IntoStack<K, Stack = S>,
    {
        let stats = Stats::default();
        Self {
            source,
            service: stack.into_stack(),
            concurrency: Self::CONCURRENCY,
            idle: Duration::from_secs(1),
            renewal: Duration::from_secs(300),
            drain: Duration::from_secs(30),
            operation: OPERATION_TIMEOUT,
            health: Health::new(Self::CONCURRENCY, stats.clone()),
            control: Control::new(Self::CONCURRENCY),
            stats,
            undeliverable: None,
            log: Log::new(),
        }
    }

    /// Sets how many sessions are worked on at once: 1 to [`SessionConsumer::MAX_CONCURRENCY`], by default 8. Values
    /// outside are clamped.
    pub fn concurrency(mut self, sessions: usize) -> Self {
        self.concurrency = sessions.clamp(1, Self::MAX_CONCURRENCY);
        self.health.set_slots(self.concurrency);
        self.control.set_concurrency(self.concurrency);
        self
    }

    /// Sets how long a session without a message is kept: by default 1 s. It is closed earlier, after 20 ms, if all sessions
    /// that are worked on at once are taken and another session has a message. Both are locked until the first one is
    /// closed.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle = timeout.min(LONGEST);
        self
    }

    /// Sets for how long the lock of a session is renewed while one handler runs: by default five minutes. Zero renews it
    /// never, and then a session is closed when half of its lock has passed.
    pub fn renew_for(mut self, total: Duration) -> Self {
        self.renewal = total;
        self
    }

    /// Sets how long a shutdown waits for handlers that run: by default 30 seconds. The shutdown ends at most 2 seconds
    /// later: 1 second for settlements, and 1 second to close the sessions.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain = timeout;
        self
    }

    /// Sets how long the transport may take to answer a settlement, a release, a renewal or the close of a session: by
    /// default 60 seconds, at least a millisecond and at most a year. A session whose lock is not renewed by then, or
    /// before it ends, is released, and the next one is accepted.
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation = deadline::clamped(timeout);
        self
    }

    /// Sets the name of the entity in log lines: [`Consumer::entity`](super::Consumer::entity).
    pub fn entity(mut self, name: &str) -> Self {
        self.log.set_entity(name);
        self
    }

    /// Sets where messages go that cannot be dead-lettered:
    /// [`Consumer::on_undeliverable`](super::Consumer::on_undeliverable).
    pub fn on_undeliverable(mut self, sink: impl FnMut(Undeliverable) + Send + 'static) -> Self {
        self.undeliverable = Some(Arc::new(Sink::new(sink)));
        self
    }

    /// Returns the counts, of all sessions together, which go on while the consumer runs.
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    /// Returns a live health handle, valid while the consumer runs and after it has ended. A slot is a session,
    /// and in use while a handler runs.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Returns a handle that pauses and resumes the consumer, and changes how many sessions it works on, also while it runs.
    pub fn control(&self) -> ConsumerControl {
        ConsumerControl::new(self.control.clone(), self.health.clone())
    }

    /// Runs until accepting or the stack fails for good.
    pub async fn run(self) -> Result<Stats, ConsumeError> {
        self.run_until(pending::<()>()).await
    }

    /// Runs until `shutdown` is ready, and drains: nothing new is accepted or received, handlers that run have the
    /// drain timeout, and sessions are closed. It ends within the drain timeout plus 2 seconds, see
    /// [`drain_timeout`](Self::drain_timeout); a session that is not closed by then is dropped. Dropping the future
    /// abandons the messages of its handlers and closes the sessions.
    pub async fn run_until<F: Future>(mut self, shutdown: F) -> Result<Stats, ConsumeError> {
        let (stop, _) = watch::channel(false);
        let mut shutdown = pin!(shutdown);
        let mut accepting = Accepting::default();
        let mut sessions = FuturesUnordered::new();
        let spares = Arc::new(AtomicUsize::new(0));
        let mut accepted: Vec<Weak<receiver::Shared<A::Session>>> = Vec::new();
        let mut failure = None;
        let mut end = pin!(None);
        self.log.learn(&self.source.entity_info());
        let driver = WokenSet::new(1);
        self.control.attach(&driver);
        let _ends = Ends(self.health.clone(), self.control.clone(), self.log.to_finish());
        loop {
            accepted.retain(|shared| shared.strong_count() > 0);
            let (is_paused, concurrency) = (self.control.is_paused(), self.control.concurrency());
            if !*stop.borrow() {
                self.health.is(if is_paused { ConsumerState::Paused } else { ConsumerState::Running });
                close_surplus(&accepted, if is_paused { 0 } else { concurrency });
            }
            let is_full = sessions.len() >= concurrency;
            let is_over = is_paused || is_full && working(&accepted) > concurrency;
            let next = poll_fn(|cx| {
                driver.register(cx.waker());
                if driver.take_changed() {
                    return Poll::Ready(Next::Changed);
                }
                let stops = *stop.borrow();
                if !stops && shutdown.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Next::Shutdown);
                }
                if let Poll::Ready(Some(ended)) = sessions.poll_next_unpin(cx) {
                    return Poll::Ready(Next::Ended(ended));
                }
                if stops && sessions.is_empty() {
                    return Poll::Ready(Next::Drained);
                }
                if stops {
                    let end = end.as_mut().as_pin_mut();
                    return end.map_or(Poll::Pending, |end: Pin<&mut Sleep>| end.poll(cx).map(|()| Next::Overdue));
                }
                if is_over || is_full && spares.load(Ordering::Relaxed) == 0 {
                    self.source.stop();
                    return Poll::Pending;
                }
                accepting.poll(&mut self.source, &mut self.log, cx).map(Next::Accepted)
            });
            match next.await {
                Next::Drained => return failure.map_or(Ok(self.stats), Err),
                Next::Overdue => {
                    tracing::warn!(
                        sessions = sessions.len(),
                        "sessions were not closed before the shutdown ended: they are free when their locks end"
                    );
                    for _ in 0..sessions.len() {
                        self.stats.count_timed_out();
                    }
                    self.health.failed(ConsumerFailure::Close(ErrorKind::ServiceTimeout));
                    return failure.map_or(Ok(self.stats), Err);
                }
                Next::Accepted(Ok(session)) => {
                    if is_full && let Some(spare) = spare(&accepted) {
                        spare.retire();
                    }
                    self.stats.count_sessions();
                    let options = self.options();
                    let session = SessionReceiver::new(session, self.idle, &options, Arc::clone(&spares));
                    accepted.push(Arc::downgrade(session.shared()));
                    sessions.push(work(session, self.service.clone(), options, stop.subscribe()));
                    continue;
                }
                Next::Changed | Next::Ended(Ok(())) => continue,
                Next::Shutdown => {}
                Next::Ended(Err(error)) => failure = failure.or(Some(error)),
                Next::Accepted(Err(error)) => {
                    self.health.failed(ConsumerFailure::Receive(error.kind()));
                    self.log.receive_failed(&self.source.entity_info(), Receiving::Sessions, &error, None);
                    failure = failure.or(Some(ConsumeError::receive(error)));
                }
            }
            self.health.is(ConsumerState::Draining);
            self.source.stop();
            if end.is_none() {
                end.set(Some(sleep(self.drain.saturating_add(SETTLE_GRACE + CLOSE_GRACE))));
            }
            stop.send_replace(true);
        }
    }

    /// One session's share.
    fn options(&self) -> Options {
        let sink = self.undeliverable.clone();
        Options {
            concurrency: 1,
            prefetch: 0,
            renewal: self.renewal,
            drain: self.drain,
            // The messages behind one of a session do not pass it.
            max_held: 0,
            operation: self.operation,
            stats: self.stats.clone(),
            health: self.health.of_part(),
            control: Control::new(1),
            log: self.log.of_part(),
            undeliverable: sink.map(|sink| Box::new(move |message| sink.call(message)) as _),
        }
    }
}

/// However it ends.
struct Ends(Health, Control, Log);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.is(ConsumerState::Ended);
        self.1.detach();
        self.2.end();
    }
}

enum Next<Q> {
    /// A control handle has changed something.
    Changed,
    Shutdown,
    Drained,
    /// A session is not closed.
    Overdue,
    Ended(Result<(), ConsumeError>),
    Accepted(Result<Q, ReceiveError>),
}

/// Handles the messages of one session until it stays empty, its lock is lost, or all stop.
async fn work<Q, S>(
    session: SessionReceiver<Q>,
    service: S,
    options: Options,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), ConsumeError>
where
    Q: Session,
    S: Service<Message, Response = Disposition> + Clone,
    S::Error: Into<BoxError>,
{
    let (operation, stats, health) = (options.operation, options.stats.clone(), options.health.clone());
    let (mut log, info) = (options.log.of_part(), session.entity_info());
    let shared = Arc::clone(session.shared());
    let ends = {
        let shared = Arc::clone(&shared);
        let mut stop = Box::pin(async move { stopped.wait_for(|stopped| *stopped).await.is_ok() });
        poll_fn(move |cx| if shared.is_done() { Poll::Ready(true) } else { stop.as_mut().poll(cx) })
    };
    let ended = ConsumerRun::new(session, service, Some(S::clone), options, ends).await;
    if let Some(shared) = Arc::into_inner(shared) {
        let closed = Timed::new(shared.into_session().close(), operation).await.unwrap_or_else(|unanswered| {
            stats.count_timed_out();
            Err(unanswered.into())
        });
        if let Err(error) = closed
            && !error.is_lock_lost()
        {
            log.session_not_closed(&info, &error);
            health.failed(ConsumerFailure::Close(error.kind()));
        }
    }
    match ended {
        Err(error) if !error.is_session_lost() => Err(error),
        _ => Ok(()),
    }
}

impl<A, S> fmt::Debug for SessionConsumer<A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionConsumer").field("concurrency", &self.concurrency).finish_non_exhaustive()
    }
}
