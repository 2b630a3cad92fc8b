use std::{future::Future, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::{Error, ErrorKind};

/// The end of the time for all steps of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    began: Instant,
    after: Duration,
}

impl Deadline {
    pub(crate) fn new(after: Duration) -> Self {
        Self { began: Instant::now(), after }
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.after.saturating_sub(self.began.elapsed())
    }

    /// Ends a step at the deadline.
    pub(crate) async fn within<T>(
        &self,
        step: &'static str,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(at) = self.began.checked_add(self.after) else { return future.await };
        timeout_at(at, future).await.unwrap_or_else(|_| Err(self.missed(step)))
    }

    pub(crate) const fn missed(&self, waiting_for: &'static str) -> Error {
        Error::without_source(ErrorKind::TimedOut { waiting_for, after: self.after })
    }
}
