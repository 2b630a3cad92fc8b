use std::{
    future::Future,
    io,
    task::{Context, Poll},
    time::Duration,
};

use consign::transport::{Capabilities, Delivery, EntityInfo, ErrorKind, ReceiveError, Receiver};
use tokio::runtime::{Builder, Runtime};

/// A receiver that can have a runtime of its own, as in a process of its own: when the runtime ends, so does every task and
/// connection of the receiver.
#[derive(Debug)]
pub struct Process<R> {
    receiver: R,
    runtime: Option<Runtime>,
}

impl<R: Receiver> Process<R> {
    /// Wraps a receiver in the runtime of the caller.
    pub fn here(receiver: R) -> Self {
        Self { receiver, runtime: None }
    }

    /// Runs `connecting`, which makes connections and a receiver over them, in a new runtime.
    ///
    /// # Errors
    ///
    /// Those of `connecting`, and [`General`](ErrorKind::General) if there can be no further thread.
    pub async fn start<F>(connecting: F) -> Result<Self, ReceiveError>
    where
        F: Future<Output = Result<R, ReceiveError>> + Send + 'static,
        R: Send + 'static,
    {
        let failed = |error: io::Error| ReceiveError::new(ErrorKind::General).with_source(error);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(failed)?;
        let connected = runtime.spawn(connecting).await;
        match connected.unwrap_or_else(|error| Err(failed(io::Error::other(error)))) {
            Ok(receiver) => Ok(Self { receiver, runtime: Some(runtime) }),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Returns the receiver.
    pub fn receiver(&self) -> &R {
        &self.receiver
    }

    /// Ends it as a signal ends a process: nothing is closed, and the broker gets no settlement of `held`.
    ///
    /// # Errors
    ///
    /// [`General`](ErrorKind::General) if it does not end, or has no runtime of its own.
    pub async fn kill(mut self, held: Vec<Delivery<R::Lease>>) -> Result<(), ReceiveError> {
        let failed = |why: &'static str| ReceiveError::new(ErrorKind::General).with_detail(why);
        let runtime = self.runtime.take().ok_or_else(|| failed("a receiver in the runtime of the suite"))?;
        let ended = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(PATIENCE));
        ended.await.map_err(|_| failed("its runtime does not end"))?;
        // No task is left that could settle these.
        drop(held);
        Ok(())
    }
}

/// How long its tasks may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

impl<R> Drop for Process<R> {
    fn drop(&mut self) {
        // A runtime refuses to wait for the end of another.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl<R: Receiver> Receiver for Process<R> {
    type Lease = R::Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<R::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let _here = self.runtime.as_ref().map(Runtime::enter);
        self.receiver.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        let _here = self.runtime.as_ref().map(Runtime::enter);
        self.receiver.stop();
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }
}
