use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// A maximum rate.
pub(super) struct Pace {
    /// Messages a second. Without it there is no limit.
    rate: Option<f64>,
    /// Before this instant there is no room.
    next: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    pub(super) fn new(rate: Option<f64>) -> Self {
        Self { rate, next: None }
    }

    /// Waits until there is room, and returns for how many: a tenth of a second's, at least one.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(rate) = self.rate else { return Poll::Ready(usize::MAX) };
        if let Some(next) = &mut self.next {
            std::task::ready!(next.as_mut().poll(cx));
        }
        // The number is small and not negative.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Poll::Ready(((rate / 10.0).min(1e6) as usize).max(1))
    }

    /// Counts messages.
    pub(super) fn took(&mut self, count: u32) {
        let Some(rate) = self.rate.filter(|_| count > 0) else { return };
        let now = Instant::now();
        let from = self.next.as_ref().map_or(now, |next| next.deadline().max(now));
        let pause = Duration::from_secs_f64(f64::from(count) / rate);
        self.next = Some(Box::pin(sleep_until(from + pause)));
    }

    /// How long a run has to wait for a message at this rate.
    pub(super) fn patience(rate: Option<f64>) -> Duration {
        let second = Duration::from_secs(1);
        rate.map_or(second, |rate| second + Duration::from_secs_f64(2.0 / rate))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_kept() {
        let began = Instant::now();
        let mut pace = Pace::new(Some(20.0));
        let mut taken = 0;
        while taken < 100 {
            let room = poll_fn(|cx| pace.poll_room(cx)).await;
            assert_eq!(room, 2);
            pace.took(2);
            taken += 2;
        }
        let took = began.elapsed();
        assert!((Duration::from_millis(4_850)..=Duration::from_millis(5_050)).contains(&took), "{took:?}");
    }
}
