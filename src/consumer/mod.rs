//! The receive loop of an application: a consumer receives, calls a stack, settles by the disposition, renews locks while
//! handlers run, and drains.
//!
//! ```
//! use consign::{
//!     Disposition, Message,
//!     administration::QueueSettings,
//!     broker::Broker,
//!     consumer::Consumer,
//!     transport::Sender,
//! };
//! use tower::BoxError;
//!
//! async fn handle(message: Message) -> Disposition {
//!     assert_eq!(message.payload(), Some(&b"one order"[..]));
//!     Disposition::Complete
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
//! queue.sender()?.send(Message::new("one order")).await?;
//!
//! let consumer = Consumer::new(queue.receiver(), handle).concurrency(16);
//! let stats = consumer.stats();
//! let handled = async move {
//!     while stats.completed() < 1 {
//!         tokio::task::yield_now().await;
//!     }
//! };
//! let stats = consumer.run_until(handled).await?;
//! assert_eq!(stats.completed(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - It receives at most as many messages as it has free slots, so the lock of a message starts when a slot is free for it.
//! - The stack is made ready only when a message has arrived, and that instance is called at once.
//! - Only the consumer settles. A call that returns an error, panics, or is dropped abandons its message: that is one
//!   failed delivery, and the consumer continues. An error that is an [`Undecodable`](crate::settlement::Undecodable)
//!   dead-letters the message, because no later delivery can be decoded.
//! - A message is settled when its handler has ended. Most transports complete several messages
//!   [in one step](crate::transport::Lease::complete_all). With such a transport, and handlers that take less than a
//!   millisecond each, the messages of one batch are completed together. That happens before the consumer receives again,
//!   polls a pending handler, or waits.
//! - A settlement is counted when the broker has confirmed it. A broker on a disk confirms when it has written. Messages
//!   that are completed together do not wait for that in their slots, until 1,024 of them are unconfirmed. The end of the
//!   consumer waits for all.
//! - A message whose id another consumer is handling takes no slot: see [`Consumer::max_held`].
//! - A lock is renewed if its handler is still running at half of the lock, for five minutes in total. If the lock is lost
//!   nevertheless, the handler's future is dropped, and the message is redelivered.
//! - On shutdown it stops receiving and releases messages that no handler has got, without counting a delivery. It waits
//!   until [the receiver](crate::transport::Receiver::poll_stopped) has released what it had locked ahead, and
//!   for handlers up to the drain timeout, then drops the others and abandons their messages. A shutdown ends within the
//!   drain timeout plus 1 second for those settlements, that of a [`SessionConsumer`] within the drain timeout plus 2
//!   seconds, because it also closes sessions. After the end all settlements are confirmed: a broker on a disk has written
//!   them, and can be [closed](crate::broker::Broker::close).
//! - An operation that the transport does not answer within the [operation timeout](Consumer::operation_timeout) fails as
//!   [`ServiceTimeout`](crate::transport::ErrorKind::ServiceTimeout): [`Health`] shows it, [`Stats::timed_out`] counts it,
//!   and a warning is logged. Only a receive, and the acceptance of the next session, wait without a deadline.
//! - The consumer holds a resource of the stack, such as a permit of a concurrency limit, only while it holds a message.
//!   When it has released its last message and the stack is not ready yet, it replaces the stack by a clone.
//! - A dead letter is cut to the limits of the broker before it is sent.
//!
//! - A [`ConsumerControl`] pauses and resumes a consumer, and changes its concurrency, while it runs.
//!
//! All handlers of one consumer run in its task. To use more cores, run each handler in a task of its own by a
//! [`SpawnLayer`](crate::middleware::spawn), or run several consumers, each with a receiver of its own, under a
//! [`Supervisor`](crate::supervisor). To handle messages of one key one after the other, use a
//! [`PartitionLayer`](crate::middleware::partition).

mod apply_control;
mod buffered_receiver;
mod cause;
mod completion_batch;
mod control;
mod dead;
mod deadline;
mod dispatch;
mod drain;
mod error;
mod failed_again;
mod health;
mod held;
mod hold;
mod into_stack;
mod log;
mod options;
mod pace;
mod renewal;
mod report;
mod run;
mod sessions;
mod settings;
mod settle;
mod settlements;
mod slot;
mod slots;
mod stack;
mod stats;
mod timers;
mod turn;
mod undeliverable;
mod woken;

use std::{
    fmt,
    future::{Future, Pending, pending},
    time::Duration,
};

use tower::BoxError;
use tower_service::Service;

use self::options::Options;
pub use self::{
    control::ConsumerControl,
    error::ConsumeError,
    health::{ConsumerFailure, ConsumerSnapshot, ConsumerState, Health},
    into_stack::IntoStack,
    run::ConsumerRun,
    sessions::{SessionConsumer, SessionHandle},
    settings::Settings,
    stats::Stats,
    undeliverable::Undeliverable,
};
use crate::{
    Disposition, Message,
    transport::{Receiver, deadline as operation},
};

/// Receives messages and settles them by what a stack answers. It does nothing until it is run.
#[must_use = "a consumer does nothing until it is run"]
pub struct Consumer<R, S> {
    receiver: R,
    service: S,
    clone_service: Option<fn(&S) -> S>,
    options: Options,
}

impl<R, S> Consumer<R, S>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    /// Handlers at once, by default.
    pub const CONCURRENCY: usize = control::CONCURRENCY;
    /// Most handlers at once.
    pub const MAX_CONCURRENCY: usize = 4_096;

    /// Creates a consumer of the messages of `receiver`, handled by `stack`: a router, another service of messages, or an
    /// `async fn(Message) -> Disposition`. A clone of the service takes over when the consumer has to release a place that
    /// it holds in it.
    pub fn new<T, K>(receiver: R, stack: T) -> Self
    where
        T: IntoStack<K, Stack = S>,
        S: Clone,
    {
        Self { clone_service: Some(S::clone), ..Self::without_clone(receiver, stack.into_stack()) }
    }

    /// A consumer whose `service` is not [`Clone`], such as tower's `RateLimit`. It cannot give up a place that it
    /// holds in the service. If it releases its messages while the service is not ready, it may keep a permit of a
    /// shared limit, or its turn to get one, until it receives again.
    pub fn without_clone(receiver: R, service: S) -> Self {
        Self { receiver, service, clone_service: None, options: Settings::new().options() }
    }

    /// Sets how many messages are handled at once: 1 to [`Consumer::MAX_CONCURRENCY`], by default 16. Values outside
    /// are clamped.
    pub fn concurrency(mut self, messages: usize) -> Self {
        self.options.set_concurrency(messages.clamp(1, Self::MAX_CONCURRENCY));
        self
    }

    /// Sets how many messages are locked ahead of the handlers: by default none. Their locks run while they wait. One
    /// that has used up half of its lock is released, without a count; one that has lost it is dropped.
    pub fn prefetch(mut self, messages: usize) -> Self {
        self.options.prefetch = messages.min(Self::MAX_CONCURRENCY);
        self
    }

    /// Sets for how long locks are renewed while a handler runs: by default five minutes. Zero renews never. A message that
    /// the consumer keeps for a [delay](crate::settlement::Changes::after) is then abandoned after half of its lock.
    pub fn renew_for(mut self, total: Duration) -> Self {
        self.options.renewal = total;
        self
    }

    /// Sets how long a shutdown waits for handlers that run: by default 30 seconds. The shutdown ends at most 1 second
    /// later: so long it waits for settlements.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.options.drain = timeout;
        self
    }

    /// Sets how many messages are held outside of the slots, by default 256: messages whose id another consumer is
    /// handling, as [`DedupLayer`](crate::middleware::dedup::DedupLayer) finds out, and those that wait for the delay
    /// of an [abandon](Disposition::abandon_after) where the transport has none. Unless
    /// [`renew_for`](Self::renew_for) is zero, their locks are renewed. They are dispatched to the stack again when something may
    /// have changed, and waiting does not count as a delivery. One message more is released for a few seconds, without a count, where the transport can do that
    /// ([`Lease::release_after`](crate::transport::Lease::release_after)); else it waits in its slot. With 0 the layer
    /// waits in the slot.
    pub fn max_held(mut self, messages: usize) -> Self {
        self.options.max_held = messages;
        self
    }

    /// Sets how long the transport may take to answer a settlement, a release or a renewal: by default 60 seconds, at
    /// least a millisecond and at most a year. An operation without an answer by then has failed as
    /// [`ServiceTimeout`](crate::transport::ErrorKind::ServiceTimeout), and the consumer goes on. A settlement is given
    /// up after the lock duration of its message, if that is shorter.
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.options.operation = operation::clamped(timeout);
        self
    }

    /// Sets the name of the entity in log lines, for a receiver that does not have it: see
    /// [`Receiver::entity_info`].
    pub fn entity(mut self, name: &str) -> Self {
        self.options.log.set_entity(name);
        self
    }

    /// Sets where messages go that cannot be dead-lettered. One that was received and deleted exists nowhere else, so one that
    /// no handler has finished when the consumer ends, or is dropped, comes here too. One that is a dead letter already comes
    /// here once, and stays in the dead-letter queue: it is deferred, so that it does not stand before the others, or where
    /// the receiver does not report [`Deferral`](crate::transport::Capability::Deferral) it is redelivered after a delay. A
    /// panic of `sink` is caught.
    ///
    /// A dead letter that is abandoned is redelivered after a delay on every transport, because no broker counts deliveries in
    /// a dead-letter queue: after 1 second the first time, and after twice as long each further time, up to a minute. Where
    /// the transport has no delay for it, the consumer [holds](Self::max_held) it. The consumer remembers the last 4,096 dead
    /// letters that failed, each for an hour; one that it has forgotten begins anew. Dead letters without a
    /// sequence number count as one if they have the same MessageId, body, ContentType, Subject and CorrelationId. With
    /// [renewals](Self::renew_for) off, a held delay ends after half of the lock duration.
    pub fn on_undeliverable(mut self, sink: impl FnMut(Undeliverable) + Send + 'static) -> Self {
        self.options.undeliverable = Some(Box::new(sink));
        self
    }

    /// Returns the counts, which go on while the consumer runs.
    pub fn stats(&self) -> Stats {
        self.options.stats.clone()
    }

    /// Returns a live health handle, valid while the consumer runs and after it has ended: slots, state, last
    /// failure.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// # use consign::{Disposition, Message, administration::QueueSettings, broker::Broker};
    /// use consign::consumer::{Consumer, ConsumerState};
    ///
    /// # let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
    /// # let handler = tower::service_fn(async |_: Message| Ok::<_, tower::BoxError>(Disposition::Complete));
    /// let consumer = Consumer::new(queue.receiver(), handler).concurrency(8);
    /// let health = consumer.health();
    /// assert_eq!((health.snapshot().state, health.snapshot().slots), (ConsumerState::New, 8));
    /// drop(consumer.run());
    /// assert_eq!(health.snapshot().state, ConsumerState::Ended);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn health(&self) -> Health {
        self.options.health.clone()
    }

    /// Returns a handle that pauses and resumes the consumer, and changes its concurrency, also while it runs.
    pub fn control(&self) -> ConsumerControl {
        ConsumerControl::of(&self.options.control)
    }

    /// Sets the handle that controls this consumer, in place of its own. The consumer starts paused if the handle is
    /// paused, and with the concurrency that was [set by the handle](ConsumerControl::set_concurrency), if one was. So a pause
    /// outlives the consumer: give the same handle to each consumer that a [`Supervisor`](crate::supervisor::Supervisor) makes.
    /// A handle controls all consumers that have it, also while several of them run.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// # use consign::{Disposition, Message, administration::QueueSettings, broker::Broker};
    /// use consign::{
    ///     consumer::{Consumer, ConsumerControl},
    ///     supervisor::Supervisor,
    /// };
    ///
    /// # let orders = Broker::new().create_queue("orders", QueueSettings::default())?;
    /// # async fn handle(_: Message) -> Disposition { Disposition::Complete }
    /// let control = ConsumerControl::new();
    /// let of_orders = control.clone();
    /// let supervisor = Supervisor::new()
    ///     .consumer("orders", move || Consumer::new(orders.receiver(), handle).controlled_by(&of_orders));
    ///
    /// control.pause(); // until `control.resume()`, also if the consumer is restarted in between
    /// # drop(supervisor);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn controlled_by(mut self, control: &ConsumerControl) -> Self {
        self.options.set_control(control.control());
        self
    }

    /// Runs until the receiver or the stack fails for good.
    pub fn run(self) -> ConsumerRun<R, S, Pending<()>> {
        self.run_until(pending())
    }

    /// Runs until `shutdown` is ready, and drains.
    pub fn run_until<F: Future>(self, shutdown: F) -> ConsumerRun<R, S, F> {
        ConsumerRun::new(self.receiver, self.service, self.clone_service, self.options, shutdown)
    }
}

impl<R, S> fmt::Debug for Consumer<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("concurrency", &self.options.concurrency)
            .field("prefetch", &self.options.prefetch)
            .finish_non_exhaustive()
    }
}
