use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::watch;

/// The shutdown of a supervisor: a future that is ready when it begins, and that a consumer can
/// [run until](crate::consumer::Consumer::run_until). Clones wait for the same shutdown.
#[must_use = "a future does nothing until it is polled"]
pub struct Shutdown {
    stopped: watch::Receiver<bool>,
    waits: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Shutdown {
    pub(super) fn new(stopped: watch::Receiver<bool>) -> Self {
        let mut watched = stopped.clone();
        // A supervisor that is gone has shut down too.
        let waits = Box::pin(async move { drop(watched.wait_for(|stopped| *stopped).await) });
        Self { stopped, waits }
    }

    /// Whether the shutdown has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        *self.stopped.borrow() || self.stopped.has_changed().is_err()
    }
}

impl Clone for Shutdown {
    fn clone(&self) -> Self {
        Self::new(self.stopped.clone())
    }
}

impl Future for Shutdown {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_begun() {
            return Poll::Ready(());
        }
        self.waits.as_mut().poll(cx)
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown").field("has_begun", &self.has_begun()).finish_non_exhaustive()
    }
}
