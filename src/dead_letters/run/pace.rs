use std::{future::Future, time::Duration};

use tokio::time::{Instant, sleep_until};

/// A maximum rate of the dead letters that are handled.
pub(super) struct Pace {
    /// How long one takes. Without it there is no limit.
    each: Option<Duration>,
    /// When the next may be received.
    next: Option<Instant>,
}

impl Pace {
    const LONGEST: Duration = Duration::from_secs(3_600);
    /// What is received at once takes as long as this, or is one.
    const STEP: Duration = Duration::from_millis(100);

    pub(super) fn new(per_second: Option<f64>) -> Self {
        let each =
            |rate: f64| Duration::try_from_secs_f64(rate.recip()).map_or(Self::LONGEST, |it| it.min(Self::LONGEST));
        Self { each: per_second.map(each).filter(|each| !each.is_zero()), next: None }
    }

    /// How many may be received at once.
    pub(super) fn step(&self) -> usize {
        let step = |each: Duration| Self::STEP.as_nanos() / each.as_nanos();
        self.each.map_or(usize::MAX, |each| usize::try_from(step(each)).unwrap_or(usize::MAX).max(1))
    }

    /// Waits until some may be received.
    pub(super) fn permitted(&self) -> impl Future<Output = ()> + Send + use<> {
        let next = self.next;
        async move {
            if let Some(next) = next {
                sleep_until(next).await;
            }
        }
    }

    /// Counts those that are handled.
    pub(super) fn took(&mut self, count: usize) {
        let Some(each) = self.each.filter(|_| count > 0) else { return };
        let now = Instant::now();
        let from = self.next.map_or(now, |next| next.max(now));
        self.next = from.checked_add(each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))).or(self.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_kept() {
        let began = Instant::now();
        let mut pace = Pace::new(Some(20.0));
        for _ in 0..50 {
            pace.permitted().await;
            pace.took(pace.step());
        }
        let took = began.elapsed();
        assert!((Duration::from_millis(4_850)..=Duration::from_millis(5_050)).contains(&took), "{took:?}");
    }

    #[test]
    fn any_number_is_a_rate() {
        for (rate, step) in
            [(1e9, 100_000_000), (f64::INFINITY, usize::MAX), (1e-9, 1), (0.0, 1), (-1.0, 1), (f64::NAN, 1)]
        {
            assert_eq!(Pace::new(Some(rate)).step(), step, "{rate}");
        }
        assert_eq!(Pace::new(None).step(), usize::MAX);
        let mut slow = Pace::new(Some(0.0));
        slow.took(usize::MAX);
    }
}
