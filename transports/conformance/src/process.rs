use std::{
    future::Future,
    io,
    task::{Context, Poll},
    time::Duration,
};

use consign::transport::{
    Capabilities, Delivery, DynLease, DynReceiver, EntityInfo, ErrorKind, ReceiveError, Receiver,
};
use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime for one receiver, as a process of its own: when the runtime ends, so does every task and connection of the
/// receiver.
#[derive(Debug)]
pub struct Process(Option<Runtime>);

impl Process {
    /// Runs `connecting`, which makes connections and a receiver over them, in a new runtime.
    ///
    /// # Errors
    ///
    /// Those of `connecting`, and [`General`](ErrorKind::General) if there can be no further thread.
    pub async fn start<F>(connecting: F) -> Result<(Self, DynReceiver), ReceiveError>
    where
        F: Future<Output = Result<DynReceiver, ReceiveError>> + Send + 'static,
    {
        let failed = |error: io::Error| ReceiveError::new(ErrorKind::General).with_source(error);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let process = Self(Some(runtime));
        let connected = handle.spawn(connecting).await;
        let receiver = connected.unwrap_or_else(|error| Err(failed(io::Error::other(error))))?;
        Ok((process, DynReceiver::new(Inside { receiver, handle })))
    }

    /// Ends it as a signal ends a process: nothing is closed, and the broker gets no settlement of `held`.
    ///
    /// # Errors
    ///
    /// [`General`](ErrorKind::General) if it does not end.
    pub async fn kill(mut self, receiver: DynReceiver, held: Vec<Delivery<DynLease>>) -> Result<(), ReceiveError> {
        let Some(runtime) = self.0.take() else { return Ok(()) };
        let ended = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(PATIENCE));
        ended.await.map_err(|_| ReceiveError::new(ErrorKind::General).with_detail("its runtime does not end"))?;
        // No task is left that could settle these.
        drop(receiver);
        drop(held);
        Ok(())
    }
}

/// How long its tasks may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

impl Drop for Process {
    fn drop(&mut self) {
        // A runtime refuses to wait for the end of another.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A receiver whose tasks run in another runtime than that of its caller.
struct Inside {
    receiver: DynReceiver,
    handle: Handle,
}

impl Receiver for Inside {
    type Lease = DynLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<DynLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let _inside = self.handle.enter();
        self.receiver.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        let _inside = self.handle.enter();
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _inside = self.handle.enter();
        self.receiver.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }
}
