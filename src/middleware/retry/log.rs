//! The line for a delivery that fails and is retried after a delay.

use std::time::Duration;

use super::{RetryHistory, failure::Cause};
use crate::{
    Message,
    transport::{Escaped, log_limit_info},
};

/// Where a copy is sent, a consumer has no line for it: to the consumer the message is completed.
#[cold]
pub(super) fn delayed(message: &Message, history: &RetryHistory, delay: Duration, cause: &Cause<'_>) {
    if !tracing::enabled!(target: "consign::middleware::retry", tracing::Level::INFO) {
        return;
    }
    if let Some(suppressed) = log_limit_info("retry", "Delayed") {
        let message_id = message.message_id().unwrap_or_default();
        let (failures, error) = (history.failures, cause.to_string());
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "consign::middleware::retry",
            message_id = display(Escaped(message_id)),
            failures,
            error = display(Escaped(&error)),
            delay_ms,
            suppressed,
            "a delivery failed: the message is delivered again after a delay"
        );
    }
}
