//! Opens the connection, and another one when it is lost.

use std::sync::Arc;

use consign_amqp::client::Progress;
use consign_core::transport::{BoxFuture, ErrorKind};
use futures_util::FutureExt;
use tokio::time::Instant;

use crate::{
    authorization::Wire,
    connect,
    core::{Core, Opening, Slot},
    error::Failure,
    log,
};

impl Core {
    /// Returns the connection, and opens it if there is none. An attempt is one for all callers, and continues when none of them
    /// waits for it.
    pub(crate) async fn wire(self: &Arc<Self>) -> Result<Arc<Wire>, Failure> {
        let opened = {
            let mut slot = self.slot.lock();
            if self.is_closed() {
                return Err(Failure::closed());
            }
            if let Some(wire) = slot.wire.as_ref().filter(|wire| !wire.connection.is_closed()) {
                return Ok(Arc::clone(wire));
            }
            if let Some(wire) = slot.wire.take() {
                self.ended(&mut slot, &wire);
            }
            // One that has panicked is not kept.
            if slot.opening.as_ref().is_some_and(|opening| opening.task.is_finished()) {
                slot.opening = None;
            }
            let not_before = slot.not_before;
            slot.opening.get_or_insert_with(|| self.opening(not_before)).opened.clone()
        };
        opened.await
    }

    /// Makes one round trip.
    pub(crate) async fn ping(self: &Arc<Self>) -> Result<(), Failure> {
        let timeout = self.options.timeout;
        let late = |_| Failure::new(ErrorKind::ServiceTimeout, format!("no answer within {timeout:?}"));
        tokio::time::timeout(timeout, self.round_trip()).await.map_err(late)?
    }

    async fn round_trip(self: &Arc<Self>) -> Result<(), Failure> {
        self.wire().await?.begin().await?.end().await?;
        self.slot.lock().has_answered = true;
        Ok(())
    }

    /// Starts a task that opens the connection.
    fn opening(self: &Arc<Self>, not_before: Option<Instant>) -> Opening {
        let this = Arc::clone(self);
        let task = tokio::spawn(async move {
            if let Some(not_before) = not_before {
                tokio::time::sleep_until(not_before).await;
            }
            let opened = connect::open(&this).await;
            this.opened(opened)
        });
        let abort = task.abort_handle();
        let this = Arc::clone(self);
        let opened: BoxFuture<_> = Box::pin(async move {
            let ended = || Failure::new(ErrorKind::General, "the task of the connection has ended");
            task.await.unwrap_or_else(|_| Err(if this.is_closed() { Failure::closed() } else { ended() }))
        });
        Opening { opened: opened.shared(), task: abort }
    }

    /// Keeps the connection that was opened, or the time before which there is no other attempt.
    fn opened(&self, opened: Result<consign_amqp::client::Connection, Failure>) -> Result<Arc<Wire>, Failure> {
        let server = self.endpoint.to_string();
        let mut slot = self.slot.lock();
        slot.opening = None;
        // The connection ends when it is dropped.
        if self.is_closed() {
            return Err(Failure::closed());
        }
        match opened {
            Ok(connection) => {
                if slot.has_connected {
                    log::connected(&server, slot.failures);
                }
                let wire = Wire::new(
                    connection,
                    self.endpoint.host.clone(),
                    self.container.clone(),
                    Arc::clone(&self.credential),
                    Arc::clone(&self.options.clock),
                    self.options.timeout,
                );
                slot.wire = Some(Arc::clone(&wire));
                (slot.has_connected, slot.has_answered) = (true, false);
                Ok(wire)
            }
            Err(failure) => {
                self.failed(&mut slot, &failure);
                Err(failure)
            }
        }
    }

    /// A connection has ended. One without a link or a ping counts as an attempt that has failed.
    pub(crate) fn ended(&self, slot: &mut Slot, wire: &Wire) {
        match wire.connection.progress() {
            _ if slot.has_answered => (slot.failures, slot.not_before) = (0, None),
            Progress::Attached => (slot.failures, slot.not_before) = (0, None),
            Progress::Begun if wire.connection.is_closed() => {
                let detail = "the connection ended before a link was attached";
                self.failed(slot, &Failure::new(ErrorKind::CommunicationProblem, detail));
            }
            // The application has closed it, or the server since it was idle.
            _ => {}
        }
    }

    fn failed(&self, slot: &mut Slot, failure: &Failure) {
        let pause = self.pause(slot.failures);
        slot.failures = slot.failures.saturating_add(1);
        slot.not_before = Some(Instant::now() + pause);
        log::not_connected(&self.endpoint.to_string(), failure, pause);
    }
}
