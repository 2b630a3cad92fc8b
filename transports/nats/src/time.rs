//! The server's clock.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use consign_core::{time::Timestamp, transport::ErrorKind};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{beside::Beside, connection::Inner, error::Fault, read::stored_at};

/// A reading of the server's clock, and when it was made.
#[derive(Default)]
pub(crate) struct ServerClock(Mutex<Option<(Instant, Timestamp)>>);

/// After this two clocks may differ.
const REREAD: Duration = Duration::from_secs(600);

impl Inner {
    /// Returns the server's UTC. It is read from a message that the server stamps, and continues by this process's monotonic
    /// clock.
    pub(crate) async fn server_now(&self, beside: &Beside) -> Result<Timestamp, Fault> {
        if let Some((at, read)) = *self.server_clock.0.lock()
            && at.elapsed() < REREAD
        {
            return Ok(read.saturating_add(at.elapsed()));
        }
        let subject = beside.clock();
        let before = Instant::now();
        self.publish(&subject, HeaderMap::new(), Bytes::new()).await?;
        let at = before + before.elapsed() / 2;
        let stamped = self.last_at(&beside.stream, &subject).await?;
        let stamped = stamped.ok_or_else(|| Fault::new(ErrorKind::General, "the server's clock was not read"))?;
        let read = stored_at(&stamped);
        *self.server_clock.0.lock() = Some((at, read));
        Ok(read.saturating_add(at.elapsed()))
    }
}
