//! Many sessions at once, each by a consumer of its own that handles one message after the other.

mod accepted;
mod accepting;
mod handle;
mod lease;
mod receiver;
mod registry;
mod run;
mod shared;
mod sink;

use std::{fmt, sync::Arc, time::Duration};

use tower::BoxError;
use tower_service::Service;

pub use self::handle::SessionHandle;
use self::sink::Sink;
use super::{ConsumerControl, Health, IntoStack, Stats, Undeliverable, control::Control, log::Log};
use crate::{
    Disposition, Message,
    transport::{
        SessionSource,
        deadline::{self, OPERATION_TIMEOUT},
    },
};

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
/// let queue = Broker::new().create_queue("orders", QueueSettings::default().requires_session(true))?;
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
        let (health, control) = (Health::new(Self::CONCURRENCY, stats.clone()), Control::new(Self::CONCURRENCY));
        control.configure(Self::CONCURRENCY, &health);
        Self {
            source,
            service: stack.into_stack(),
            concurrency: Self::CONCURRENCY,
            idle: Duration::from_secs(1),
            renewal: Duration::from_secs(300),
            drain: Duration::from_secs(30),
            operation: OPERATION_TIMEOUT,
            health,
            control,
            stats,
            undeliverable: None,
            log: Log::new(),
        }
    }

    /// Sets how many sessions are worked on at once: 1 to [`SessionConsumer::MAX_CONCURRENCY`], by default 8. Values
    /// outside are clamped.
    pub fn concurrency(mut self, sessions: usize) -> Self {
        self.concurrency = sessions.clamp(1, Self::MAX_CONCURRENCY);
        self.control.configure(self.concurrency, &self.health);
        self
    }

    /// Sets how long a session without a message is kept: by default 1 s. It is closed earlier, after 20 ms, if all sessions
    /// that are worked on at once are taken and another session has a message. Both are locked until the first one is
    /// closed.
    ///
    /// The first message of a session is awaited for longer: for at least a second before another session can take its place,
    /// and otherwise for at least the [`operation_timeout`](Self::operation_timeout).
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
        ConsumerControl::of(&self.control)
    }

    /// Sets the handle that controls this consumer, in place of its own:
    /// [`Consumer::controlled_by`](super::Consumer::controlled_by).
    pub fn controlled_by(mut self, control: &ConsumerControl) -> Self {
        self.control = control.control().clone();
        self.control.configure(self.concurrency, &self.health);
        self
    }
}

impl<A, S> fmt::Debug for SessionConsumer<A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionConsumer").field("concurrency", &self.concurrency).finish_non_exhaustive()
    }
}
