use std::{
    fmt,
    future::{Future, Ready},
    time::Duration,
};

use super::{
    Backoff, RetryHistory,
    backoff::Random,
    counts::RetryCounts,
    failure::{Cause, Failure},
};
use crate::{
    Message,
    message::{Properties, random_id::random_id},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock, Timestamp},
    transport::{SendError, Sender},
};

/// What is done about a delivery that has failed: nothing, [`NoDelay`], or a later one, [`DelayedRetries`].
pub trait Later: sealed::Sealed {
    /// The future of the send of a copy.
    type Send: Future<Output = Result<(), SendError>>;

    #[doc(hidden)]
    fn after(&self, message: &Message, failure: &Failure, counts: &RetryCounts) -> Plan<Self::Send>;
}

mod sealed {
    pub trait Sealed {}
}

/// What becomes of a message whose delivery has failed.
#[doc(hidden)]
#[derive(Debug)]
pub enum Plan<F> {
    /// The failure is passed on.
    PassOn,
    /// A copy is sent.
    Send(F),
    /// It was the last delivery.
    GiveUp(Box<DeadLetter>),
}

/// No later delivery: the failure is passed on.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDelay;

impl sealed::Sealed for NoDelay {}

impl Later for NoDelay {
    type Send = Ready<Result<(), SendError>>;

    fn after(&self, _: &Message, _: &Failure, _: &RetryCounts) -> Plan<Self::Send> {
        Plan::PassOn
    }
}

/// Later deliveries, each by a copy of the message that is sent with a `ScheduledEnqueueTime`.
pub struct DelayedRetries<X, C = SystemClock> {
    sender: X,
    backoff: Backoff,
    deliveries: u32,
    max_age: Duration,
    random: Random,
    clock: C,
}

impl<X: Sender> DelayedRetries<X> {
    /// Deliveries unless set, the first one included.
    pub const DELIVERIES: u32 = 10;

    /// Sends copies by `sender`, which is that of the queue that the message was received from, after delays by
    /// `backoff`.
    #[must_use]
    pub fn new(sender: X, backoff: Backoff) -> Self {
        Self {
            sender,
            backoff,
            deliveries: Self::DELIVERIES,
            max_age: Duration::MAX,
            random: Random::new(),
            clock: SystemClock::new(),
        }
    }
}

impl<X, C> DelayedRetries<X, C> {
    /// How often a message is delivered, the first time included: by default ten times. With 0 and 1 there is no second
    /// time.
    #[must_use]
    pub fn deliveries(mut self, deliveries: u32) -> Self {
        self.deliveries = deliveries;
        self
    }

    /// How long after the first failure a delivery may begin: by default however long.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Draws the jitter from a seed, so that the delays can be repeated.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.random = Random::seeded(seed);
        self
    }

    /// Takes the time from `clock`, whose UTC should be that of the broker.
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> DelayedRetries<X, D> {
        let Self { sender, backoff, deliveries, max_age, random, .. } = self;
        DelayedRetries { sender, backoff, deliveries, max_age, random, clock }
    }
}

impl<X, C> fmt::Debug for DelayedRetries<X, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedRetries")
            .field("backoff", &self.backoff)
            .field("deliveries", &self.deliveries)
            .field("max_age", &self.max_age)
            .finish_non_exhaustive()
    }
}

impl<X, C> sealed::Sealed for DelayedRetries<X, C> {}

impl<X: Sender, C: Clock> Later for DelayedRetries<X, C> {
    type Send = X::Send;

    fn after(&self, message: &Message, failure: &Failure, counts: &RetryCounts) -> Plan<X::Send> {
        let now = self.clock.now().utc;
        let expires = expires_at(message);
        // A copy of a dead letter would leave the sub-queue, and what has expired is the broker's.
        if message.received().is_some_and(|received| received.dead_lettered) || expires <= now {
            return Plan::PassOn;
        }
        let cause = Cause(failure);
        let history = RetryHistory::after(RetryHistory::of(message.properties()), now, &cause);
        let delay = self.backoff.delay(history.failures, self.random.next());
        let due = now.saturating_add(delay);
        let last = if history.failures >= self.deliveries {
            "it was the last delivery"
        } else if due.saturating_since(history.first_failure) > self.max_age {
            "the next delivery would come too late"
        } else if expires <= due {
            "it would expire before the next delivery"
        } else {
            let Some(copy) = copy(message, failure, history, due, expires) else {
                tracing::warn!("the properties of a message leave no room for its history: it is not delivered later");
                counts.count_not_sent();
                return Plan::PassOn;
            };
            return Plan::Send(self.sender.send(copy));
        };
        counts.count_exhausted();
        Plan::GiveUp(Box::new(dead_letter(message, failure, &history, last)))
    }
}

/// When the message expires: by the broker, or else by what its sender set.
fn expires_at(message: &Message) -> Timestamp {
    let Some(received) = message.received() else { return Timestamp::MAX };
    match message.time_to_live() {
        Some(life) if received.expires_at == Timestamp::MAX => received.enqueued_time.saturating_add(life),
        _ => received.expires_at,
    }
}

/// The same message under another id, due at `due`. `None` if its history does not fit beside its other properties.
fn copy(
    message: &Message,
    failure: &Failure,
    mut history: RetryHistory,
    due: Timestamp,
    expires: Timestamp,
) -> Option<Message> {
    let mut copy = message.clone().without_received();
    let first_id = message.original_message_id().map(String::from);
    let properties = copy.properties_mut();
    properties.set_message_token(random_id());
    properties.set_scheduled_enqueue_time(due);
    if expires < Timestamp::MAX {
        // What is left when the copy is due, for its life begins then.
        properties.set_time_to_live(expires.saturating_since(due)).ok()?;
    }
    let application = properties.application_mut();
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
        copy.properties_mut().application_mut().insert(RetryHistory::PROPERTY, history.to_property());
        copy.properties().check().ok()?;
    }
    Some(copy)
}

#[cold]
fn dead_letter(message: &Message, failure: &Failure, history: &RetryHistory, last: &str) -> DeadLetter {
    let RetryHistory { failures, first_failure, .. } = history;
    let description = format!("{last}; {failures} failed since {first_failure}: {}", Cause(failure));
    let mut letter = DeadLetter::new(DeadLetterReason::RetriesExhausted, description);
    let mut changes = failure.changes().clone().into_properties();
    changes.insert(RetryHistory::PROPERTY, history.to_property());
    letter.changes = Changes::from(changes);
    letter.fit(message.properties());
    letter
}
