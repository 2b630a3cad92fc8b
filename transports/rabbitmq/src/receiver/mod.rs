//! Receiving: a consumer with as much credit as the caller requests.

mod complete_all;
mod completing;
pub(crate) mod copy;
pub(crate) mod delivered;
mod dispatch;
mod job;
mod lease;
pub(crate) mod settle;
mod settling;
mod source;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod times;

use std::{
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use consign_core::{
    message::EntityPath,
    transport::{self, Capabilities, Capability, Delivery, EntityInfo, Level, ReceiveError},
};

pub(crate) use self::lease::check;
pub(crate) use self::source::{Mode, Settings, Source};
use self::state::Shared;
pub use self::{
    lease::{RabbitMqLease, RabbitMqRenew},
    settling::RabbitMqSettle,
};
use crate::{RabbitMq, client, error::Failure};

/// Receives from one queue, subscription or dead-letter queue, on a channel of its own.
///
/// It locks as many messages as its caller requests. Without a waiting receive it releases arrived messages, uncounted. When
/// the connection breaks all locks are lost, and the next receive returns that error once. Later receives use a new connection.
///
/// A dropped receiver keeps its channel until the last of its leases is settled or has run out.
pub struct RabbitMqReceiver {
    shared: Arc<Shared>,
    path: EntityPath,
}

impl std::fmt::Debug for RabbitMqReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitMqReceiver").field("path", &self.path).finish_non_exhaustive()
    }
}

impl RabbitMqReceiver {
    pub(crate) fn new(client: &Arc<client::Shared>, source: Source) -> Self {
        let path = source.path.clone();
        let shared = Arc::new(Shared::new(Arc::clone(client), source));
        tokio::spawn(task::run(Arc::clone(&shared)));
        Self { shared, path }
    }

    /// Finds the settings of the entity, which the first receive does otherwise.
    pub(crate) async fn resolve(&self) -> Result<(), Failure> {
        let source = &self.shared.source;
        source.resolve(&self.shared.client).await?;
        source.check()
    }

    /// Returns the path of the entity.
    #[must_use]
    pub fn path(&self) -> &EntityPath {
        &self.path
    }
}

impl transport::Receiver for RabbitMqReceiver {
    type Lease = RabbitMqLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<RabbitMqLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.shared.poll_receive(cx, max.max(1), out)
    }

    fn stop(&mut self) {
        self.shared.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.poll_stopped(cx)
    }

    /// The server counts releases of a queue of another program with a limit of deliveries.
    fn capabilities(&self) -> Capabilities {
        if self.shared.source.has_delivery_limit.load(Ordering::Relaxed) {
            return RabbitMq::CAPABILITIES.with(Capability::Release, Level::Unsupported);
        }
        RabbitMq::CAPABILITIES
    }

    fn entity_info(&self) -> EntityInfo {
        self.shared.source.info()
    }
}

impl Drop for RabbitMqReceiver {
    fn drop(&mut self) {
        self.shared.end();
    }
}
