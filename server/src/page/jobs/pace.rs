use std::time::Duration;

use consign_core::{
    Message,
    transport::{Batch, BoxFuture, SendError, Sender},
};
use tokio::time::{Instant, sleep_until};

use std::sync::Arc;

use parking_lot::Mutex;

/// At most so many messages in a second.
#[derive(Clone)]
pub(super) struct Pace {
    each: Duration,
    next: Arc<Mutex<Option<Instant>>>,
}

impl Pace {
    pub(super) fn new(per_second: Option<u32>) -> Self {
        let each = per_second.map_or(Duration::ZERO, |per_second| Duration::from_secs(1) / per_second.max(1));
        Self { each, next: Arc::default() }
    }

    /// How many may be sent in one step.
    pub(super) fn step(&self, most: usize) -> usize {
        if self.each.is_zero() {
            return most;
        }
        // Steps of a tenth of a second.
        let step = Duration::from_millis(100).as_nanos() / self.each.as_nanos().max(1);
        usize::try_from(step).unwrap_or(most).clamp(1, most)
    }

    /// Waits until this many may be sent.
    pub(super) async fn wait(&self, count: usize) {
        if self.each.is_zero() {
            return;
        }
        let at = {
            let mut next = self.next.lock();
            let at = next.unwrap_or_else(Instant::now).max(Instant::now());
            *next = Some(at + self.each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)));
            at
        };
        sleep_until(at).await;
    }
}

/// A sender that keeps a pace.
pub(super) struct Paced<S> {
    pub(super) sender: S,
    pub(super) pace: Pace,
}

impl<S: Sender + Clone> Sender for Paced<S> {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let (sender, pace) = (self.sender.clone(), self.pace.clone());
        Box::pin(async move {
            pace.wait(1).await;
            sender.send(message).await
        })
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        let (sender, pace) = (self.sender.clone(), self.pace.clone());
        Box::pin(async move {
            pace.wait(batch.len()).await;
            sender.send_batch(batch).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pace_is_kept() {
        let (began, pace) = (Instant::now(), Pace::new(Some(10)));
        for _ in 0..21 {
            pace.wait(1).await;
        }
        assert_eq!(began.elapsed().as_millis(), 2_000);
        assert_eq!((pace.step(20), Pace::new(Some(100)).step(20), Pace::new(None).step(20)), (1, 10, 20));
    }
}
