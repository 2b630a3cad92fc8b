//! Opens the connection, and another one when it is lost.

use std::sync::Arc;

use consign_core::transport::ErrorKind;
use tokio::time::Instant;

use crate::{
    authorization::Wire,
    connect,
    core::{Core, Slot},
    error::Failure,
    log,
};

impl Core {
    /// Returns the connection, and opens it if there is none. An attempt continues when no caller waits for it.
    pub(crate) async fn wire(self: &Arc<Self>) -> Result<Arc<Wire>, Failure> {
        let this = Arc::clone(self);
        let opening = tokio::spawn(async move { this.connected().await });
        opening.await.unwrap_or_else(|_| Err(Failure::new(ErrorKind::General, "the task of the connection has ended")))
    }

    async fn connected(self: &Arc<Self>) -> Result<Arc<Wire>, Failure> {
        let mut slot = self.slot.lock().await;
        if self.is_closed() {
            return Err(Failure::closed());
        }
        if let Some(wire) = slot.wire.as_ref().filter(|wire| !wire.connection.is_closed()) {
            return Ok(Arc::clone(wire));
        }
        slot.wire = None;
        if let Some(not_before) = slot.not_before.take() {
            tokio::time::sleep_until(not_before).await;
        }
        let server = self.endpoint.to_string();
        match connect::open(self).await {
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
                *slot = Slot { wire: Some(Arc::clone(&wire)), failures: 0, not_before: None, has_connected: true };
                if self.is_closed() {
                    slot.wire = None;
                    return Err(Failure::closed());
                }
                Ok(wire)
            }
            Err(failure) => {
                let pause = self.pause(slot.failures);
                slot.failures = slot.failures.saturating_add(1);
                slot.not_before = Some(Instant::now() + pause);
                log::not_connected(&server, &failure, pause);
                Err(failure)
            }
        }
    }
}
