//! How long a part waits for a call, and between two of them.

use std::{error::Error, fmt::Display, time::Duration};

use tokio::time::{sleep, timeout};

use crate::history::{Recorder, What};

/// The deadline of the transports' calls, as the URLs have it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);
/// A call that takes this much longer hangs: a stopped process, a reconnection and a busy machine are not more than that.
const GRACE: Duration = Duration::from_secs(55);
/// Between two calls that succeed.
pub(super) const PAUSE: Duration = Duration::from_millis(150);
/// After one that has failed.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// Waits for a call to end; `None` if it hangs, which is recorded.
pub(super) async fn bounded<T>(recorder: &Recorder, part: &str, call: impl Future<Output = T>) -> Option<T> {
    let ended = timeout(DEADLINE + GRACE, call).await;
    if ended.is_err() {
        recorder.record(What::Hung { part: part.into() });
    }
    ended.ok()
}

/// Calls until it succeeds.
pub(super) async fn retried<T, E, F>(recorder: &Recorder, part: &str, mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, E>>,
    E: Error + 'static,
{
    loop {
        match bounded(recorder, part, call()).await {
            Some(Ok(result)) => return result,
            Some(Err(error)) => eprintln!("{part}: {}", chain(&error)),
            None => {}
        }
        sleep(RETRY).await;
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {}", &cause as &dyn Display);
        source = cause.source();
    }
    text
}
