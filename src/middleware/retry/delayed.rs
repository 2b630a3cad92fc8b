use std::{
    fmt,
    future::{Future, Ready},
    sync::Arc,
    time::Duration,
};

use super::{
    Backoff, RetryHistory,
    backoff::Random,
    counts::RetryCounts,
    failure::{Cause, HandlerFailure},
    log,
};
use crate::{
    Message,
    message::{Properties, Received, random_id::random_id},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock, Timestamp},
    transport::{
        Capability, Level, SendError, Sender, Unsupported,
        deadline::{self, OPERATION_TIMEOUT},
        log_limit,
    },
};

/// The policy for a failed delivery: none, or [`DelayPolicy`].
#[doc(hidden)]
pub trait Later: sealed::Sealed {
    /// The future of the send of a copy.
    type Send: Future<Output = Result<(), SendError>>;

    #[doc(hidden)]
    fn after(&self, message: &Message, failure: &HandlerFailure, counts: &RetryCounts) -> Plan<Self::Send>;

    /// Returns what a description shows, as pairs of a name and a value.
    #[doc(hidden)]
    fn settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

mod sealed {
    pub trait Sealed {}
}

/// The plan for a message whose delivery has failed.
#[doc(hidden)]
#[derive(Debug)]
pub enum Plan<F> {
    /// The failure is passed on.
    PassOn,
    /// A copy is sent, which may take `timeout`. If it is not accepted, the message is abandoned after the delay.
    Send { send: F, delay: Duration, timeout: Duration },
    /// The message is abandoned so that it is delivered again after the delay.
    Delay(Changes, Duration),
    /// It was the last delivery.
    GiveUp(Box<DeadLetter>),
}

/// No later delivery: the failure is passed on.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDelay;

impl sealed::Sealed for NoDelay {}

impl Later for NoDelay {
    type Send = Ready<Result<(), SendError>>;

    fn after(&self, _: &Message, _: &HandlerFailure, _: &RetryCounts) -> Plan<Self::Send> {
        Plan::PassOn
    }
}

/// Later deliveries: by the transport where it delays messages itself, else each by a copy of the message that is sent with a
/// `ScheduledEnqueueTime`.
pub struct DelayPolicy<X> {
    sender: X,
    by: By,
    backoff: Backoff,
    deliveries: u32,
    max_age: Duration,
    operation: Duration,
    random: Random,
    clock: Arc<dyn Clock>,
}

impl<X: Sender> DelayPolicy<X> {
    /// Deliveries unless set, the first one included.
    pub const DELIVERIES: u32 = 10;

    /// Delays messages by `backoff`: by the transport if it [delays](Capability::DelayedRetry) natively, else by scheduled
    /// copies. `sender` is that of the queue that the messages are received from.
    ///
    /// # Errors
    ///
    /// [`Unsupported`], if the transport of `sender` can do neither: [`Sender::capabilities`].
    pub fn new(sender: X, backoff: Backoff) -> Result<Self, Unsupported> {
        let capabilities = sender.capabilities();
        let by = if capabilities.level(Capability::DelayedRetry) == Level::Native {
            By::Transport
        } else if capabilities.supports(Capability::Scheduling) {
            By::Copies
        } else {
            return Err(Unsupported::new(Capability::DelayedRetry));
        };
        let clock = sender.clock().unwrap_or_else(|| Arc::new(SystemClock::new()));
        Ok(Self {
            sender,
            by,
            backoff,
            deliveries: Self::DELIVERIES,
            max_age: Duration::MAX,
            operation: OPERATION_TIMEOUT,
            random: Random::new(),
            clock,
        })
    }
}

/// What delays a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Transport,
    Copies,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Transport => "the transport",
            Self::Copies => "scheduled copies",
        }
    }
}

impl<X> DelayPolicy<X> {
    /// Sets how often a message is delivered, the first time included: by default ten times. With 0 and 1 there is no second
    /// time.
    #[must_use]
    pub fn deliveries(mut self, deliveries: u32) -> Self {
        self.deliveries = deliveries;
        self
    }

    /// Sets how long after the first failure a delivery may begin: by default however long.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Sets how long the broker may take to accept a copy: by default 60 seconds, at least a millisecond and at most a year.
    /// If it has not accepted one by then, the message is abandoned after the delay.
    #[must_use]
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation = deadline::clamped(timeout);
        self
    }

    /// Draws the jitter from a seed, so that the delays can be repeated.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.random = Random::seeded(seed);
        self
    }

    /// Takes the time from `clock`, whose UTC should be that of the broker. The default is the [clock of the
    /// sender](Sender::clock), or that of the system if it has none.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }
}

impl<X> fmt::Debug for DelayPolicy<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayPolicy")
            .field("by", &self.by)
            .field("backoff", &self.backoff)
            .field("deliveries", &self.deliveries)
            .field("max_age", &self.max_age)
            .finish_non_exhaustive()
    }
}

impl<X> sealed::Sealed for DelayPolicy<X> {}

impl<X: Sender> Later for DelayPolicy<X> {
    type Send = X::Send;

    fn after(&self, message: &Message, failure: &HandlerFailure, counts: &RetryCounts) -> Plan<X::Send> {
        if self.by == By::Transport {
            return self.after_by_transport(message, failure, counts);
        }
        let now = self.clock.now().utc;
        let expires = expires_at(message);
        // A copy of a dead letter would leave the sub-queue, and what has expired is the broker's.
        if message.received().is_some_and(|received| received.dead_lettered) || expires <= now {
            return Plan::PassOn;
        }
        let cause = Cause(failure);
        let history = RetryHistory::after(RetryHistory::of(message.properties()), now, &cause);
        let delay = self.delay(&history, failure);
        let due = now.saturating_add(delay);
        if let Some(last) = self.is_last(&history, due, expires) {
            counts.count_exhausted();
            return Plan::GiveUp(Box::new(dead_letter(message, failure, &history, last)));
        }
        log::delayed(message, &history, delay, &cause);
        if let Some(copy) = copy(message, failure, history, due, expires) {
            return Plan::Send { send: self.sender.send(copy), delay, timeout: self.operation };
        }
        if let Some(suppressed) = log_limit("retry", "NoRoom") {
            tracing::warn!(suppressed, "a message has no space for its retry history: it is abandoned without one");
        }
        counts.count_not_sent();
        Plan::Delay(failure.to_changes(), delay)
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![("delayed", self.backoff.to_string()), ("deliveries", self.deliveries.to_string())];
        if self.max_age < Duration::MAX {
            settings.push(("max age", format!("{:?}", self.max_age)));
        }
        settings.push(("by", self.by.name().to_owned()));
        settings
    }
}

impl<X> DelayPolicy<X> {
    /// The delay before the next delivery: that of the policy, or the one that the handler asked for if that is longer.
    fn delay(&self, history: &RetryHistory, failure: &HandlerFailure) -> Duration {
        self.backoff.delay(history.failures, self.random.next()).max(failure.asked_delay())
    }

    /// Why there is no next delivery at `due`.
    fn is_last(&self, history: &RetryHistory, due: Timestamp, expires: Timestamp) -> Option<&'static str> {
        if history.failures >= self.deliveries {
            Some("it was the last delivery")
        } else if due.saturating_since(history.first_failure) > self.max_age {
            Some("the next delivery would exceed the maximum age")
        } else if expires <= due {
            Some("it would expire before the next delivery")
        } else {
            None
        }
    }

    /// The message stays where it is, and its history is one of its properties from now on.
    fn after_by_transport<F>(&self, message: &Message, failure: &HandlerFailure, counts: &RetryCounts) -> Plan<F> {
        let now = self.clock.now().utc;
        let expires = expires_at(message);
        if message.received().is_some_and(|received| received.dead_lettered) || expires <= now {
            return Plan::PassOn;
        }
        let cause = Cause(failure);
        let history = RetryHistory::after(RetryHistory::of(message.properties()), now, &cause);
        let delay = self.delay(&history, failure);
        if let Some(last) = self.is_last(&history, now.saturating_add(delay), expires) {
            counts.count_exhausted();
            return Plan::GiveUp(Box::new(dead_letter(message, failure, &history, last)));
        }
        log::delayed(message, &history, delay, &cause);
        counts.count_delayed();
        Plan::Delay(with_history(message, failure, history), delay)
    }
}

/// The changes of a failure, with as much of the history as fits.
fn with_history(message: &Message, failure: &HandlerFailure, mut history: RetryHistory) -> Changes {
    let mut properties = message.properties().clone();
    if let Some(changes) = failure.changes().properties() {
        properties.application_properties_mut().merge(changes.clone());
    }
    let mut fits = |history: &RetryHistory| {
        properties.application_properties_mut().insert(RetryHistory::PROPERTY, history.to_property());
        properties.check().is_ok()
    };
    let is_whole = fits(&history);
    if !is_whole {
        history.last_error.clear();
    }
    let changes = failure.to_changes();
    if is_whole || fits(&history) {
        changes.with_property(RetryHistory::PROPERTY, history.to_property())
    } else {
        tracing::warn!("a message has no space for its retry history: counting its failures begins again");
        changes
    }
}

/// When the message expires: by the broker, or else by what its sender set. Never, if it is not known since when it lives.
fn expires_at(message: &Message) -> Timestamp {
    let Some(received) = message.received() else { return Timestamp::MAX };
    match message.time_to_live().zip(received.known_enqueued_time()) {
        Some((life, enqueued)) if received.expires_at == Timestamp::MAX => enqueued.saturating_add(life),
        _ => received.expires_at,
    }
}

/// The same message under another id, due at `due`. `None` if its history does not fit beside its other properties.
fn copy(
    message: &Message,
    failure: &HandlerFailure,
    mut history: RetryHistory,
    due: Timestamp,
    expires: Timestamp,
) -> Option<Message> {
    let mut copy = message.clone().without_received();
    let first_id = message.original_message_id().map(String::from);
    let properties = copy.properties_mut();
    properties.renew_message_token(random_id());
    properties.set_scheduled_enqueue_time(due);
    if expires < Timestamp::MAX {
        // What is left when the copy is due, for its life begins then.
        properties.set_time_to_live(expires.saturating_since(due)).ok()?;
    }
    let enqueued = message.received().and_then(Received::known_enqueued_time);
    if let (Ok(Some(timeout)), Some(enqueued)) = (properties.timeout(), enqueued) {
        // It counts from when the copy is due.
        properties.set_timeout(enqueued.saturating_add(timeout).saturating_since(due));
    }
    let application = properties.application_properties_mut();
    if let Some(changes) = failure.changes().properties() {
        application.merge(changes.clone());
    }
    if let Some(id) = first_id {
        application.insert(Properties::ORIGINAL_MESSAGE_ID, id);
    }
    application.insert(RetryHistory::PROPERTY, history.to_property());
    if copy.properties().check().is_err() {
        // The text of an error is worth less than the attempt.
        history.last_error.clear();
        copy.properties_mut().application_properties_mut().insert(RetryHistory::PROPERTY, history.to_property());
        copy.properties().check().ok()?;
    }
    Some(copy)
}

#[cold]
fn dead_letter(message: &Message, failure: &HandlerFailure, history: &RetryHistory, last: &str) -> DeadLetter {
    let RetryHistory { failures, first_failure, .. } = history;
    let description = format!("{last}; {failures} failed since {first_failure}: {}", Cause(failure));
    let mut letter = DeadLetter::new(DeadLetterReason::RetriesExhausted, description);
    let mut changes = failure.changes().clone().into_properties();
    changes.insert(RetryHistory::PROPERTY, history.to_property());
    letter.changes = Changes::from(changes);
    letter.fit(message.properties());
    letter
}
