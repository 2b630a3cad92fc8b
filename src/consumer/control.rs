//! Pauses a consumer, and changes how many messages it handles at once, while it runs.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use super::{
    health::{ConsumerState, Health},
    woken::WokenSet,
};
use crate::{BuildError, BuildErrorKind};

/// Messages that a consumer handles at once, at most.
pub(super) const MAX_CONCURRENCY: usize = 4_096;
/// The same, by default.
pub(super) const CONCURRENCY: usize = 16;

/// Controls a consumer, also while it runs: pauses and resumes it, and sets its concurrency. Clones control the same
/// consumer. After the consumer has ended, a call has no effect on it.
///
/// The handle of [`Consumer::control`](super::Consumer::control) belongs to that consumer. One that is made by
/// [`new`](Self::new) controls each consumer that it is given to, such as those that a
/// [`Supervisor`](crate::supervisor::Supervisor) makes at each restart:
/// [`Consumer::controlled_by`](super::Consumer::controlled_by). A pause and the concurrency that was set hold for all that run,
/// and for those that start later.
///
/// - A paused consumer receives nothing. Handlers that run continue, their locks are renewed, and their messages are
///   settled. Messages that no handler has got are released without counting a delivery: the consumer does this when it is
///   polled next, so at once, and the transport has up to the [operation timeout](super::Consumer::operation_timeout) to
///   confirm it. Messages that were received and deleted exist nowhere else, so they wait in the consumer. A shutdown of a
///   paused consumer drains as always.
/// - A higher concurrency takes effect at once. A lower one never cancels a handler: the consumer receives again when fewer
///   handlers run than that.
/// - A [`SessionConsumer`](super::SessionConsumer) that is paused accepts no session. It closes each session that it has when
///   the running handler of that has ended; a message that it keeps for a delay is abandoned first, when the delay is over. A
///   lower concurrency closes as many sessions in the same way, first those without messages.
///
/// # Examples
///
/// ```
/// use consign::{
///     Disposition, Message,
///     administration::QueueSettings,
///     broker::Broker,
///     consumer::{Consumer, ConsumerState},
///     transport::Sender,
/// };
///
/// async fn handle(_: Message) -> Disposition {
///     Disposition::Complete
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tower::BoxError> {
/// let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
/// let consumer = Consumer::new(queue.receiver(), handle).concurrency(4);
/// let (control, health) = (consumer.control(), consumer.health());
/// tokio::spawn(consumer.run());
///
/// control.pause();
/// tokio::task::yield_now().await;
/// queue.sender()?.send(Message::new("one order")).await?;
/// tokio::task::yield_now().await;
/// assert_eq!((health.snapshot().state, health.snapshot().handled), (ConsumerState::Paused, 0));
///
/// control.set_concurrency(64)?;
/// control.resume();
/// while health.snapshot().completed < 1 {
///     tokio::task::yield_now().await;
/// }
/// assert_eq!(health.snapshot().slots, 64);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ConsumerControl(Control);

/// What a consumer is to do. The driver and the handles have it.
#[derive(Clone)]
pub(super) struct Control(Arc<Shared>);

struct Shared {
    is_paused: AtomicBool,
    /// What a handle has set. 0 before that.
    set: AtomicUsize,
    /// What the consumer has that started last. In the control of one consumer, also before it starts.
    own: AtomicUsize,
    /// Whether it was created for one consumer.
    is_of_one: bool,
    controlled: Mutex<Controlled>,
}

/// The consumers that are controlled.
#[derive(Default)]
struct Controlled {
    /// Wakes each driver that runs, and has the health that it reports.
    running: Vec<(Weak<WokenSet>, Health)>,
    /// That of the one consumer, also before it runs.
    health: Option<Health>,
}

impl Control {
    /// The control of one consumer.
    pub(super) fn new(concurrency: usize) -> Self {
        Self::with(concurrency, true)
    }

    fn with(concurrency: usize, is_of_one: bool) -> Self {
        let (is_paused, set, own) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(concurrency));
        Self(Arc::new(Shared { is_paused, set, own, is_of_one, controlled: Mutex::default() }))
    }

    /// A builder has this concurrency. A handle that others may have takes it when the consumer starts.
    pub(super) fn configure(&self, own: usize, health: &Health) {
        if self.0.is_of_one {
            self.0.own.store(own, Ordering::Release);
            self.controlled().health = Some(health.clone());
        }
        health.set_slots(self.concurrency_of(own));
    }

    /// Changes wake this driver from now on. Those that were made before are applied in its next turn.
    pub(super) fn attach(&self, driver: &Arc<WokenSet>, own: usize, health: &Health) {
        let mut controlled = self.controlled();
        // The control of one consumer has its concurrency already, and a session of a consumer of sessions shows none.
        if !self.0.is_of_one {
            self.0.own.store(own, Ordering::Release);
            health.set_slots(self.concurrency_of(own));
        }
        controlled.running.retain(|(running, _)| running.strong_count() > 0);
        controlled.running.push((Arc::downgrade(driver), health.clone()));
        driver.change();
    }

    /// The driver has ended.
    pub(super) fn detach(&self, driver: &Arc<WokenSet>) {
        self.controlled().running.retain(|(running, _)| !std::ptr::eq(running.as_ptr(), Arc::as_ptr(driver)));
    }

    /// Sets the concurrency, and what the health reports. Of two calls at the same time the later one holds for both.
    fn set_concurrency(&self, messages: usize) {
        let controlled = self.controlled();
        self.0.set.store(messages, Ordering::Release);
        for health in controlled.running.iter().map(|(_, health)| health).chain(&controlled.health) {
            if health.snapshot().state != ConsumerState::Ended {
                health.set_slots(messages);
            }
        }
        controlled.change();
    }

    fn pause(&self, is_paused: bool) {
        self.0.is_paused.store(is_paused, Ordering::Release);
        self.controlled().change();
    }

    pub(super) fn is_paused(&self) -> bool {
        self.0.is_paused.load(Ordering::Acquire)
    }

    /// What a handle has set, or else what the consumer has.
    pub(super) fn concurrency_of(&self, own: usize) -> usize {
        match self.0.set.load(Ordering::Acquire) {
            0 => own,
            set => set,
        }
    }

    fn controlled(&self) -> MutexGuard<'_, Controlled> {
        self.0.controlled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controlled {
    /// Has each driver look at what was changed.
    fn change(&self) {
        for driver in self.running.iter().filter_map(|(driver, _)| driver.upgrade()) {
            driver.change();
        }
    }
}

impl ConsumerControl {
    /// Creates a handle that controls no consumer yet: see [`Consumer::controlled_by`](super::Consumer::controlled_by).
    #[must_use]
    pub fn new() -> Self {
        Self(Control::with(CONCURRENCY, false))
    }

    pub(super) fn of(control: &Control) -> Self {
        Self(control.clone())
    }

    pub(super) fn control(&self) -> &Control {
        &self.0
    }

    /// Pauses the consumer: it receives nothing until [`resume`](Self::resume). Before it runs, it starts paused.
    pub fn pause(&self) {
        self.0.pause(true);
    }

    /// Resumes a paused consumer.
    pub fn resume(&self) {
        self.0.pause(false);
    }

    /// Whether the consumer is paused, or will be when it is polled next. Handlers may still run:
    /// [`ConsumerSnapshot::in_use`](super::ConsumerSnapshot::in_use).
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.0.is_paused()
    }

    /// Sets how many messages are handled at once: 1 to
    /// [`Settings::MAX_CONCURRENCY`](super::Settings::MAX_CONCURRENCY).
    ///
    /// # Errors
    ///
    /// [`NoConcurrency`](crate::BuildErrorKind::NoConcurrency) for 0, and
    /// [`TooMuchConcurrency`](crate::BuildErrorKind::TooMuchConcurrency) for more than the maximum. Then nothing
    /// changes.
    pub fn set_concurrency(&self, messages: usize) -> Result<(), BuildError> {
        check_concurrency(messages)?;
        self.0.set_concurrency(messages);
        Ok(())
    }

    /// Returns how many messages are handled at once, as it was set last: by the handle, or else by the consumer.
    /// Of several consumers it is that of the one that has started last. Before one has started it is 16, the default of a
    /// [`Consumer`](super::Consumer); a handle of [`Consumer::control`](super::Consumer::control) has that of its consumer
    /// at once.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.0.concurrency_of(self.0.0.own.load(Ordering::Acquire))
    }
}

impl Default for ConsumerControl {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ConsumerControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerControl")
            .field("is_paused", &self.is_paused())
            .field("concurrency", &self.concurrency())
            .finish_non_exhaustive()
    }
}

/// Checks how many messages are handled at once.
pub(super) fn check_concurrency(concurrency: usize) -> Result<(), BuildError> {
    let max = MAX_CONCURRENCY;
    let (kind, advice) = if concurrency == 0 {
        (BuildErrorKind::NoConcurrency, "the consumer handles 0 messages at once: set at least 1".to_owned())
    } else if concurrency > max {
        let advice = format!("the consumer handles {concurrency} messages at once: set at most {max}, and run several");
        (BuildErrorKind::TooMuchConcurrency, advice)
    } else {
        return Ok(());
    };
    Err(BuildError::new(kind, advice))
}
