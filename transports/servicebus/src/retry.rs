//! Repeats calls that failed for a reason that may pass.

use std::{future::Future, sync::Arc};

use consign_core::transport::ErrorKind;

use crate::{core::Core, error::Failure};

/// What a repetition of a call may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It reads, or has the same effect again.
    Repeatable,
    /// It has its effect twice. It is repeated only if it certainly had none.
    Once,
}

impl Effect {
    fn permits(self, failure: &Failure) -> bool {
        failure.is_retryable() && (self == Self::Repeatable || failure.had_no_effect())
    }
}

/// Calls `attempt` until it succeeds, at most [`Options::retries`](crate::Options::retries) times more, and within the timeout.
pub(crate) async fn retry<T, F>(core: &Arc<Core>, effect: Effect, attempt: impl FnMut() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let timeout = core.options.timeout;
    let mut last: Option<Failure> = None;
    let attempts = repeat(core, effect, attempt, |failure| last = Some(failure));
    match tokio::time::timeout(timeout, attempts).await {
        Ok(done) => done,
        Err(_) => Err(match last {
            Some(failure) => {
                let detail = format!("no success within {timeout:?}; the last failure: {failure}");
                Failure::new(ErrorKind::ServiceTimeout, detail)
            }
            None => Failure::new(ErrorKind::ServiceTimeout, format!("no answer within {timeout:?}")),
        }),
    }
}

/// As [`retry`], without a limit of the time: for an attempt that waits for something. `failed` gets each failure but the last.
pub(crate) async fn repeat<T, F>(
    core: &Arc<Core>,
    effect: Effect,
    mut attempt: impl FnMut() -> F,
    mut failed: impl FnMut(Failure),
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut failures = 0;
    loop {
        match attempt().await {
            Err(failure) if failures < core.options.retries && effect.permits(&failure) && !core.is_closed() => {
                tracing::debug!(target: "consign::servicebus", %failure, failures, "a call is tried again");
                let pause = core.pause(failures);
                failed(failure);
                failures += 1;
                tokio::time::sleep(pause).await;
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_an_unknown_outcome_is_not_repeated() {
        let lost = Failure::new(ErrorKind::CommunicationProblem, "");
        let busy = Failure::new(ErrorKind::ServiceBusy, "");
        let refused = Failure::new(ErrorKind::EntityNotFound, "");
        assert!(Effect::Repeatable.permits(&lost) && !Effect::Once.permits(&lost));
        assert!(Effect::Repeatable.permits(&busy) && Effect::Once.permits(&busy));
        assert!(!Effect::Repeatable.permits(&refused) && !Effect::Once.permits(&refused));
        assert!(Effect::Once.permits(&lost.clone().without_effect()));
        assert!(!Effect::Repeatable.permits(&lost.for_good()));
    }
}
