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
/// A reading is made again if the server may have made it this much earlier or later.
const SLOW: Duration = Duration::from_millis(250);
/// How often at most it is made.
const ATTEMPTS: usize = 4;

/// One reading: the server has made it at some time in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    from: Instant,
    to: Instant,
    read: Timestamp,
}

impl Reading {
    fn took(&self) -> Duration {
        self.to - self.from
    }

    /// Returns the one that is more exact.
    fn or(self, other: Option<Self>) -> Self {
        other.filter(|other| other.took() < self.took()).unwrap_or(self)
    }
}

impl ServerClock {
    /// Returns the server's UTC by the last reading, unless that is too old.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        let (at, read) = (*self.0.lock())?;
        let elapsed = at.elapsed();
        (elapsed < REREAD).then(|| read.saturating_add(elapsed))
    }

    /// Keeps a reading, and returns the server's UTC.
    fn set(&self, reading: Reading) -> Timestamp {
        let at = reading.from + reading.took() / 2;
        *self.0.lock() = Some((at, reading.read));
        reading.read.saturating_add(at.elapsed())
    }
}

impl Inner {
    /// Returns the server's UTC. It is read from a message that the server stamps, and continues by this process's monotonic
    /// clock.
    pub(crate) async fn server_now(&self, beside: &Beside) -> Result<Timestamp, Fault> {
        if let Some(now) = self.server_clock.now() {
            return Ok(now);
        }
        let mut best: Option<Reading> = None;
        for _ in 0..ATTEMPTS {
            match self.read_clock(beside).await {
                Ok(None) => {}
                Ok(Some(reading)) => {
                    best = Some(reading.or(best));
                    if reading.took() <= SLOW {
                        break;
                    }
                }
                Err(fault) if best.is_none() => return Err(fault),
                Err(_) => break,
            }
        }
        let best = best.ok_or_else(|| Fault::new(ErrorKind::ServiceBusy, "the server's clock was not read"))?;
        Ok(self.server_clock.set(best))
    }

    /// Returns `None` if the message is not there to be read.
    async fn read_clock(&self, beside: &Beside) -> Result<Option<Reading>, Fault> {
        let subject = beside.clock();
        let from = Instant::now();
        let stored = self.publish(&subject, HeaderMap::new(), Bytes::new()).await?.seq;
        let acknowledged = Instant::now();
        let found = self.last_at(&beside.stream, &subject).await?;
        Ok(found.filter(|found| found.sequence >= stored).map(|found| {
            // Another process may have stored a later one meanwhile.
            let to = if found.sequence == stored { acknowledged } else { Instant::now() };
            Reading { from, to, read: stored_at(&found) }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_quickest_of_several_readings_counts() {
        let (from, read) = (Instant::now(), Timestamp::from_millis(1_000));
        let after = |millis| Reading { from, to: from + Duration::from_millis(millis), read };
        assert_eq!(after(900).or(None), after(900));
        assert_eq!(after(900).or(Some(after(400))), after(400));
        assert_eq!(after(300).or(Some(after(400))), after(300));
        tokio::time::advance(Duration::from_millis(400)).await;
        let clock = ServerClock::default();
        assert_eq!(clock.set(after(400)), Timestamp::from_millis(1_200));
        assert_eq!(clock.now(), Some(Timestamp::from_millis(1_200)));
    }
}
