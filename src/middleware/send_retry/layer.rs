use std::{fmt, sync::Arc, time::Duration};

use tower_layer::Layer;

use super::SendRetry;
use crate::{
    message::Properties,
    middleware::retry::{Backoff, Random},
    transport::{SendError, SendRequest},
};

/// A layer that repeats sends; see the [module](super). Its clones draw their jitter in turn.
#[derive(Clone)]
pub struct SendRetryLayer {
    policy: Policy,
}

#[derive(Clone)]
pub(super) struct Policy {
    backoff: Backoff,
    attempts: u32,
    repeats_unknown: bool,
    random: Arc<Random>,
}

impl SendRetryLayer {
    /// Attempts unless set, the first one included.
    pub const ATTEMPTS: u32 = 4;

    /// Waits by `backoff` between the attempts.
    #[must_use]
    pub fn new(backoff: Backoff) -> Self {
        let random = Arc::new(Random::new());
        Self { policy: Policy { backoff, attempts: Self::ATTEMPTS, repeats_unknown: false, random } }
    }

    /// Sets the number of attempts, the first one included: by default 4. With 0 and 1 nothing is repeated.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.policy.attempts = attempts;
        self
    }

    /// Also repeats sends whose outcome is unknown, if each of their messages has a MessageId. The message may then be
    /// stored twice, with one MessageId: use it with duplicate detection, or with idempotent consumers.
    #[must_use]
    pub fn repeat_unknown_outcome(mut self) -> Self {
        self.policy.repeats_unknown = true;
        self
    }

    /// Draws the jitter from a seed, so that the delays can be repeated.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.policy.random = Arc::new(Random::seeded(seed));
        self
    }

    /// Returns the settings, for a description.
    pub(crate) fn settings(&self) -> (u32, Backoff, bool) {
        (self.policy.attempts, self.policy.backoff, self.policy.repeats_unknown)
    }
}

impl Policy {
    /// Returns how long to wait before the next attempt. `None` if there is none.
    pub(super) fn delay<R: SendRequest>(&self, attempts: u32, error: &SendError, request: &R) -> Option<Duration> {
        let has_id = |properties: &Properties| properties.message_id().is_some();
        let may_repeat = error.is_retryable()
            && (!error.is_outcome_unknown() || self.repeats_unknown && request.all_properties().all(has_id));
        (attempts < self.attempts && may_repeat).then(|| self.backoff.delay(attempts, self.random.next()))
    }
}

impl<S> Layer<S> for SendRetryLayer {
    type Service = SendRetry<S>;

    fn layer(&self, inner: S) -> SendRetry<S> {
        SendRetry::new(inner, self.policy.clone())
    }
}

impl fmt::Debug for SendRetryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendRetryLayer")
            .field("backoff", &self.policy.backoff)
            .field("attempts", &self.policy.attempts)
            .field("repeats_unknown", &self.policy.repeats_unknown)
            .finish_non_exhaustive()
    }
}
