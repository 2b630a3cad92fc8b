//! Many sessions at once, each by a consumer of its own that handles one message after the other.

mod held;

use std::{
    fmt,
    future::{Future, pending, poll_fn},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::watch, time::Instant};
use tower::BoxError;
use tower_service::Service;

use self::held::Held;
use super::{ConsumeError, ConsumerState, Health, Options, Stats, Undeliverable, health::Failure, run::Run};
use crate::{
    Disposition, Message,
    transport::{ReceiveError, Session, SessionSource},
};

/// An instant that is so far away can be computed still.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Works through sessions: several at once, and the messages of each one after the other, in order.
///
/// It accepts the next session that has a message, handles its messages until there is none for a while, closes it, and
/// accepts another. The locks of sessions are renewed, between messages and while a handler runs. A message that is
/// abandoned comes again before those after it. A session whose lock is lost is given up; whoever accepts it next goes on.
///
/// ```
/// use consign::{
///     Disposition, Message,
///     broker::{Broker, QueueSettings},
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
    stats: Stats,
    health: Health,
    undeliverable: Option<Sink>,
}

type Sink = Arc<Mutex<Box<dyn FnMut(Undeliverable) + Send>>>;

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

    /// A consumer of the sessions that `source` accepts. Each session is handled by a clone of `service`.
    pub fn new(source: A, service: S) -> Self {
        let stats = Stats::default();
        Self {
            source,
            service,
            concurrency: Self::CONCURRENCY,
            idle: Duration::from_secs(1),
            renewal: Duration::from_secs(300),
            drain: Duration::from_secs(30),
            health: Health::new(Self::CONCURRENCY, stats.clone()),
            stats,
            undeliverable: None,
        }
    }

    /// How many sessions are worked on at once: 1 to [`SessionConsumer::MAX_CONCURRENCY`], by default 8. What is outside is
    /// brought inside.
    pub fn concurrency(mut self, sessions: usize) -> Self {
        self.concurrency = sessions.clamp(1, Self::MAX_CONCURRENCY);
        self.health.set_slots(self.concurrency);
        self
    }

    /// How long a session without a message is kept before it is closed for another: by default 1 s.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle = timeout.min(LONGEST);
        self
    }

    /// For how long the lock of a session is renewed while one handler runs: by default five minutes. Zero renews it never,
    /// and then a session is closed when half of its lock has passed.
    pub fn renew_for(mut self, total: Duration) -> Self {
        self.renewal = total;
        self
    }

    /// How long a shutdown waits for handlers that run: by default 30 seconds.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain = timeout;
        self
    }

    /// Where messages go that cannot be dead-lettered: [`Consumer::on_undeliverable`](super::Consumer::on_undeliverable).
    pub fn on_undeliverable(mut self, sink: impl FnMut(Undeliverable) + Send + 'static) -> Self {
        self.undeliverable = Some(Arc::new(Mutex::new(Box::new(sink))));
        self
    }

    /// The counts, of all sessions together, which go on while the consumer runs.
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    /// How it is, also while it runs and after it has ended. A slot is a session, and in use while a handler runs.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Runs until accepting or the stack fails for good.
    pub async fn run(self) -> Result<Stats, ConsumeError> {
        self.run_until(pending::<()>()).await
    }

    /// Runs until `shutdown` is ready, and drains: nothing new is accepted or received, handlers that run have the drain
    /// timeout, and sessions are closed. Dropping the future abandons the messages of its handlers and closes the sessions.
    pub async fn run_until<F: Future>(mut self, shutdown: F) -> Result<Stats, ConsumeError> {
        let (stop, _) = watch::channel(false);
        let mut shutdown = pin!(shutdown);
        let mut accepting = Accepting::default();
        let mut sessions = FuturesUnordered::new();
        let mut failure = None;
        let _ends = Ends(self.health.clone());
        self.health.is(ConsumerState::Running);
        loop {
            let is_full = sessions.len() >= self.concurrency;
            let next = poll_fn(|cx| {
                let stops = *stop.borrow();
                if !stops && shutdown.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Next::Shutdown);
                }
                if let Poll::Ready(Some(ended)) = sessions.poll_next_unpin(cx) {
                    return Poll::Ready(Next::Ended(ended));
                }
                if stops {
                    return if sessions.is_empty() { Poll::Ready(Next::Drained) } else { Poll::Pending };
                }
                if is_full {
                    self.source.stop();
                    return Poll::Pending;
                }
                accepting.poll(&mut self.source, cx).map(Next::Accepted)
            });
            match next.await {
                Next::Drained => return failure.map_or(Ok(self.stats), Err),
                Next::Accepted(Ok(session)) => {
                    self.stats.count_sessions();
                    sessions.push(work(session, self.service.clone(), self.options(), self.idle, stop.subscribe()));
                    continue;
                }
                Next::Ended(Ok(())) => continue,
                Next::Shutdown => {}
                Next::Ended(Err(error)) => failure = failure.or(Some(error)),
                Next::Accepted(Err(error)) => {
                    self.health.failed(Failure::Receive(error.kind()));
                    failure = failure.or(Some(ConsumeError::receive(error)));
                }
            }
            self.health.is(ConsumerState::Draining);
            self.source.stop();
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
            stats: self.stats.clone(),
            health: self.health.of_part(),
            undeliverable: sink
                .map(|sink| Box::new(move |message| sink.lock().unwrap_or_else(PoisonError::into_inner)(message)) as _),
        }
    }
}

/// However it ends.
struct Ends(Health);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.is(ConsumerState::Ended);
    }
}

enum Next<Q> {
    Shutdown,
    Drained,
    Ended(Result<(), ConsumeError>),
    Accepted(Result<Q, ReceiveError>),
}

/// Handles the messages of one session until it stays empty, its lock is lost, or all stop.
async fn work<Q, S>(
    session: Q,
    service: S,
    options: Options,
    idle: Duration,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), ConsumeError>
where
    Q: Session,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    let held = Held::new(session, idle, !options.renewal.is_zero());
    let shared = Arc::clone(held.shared());
    let ends = {
        let shared = Arc::clone(&shared);
        let mut stop = Box::pin(async move { stopped.wait_for(|stopped| *stopped).await.is_ok() });
        poll_fn(move |cx| if shared.is_done() { Poll::Ready(true) } else { stop.as_mut().poll(cx) })
    };
    let ended = Run::new(held, service, options, ends).await;
    if let Some(shared) = Arc::into_inner(shared)
        && let Err(error) = shared.into_session().close().await
        && !error.is_lock_lost()
    {
        tracing::warn!(%error, "a session was not closed");
    }
    match ended {
        Err(error) if !error.is_session_lost() => Err(error),
        _ => Ok(()),
    }
}

/// Accepting, with a pause after a failure that may pass: 100 ms, doubled each time up to 10 s.
#[derive(Default)]
struct Accepting {
    failures: u32,
    pause: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

impl Accepting {
    fn poll<A: SessionSource>(
        &mut self,
        source: &mut A,
        cx: &mut Context<'_>,
    ) -> Poll<Result<A::Session, ReceiveError>> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match std::task::ready!(source.poll_accept(cx)) {
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "accepting a session failed");
                    source.stop();
                    let pause = Duration::from_millis(100 << self.failures.min(7)).min(Duration::from_secs(10));
                    self.failures += 1;
                    self.pause = Some(Box::pin(tokio::time::sleep_until(Instant::now() + pause)));
                }
                accepted => {
                    self.failures = 0;
                    return Poll::Ready(accepted);
                }
            }
        }
    }
}

impl<A, S> fmt::Debug for SessionConsumer<A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionConsumer").field("concurrency", &self.concurrency).finish_non_exhaustive()
    }
}
