//! Pauses a consumer, and changes how many messages it handles at once, while it runs.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
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

/// Controls a consumer, also while it runs: pauses and resumes it, and sets its concurrency. Clones control the same
/// consumer. After the consumer has ended, a call has no effect.
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
pub struct ConsumerControl {
    control: Control,
    health: Health,
}

/// What a consumer is to do. The driver and the handles have it.
#[derive(Clone)]
pub(super) struct Control(Arc<Shared>);

struct Shared {
    is_paused: AtomicBool,
    concurrency: AtomicUsize,
    /// Wakes the driver while it runs.
    driver: Mutex<Option<Arc<WokenSet>>>,
}

impl Control {
    pub(super) fn new(concurrency: usize) -> Self {
        let (is_paused, concurrency) = (AtomicBool::new(false), AtomicUsize::new(concurrency));
        Self(Arc::new(Shared { is_paused, concurrency, driver: Mutex::new(None) }))
    }

    /// Sets the concurrency, and by `show` what the health reports. Of two calls at the same time the later one holds for both.
    pub(super) fn set_concurrency(&self, messages: usize, show: impl FnOnce()) {
        let driver = self.driver();
        self.0.concurrency.store(messages, Ordering::Release);
        show();
        if let Some(driver) = &*driver {
            driver.change();
        }
    }

    fn pause(&self, is_paused: bool) {
        self.0.is_paused.store(is_paused, Ordering::Release);
        if let Some(driver) = &*self.driver() {
            driver.change();
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.0.is_paused.load(Ordering::Acquire)
    }

    pub(super) fn concurrency(&self) -> usize {
        self.0.concurrency.load(Ordering::Acquire)
    }

    fn driver(&self) -> MutexGuard<'_, Option<Arc<WokenSet>>> {
        self.0.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes wake this driver from now on. Those that were made before are applied in its next turn.
    pub(super) fn attach(&self, driver: &Arc<WokenSet>) {
        *self.driver() = Some(Arc::clone(driver));
        driver.change();
    }

    pub(super) fn detach(&self) {
        *self.driver() = None;
    }
}

impl ConsumerControl {
    pub(super) fn new(control: Control, health: Health) -> Self {
        Self { control, health }
    }

    /// Pauses the consumer: it receives nothing until [`resume`](Self::resume). Before it runs, it starts paused.
    pub fn pause(&self) {
        self.control.pause(true);
    }

    /// Resumes a paused consumer.
    pub fn resume(&self) {
        self.control.pause(false);
    }

    /// Whether the consumer is paused, or will be when it is polled next. Handlers may still run:
    /// [`ConsumerSnapshot::in_use`](super::ConsumerSnapshot::in_use).
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.control.is_paused()
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
        self.control.set_concurrency(messages, || {
            if self.health.snapshot().state != ConsumerState::Ended {
                self.health.set_slots(messages);
            }
        });
        Ok(())
    }

    /// Returns how many messages are handled at once, as it was set last.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.control.concurrency()
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
