use std::{
    fmt,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use consign_core::{
    time::Timestamp,
    transport::{BoxFuture, Capabilities, Delivery, EntityInfo, ReceiveError, Receiver, Session, SettleError},
};

use super::{error::lost, hold::Hold};
use crate::{RabbitMq, RabbitMqLease};

/// A session that is held: its messages in order, and its state.
///
/// A released message stays with the holder and is the next one. When the connection breaks the session is lost, with the locks
/// of its messages; nothing is counted then.
pub struct RabbitMqSession(Hold);

impl RabbitMqSession {
    pub(super) fn new(hold: Hold) -> Self {
        Self(hold)
    }
}

impl Receiver for RabbitMqSession {
    type Lease = RabbitMqLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<RabbitMqLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.0.poll_receive(cx, max.max(1), out)
    }

    fn stop(&mut self) {
        self.0.stop();
    }

    fn capabilities(&self) -> Capabilities {
        RabbitMq::CAPABILITIES
    }

    fn entity_info(&self) -> EntityInfo {
        self.0.slot.source.info()
    }
}

impl Session for RabbitMqSession {
    type Renew = std::future::Ready<Result<Timestamp, SettleError>>;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &str {
        &self.0.id
    }

    fn lock_duration(&self) -> Duration {
        self.0.slot.source.settings.lock_duration
    }

    fn renew(&self) -> Self::Renew {
        std::future::ready(self.0.renew())
    }

    /// Gives the session up. The future ends when other clients may have the session too, if no other session of its slot is
    /// held here.
    fn close(self) -> Self::Close {
        let slot = std::sync::Arc::clone(&self.0.slot);
        let was_held = self.0.give_up();
        drop(self);
        Box::pin(async move {
            if !was_held {
                return Err(lost());
            }
            if slot.is_left() {
                slot.ended().await;
            }
            Ok(())
        })
    }

    fn state(&self) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send + use<> {
        std::future::ready(self.0.state())
    }

    /// Sets the state, or removes it. It is stored when the future ends. A state counts toward no limit of the queue.
    fn set_state(&self, state: Option<Bytes>) -> impl Future<Output = Result<(), SettleError>> + Send + use<> {
        self.0.set_state(state)
    }
}

/// Gives the session up, without waiting for it.
impl Drop for RabbitMqSession {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl fmt::Debug for RabbitMqSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMqSession").field("id", &self.0.id).finish_non_exhaustive()
    }
}
