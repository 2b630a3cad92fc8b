//! The end of the last lock of a message.

use std::sync::Arc;

use consign_core::{message::ApplicationProperties, transport::BoxFuture};
use tokio::time::Instant;

use crate::{
    held::{Held, Lock},
    jobs::LastLock,
    log, settle,
};

impl LastLock for Box<Held> {
    fn until(&self) -> Instant {
        self.lock.until()
    }

    fn end(&self) -> bool {
        Lock::end(&self.lock)
    }

    /// Dead-letters the message. The server still takes the acknowledgement. If it fails, the next receiver that gets the message
    /// dead-letters it.
    fn dead_letter(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(async move {
            if let Err(error) = settle::buried_by_count(&self, ApplicationProperties::new()).await {
                let entity = &self.source.settings.path;
                log::failed(
                    entity,
                    "a message whose last lock has ended was not dead-lettered: the next receiver does it",
                    &error,
                );
            }
        })
    }
}
